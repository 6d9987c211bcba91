//! `greenroom config show`: the settings in force and where each came from, then the declared pools and the browsers to
//! attach to, as tables or as JSON.

mod browsers;
mod declared_pool;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use greenroom_core::{
    printable::printable_lines,
    settings::{Origin, Resolved, SETTINGS, Settings},
};
use serde_json::json;

#[derive(Debug, clap::Args)]
pub struct ShowArgs {
    /// Print a JSON object with `settings`, `browsers` and `pools`
    #[arg(long)]
    pub json: bool,
}

pub fn show(resolved: &Resolved, args: &ShowArgs) -> anyhow::Result<ExitCode> {
    let text =
        if args.json { as_json(resolved)? } else { printable_lines(&as_tables(resolved)).into_owned() };
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn as_json(resolved: &Resolved) -> serde_json::Result<String> {
    let in_force = in_force(resolved);
    let settings: Vec<_> = SETTINGS
        .iter()
        .map(|setting| {
            json!({
                "key": setting.key,
                "value": setting.json(&in_force),
                "source": source(resolved.origin(setting.key)),
            })
        })
        .collect();
    let pools: Vec<_> =
        resolved.settings.pools.iter().map(|pool| declared_pool::as_json(resolved, pool)).collect();
    let browsers = resolved.settings.browsers.iter().enumerate();
    let browsers: Vec<_> = browsers.map(|(at, browser)| browsers::as_json(resolved, at, browser)).collect();
    let all = json!({ "settings": settings, "browsers": browsers, "pools": pools });
    Ok(serde_json::to_string_pretty(&all)? + "\n")
}

/// The settings, with the preset that holds where `network.preset` is `auto`: it depends on another setting, and a user who
/// asks what is in force must not have to know on which.
fn in_force(resolved: &Resolved) -> Settings {
    let mut settings = resolved.settings.clone();
    settings.network.preset = Some(settings.network_preset());
    settings
}

fn source(origin: &Origin) -> serde_json::Value {
    let kind = match origin {
        Origin::Default => "default",
        Origin::File(_) => "file",
        Origin::DotEnv(_) => "dotenv",
        Origin::Env(_) => "environment",
        Origin::Flag(_) => "flag",
    };
    let name = (*origin != Origin::Default).then(|| origin.to_string());
    json!({ "kind": kind, "name": name })
}

fn as_tables(resolved: &Resolved) -> String {
    let in_force = in_force(resolved);
    let rows = SETTINGS.iter().map(|setting| {
        let origin = resolved.origin(setting.key).to_string();
        [setting.key.to_owned(), setting.show(&in_force), origin]
    });
    let mut text = table(["KEY", "VALUE", "SOURCE"], rows);
    for pool in &resolved.settings.pools {
        text += &declared_pool::as_tables(resolved, pool);
    }
    for (at, browser) in resolved.settings.browsers.iter().enumerate() {
        text += &browsers::as_tables(resolved, at, browser);
    }
    text
}

/// Rows below their heads, in columns.
fn table<const N: usize>(head: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let rows: Vec<_> = std::iter::once(head.map(str::to_owned)).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..N).map(width).collect();
    let line = |row: &[String; N]| {
        let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        cells.join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}
