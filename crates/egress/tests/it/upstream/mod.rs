//! The proxy with an upstream proxy between it and the web: what goes through the upstream, what the proxy answers when
//! the upstream fails, and what the upstream never sees. The upstream is a socket whose every byte the test sees.

mod carry;
mod trouble;
mod untrusted;
mod verdict;

use greenroom_egress::{Proxy, ProxyOptions};
use tokio::net::TcpListener;

use crate::{RawConnection, TestPorts, ask, listener, options};

/// A name for which no resolver is even asked: its first label is too long. Only the upstream knows it.
fn foreign() -> String {
    format!("{}.corp", "x".repeat(64))
}

/// A proxy that goes out through `upstream`, a `[user:password@]host:port`.
async fn through(upstream: &str, own: &[u16]) -> Proxy {
    let upstream = format!("http://{upstream}").parse().unwrap();
    let options = ProxyOptions { upstream: Some(upstream), ..options(TestPorts::containing(own)) };
    Proxy::start(options).await.unwrap()
}

/// A proxy and the listener that it goes out through.
async fn chained(credentials: &str) -> (Proxy, TcpListener) {
    let (upstream, address) = listener().await;
    (through(&format!("{credentials}{address}"), &[]).await, upstream)
}

/// Asks for `target`, and lets the upstream answer with `says`.
async fn asked(proxy: &Proxy, upstream: &TcpListener, method: &str, target: &str, says: &str) -> String {
    let (answer, ()) = tokio::join!(ask(proxy, method, target), async {
        let mut upstream = RawConnection::accept(upstream).await;
        upstream.read_head().await;
        upstream.send(says).await;
    });
    answer
}
