//! Watches the process of a Chromium that has its cookies in memory.
//!
//! Chromium starts its network service again when that dies, and goes on without the cookies of every context that is not
//! on disk. No page and no engine is told. So whoever owns the browser watches for it here, and treats it as a loss.

use std::{io, os::fd::OwnedFd, time::Duration};

use greenroom_core::Lost;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::Notify,
    time::timeout,
};

use crate::{driven::Driven, observer::Observer, process_tree::below};

/// By this argument Chromium names the process.
const NETWORK_SERVICE: &str = "--utility-sub-type=network.mojom.NetworkService";

/// How long after its network service a browser may end that takes it along. One that is killed is gone within milliseconds,
/// one that closes by itself within some tenths of a second.
const BROWSER_EXIT: Duration = Duration::from_secs(1);

/// The network service of a browser that greenroom started.
#[derive(Default)]
pub(crate) struct NetworkService {
    /// Wakes the search for the process, if the last search found none.
    again: Notify,
}

impl NetworkService {
    /// Resolves with why the browser is lost when its network service has ended. A browser that ends takes its network
    /// service along, and then its own end is the reason. Never resolves for a browser of somebody else's.
    pub(crate) async fn lost(&self, browser: &Driven, observer: &Observer) -> Lost {
        let Some(process) = browser.process() else { return std::future::pending().await };
        self.ended(process.pid()).await;
        match timeout(BROWSER_EXIT, browser.ended(observer)).await {
            Ok(lost) => lost,
            Err(_) => Lost::Cookies,
        }
    }

    /// Resolves when the network service of this browser ends. As long as there is none to be found, it is looked for again
    /// with each [`NetworkService::look_again`].
    async fn ended(&self, browser: u32) {
        loop {
            match watch(browser) {
                Ok(Some((pid, watched))) => {
                    tracing::debug!(browser, pid, "watching the browser's network service");
                    match watched.readable().await {
                        Ok(_) => return,
                        Err(error) => {
                            tracing::warn!(browser, pid, %error, "cannot watch the network service");
                        }
                    }
                }
                Ok(None) => tracing::debug!(browser, "the browser's network service was not found yet"),
                Err(error) => tracing::warn!(browser, %error, "cannot watch the browser's network service"),
            }
            self.again.notified().await;
        }
    }

    /// Called with every sign of life of the browser.
    pub(crate) fn look_again(&self) {
        self.again.notify_waiters();
    }
}

/// A descriptor that becomes readable when the network service ends. `None` where there is no such process, or only one that
/// ended in this very moment.
#[allow(unsafe_code, reason = "the runtime cannot know that nobody else closes the descriptor")]
fn watch(browser: u32) -> io::Result<Option<(u32, AsyncFd<OwnedFd>)>> {
    let Some(found) = below(browser).into_iter().find(|process| process.has(NETWORK_SERVICE)) else {
        return Ok(None);
    };
    let Some(pid) = i32::try_from(found.pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(descriptor) => {
            // SAFETY: the descriptor is owned by what is returned, which neither replaces nor closes it before it is dropped.
            let watched = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }?;
            Ok(Some((found.pid, watched)))
        }
        Err(rustix::io::Errno::SRCH) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
