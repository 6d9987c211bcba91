//! The options of TCP connections, on either side.

use axum::serve::{Listener, ListenerExt};
use rustix::net::sockopt;
use std::{net::SocketAddr, time::Duration};
use tokio::net::{TcpListener, TcpStream};

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
pub fn with_options(listener: TcpListener) -> impl Listener<Addr = SocketAddr, Io = TcpStream> {
    listener.tap_io(|stream| set_options(stream))
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
