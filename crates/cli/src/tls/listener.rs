//! The server's port, with or without TLS.
//!
//! A connection does its handshake in its own task, with its first read: a client that sends nothing holds up no other.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::serve::Listener;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Sleep, sleep},
};
use tokio_rustls::{Accept, TlsAcceptor, server::TlsStream};

use crate::tcp::{self, OwnUserListener};

/// How long a client may take for its handshake: two round trips, over the slowest network.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// A port that sets the options of its connections, and encrypts them if it has an acceptor.
pub struct PortListener {
    pub tcp: OwnUserListener,
    pub tls: Option<TlsAcceptor>,
}

impl Listener for PortListener {
    type Io = PortConnection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (PortConnection, SocketAddr) {
        // The listener of axum waits when the process has no descriptors left.
        let (stream, peer) = Listener::accept(&mut self.tcp).await;
        tcp::set_options(&stream);
        let connection = match &self.tls {
            None => PortConnection::Plain(stream),
            Some(acceptor) => PortConnection::Handshake(Box::new(Handshake {
                accept: acceptor.accept(stream),
                timeout: Box::pin(sleep(HANDSHAKE_TIMEOUT)),
            })),
        };
        (connection, peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

/// A connection to the port.
pub enum PortConnection {
    Plain(TcpStream),
    Handshake(Box<Handshake>),
    Encrypted(Box<TlsStream<TcpStream>>),
}

/// A handshake that has not ended.
pub struct Handshake {
    accept: Accept<TcpStream>,
    timeout: Pin<Box<Sleep>>,
}

impl PortConnection {
    fn poll_handshake(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self::Handshake(handshake) = self else { return Poll::Ready(Ok(())) };
        if let Poll::Ready(accepted) = Pin::new(&mut handshake.accept).poll(context) {
            *self = Self::Encrypted(Box::new(accepted?));
            return Poll::Ready(Ok(()));
        }
        ready!(handshake.timeout.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the TLS handshake took too long")))
    }
}

impl AsyncRead for PortConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_handshake(context))?;
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Encrypted(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Handshake(_) => Poll::Pending,
        }
    }
}

impl AsyncWrite for PortConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_handshake(context))?;
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Encrypted(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Handshake(_) => Poll::Pending,
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_handshake(context))?;
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(context, buffers),
            Self::Encrypted(stream) => Pin::new(stream).poll_write_vectored(context, buffers),
            Self::Handshake(_) => Poll::Pending,
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Encrypted(stream) => Pin::new(stream).poll_flush(context),
            // Nothing has been written.
            Self::Handshake(_) => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Encrypted(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Handshake(_) => Poll::Ready(Ok(())),
        }
    }
}
