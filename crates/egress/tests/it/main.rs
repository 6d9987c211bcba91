//! The proxy as a browser sees it: raw bytes over loopback sockets, so that no library between the test and the wire
//! changes them.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod carry;
mod connection_end;
mod fakes;
mod other_users;
mod policy;
mod refuse;
mod resolver;
mod upstream;

use std::{
    collections::HashSet,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use greenroom_core::network::OwnPorts;
use greenroom_egress::{Proxy, ProxyOptions};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::fakes::{KnownNames, LoopbackOnly};

/// The longest a test may take. Longer than every limit of the proxy, so that under a paused clock those
/// expire first.
const DEADLINE: Duration = Duration::from_secs(120);

async fn within<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, test).await.expect("the test's deadline passed")
}

/// Own ports that a test can add to while the proxy runs.
#[derive(Default)]
struct TestPorts(Mutex<HashSet<u16>>);

impl TestPorts {
    fn containing(ports: &[u16]) -> Arc<Self> {
        Arc::new(Self(Mutex::new(ports.iter().copied().collect())))
    }
}

impl OwnPorts for TestPorts {
    fn contains(&self, port: u16) -> bool {
        self.0.lock().unwrap().contains(&port)
    }
}

/// The options of a proxy that asks no name server and connects to loopback only.
fn options(own_ports: Arc<TestPorts>) -> ProxyOptions {
    ProxyOptions {
        resolver: Arc::new(KnownNames::default()),
        connector: Arc::new(LoopbackOnly),
        ..ProxyOptions::new(own_ports)
    }
}

async fn proxy() -> Proxy {
    Proxy::start(options(TestPorts::containing(&[]))).await.unwrap()
}

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// One side of a conversation, in raw bytes.
struct RawConnection(TcpStream);

impl RawConnection {
    async fn to(address: SocketAddr) -> Self {
        Self(TcpStream::connect(address).await.unwrap())
    }

    async fn accept(listener: &TcpListener) -> Self {
        Self(listener.accept().await.unwrap().0)
    }

    async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// Everything up to and including `end`.
    async fn read_until(&mut self, end: &str) -> String {
        let mut received = Vec::new();
        while !received.ends_with(end.as_bytes()) {
            match self.0.read_u8().await {
                Ok(byte) => received.push(byte),
                Err(error) => {
                    panic!("{error} before {end:?}; heard {:?}", String::from_utf8_lossy(&received))
                }
            }
        }
        String::from_utf8(received).unwrap()
    }

    async fn read_head(&mut self) -> String {
        self.read_until("\r\n\r\n").await
    }

    /// Everything up to the end of the connection, which may be abrupt.
    async fn read_to_end(&mut self) -> String {
        let mut received = Vec::new();
        let _ = self.0.read_to_end(&mut received).await;
        String::from_utf8(received).unwrap()
    }

    /// Opens a tunnel to `target` and leaves the peer at its start.
    async fn tunnel(proxy: &Proxy, target: &str) -> Self {
        let mut peer = Self::to(proxy.address()).await;
        peer.send(&format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n")).await;
        let head = peer.read_head().await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        peer
    }
}

/// The whole answer to one request on a connection of its own.
async fn ask(proxy: &Proxy, method: &str, target: &str) -> String {
    let mut peer = RawConnection::to(proxy.address()).await;
    peer.send(&format!("{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")).await;
    peer.read_to_end().await
}

/// Waits until the proxy serves exactly `count` connections.
async fn connections(proxy: &Proxy, count: usize) {
    proxy.connections().wait_for(|now| *now == count).await.unwrap();
}
