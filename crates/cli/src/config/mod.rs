//! Collects the sources of configuration, flags, environment and files, and has core resolve them. The only place of
//! greenroom that reads its environment.

mod files;
mod surroundings;

use std::path::PathBuf;

use greenroom_core::settings::{self, Resolved, Sources};

pub use self::surroundings::Surroundings;
use crate::args::Flags;

/// Resolves the settings. `config` is the value of `--config`; `flags` are the settings given as flags.
pub fn resolve(
    surroundings: &Surroundings,
    config: Option<PathBuf>,
    flags: Flags,
) -> anyhow::Result<Resolved> {
    let sources = Sources {
        files: files::config(surroundings, config)?,
        dotenv: files::dotenv(surroundings)?,
        data_dir: surroundings.data_dir(),
        user_file: surroundings.user_file(),
        working_dir: surroundings.working_dir.clone(),
        environment: surroundings.variables.clone(),
        flags,
    };
    Ok(settings::resolve(&sources)?)
}
