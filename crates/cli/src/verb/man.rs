//! `greenroom man`: prints greenroom's manual page, or writes a page for it and for each of its commands into a folder.
//!
//! A packager runs it while building, without a home folder or a configuration; so it reads neither. The pages have no date,
//! and two builds of one version have the same bytes.

use std::{
    fs,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Context;

use crate::args;

#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// Write all pages into this folder, such as `/usr/share/man/man1`, instead of printing greenroom's own
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

pub fn run(args: &ManArgs) -> anyhow::Result<ExitCode> {
    // clap's own `help` has no page.
    let command = args::documented_command().disable_help_subcommand(true);
    match &args.out {
        Some(folder) => {
            let context = || format!("cannot write manual pages to `{}`", folder.display());
            fs::create_dir_all(folder).with_context(context)?;
            clap_mangen::generate_to(command, folder).with_context(context)?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            io::stdout().lock().write_all(&page)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
