//! How a child process ended.

use std::{fmt, io, process::ExitStatus, sync::Arc};

/// How a child ended, as far as that is known. Shown as `exit status: 1` or `signal: 9 (SIGKILL)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    Status(ExitStatus),
    /// The system does not report it, for this reason.
    Unknown(Arc<str>),
}

impl Exit {
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Status(status) if status.success())
    }
}

impl From<io::Result<ExitStatus>> for Exit {
    fn from(waited: io::Result<ExitStatus>) -> Self {
        match waited {
            Ok(status) => Self::Status(status),
            Err(error) => Self::Unknown(format!("cannot be waited for: {error}").into()),
        }
    }
}

impl From<Exit> for Arc<str> {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Status(status) => status.to_string().into(),
            Exit::Unknown(why) => why,
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => status.fmt(f),
            Self::Unknown(why) => f.write_str(why),
        }
    }
}
