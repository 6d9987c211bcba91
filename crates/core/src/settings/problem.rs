//! What can be wrong with a configuration. Each problem names the setting, where it was set, and what to do instead.

use std::{fmt, path::PathBuf};

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("{}, line {line}: {message}", file.display())]
    Syntax { file: PathBuf, line: usize, message: String },
    #[error("unknown key `{key}` in {}", file.display())]
    UnknownKey { file: PathBuf, key: String, nearest: Option<String> },
    #[error("unknown variable `{variable}` in {place}")]
    UnknownVariable { variable: String, place: String, nearest: Option<String> },
    /// A variable without a readable text: not UTF-8, or a line of `.env` without `=` or with an open quote.
    #[error("`{variable}` in {place} has no readable value")]
    NoText { variable: String, place: String },
    #[error("`{key}` cannot be `{value}`{}: expected {allowed}{}", from(.place), because(.why))]
    Value {
        key: String,
        value: String,
        /// Where it was set, unless `key` is the name of a variable.
        place: Option<String>,
        allowed: String,
        why: Option<String>,
    },
    /// A setting that a file in the working directory may not set, since that file may come from a stranger.
    #[error("`{key}` may not be set by a file in the working directory (from {place})")]
    Guarded { key: String, place: String, instead: String },
    /// A limit of the user's that a file in the working directory may not loosen.
    #[error("`{key}` may not be {refused} (from {place}): {rule}")]
    Limited {
        key: String,
        /// What the file may not do, with the value: "raised to `9` by a file in the working directory".
        refused: String,
        place: String,
        /// The user's own value that forbids it, and where that was set.
        rule: String,
        instead: String,
    },
    #[error("{message}")]
    Conflict { message: String, hint: String },
    /// A pool whose declaration is invalid.
    #[error("{message}")]
    Pool { message: String, hint: String },
    #[error("`{variable}` in {place} is now `{new}`")]
    Renamed { variable: String, place: String, new: String },
    #[error("cannot choose a default for `data_dir`: the home folder is unknown")]
    NoDataDir { instead: String },
}

fn from(place: &Option<String>) -> String {
    place.as_ref().map_or_else(String::new, |place| format!(" (from {place})"))
}

fn because(why: &Option<String>) -> String {
    why.as_ref().map_or_else(String::new, |why| format!(" ({why})"))
}

impl Problem {
    /// What to do about the problem, if the message alone does not say.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownKey { nearest: Some(name), .. }
            | Self::UnknownVariable { nearest: Some(name), .. } => Some(format!("did you mean `{name}`?")),
            Self::UnknownKey { .. } | Self::UnknownVariable { .. } => {
                Some("`greenroom config show` lists every setting".to_owned())
            }
            Self::NoText { .. } => Some("values are UTF-8 text on one line: `NAME=value`".to_owned()),
            Self::Guarded { instead, .. } | Self::Limited { instead, .. } | Self::NoDataDir { instead } => {
                Some(instead.clone())
            }
            Self::Conflict { hint, .. } | Self::Pool { hint, .. } => Some(hint.clone()),
            Self::Renamed { new, .. } => Some(format!("rename it to `{new}`")),
            Self::Syntax { .. } | Self::Value { .. } => None,
        }
    }
}

/// All problems of a configuration; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// The hint, if there is one problem. With several, the message has each hint after its problem.
    pub fn hint(&self) -> Option<String> {
        match self.0.as_slice() {
            [problem] => problem.hint(),
            _ => None,
        }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [problem] = self.0.as_slice() {
            return problem.fmt(f);
        }
        write!(f, "the configuration has {} problems", self.0.len())?;
        for problem in &self.0 {
            write!(f, "\n  - {problem}")?;
            if let Some(hint) = problem.hint() {
                write!(f, "\n    hint: {hint}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
