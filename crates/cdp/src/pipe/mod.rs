//! The debugger of a browser that was started with `--remote-debugging-pipe`: no other program can reach it.
//!
//! A browser has one such pipe. [`BrowserPipe`] shares it: each connection that it opens has a browser session of its own,
//! and works as a WebSocket to the browser would. A connection's end ends its session, and with it the contexts that were
//! made to go with it. A connection that does not read its messages ends alone ([`channel`]); the end of the pipe ends all.
//! The pipe closes when the last handle is dropped, and then the browser exits.

mod channel;
mod frames;
mod router;

use std::sync::Arc;

use greenroom_core::raw::{Raw, encode};
use serde::Serialize;
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::{mpsc, oneshot, watch},
    time::timeout,
};

pub(crate) use self::channel::{ChannelReader, ChannelWriter};
use self::{
    frames::Frames,
    router::{Halves, RootCall, Router},
};
use crate::{
    CONNECT_WITHIN, CdpClient, Closed, Error, Events,
    client::{OUTGOING_MAX, wait_until_closed},
    envelope::CdpError,
    message_stream::{MessageReader, MessageWriter, Text},
};

/// How much memory the writing side keeps between messages: most calls are shorter.
const WRITE_BUFFER_BYTES: usize = 64 << 10;

/// A handle to the pipe. The clones share it.
#[derive(Clone)]
pub struct BrowserPipe {
    outgoing: mpsc::Sender<Text>,
    router: Arc<Router>,
    closed: watch::Receiver<Option<Closed>>,
}

impl BrowserPipe {
    /// Takes the two ends of a browser's pipes: one that the browser writes to, and one that it reads from.
    pub fn open(
        from_browser: impl AsyncRead + Unpin + Send + 'static,
        to_browser: impl AsyncWrite + Unpin + Send + 'static,
    ) -> Self {
        let (outgoing, to_write) = mpsc::channel(OUTGOING_MAX);
        let (ended, ended_sessions) = mpsc::unbounded_channel();
        let (reason, closed) = watch::channel(None);
        let router = Arc::new(Router::new(ended));
        let task_router = router.clone();
        // The handles own this task: it ends when the last of them is dropped, and `closed` tells when it has.
        tokio::spawn(async move {
            let why = tokio::select! {
                why = read(Frames::new(from_browser), &task_router) => why,
                why = write(to_browser, to_write, ended_sessions, &task_router) => why,
            };
            tracing::debug!(%why, "a browser's debugging pipe ended");
            // Publish the reason before the calls and the consumers wake and ask for it.
            reason.send_replace(Some(why.clone()));
            task_router.close(&why);
        });
        Self { outgoing, router, closed }
    }

    /// Calls the browser itself. It waits as long as the browser takes: a browser that starts answers late, and its
    /// caller has a deadline.
    pub async fn call(&self, method: &str, params: &impl Serialize) -> Result<Raw, Error> {
        let (result, answer) = oneshot::channel();
        self.request(method, params, RootCall::Result(result), answer).await
    }

    /// Opens a connection of its own to the browser, message by message.
    pub async fn connect(&self) -> Result<(MessageWriter, MessageReader), Error> {
        const ATTACH: &str = "Target.attachToBrowserTarget";
        let (connection, answer) = oneshot::channel();
        let call = RootCall::Session { connection, outgoing: self.outgoing.clone() };
        let attached = timeout(CONNECT_WITHIN, self.request(ATTACH, &json!({}), call, answer)).await;
        let (writer, reader): Halves =
            attached.unwrap_or_else(|_| Err(Error::NoAnswer { method: ATTACH.to_owned() }))?;
        Ok((writer.into(), reader.into()))
    }

    /// Opens a connection for calls and events.
    pub async fn client(&self) -> Result<(CdpClient, Events), Error> {
        let (writer, reader) = self.connect().await?;
        Ok(CdpClient::over(writer, reader, None))
    }

    /// Sends a call that waits for this answer.
    async fn request<T>(
        &self,
        method: &str,
        params: &impl Serialize,
        call: RootCall,
        answer: oneshot::Receiver<Result<T, CdpError>>,
    ) -> Result<T, Error> {
        let text = self.router.root_call(method, &encode(params), Some(call));
        let exchange = async {
            self.outgoing.send(text?).await.ok()?;
            answer.await.ok()
        };
        match exchange.await {
            Some(Ok(result)) => Ok(result),
            Some(Err(error)) => Err(Error::refused(method, &error)),
            None => Err(wait_until_closed(self.closed.clone()).await.into()),
        }
    }
}

async fn read(mut frames: Frames<impl AsyncRead + Unpin>, router: &Arc<Router>) -> Closed {
    loop {
        let routed = match frames.next().await {
            Ok(text) => router.route(text),
            Err(why) => return why,
        };
        if let Err(why) = routed {
            return why;
        }
    }
}

async fn write(
    mut pipe: impl AsyncWrite + Unpin,
    mut outgoing: mpsc::Receiver<Text>,
    mut ended_sessions: mpsc::UnboundedReceiver<String>,
    router: &Router,
) -> Closed {
    let mut messages = Vec::new();
    let mut bytes = Vec::new();
    loop {
        tokio::select! {
            // A connection's last calls go out before its session ends.
            biased;
            count = outgoing.recv_many(&mut messages, OUTGOING_MAX) => if count == 0 { return Closed::Unused },
            Some(session) = ended_sessions.recv() => messages.extend(detach(&session, router)),
        }
        while let Ok(session) = ended_sessions.try_recv() {
            messages.extend(detach(&session, router));
        }
        for text in messages.drain(..) {
            bytes.extend_from_slice(text.as_bytes());
            bytes.push(0);
        }
        if let Err(error) = pipe.write_all(&bytes).await {
            return match error.kind() {
                // A browser that is gone has closed its end.
                std::io::ErrorKind::BrokenPipe => Closed::ByBrowser,
                _ => Closed::Broken(error.to_string().into()),
            };
        }
        bytes.clear();
        bytes.shrink_to(WRITE_BUFFER_BYTES);
    }
}

/// The call that ends a session.
fn detach(session: &str, router: &Router) -> Option<Text> {
    router.root_call("Target.detachFromTarget", &encode(&json!({ "sessionId": session })), None)
}

#[cfg(test)]
mod tests;
