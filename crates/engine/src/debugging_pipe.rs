//! The pipes over which greenroom debugs a browser that it starts. The browser has its ends at the descriptors 3 and 4
//! (`--remote-debugging-pipe`), so no other program can reach its debugger.

use std::{
    io::{self, PipeReader, PipeWriter},
    mem::ManuallyDrop,
    os::{
        fd::{AsFd, FromRawFd, OwnedFd, RawFd},
        unix::process::CommandExt,
    },
    process::Command,
    sync::Arc,
};

use greenroom_cdp::BrowserPipe;
use rustix::io::{dup2, fcntl_dupfd_cloexec};
use tokio::net::unix::pipe;

/// Where a browser reads its debugger's calls.
const CALLS: RawFd = 3;

/// Where it writes answers and events.
const ANSWERS: RawFd = 4;

/// The lowest descriptor of the browser's ends in greenroom: a child that gets one at 3 must not lose the other one there.
const COPIES_FROM: RawFd = 10;

/// greenroom's ends of the pipes.
pub(crate) struct DebuggerEnds {
    answers: PipeReader,
    calls: PipeWriter,
}

/// The browser's ends. They close in greenroom when they are dropped, and no child inherits them unless told to.
#[derive(Debug, Clone)]
pub(crate) struct BrowserEnds(Arc<BrowserDescriptors>);

#[derive(Debug)]
struct BrowserDescriptors {
    calls: OwnedFd,
    answers: OwnedFd,
    /// With these the descriptors 3 and 4 are in use while a child starts, so the standard library cannot have its own pipe
    /// there, by which it learns whether the child has started.
    _originals: (PipeReader, PipeWriter),
}

pub(crate) fn new_pipes() -> io::Result<(DebuggerEnds, BrowserEnds)> {
    let (read_calls, calls) = io::pipe()?;
    let (answers, write_answers) = io::pipe()?;
    let browser = BrowserDescriptors {
        calls: fcntl_dupfd_cloexec(&read_calls, COPIES_FROM)?,
        answers: fcntl_dupfd_cloexec(&write_answers, COPIES_FROM)?,
        _originals: (read_calls, write_answers),
    };
    Ok((DebuggerEnds { answers, calls }, BrowserEnds(Arc::new(browser))))
}

impl DebuggerEnds {
    /// The debugger behind the pipes. It belongs to the runtime that calls this.
    pub(crate) fn open(self) -> io::Result<BrowserPipe> {
        let answers = pipe::Receiver::from_owned_fd(self.answers.into())?;
        let calls = pipe::Sender::from_owned_fd(self.calls.into())?;
        Ok(BrowserPipe::open(answers, calls))
    }
}

impl BrowserEnds {
    /// Gives a child the browser's ends.
    #[allow(
        unsafe_code,
        reason = "pre_exec is unsafe; the closure makes two system calls and allocates nothing"
    )]
    pub(crate) fn pass_to(self, command: &mut Command) {
        // SAFETY: between fork and exec only async-signal-safe calls are allowed; dup2 is.
        unsafe {
            command.pre_exec(move || {
                duplicate_to(&self.0.calls, CALLS)?;
                duplicate_to(&self.0.answers, ANSWERS)
            });
        }
    }
}

/// Makes a descriptor available under this number. The program that the child becomes inherits it.
#[allow(unsafe_code, reason = "the number becomes a descriptor of its own, which is not closed here")]
fn duplicate_to(descriptor: impl AsFd, number: RawFd) -> io::Result<()> {
    // SAFETY: the child has a copy of greenroom's descriptors to itself, and runs no other code before its program.
    let mut target = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(number) });
    dup2(descriptor, &mut target)?;
    Ok(())
}
