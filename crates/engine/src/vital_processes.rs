//! Watches processes that a Chromium needs but whose end it survives.
//!
//! Chromium starts its network service again when that dies, and loses the cookies of every context that is not on disk.
//! Without the zygotes, from which it forks its pages, it goes on but opens no more pages. Pages and engines notice
//! neither. So the owner of a browser watches these processes here, and treats their end as a loss.

use std::{io, os::fd::OwnedFd, time::Duration};

use greenroom_core::Lost;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::Notify,
    task::JoinSet,
    time::timeout,
};

use crate::{
    browser_handle::BrowserHandle,
    observer::Observer,
    process_tree::{ZYGOTE, children, descendants},
};

/// The argument by which Chromium names the process.
const NETWORK_SERVICE: &str = "--utility-sub-type=network.mojom.NetworkService";

/// How long greenroom waits, after such a process ended, for the end of the browser, which may be the cause. A
/// killed browser is gone within milliseconds, a closing one within some tenths of a second.
const BROWSER_EXIT_WITHIN: Duration = Duration::from_secs(1);

/// The processes of a browser that greenroom started.
#[derive(Default)]
pub(crate) struct VitalProcesses {
    /// Wakes the search for the network service, if the last search found none.
    search_again: Notify,
}

impl VitalProcesses {
    /// Resolves with why the browser is lost when one of its vital processes has ended. If the browser itself has ended, its
    /// own end is the reason. Never resolves for an attached browser.
    pub(crate) async fn lost(&self, browser: &BrowserHandle, observer: &Observer) -> Lost {
        let Some(process) = browser.process() else { return std::future::pending().await };
        let lost = self.ended(process.pid()).await;
        match timeout(BROWSER_EXIT_WITHIN, browser.ended(observer)).await {
            Ok(browser_loss) => browser_loss,
            Err(_) => lost,
        }
    }

    /// Resolves when a vital process of this browser ends. As long as no network service is found, each
    /// [`VitalProcesses::retry_search`] repeats the search.
    async fn ended(&self, browser: u32) -> Lost {
        loop {
            match watch_processes(browser) {
                Ok(Some(mut watched)) => {
                    tracing::debug!(browser, processes = watched.len(), "watching the browser's processes");
                    match watched.join_next().await {
                        Some(Ok(Ok(lost))) => return lost,
                        Some(Ok(Err(error))) => tracing::warn!(browser, %error, "cannot watch a process"),
                        Some(Err(error)) => tracing::warn!(browser, %error, "cannot watch a process"),
                        None => {}
                    }
                }
                Ok(None) => tracing::debug!(browser, "the browser's network service was not found yet"),
                Err(error) => tracing::warn!(browser, %error, "cannot watch the browser's processes"),
            }
            self.search_again.notified().await;
        }
    }

    /// Repeats the search, if the last one found no network service. Called with every ping of the browser.
    pub(crate) fn retry_search(&self) {
        self.search_again.notify_waiters();
    }
}

/// One task per process, which returns the loss when its process ends. `None` if there is no network service, or it
/// ended at this very moment.
fn watch_processes(browser: u32) -> io::Result<Option<JoinSet<io::Result<Lost>>>> {
    let Some(network) =
        descendants(browser).into_iter().find(|process| process.has_argument(NETWORK_SERVICE))
    else {
        return Ok(None);
    };
    // A page that was forked just now still has its zygote's arguments, but its parent is never the browser.
    let zygotes = children(browser).into_iter().filter(|process| process.has_argument(ZYGOTE));
    let no_pages = || Lost::HealthCheckFailed("its zygote ended: it can open no more pages".into());
    let processes = zygotes.map(|zygote| (zygote.pid, no_pages())).chain([(network.pid, Lost::Cookies)]);
    let mut watched = JoinSet::new();
    for (pid, lost) in processes {
        let Some(descriptor) = open_pidfd(pid)? else { return Ok(None) };
        watched.spawn(async move { descriptor.readable().await.map(|_| lost) });
    }
    Ok(Some(watched))
}

/// A descriptor that becomes readable when the process ends. `None` if it has ended.
#[allow(unsafe_code, reason = "the runtime cannot know that no other code closes the descriptor")]
fn open_pidfd(pid: u32) -> io::Result<Option<AsyncFd<OwnedFd>>> {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(descriptor) => {
            // SAFETY: the returned value owns the descriptor, and neither replaces nor closes it before it is dropped.
            let watched = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }?;
            Ok(Some(watched))
        }
        Err(rustix::io::Errno::SRCH) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
