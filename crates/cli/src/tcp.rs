//! The options of TCP connections, on either side, and which clients a server accepts.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::serve::{Listener, ListenerExt};
use greenroom_egress::peer_user;
use greenroom_gateway::front::http::KeyRing;
use rustix::net::sockopt;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};

/// How long another user's program may take to send its request and to read that it is refused.
const REFUSE_WITHIN: Duration = Duration::from_secs(1);

/// How many such programs are answered at once. Further ones are disconnected without an answer.
const REFUSALS_MAX: usize = 32;

/// How much of a refused request is read. A client that still sends when the server closes might not see the answer.
const REQUEST_BYTES_MAX: usize = 16 << 10;

/// The kernel probes a connection after this much silence, at this interval, and gives it up after this many unanswered
/// probes: within a minute. A front may be silent for hours, and the other end may vanish without closing.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(20);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;

/// Sets `TCP_NODELAY` and keepalive. greenroom writes messages whole, so waiting for more bytes would only delay them;
/// keepalive probes detect that the other end has vanished.
pub fn set_options(stream: &TcpStream) {
    let with_options = stream.set_nodelay(true).and_then(|()| {
        sockopt::set_socket_keepalive(stream, true)?;
        sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
        sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL)?;
        Ok(sockopt::set_tcp_keepcnt(stream, KEEPALIVE_PROBES)?)
    });
    if let Err(error) = with_options {
        tracing::debug!(%error, "cannot set the options of a connection");
    }
}

/// A listener that sets these options on every connection that it accepts.
pub fn with_options<L: Listener<Io = TcpStream>>(
    listener: L,
) -> impl Listener<Addr = L::Addr, Io = TcpStream> {
    listener.tap_io(|stream| set_options(stream))
}

/// A listener for programs of greenroom's own user and of root, as long as the server needs no API key: without this every
/// user of the machine could use its browsers.
pub struct OwnUserListener {
    listener: TcpListener,
    allows_other_users: bool,
    keys: Arc<KeyRing>,
    /// The tasks that tell other users' programs why the server refuses them.
    refusals: JoinSet<()>,
}

impl OwnUserListener {
    pub fn new(listener: TcpListener, allows_other_users: bool, keys: Arc<KeyRing>) -> Self {
        Self { listener, allows_other_users, keys, refusals: JoinSet::new() }
    }

    fn refuse(&mut self, stream: TcpStream, client: SocketAddr) {
        tracing::debug!(%client, "refused a program of another user");
        while self.refusals.try_join_next().is_some() {}
        if self.refusals.len() < REFUSALS_MAX {
            self.refusals.spawn(async move {
                // A client that does not listen learns nothing.
                let _ = timeout(REFUSE_WITHIN, send_refusal(stream)).await;
            });
        }
    }
}

impl Listener for OwnUserListener {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            let (stream, client) = Listener::accept(&mut self.listener).await;
            let is_own = |server| peer_user::is_own_or_root(client, server);
            let is_open = self.allows_other_users || self.keys.is_required();
            if is_open || stream.local_addr().is_ok_and(is_own) {
                return (stream, client);
            }
            self.refuse(stream, client);
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

async fn send_refusal(mut stream: TcpStream) -> io::Result<()> {
    const BODY: &str = "this server serves programs of its own user only; \
                        its operator can set `server.allow_other_users`\n";
    if stream.read(&mut vec![0; REQUEST_BYTES_MAX]).await? == 0 {
        return Ok(());
    }
    let length = BODY.len();
    let head = "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close";
    stream.write_all(format!("{head}\r\nContent-Length: {length}\r\n\r\n{BODY}").as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both ends of a connection have `TCP_NODELAY` and keepalive.
    #[tokio::test]
    async fn connections_have_nodelay_and_keepalive() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut listener = with_options(listener);
        let (stream, (accepted, _)) = tokio::join!(TcpStream::connect(address), listener.accept());
        let stream = stream.unwrap();
        set_options(&stream);
        for stream in [&stream, &accepted] {
            assert!(stream.nodelay().unwrap());
            assert!(sockopt::socket_keepalive(stream).unwrap());
            assert_eq!(sockopt::tcp_keepidle(stream).unwrap(), KEEPALIVE_IDLE);
        }
    }
}
