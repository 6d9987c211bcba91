//! The options of TCP connections, on either side.

use axum::serve::{Listener, ListenerExt};
use rustix::net::sockopt;
use std::{net::SocketAddr, time::Duration};
use tokio::net::{TcpListener, TcpStream};

/// A connection is probed after this much silence, at this interval, and given up after this many unanswered probes: within
/// a minute. A front may be silent for hours, and the other end may vanish without closing.
const SILENCE: Duration = Duration::from_secs(20);
const AGAIN: Duration = Duration::from_secs(10);
const MISSED_MAX: u32 = 3;

/// Sets the options. Messages are written whole, so waiting for more would only delay them; and probes detect an end that
/// has vanished.
pub fn prepare(stream: &TcpStream) {
    let prepared = stream.set_nodelay(true).and_then(|()| {
        sockopt::set_socket_keepalive(stream, true)?;
        sockopt::set_tcp_keepidle(stream, SILENCE)?;
        sockopt::set_tcp_keepintvl(stream, AGAIN)?;
        Ok(sockopt::set_tcp_keepcnt(stream, MISSED_MAX)?)
    });
    if let Err(error) = prepared {
        tracing::debug!(%error, "cannot set the options of a connection");
    }
}

/// A listener whose connections are prepared.
pub fn prepared(listener: TcpListener) -> impl Listener<Addr = SocketAddr, Io = TcpStream> {
    listener.tap_io(|stream| prepare(stream))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A prepared connection sends at once and detects an end that has vanished.
    #[tokio::test]
    async fn connections_are_prepared() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut listener = prepared(listener);
        let (stream, (accepted, _)) = tokio::join!(TcpStream::connect(address), listener.accept());
        let stream = stream.unwrap();
        prepare(&stream);
        for stream in [&stream, &accepted] {
            assert!(stream.nodelay().unwrap());
            assert!(sockopt::socket_keepalive(stream).unwrap());
            assert_eq!(sockopt::tcp_keepidle(stream).unwrap(), SILENCE);
        }
    }
}
