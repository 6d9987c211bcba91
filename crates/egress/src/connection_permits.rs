//! How many connections are served at once: so many of each port, and so many of all ports together.
//!
//! A page can hold some 160 connections open for as long as it lives. Some sessions on such a page would take every
//! connection that the ports share, and no other session could reach the web. So each port has some connections of its own,
//! which the others cannot take.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections that all ports share. A connection costs two descriptors and two copy buffers: at this limit 4,096 and
/// 64 MiB.
const SHARED_MAX: usize = 2_048;

/// Connections that each port has besides: enough to load a page. Chromium opens at most 6 connections to one site.
const RESERVED: usize = 16;

/// Connections of one port, reserved and shared ones; further ones wait in the listener's backlog. Chromium opens at most
/// 32 connections to a proxy per context, and 255 WebSockets.
const PORT_MAX: usize = 288;

/// The connections that all ports share.
pub(crate) struct SharedPermits(Arc<Semaphore>);

impl SharedPermits {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(SHARED_MAX)))
    }

    /// The permits of one more port.
    pub(crate) fn port(&self) -> PortPermits {
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        PortPermits { accepted: semaphore(PORT_MAX), reserved: semaphore(RESERVED), shared: self.0.clone() }
    }
}

/// The connections of one port. Nothing closes these semaphores, so no `acquire` fails.
#[derive(Clone)]
pub(crate) struct PortPermits {
    accepted: Arc<Semaphore>,
    reserved: Arc<Semaphore>,
    shared: Arc<Semaphore>,
}

impl PortPermits {
    /// Waits until the port may accept one more connection.
    pub(crate) async fn accept(&self) -> Option<OwnedSemaphorePermit> {
        self.accepted.clone().acquire_owned().await.ok()
    }

    /// Waits until an accepted connection may be served: as one of the port's own, or else as a shared one.
    pub(crate) async fn serve(&self) -> Option<OwnedSemaphorePermit> {
        tokio::select! {
            biased;
            permit = self.reserved.clone().acquire_owned() => permit.ok(),
            permit = self.shared.clone().acquire_owned() => permit.ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use super::*;

    /// What the future returns if it need not wait.
    fn at_once<T>(future: impl Future<Output = Option<T>>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => None,
        }
    }

    /// A port whose neighbours hold all shared connections still has its own; beyond those it gets a connection as soon
    /// as one of either kind is free.
    #[test]
    fn ports_keep_connections_of_their_own() {
        let shared = SharedPermits::new();
        let mut held = Vec::new();
        while shared.0.available_permits() > 0 {
            let hostile = shared.port();
            while let Some(accepted) = at_once(hostile.accept()) {
                held.push((accepted, at_once(hostile.serve())));
            }
        }
        let port = shared.port();
        let mut own: Vec<_> = (0..RESERVED).map(|_| at_once(port.serve())).collect();
        assert!(own.iter().all(Option::is_some), "the port's own connections are free");
        assert!(at_once(port.serve()).is_none(), "all shared connections are taken");
        own.pop();
        assert!(at_once(port.serve()).is_some(), "one of its own is free again");
        own.push(at_once(port.serve()));
        held.clear();
        assert!(at_once(port.serve()).is_some(), "shared connections are free");
    }
}
