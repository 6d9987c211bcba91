//! `greenroom setup claude --skill`: writes greenroom's skill where the client looks for it, after showing the file and asking.
//!
//! The file is greenroom's own, so there is nothing to merge. One with another text may be an older version's, or the user may
//! have changed it: greenroom shows the difference, says that the old text goes, and asks.

use std::{
    fs,
    io::{self, Write},
    process::ExitCode,
};

use greenroom_core::printable::printable_lines;
use greenroom_engine::node::on_path;
use serde_json::json;

use super::{
    confirm,
    setup_client::{ClientArgs, ClientSetupOutcome},
};
use crate::{
    client::{ClientApp, EntryScope, diff, file::File},
    config::ProcessEnv,
    progress,
    report::CliError,
    skill::SKILL,
};

pub fn run(
    env: &ProcessEnv,
    client: ClientApp,
    scope: EntryScope,
    args: &ClientArgs,
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    if client != ClientApp::Claude {
        return Err(CliError::usage(format!("greenroom has no skill for {}", client.name()))
            .hint(
                "`greenroom setup claude --skill --print` prints the skill, for any client that reads skills",
            )
            .into());
    }
    let path = client.skill_file(env, scope).ok_or_else(|| {
        CliError::usage("there is no home folder to look for the client's skills in")
            .hint("set HOME, or give --project")
    })?;
    let shown = path.display().to_string();
    let outcome = if args.print {
        ClientSetupOutcome::Printed
    } else {
        write(client, &File::read(path)?, &shown, scope, args.yes)?
    };
    let word = client.cli_name();
    let text = if as_json {
        let object = json!({ "client": word, "file": shown, "outcome": outcome.as_str(), "skill": SKILL });
        serde_json::to_string_pretty(&object)? + "\n"
    } else {
        match outcome {
            ClientSetupOutcome::Printed => SKILL.to_owned(),
            ClientSetupOutcome::Declined => format!("{word:7}  nothing written\n"),
            ClientSetupOutcome::Already => {
                printable_lines(&format!("{word:7}  already there: `{shown}`\n")).into_owned()
            }
            ClientSetupOutcome::Added | ClientSetupOutcome::Replaced => {
                let line = format!("{word:7}  {}: `{shown}`\n", outcome.as_str());
                let next = "next     start Claude Code anew; `/skills` shows greenroom\n";
                printable_lines(&(line + next)).into_owned()
            }
        }
    };
    io::stdout().lock().write_all(text.as_bytes())?;
    if args.print && !as_json {
        progress::note(&format!("this belongs in `{shown}`"));
    }
    if let Some(note) = search_path_note(env) {
        progress::note(&note);
    }
    Ok(if outcome == ClientSetupOutcome::Declined { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Says that the skill's commands, which name `greenroom` without its folder, would not run this program, and what to do.
fn search_path_note(env: &ProcessEnv) -> Option<String> {
    let this = std::env::current_exe().and_then(fs::canonicalize).ok()?;
    let found = on_path("greenroom", env.search_path());
    let why = match &found {
        None => "`greenroom` is not in the search path, so the skill's commands will not be found".to_owned(),
        Some(found) if fs::canonicalize(found).is_ok_and(|found| found == this) => return None,
        Some(other) => {
            format!("the skill's commands run `{}`, not this program, `{}`", other.display(), this.display())
        }
    };
    let folder = this.parent()?.display();
    Some(format!("note: {why}; put this into your shell's profile: export PATH=\"{folder}:$PATH\""))
}

fn write(
    client: ClientApp,
    file: &File,
    shown: &str,
    scope: EntryScope,
    yes: bool,
) -> anyhow::Result<ClientSetupOutcome> {
    if file.text() == SKILL {
        return Ok(ClientSetupOutcome::Already);
    }
    let new = if file.exists() { "" } else { ", a new file" };
    progress::note(&format!("{}: `{shown}`{new}\n", client.name()));
    progress::note(&diff::show(file.text(), SKILL));
    let replaces = !file.text().is_empty();
    if replaces {
        progress::note("note: this file has another text, an older version's or your own; it will be lost\n");
    }
    let question = if replaces { "Replace the file?" } else { "Write this?" };
    if !yes && !confirm::ask(question, "the skill")? {
        return Ok(ClientSetupOutcome::Declined);
    }
    file.write(SKILL, scope)?;
    Ok(if replaces { ClientSetupOutcome::Replaced } else { ClientSetupOutcome::Added })
}
