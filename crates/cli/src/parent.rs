//! Detects that the parent process has ended.
//!
//! A client that dies usually closes its end of stdin. But a shell or a supervisor in between may hold the pipe open;
//! then stdin would never close, and the browsers would stay. So a thread waits on the parent itself: a pidfd becomes
//! readable when its process ends, and unlike a pid it never means another process.

use tokio_util::sync::CancellationToken;

/// Cancels `gone` when the process that started us ends. Without a parent to watch, nothing happens.
#[cfg(target_os = "linux")]
pub fn watch(gone: CancellationToken) {
    use rustix::{
        event::{PollFd, PollFlags, poll},
        process::{PidfdFlags, getppid, pidfd_open},
    };
    use std::thread;

    let Some(parent) = getppid().filter(|parent| !parent.is_init()) else { return };
    let Ok(pidfd) = pidfd_open(parent, PidfdFlags::empty()) else { return };
    // The parent may have ended before this check; then this process has another parent by now.
    if getppid() != Some(parent) {
        gone.cancel();
        return;
    }
    let started = thread::Builder::new().name("parent".into()).spawn(move || {
        let mut watched = [PollFd::new(&pidfd, PollFlags::IN)];
        loop {
            match poll(&mut watched, None) {
                Ok(_) => return gone.cancel(),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return tracing::debug!(%error, "cannot watch the parent"),
            }
        }
    });
    if let Err(error) = started {
        tracing::debug!(%error, "cannot watch the parent");
    }
}

/// On other platforms greenroom notices the parent's end only by a closed stdin.
#[cfg(not(target_os = "linux"))]
pub fn watch(_: CancellationToken) {}
