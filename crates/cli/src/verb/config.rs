//! `greenroom config show`: the settings in force and where each came from, as a table or as JSON.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use greenroom_core::settings::{Origin, Resolved, SETTINGS};
use serde_json::json;

#[derive(Debug, clap::Args)]
pub struct ShowArgs {
    /// Print an array of objects instead of a table
    #[arg(long)]
    pub json: bool,
}

pub fn show(resolved: &Resolved, args: &ShowArgs) -> anyhow::Result<ExitCode> {
    let text = if args.json { as_json(resolved)? } else { as_table(resolved) };
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn as_json(resolved: &Resolved) -> serde_json::Result<String> {
    let rows: Vec<_> = SETTINGS
        .iter()
        .map(|setting| {
            let origin = resolved.origin(setting.key);
            let kind = match origin {
                Origin::Default => "default",
                Origin::File(_) => "file",
                Origin::DotEnv(_) => "dotenv",
                Origin::Env(_) => "environment",
                Origin::Flag(_) => "flag",
            };
            let name = (*origin != Origin::Default).then(|| origin.to_string());
            json!({
                "key": setting.key,
                "value": setting.json(&resolved.settings),
                "source": { "kind": kind, "name": name },
            })
        })
        .collect();
    Ok(serde_json::to_string_pretty(&rows)? + "\n")
}

fn as_table(resolved: &Resolved) -> String {
    let head = ["KEY".to_owned(), "VALUE".to_owned(), "SOURCE".to_owned()];
    let rows = SETTINGS.iter().map(|setting| {
        let origin = resolved.origin(setting.key).to_string();
        [setting.key.to_owned(), setting.show(&resolved.settings), origin]
    });
    let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (keys, values) = (width(0), width(1));
    rows.iter().map(|[key, value, origin]| format!("{key:keys$}  {value:values$}  {origin}\n")).collect()
}
