//! `greenroom completions SHELL`: prints the script by which a shell completes greenroom's commands and flags.
//!
//! A packager runs it while building, without a home folder or a configuration; so it reads neither.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap_complete::Shell;

use crate::args;

#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}

pub fn run(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::documented_command(), "greenroom", &mut script);
    io::stdout().lock().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
