//! A debugger's connection message by message, for a proxy between a browser and the program that drives it.
//!
//! Both ends are here: one towards the browser, dialled like any other or opened on a [`BrowserPipe`], and one towards a
//! program on this machine, which has to name the secret path that it was given. Web pages are refused: their requests carry an `Origin`.
//!
//! [`BrowserPipe`]: crate::BrowserPipe

use std::time::Duration;

use futures_util::{
    FutureExt, SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use greenroom_core::web_address::shown;
use tokio::{net::TcpStream, time::timeout};
use tokio_tungstenite::{
    accept_hdr_async_with_config,
    tungstenite::{
        self, Message, Utf8Bytes,
        handshake::server::{ErrorResponse, Request, Response},
        http::{StatusCode, header::ORIGIN},
    },
};

use crate::{
    CONNECT_WITHIN, Closed, Error, Unreachable,
    client::{limits, open},
    dial::Io,
    pipe::{ChannelReader, ChannelWriter},
    wire::Socket,
};

/// A message. Passing it on copies nothing.
pub type Text = Utf8Bytes;

/// How long a program on this machine may take to send its request.
const ACCEPT_WITHIN: Duration = Duration::from_secs(5);

/// Sends messages.
pub struct MessageWriter(WriterKind);

/// Receives messages.
pub struct MessageReader(ReaderKind);

enum WriterKind {
    Socket(SplitSink<Socket, Message>),
    Pipe(ChannelWriter),
}

enum ReaderKind {
    Socket(SplitStream<Socket>),
    Pipe(ChannelReader),
}

impl From<ChannelWriter> for MessageWriter {
    fn from(writer: ChannelWriter) -> Self {
        Self(WriterKind::Pipe(writer))
    }
}

impl From<ChannelReader> for MessageReader {
    fn from(reader: ChannelReader) -> Self {
        Self(ReaderKind::Pipe(reader))
    }
}

/// Connects to a debugger, with these headers in addition to those of the protocol.
pub async fn dial(
    ws_url: &str,
    headers: &[(String, String)],
) -> Result<(MessageWriter, MessageReader), Error> {
    let opened = timeout(CONNECT_WITHIN, open(ws_url, headers)).await;
    let (socket, _) = opened
        .unwrap_or(Err(Unreachable::Silent(CONNECT_WITHIN)))
        .map_err(|why| Error::Connect { url: shown(ws_url), why })?;
    Ok(halves(socket))
}

/// Accepts a program that names this path in time. `None` for any other client.
// `ErrorResponse` of tungstenite, which the closure has to return, is large.
#[expect(clippy::result_large_err)]
pub async fn accept(stream: TcpStream, path: &str) -> Option<(MessageWriter, MessageReader)> {
    stream.set_nodelay(true).ok()?;
    let welcome = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
        if request.uri().path() == path && !request.headers().contains_key(ORIGIN) {
            return Ok(response);
        }
        let mut refusal = ErrorResponse::new(None);
        *refusal.status_mut() = StatusCode::NOT_FOUND;
        Err(refusal)
    };
    let stream: Box<dyn Io> = Box::new(stream);
    let accepted = accept_hdr_async_with_config(stream, welcome, Some(limits()));
    timeout(ACCEPT_WITHIN, accepted).await.ok()?.ok().map(halves)
}

pub(crate) fn halves(socket: Socket) -> (MessageWriter, MessageReader) {
    let (sink, stream) = socket.split();
    (MessageWriter(WriterKind::Socket(sink)), MessageReader(ReaderKind::Socket(stream)))
}

impl MessageWriter {
    /// Sends one message. `false` means that the connection is over.
    pub async fn send(&mut self, text: Text) -> bool {
        self.try_send(text).await.is_ok()
    }

    /// Sends one message, or says why the connection is over.
    pub(crate) async fn try_send(&mut self, text: Text) -> Result<(), Closed> {
        match &mut self.0 {
            WriterKind::Socket(sink) => {
                sink.send(Message::Text(text)).await.map_err(|error| close_reason(&error))
            }
            WriterKind::Pipe(writer) => match writer.send(text).await {
                true => Ok(()),
                false => Err(Closed::ByBrowser),
            },
        }
    }

    /// Ends the connection: sends the closing frame, or ends the session.
    pub async fn close(self) {
        if let WriterKind::Socket(mut sink) = self.0 {
            // A peer that is already gone needs no closing frame.
            let _ = sink.close().await;
        }
    }
}

impl MessageReader {
    /// The next message; `None` when the connection is over. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Text> {
        self.try_receive().await.ok()
    }

    /// The next message, or why the connection is over. Dropping the future loses nothing.
    pub(crate) async fn try_receive(&mut self) -> Result<Text, Closed> {
        let stream = match &mut self.0 {
            ReaderKind::Socket(stream) => stream,
            ReaderKind::Pipe(reader) => return reader.next().await,
        };
        loop {
            match stream.next().await {
                Some(Ok(Message::Text(text))) => return Ok(text),
                Some(Ok(Message::Close(_))) | None => return Err(Closed::ByBrowser),
                Some(Ok(Message::Binary(_))) => return Err(Closed::Protocol("a binary message".into())),
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Err(error)) => return Err(close_reason(&error)),
            }
        }
    }

    /// The next message if one has already arrived.
    pub fn try_next(&mut self) -> Option<Option<Text>> {
        self.next().now_or_never()
    }
}

fn close_reason(error: &tungstenite::Error) -> Closed {
    match error {
        // A killed browser sends no closing frame.
        tungstenite::Error::ConnectionClosed
        | tungstenite::Error::AlreadyClosed
        | tungstenite::Error::Protocol(tungstenite::error::ProtocolError::ResetWithoutClosingHandshake) => {
            Closed::ByBrowser
        }
        other => Closed::Broken(other.to_string().into()),
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use tokio_tungstenite::{client_async, tungstenite::client::IntoClientRequest};

    use super::*;

    /// Only a program that names the path is accepted, and no web page is; messages pass both ways; both ends see the close.
    #[tokio::test]
    async fn only_programs_with_the_path_are_accepted() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("ws://{}", listener.local_addr().unwrap());
        for (path, origin, is_accepted) in
            [("/secret", None, true), ("/", None, false), ("/secret", Some("https://a.example"), false)]
        {
            let mut request = format!("{address}{path}").into_client_request().unwrap();
            if let Some(origin) = origin {
                request.headers_mut().insert(ORIGIN, origin.parse().unwrap());
            }
            let program = async {
                let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
                client_async(request, stream).await.ok()
            };
            let cdp_proxy = async { accept(listener.accept().await.unwrap().0, "/secret").await };
            let (program, proxy_side) = tokio::join!(program, cdp_proxy);
            assert_eq!(
                (program.is_some(), proxy_side.is_some()),
                (is_accepted, is_accepted),
                "{path} {origin:?}"
            );
            let (Some((program, _)), Some((mut to, mut from))) = (program, proxy_side) else { continue };
            let (mut sink, mut stream) = program.split();
            sink.send(Message::text("there")).await.unwrap();
            assert_eq!(from.next().await.as_deref(), Some("there"));
            assert!(to.send("back".into()).await);
            assert_eq!(stream.next().await.unwrap().unwrap().to_text().unwrap(), "back");
            drop((sink, stream));
            assert_eq!(from.next().await, None);
        }
    }
}
