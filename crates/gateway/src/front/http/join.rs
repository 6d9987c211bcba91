//! `/front`: a `greenroom mcp` of another process joins this server and serves its client through it.
//!
//! The connection is upgraded to a stream like stdio: one message per line, in both directions, in order. Streamable
//! HTTP is not used here: its requests may overtake each other, and the calls of a client must not.

use std::{collections::HashSet, path::PathBuf, sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::{Request, State},
    http::{
        HeaderValue, StatusCode,
        header::{CONNECTION, UPGRADE},
    },
    response::Response,
};
use greenroom_core::{ConnectionId, SessionId};
use greenroom_fleet::SessionKey;
use greenroom_mcp::{CLIENT_MESSAGE_BYTES_MAX, pipe};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf},
    time::timeout,
};

use super::{HttpState, auth::Requester, refusal};
use crate::{
    connection::{ClientLocation, NewClient},
    front::{lines, relay::SESSIONS_MAX, secret::Secret},
};

/// Where fronts join.
pub const FRONT: &str = "/front";

/// The protocol to which the connection is upgraded.
pub const PROTOCOL: &str = "greenroom-front";

/// How long a front may take to send its first line. Fronts send it at once.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest first line: some thousand session ids.
const HELLO_BYTES_MAX: usize = 1024 * 1024;

/// How many lost sessions the server notes: twice as many as a front remembers.
const LOST_MAX: usize = 2 * SESSIONS_MAX;

/// How many fronts may be joined at once. Ten windows are many; each costs some kilobytes and a descriptor.
const FRONTS_MAX: usize = 1024;

/// The front's first line. Fronts and servers of two versions may meet: each ignores fields that it does not know, and
/// a missing field has a defined meaning.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FrontHello {
    /// The front's number, for older servers only, which identify the front by it. A server of this version ignores
    /// it.
    #[serde(default)]
    pub connection: u64,
    /// A random secret that the front keeps when it joins again: only this leads to its own session. A front without
    /// one is a new front each time.
    #[serde(default)]
    pub secret: Option<Secret>,
    /// The folder in which the front was started.
    pub folder: PathBuf,
    /// The server that it had joined before, and the sessions that its client used there. If that is this server, they
    /// are not lost.
    #[serde(default)]
    pub last_server: Option<String>,
    #[serde(default)]
    pub used: Vec<String>,
    /// Whether its client also used the connection's own session there.
    #[serde(default)]
    pub used_own: bool,
    /// Sessions that its client lost with earlier servers, if no answer has said so yet.
    #[serde(default)]
    pub lost: Vec<String>,
    #[serde(default)]
    pub lost_own: bool,
    #[serde(default = "first")]
    pub first_question: u64,
}

fn first() -> u64 {
    1
}

impl FrontHello {
    /// The sessions that its client has lost, as this server sees it.
    fn lost(&self, server: &str, id: ConnectionId) -> HashSet<SessionKey> {
        let another = self.last_server.as_deref().is_some_and(|last| last != server);
        let used = self.used.iter().filter(|_| another);
        let named = used.chain(&self.lost).filter_map(|id| SessionId::new(id).ok()).map(SessionKey::Named);
        let own = (self.lost_own || another && self.used_own).then_some(SessionKey::Connection(id));
        named.take(LOST_MAX).chain(own).collect()
    }
}

/// The server's first line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FrontWelcome {
    /// A front that sees another value has joined another server, which knows none of its sessions.
    pub server: String,
    #[serde(default)]
    pub version: String,
}

pub(super) async fn handle(
    State(http_state): State<Arc<HttpState>>,
    Extension(requester): Extension<Requester>,
    request: Request,
) -> Response {
    let wanted = request.headers().get(UPGRADE).is_some_and(|value| value == PROTOCOL);
    if !wanted {
        return refusal::because(
            StatusCode::UPGRADE_REQUIRED,
            format!("this is for fronts that join: upgrade to `{PROTOCOL}`"),
        );
    }
    let tasks = http_state.tasks.clone();
    if tasks.len() >= FRONTS_MAX {
        return refusal::because(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("{FRONTS_MAX} fronts have joined already"),
        );
    }
    let upgrade = hyper::upgrade::on(request);
    tasks.spawn(async move {
        let end = requester.end.token().clone();
        let joined = async {
            match upgrade.await {
                Ok(connection) => greet(&http_state, TokioIo::new(connection)).await,
                Err(error) => Err(error.to_string()),
            }
        };
        // A silent front does not delay the shutdown.
        let joined = tokio::select! {
            joined = timeout(HELLO_TIMEOUT, joined) => joined.unwrap_or_else(|_| Err("it sent no first line in time".to_owned())),
            () = end.cancelled() => return,
        };
        match joined {
            Ok(joined) => serve(&http_state, &requester, joined).await,
            Err(why) => tracing::warn!(why, "a front connected but did not join"),
        }
    });
    let mut response = Response::new(axum::body::Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    response.headers_mut().insert(UPGRADE, HeaderValue::from_static(PROTOCOL));
    response
}

/// A front that has sent its first line.
struct JoinedFront {
    hello: FrontHello,
    input: ReadHalf<TokioIo<Upgraded>>,
    /// The bytes after its first line.
    begun: Vec<u8>,
    output: WriteHalf<TokioIo<Upgraded>>,
}

async fn greet(http_state: &HttpState, connection: TokioIo<Upgraded>) -> Result<JoinedFront, String> {
    let (mut input, mut output) = tokio::io::split(connection);
    let (hello, begun) = hello(&mut input).await?;
    let welcome = FrontWelcome {
        server: http_state.probes.server.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let mut line = greenroom_core::raw::encode(&welcome).get().to_owned();
    line.push('\n');
    output.write_all(line.as_bytes()).await.map_err(|error| error.to_string())?;
    Ok(JoinedFront { hello, input, begun, output })
}

async fn serve(http_state: &HttpState, requester: &Requester, joined: JoinedFront) {
    let JoinedFront { hello, input, begun, output } = joined;
    let fleet = http_state.gateway.fleet.clone();
    let has_session = |id| fleet.session_pool(&requester.owner, &SessionKey::Connection(id)).is_some();
    let is_local = http_state.location.is_local();
    let membership =
        http_state.clients.fronts.join(hello.secret.as_ref(), &requester.owner, is_local, has_session);
    let id = membership.id;
    let own = SessionKey::Connection(id);
    let lost = hello.lost(&http_state.probes.server, id);
    // Only a front on this machine has its folders here.
    let location = match &http_state.location {
        ClientLocation::Local { .. } => ClientLocation::Local { folder: hello.folder },
        ClientLocation::Network => ClientLocation::Network,
    };
    let client = NewClient {
        id,
        owner: requester.owner.clone(),
        scopes: requester.scopes,
        location,
        first_question: hello.first_question,
        lost,
    };
    let (stdio, _tasks) = pipe::open(input, output, begun, CLIENT_MESSAGE_BYTES_MAX);
    tracing::info!("a front has joined");
    lines::serve(http_state.gateway.clone(), stdio, client, requester.end.token().clone()).await;
    tracing::info!(client = &*fleet.connections().name(id), "a front has left");
    // On one machine a connection closes only because its process ends. Over a network the front may come back for its
    // browser, which waits as long as any idle session does.
    if is_local && membership.is_only() {
        let _ = fleet.close(&requester.owner, &own).await;
    }
}

/// Reads the first line, and the bytes after it.
async fn hello(input: &mut (impl AsyncRead + Unpin)) -> Result<(FrontHello, Vec<u8>), String> {
    let mut read = Vec::new();
    loop {
        if let Some(end) = read.iter().position(|byte| *byte == b'\n') {
            let rest = read.split_off(end + 1);
            let hello: FrontHello = serde_json::from_slice(&read).map_err(|error| error.to_string())?;
            if hello.secret.as_ref().is_some_and(Secret::is_unusable) {
                return Err("its secret is too short, or too long".to_owned());
            }
            return Ok((hello, rest));
        }
        if read.len() > HELLO_BYTES_MAX {
            return Err(format!("its first line has more than {HELLO_BYTES_MAX} bytes"));
        }
        match input.read_buf(&mut read).await {
            Ok(0) => return Err("it has left".to_owned()),
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}
