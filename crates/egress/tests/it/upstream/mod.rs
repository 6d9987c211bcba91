//! The proxy with an upstream proxy in front of the web: what goes through it, what it says when that does not
//! help, and what it never hears of. The upstream is a socket whose every byte the test sees.

mod carry;
mod trouble;
mod verdict;

use greenroom_egress::Proxy;
use tokio::net::TcpListener;

use crate::{Own, Peer, ask, listener};

/// A name that no resolver is even asked for: its first label is too long. Only the upstream knows it.
fn foreign() -> String {
    format!("{}.corp", "x".repeat(64))
}

/// A proxy that goes out through `upstream`, a `[user:password@]host:port`.
async fn through(upstream: &str, own: &[u16]) -> Proxy {
    let upstream = format!("http://{upstream}").parse().unwrap();
    Proxy::start(Own::of(own), Some(upstream)).await.unwrap()
}

/// A proxy and the listener that it goes out through.
async fn chained(credentials: &str) -> (Proxy, TcpListener) {
    let (upstream, address) = listener().await;
    (through(&format!("{credentials}{address}"), &[]).await, upstream)
}

/// Asks for `target`, and lets the upstream answer with `says`.
async fn asked(proxy: &Proxy, upstream: &TcpListener, method: &str, target: &str, says: &str) -> String {
    let (answer, ()) = tokio::join!(ask(proxy, method, target), async {
        let mut upstream = Peer::accept(upstream).await;
        upstream.hear_head().await;
        upstream.say(says).await;
    });
    answer
}
