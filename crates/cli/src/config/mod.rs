//! Collects the sources of the configuration (flags, environment, files) and has core resolve them. No other code of
//! greenroom reads its environment.

mod env;
mod files;

use std::path::PathBuf;

use greenroom_core::settings::{self, Resolved, Sources};
use greenroom_store::key_file;

pub use self::env::ProcessEnv;
use crate::args::Flags;

/// The sources of the configuration. The files may change; the rest stays as it was when the process started.
#[derive(Debug, Clone)]
pub struct ConfigSources {
    pub env: ProcessEnv,
    /// The value of `--config`.
    pub config: Option<PathBuf>,
    /// The flags of the command line.
    pub flags: Flags,
}

impl ConfigSources {
    /// Reads everything and resolves the settings.
    pub fn resolve(&self) -> anyhow::Result<Resolved> {
        let env = &self.env;
        let sources = Sources {
            files: files::config_files(env, self.config.clone())?,
            dotenv: files::dotenv(env)?,
            data_dir: env.data_dir(),
            user_file: env.user_file(),
            working_dir: env.working_dir.clone(),
            environment: env.variables.clone(),
            flags: self.flags.settings.clone(),
            browsers: self.flags.browsers.clone(),
        };
        let mut resolved = settings::resolve(&sources)?;
        resolved.settings.has_stored_keys = key_file::has_keys(&resolved.settings.data_dir);
        Ok(resolved)
    }

    /// The files that are read, whether they exist or not.
    pub fn files(&self) -> Vec<PathBuf> {
        files::watched_files(&self.env, self.config.clone())
    }
}
