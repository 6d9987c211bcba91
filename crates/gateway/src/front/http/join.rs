//! `/front`: a `greenroom mcp` of another process joins this server and becomes its client's front.
//!
//! The connection is upgraded to what stdio is: a message a line, in both directions, in order. Streamable HTTP would
//! do, but its requests may overtake each other, and calls of a client must not.

use std::{path::PathBuf, sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    http::{
        HeaderValue, StatusCode,
        header::{CONNECTION, UPGRADE},
    },
    response::Response,
};
use greenroom_core::{ConnectionId, SessionId};
use greenroom_fleet::Whose;
use greenroom_mcp::pipe;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use super::{Door, refusal};
use crate::{
    connection::{Client, Reach},
    front::lines,
};

/// Where fronts join.
pub const FRONT: &str = "/front";

/// What the connection is upgraded to.
pub const PROTOCOL: &str = "greenroom-front";

/// How long a front may take to introduce itself. It does so at once.
const HELLO: Duration = Duration::from_secs(10);

/// How long an introduction may be: some thousand session ids.
const HELLO_BYTES_MAX: usize = 1024 * 1024;

/// How a front introduces itself, in its first line. Fronts and servers of two versions may meet: what one does not
/// know is ignored, and what one does not say has a meaning.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Hello {
    /// Chosen by the front at random, and kept when it joins again.
    pub connection: u64,
    /// The folder it was started in.
    pub folder: PathBuf,
    /// The server it had joined before. If that is this one, nothing was lost.
    #[serde(default)]
    pub last_server: Option<String>,
    /// Sessions that its client used there.
    #[serde(default)]
    pub lost: Vec<String>,
    /// Its client also used the session of its own there.
    #[serde(default)]
    pub lost_own: bool,
    #[serde(default = "first")]
    pub first_question: u64,
}

fn first() -> u64 {
    1
}

/// What the server answers, in its first line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Welcome {
    /// Another one means another server, which knows nothing of what was before.
    pub server: String,
    #[serde(default)]
    pub version: String,
}

pub(super) async fn handle(State(door): State<Arc<Door>>, request: Request) -> Response {
    let wanted = request.headers().get(UPGRADE).is_some_and(|value| value == PROTOCOL);
    if !wanted {
        return refusal::because(
            StatusCode::UPGRADE_REQUIRED,
            format!("this is for fronts that join: upgrade to `{PROTOCOL}`"),
        );
    }
    let upgrade = hyper::upgrade::on(request);
    let tasks = door.tasks.clone();
    tasks.spawn(async move {
        match upgrade.await {
            Ok(connection) => serve(door, TokioIo::new(connection)).await,
            Err(error) => tracing::debug!(%error, "a front did not join after all"),
        }
    });
    let mut response = Response::new(axum::body::Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    response.headers_mut().insert(UPGRADE, HeaderValue::from_static(PROTOCOL));
    response
}

async fn serve(door: Arc<Door>, connection: TokioIo<Upgraded>) {
    let (mut input, mut output) = tokio::io::split(connection);
    let (hello, begun) = match timeout(HELLO, hello(&mut input)).await {
        Ok(Ok(hello)) => hello,
        Ok(Err(why)) => return tracing::warn!(why, "a front joined and did not introduce itself"),
        Err(_) => return tracing::warn!("a front joined and said nothing"),
    };
    let welcome =
        Welcome { server: door.probes.server.clone(), version: env!("CARGO_PKG_VERSION").to_owned() };
    let mut line = greenroom_core::raw::encode(&welcome).get().to_owned();
    line.push('\n');
    if output.write_all(line.as_bytes()).await.is_err() {
        return;
    }
    let (fleet, id) = (door.gateway.fleet.clone(), ConnectionId(hello.connection));
    let own = Whose::Connection(id);
    if hello.last_server.is_some_and(|last| last != door.probes.server) {
        let lost = hello.lost.iter().filter_map(|id| SessionId::new(id).ok()).map(Whose::Named);
        for whose in lost.chain(hello.lost_own.then(|| own.clone())) {
            fleet.mourn(&door.owner, &whose);
        }
    }
    // Only who is on this machine has its folders here.
    let reach = match &door.reach {
        Reach::Here { .. } => Reach::Here { folder: hello.folder },
        Reach::Network => Reach::Network,
    };
    let here = matches!(reach, Reach::Here { .. });
    let client = Client { id, owner: door.owner.clone(), reach, first_question: hello.first_question };
    let (stdio, _tasks) = pipe::open(input, output, begun);
    tracing::info!(connection = id.0, "a front has joined");
    lines::serve(door.gateway.clone(), stdio, client, door.stop.clone()).await;
    tracing::info!(connection = id.0, "a front has left");
    // On one machine only a process that ends closes its connection. Over a network it may come back for its browser,
    // which waits for as long as any session does.
    if here {
        let _ = fleet.close(&door.owner, &own).await;
    }
}

/// The first line, and what came behind it.
async fn hello(input: &mut (impl AsyncRead + Unpin)) -> Result<(Hello, Vec<u8>), String> {
    let mut read = Vec::new();
    loop {
        if let Some(end) = read.iter().position(|byte| *byte == b'\n') {
            let rest = read.split_off(end + 1);
            let hello = serde_json::from_slice(&read).map_err(|error| error.to_string())?;
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
