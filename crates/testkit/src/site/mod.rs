//! The test site: a small web server on 127.0.0.1 for real browsers, which records every request.
//!
//! `pages` answers; `request_log` records every request, also for unknown paths: so a second site on another port can
//! stand for a port that no page may reach. The site runs on a thread of its own, so that tests on different runtimes
//! can share it. Dropping it ends all its connections.

mod pages;
mod request_log;

use std::{net::TcpListener, thread};

use axum::serve::ListenerExt;
use tokio::sync::{oneshot, watch};

use crate::deadline::{TEST_TIMEOUT, within};

pub use request_log::RecordedRequest;

/// A running test site.
#[derive(Debug)]
pub struct Site {
    port: u16,
    seen: watch::Receiver<Vec<RecordedRequest>>,
    /// Dropping it ends the server.
    stop: Option<oneshot::Sender<()>>,
    server: Option<thread::JoinHandle<()>>,
}

impl Site {
    /// Starts a site on a free port. It answers as soon as this returns.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        listener.set_nonblocking(true).expect("a socket can be made non-blocking");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        let (sender, seen) = watch::channel(Vec::new());
        let (stop, stopped) = oneshot::channel();
        let server = thread::spawn(move || serve(listener, sender, stopped));
        Self { port, seen, stop: Some(stop), server: Some(server) }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// `http://127.0.0.1:PORT`, without a slash at the end.
    pub fn base(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The address of a page; `path` begins with a slash and may hold a query.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base())
    }

    /// Every request so far, in the order of arrival.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.seen.borrow().clone()
    }

    /// How many requests came for `path`, whatever their query. Counted on arrival, before the answer.
    pub fn hits(&self, path: &str) -> usize {
        count(&self.seen.borrow(), path)
    }

    /// Returns when `path` has been asked for at least once since the start.
    pub async fn wait_for_hit(&self, path: &str) {
        self.wait_for_hits(path, 1).await;
    }

    /// Returns when `path` has been asked for at least `wanted` times since the start.
    pub async fn wait_for_hits(&self, path: &str, wanted: usize) {
        let mut seen = self.seen.clone();
        let enough = seen.wait_for(|requests| count(requests, path) >= wanted);
        within(TEST_TIMEOUT, enough).await.expect("the site runs as long as it is held");
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

fn count(requests: &[RecordedRequest], path: &str) -> usize {
    requests.iter().filter(|request| request.path == path).count()
}

/// Serves until the sender of `stopped` is gone; then the runtime is dropped and cuts every connection,
/// endless answers too.
fn serve(listener: TcpListener, seen: watch::Sender<Vec<RecordedRequest>>, stopped: oneshot::Receiver<()>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    runtime.block_on(async move {
        let listener = tokio::net::TcpListener::from_std(listener).expect("the socket is non-blocking");
        // Small answers must leave at once; with Nagle's algorithm they wait for an acknowledgement.
        let listener = listener.tap_io(|stream| {
            let _ = stream.set_nodelay(true);
        });
        tokio::select! {
            _ = async { axum::serve(listener, pages::router(seen)).await } => {}
            _ = stopped => {}
        }
    });
}
