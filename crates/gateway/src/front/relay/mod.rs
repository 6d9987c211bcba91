//! The relay: passes a client's lines to a server in another process, and the server's lines back to the client.
//!
//! A server may be restarted meanwhile. Then the front finds the next one, repeats the client's `initialize` and goes
//! on; a call that may have had an effect gets an error that says so, and is never sent again. See [`RelayState`].

mod state;

use std::{collections::VecDeque, path::PathBuf, time::Duration};

use greenroom_core::{BoxFuture, port::human, raw::encode};
use greenroom_mcp::{
    MESSAGE_BYTES_MAX,
    lines::StreamLine,
    message, pipe,
    stdio::{Outgoing, Stdio},
};
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
    time::{Instant, sleep, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    http::{FrontHello, FrontWelcome},
    lines,
    secret::Secret,
};
use state::RelayState;

pub(crate) use state::SESSIONS_MAX;

/// How long requests wait for a server to come back. A restart takes a second or two, one with an update some more; a
/// client gives up after a minute.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// How often the front looks for a server while there is none.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// How long a server may take to answer a front's first line. Servers answer at once.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(5);

/// How many of the client's lines wait while there is no server, and how many bytes they may have. Beyond that the
/// client waits, too.
const QUEUE_MAX: usize = 256;
const QUEUE_BYTES_MAX: usize = MESSAGE_BYTES_MAX;

/// A byte stream to a server.
pub trait ServerStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ServerStream for T {}

/// Finds servers for the front, which asks again whenever it has lost one.
pub trait ServerConnector: Send + Sync {
    /// Connects to a server's `/front`. The error says why there is none.
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn ServerStream>, String>>;
}

/// A front of one client.
pub struct Relay<S> {
    pub servers: S,
    /// Proves to a server that this front has joined it before.
    pub secret: Secret,
    /// The folder it was started in.
    pub folder: PathBuf,
}

/// A server that the front has joined.
struct JoinedServer {
    stdio: Stdio,
    welcome: FrontWelcome,
    _tasks: tokio::task::JoinSet<()>,
}

/// Which side ended the connection.
enum EndedBy {
    /// The client has left, or `stop` was cancelled.
    Client,
    Server,
}

/// The client's side of a connection, and what the relay remembers of the client.
struct RelayedConnection<'a> {
    client: &'a Outgoing,
    state: Mutex<RelayState>,
}

impl<S: ServerConnector> Relay<S> {
    /// Serves the client until it leaves or `stop` is cancelled, at first through this server. Fails only if this
    /// server does not let the front join.
    pub async fn run(
        &self,
        first: Box<dyn ServerStream>,
        client: Stdio,
        stop: CancellationToken,
    ) -> Result<(), String> {
        let Stdio { mut incoming, outgoing } = client;
        let relayed = RelayedConnection { client: &outgoing, state: Mutex::default() };
        let mut queue = VecDeque::new();
        let mut joined = self.join(&relayed, first, None).await?;
        loop {
            let since = Instant::now();
            let end = tokio::select! {
                biased;
                () = stop.cancelled() => EndedBy::Client,
                () = outgoing.closed() => EndedBy::Client,
                end = relayed.relay_lines(&mut joined, &mut queue, &mut incoming) => end,
            };
            let last = joined.welcome.clone();
            drop(joined);
            if let EndedBy::Client = end {
                break;
            }
            tracing::warn!(server = last.server, "the greenroom server is gone; looking for the next one");
            let gone = relayed.lock().server_gone();
            relayed.send_to_client(gone).await;
            let next = async {
                // A server that disconnects a front at once is stopping: do not reconnect without a pause.
                if since.elapsed() < POLL_INTERVAL {
                    sleep(POLL_INTERVAL).await;
                }
                self.next(&relayed, &last, &mut queue, &mut incoming).await
            };
            let next = tokio::select! {
                biased;
                () = stop.cancelled() => None,
                () = outgoing.closed() => None,
                next = next => next,
            };
            match next {
                Some(next) => joined = next,
                None => break,
            }
        }
        // Write all answers before this process may end, unless the client reads no more.
        let _ = timeout(lines::FLUSH_TIMEOUT, outgoing.flush()).await;
        Ok(())
    }

    /// The number by which servers of older versions know this front: 48 bits of the secret's digest, from which the
    /// secret cannot be derived.
    fn connection(&self) -> u64 {
        let [a, b, c, d, e, f, ..] = self.secret.digest();
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// Joins a server, and tells it which sessions were lost with another one.
    async fn join(
        &self,
        relayed: &RelayedConnection<'_>,
        link: Box<dyn ServerStream>,
        last: Option<&FrontWelcome>,
    ) -> Result<JoinedServer, String> {
        let (read, write) = tokio::io::split(link);
        let (mut stdio, tasks) = pipe::open(read, write, Vec::new(), MESSAGE_BYTES_MAX);
        let (used, lost) = relayed.lock().sessions();
        let hello = FrontHello {
            connection: self.connection(),
            secret: Some(self.secret.clone()),
            folder: self.folder.clone(),
            last_server: last.map(|last| last.server.clone()),
            used: used.named.into_iter().collect(),
            used_own: used.own,
            lost: lost.named.into_iter().collect(),
            lost_own: lost.own,
            first_question: relayed.lock().next_question(),
        };
        let refused = || "the server ended the conversation".to_owned();
        let welcomed = async {
            stdio.outgoing.send(encode(&hello).get().as_bytes().to_vec()).await.map_err(|_| refused())?;
            match stdio.incoming.recv().await {
                Some(StreamLine::Whole(line)) => serde_json::from_slice::<FrontWelcome>(&line)
                    .map_err(|error| format!("invalid welcome message: {error}")),
                _ => Err(refused()),
            }
        };
        let welcome = timeout(WELCOME_TIMEOUT, welcomed).await.unwrap_or_else(|_| {
            Err(format!("the server did not answer within {}", human(WELCOME_TIMEOUT)))
        })?;
        let another = last.is_some_and(|last| last.server != welcome.server);
        if another {
            relayed.lock().another_server();
        }
        let lines = relayed.lock().lines_to_resend();
        for line in lines {
            stdio.outgoing.send(line).await.map_err(|_| refused())?;
        }
        // Another server may have another engine, or other settings.
        if another && relayed.lock().is_initialized() {
            relayed
                .send_to_client(vec![message::notification("notifications/tools/list_changed", None)])
                .await;
        }
        Ok(JoinedServer { stdio, welcome, _tasks: tasks })
    }

    /// Looks for the next server, however long it takes. Requests wait for a while; then they get an error. `None` if
    /// the client leaves meanwhile.
    async fn next(
        &self,
        relayed: &RelayedConnection<'_>,
        last: &FrontWelcome,
        queue: &mut VecDeque<Vec<u8>>,
        incoming: &mut mpsc::Receiver<StreamLine>,
    ) -> Option<JoinedServer> {
        let deadline = Instant::now() + RECONNECT_TIMEOUT;
        loop {
            let joined = async { self.join(relayed, self.servers.connect().await?, Some(last)).await };
            let why = match joined.await {
                Ok(joined) => return Some(joined),
                Err(why) => why,
            };
            if Instant::now() >= deadline {
                for line in queue.drain(..) {
                    relayed.lock().record_client_line(&line);
                }
                let why = format!("there is no greenroom server: {why}");
                let messages = relayed.lock().give_up(&why);
                relayed.send_to_client(messages).await;
            }
            let pause = Instant::now() + POLL_INTERVAL;
            let has_room = |queue: &VecDeque<Vec<u8>>| {
                queue.len() < QUEUE_MAX && queue.iter().map(Vec::len).sum::<usize>() < QUEUE_BYTES_MAX
            };
            while has_room(queue) {
                match timeout_at(pause, incoming.recv()).await {
                    Ok(Some(line)) => queue.extend(relayed.accept_client_line(line).await),
                    Ok(None) => return None,
                    Err(_) => break,
                }
            }
            if !has_room(queue) {
                sleep(POLL_INTERVAL).await;
            }
        }
    }
}

impl RelayedConnection<'_> {
    fn lock(&self) -> MutexGuard<'_, RelayState> {
        self.state.lock()
    }

    async fn send_to_client(&self, lines: Vec<Vec<u8>>) {
        for line in lines {
            // If the client is gone, the front notices that when it reads from the client.
            let _ = self.client.send(line).await;
        }
    }

    /// A whole line of the client. If the line is too long, sends the client an error and returns `None`.
    async fn accept_client_line(&self, line: StreamLine) -> Option<Vec<u8>> {
        match line {
            StreamLine::Whole(line) => Some(line),
            StreamLine::TooLong { bytes } => {
                self.send_to_client(vec![lines::too_long(bytes)]).await;
                None
            }
        }
    }

    /// Passes lines in both directions; neither direction waits for the other.
    async fn relay_lines(
        &self,
        joined: &mut JoinedServer,
        queue: &mut VecDeque<Vec<u8>>,
        incoming: &mut mpsc::Receiver<StreamLine>,
    ) -> EndedBy {
        let Stdio { incoming: from_server, outgoing: to_server } = &mut joined.stdio;
        let up = async {
            loop {
                let line = match queue.pop_front() {
                    Some(line) => line,
                    None => match incoming.recv().await {
                        Some(line) => match self.accept_client_line(line).await {
                            Some(line) => line,
                            None => continue,
                        },
                        None => return EndedBy::Client,
                    },
                };
                self.lock().record_client_line(&line);
                if to_server.send(line).await.is_err() {
                    return EndedBy::Server;
                }
            }
        };
        let down = async {
            while let Some(line) = from_server.recv().await {
                let StreamLine::Whole(line) = line else {
                    tracing::error!(
                        "the server sent a message beyond the size limit; the front drops this connection"
                    );
                    break;
                };
                if self.lock().record_server_line(&line) {
                    self.send_to_client(vec![line]).await;
                }
            }
            EndedBy::Server
        };
        let mut down = std::pin::pin!(down);
        tokio::select! {
            end = up => match end {
                EndedBy::Client => EndedBy::Client,
                // The server accepts no more lines, but its last lines are still to be read and passed on.
                EndedBy::Server => down.await,
            },
            end = &mut down => end,
        }
    }
}

#[cfg(test)]
mod tests;
