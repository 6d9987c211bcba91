//! A child process that does one thing and exits: `node --version`, `npm ci`.
//!
//! This module waits for the child, ends its process group at a deadline, and limits how much of its stdout
//! is kept. Engines and browsers are supervised where they are started, not here.

use std::{io, sync::Arc, time::Duration};

use greenroom_core::port::human;
use tokio::{io::AsyncReadExt, time::timeout};

use crate::{
    exit::Exit,
    launcher::{Launcher, ProcessSpec},
    process::{Process, StderrParser},
};

/// The largest expected output is a version or an error report; the rest is read and dropped.
const STDOUT_BYTES_MAX: u64 = 256 * 1024;

/// How long a child that has passed its deadline may take to end after SIGTERM.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// The output of a child that ended, and its exit.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub exit: Exit,
    pub stdout: String,
    /// The last lines of stderr.
    pub stderr_tail: Arc<str>,
}

/// Why a child did not end by itself.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("cannot be started: {0}")]
    Start(#[from] io::Error),
    #[error("did not end within {}", human(*.0))]
    TooLong(Duration),
}

/// Starts a child and waits for its end. Dropping the future kills the child's group.
pub(crate) async fn run(
    launcher: &Launcher,
    name: &str,
    spec: ProcessSpec,
    deadline: Duration,
) -> Result<CommandOutput, RunError> {
    let (process, pipes, _ready) =
        Process::start(launcher, name, spec.pipes(), StderrParser::DEFAULT).await?;
    let read_stdout = async {
        let mut stdout = Vec::new();
        if let Some(pipes) = pipes {
            // A child that asks its user a question reads the end of its stdin, and does not wait for ever.
            drop(pipes.stdin);
            let mut pipe = pipes.stdout;
            // An unreadable pipe counts as ended; the exit status says the rest.
            let _ = (&mut pipe).take(STDOUT_BYTES_MAX).read_to_end(&mut stdout).await;
            let _ = tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await;
        }
        String::from_utf8_lossy(&stdout).into_owned()
    };
    let Ok((stdout, exit)) = timeout(deadline, async { tokio::join!(read_stdout, process.wait()) }).await
    else {
        process.stop(STOP_GRACE).await;
        return Err(RunError::TooLong(deadline));
    };
    Ok(CommandOutput { exit, stdout, stderr_tail: process.stderr_tail() })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn sh(script: &str, deadline: Duration) -> Result<CommandOutput, RunError> {
        let launcher = Launcher::start("run-command-test").unwrap();
        run(&launcher, "sh", ProcessSpec::new("/bin/sh").args(["-c", script]), deadline).await
    }

    /// The caller gets a child's output together with its exit, success or failure.
    #[tokio::test]
    async fn output_and_exit_are_returned() {
        let minute = Duration::from_secs(60);
        let succeeded = sh("echo v20", minute).await.unwrap();
        assert!(succeeded.exit.is_success());
        assert_eq!(succeeded.stdout, "v20\n");

        let failed = sh("echo why >&2; exit 3", minute).await.unwrap();
        assert!(!failed.exit.is_success());
        assert_eq!((failed.exit.to_string().as_str(), &*failed.stderr_tail), ("exit status: 3", "why"));
    }

    /// A child that never ends is ended at its deadline, and a child that asks a question gets no answer.
    #[tokio::test]
    async fn overlong_child_is_ended() {
        let hung = sh("exec sleep 600", Duration::from_millis(50)).await;
        assert!(matches!(hung, Err(RunError::TooLong(_))));
        assert!(!sh("read answer", Duration::from_secs(60)).await.unwrap().exit.is_success());
    }
}
