//! Speaks to the upstream proxy: sends it a `CONNECT`, and translates its refusals for the browser.
//!
//! [`crate::dial`] has judged every request before this module sees it, so the upstream gets allowed requests
//! only. Greenroom words the upstream's refusals itself. They do not name the upstream, because a page can
//! read them; the log does. A 407 is never passed on as one: greenroom gave the credentials, and a browser
//! would ask its user for others.

use std::time::Duration;

use bytes::Bytes;
use greenroom_core::port::human;
use http_body_util::Empty;
use hyper::{
    Request, StatusCode,
    client::conn::http1,
    header::{HOST, PROXY_AUTHORIZATION},
    upgrade::Upgraded,
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, time::timeout};

use crate::{
    answer::{NOT_A_HOST, NotCarried},
    connection::{HEAD_BYTES_MAX, HEADERS_MAX},
    dial::{ADDRESSES_MAX, CONNECT_WITHIN, LOOKUP_WITHIN},
    upstream::Upstream,
};

/// How long an upstream may take to open a tunnel. Like [`crate::dial`] it resolves a name and tries its addresses, so
/// it has as long as a direct connection may take: 40 s.
const TUNNEL_WITHIN: Duration = LOOKUP_WITHIN.saturating_add(CONNECT_WITHIN.saturating_mul(ADDRESSES_MAX));

/// How an upstream fails a request although the proxy could connect to it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unhelpful {
    #[error("the upstream proxy rejects the credentials (407): correct user and password in PROXY_SERVER")]
    Credentials,
    #[error("the upstream proxy refuses {target}: {status}")]
    Refused { target: String, status: StatusCode },
    #[error("the upstream proxy gave no usable answer: {0}")]
    NoAnswer(#[source] hyper::Error),
    #[error("the upstream proxy did not answer within {}", human(TUNNEL_WITHIN))]
    Late,
}

impl Unhelpful {
    /// The status for the browser. A refusal keeps the upstream's status, unless that is no error.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Refused { status, .. } if status.is_client_error() || status.is_server_error() => *status,
            Self::Refused { .. } | Self::Credentials | Self::NoAnswer(_) | Self::Late => {
                StatusCode::BAD_GATEWAY
            }
        }
    }
}

/// Opens a tunnel to `target`, a `host:port`, on a fresh connection to the upstream.
pub(crate) async fn tunnel(
    stream: TcpStream,
    upstream: &Upstream,
    target: &str,
) -> Result<Upgraded, NotCarried> {
    let mut request =
        Request::connect(target).header(HOST, target).body(Empty::new()).map_err(|_| NOT_A_HOST)?;
    authorize(&mut request, upstream);
    let opened = timeout(TUNNEL_WITHIN, open(stream, request, target)).await;
    Ok(opened.unwrap_or(Err(Unhelpful::Late))?)
}

async fn open(
    stream: TcpStream,
    request: Request<Empty<Bytes>>,
    target: &str,
) -> Result<Upgraded, Unhelpful> {
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(Unhelpful::NoAnswer)?;
    let mut connection = Box::pin(connection.with_upgrades());
    let mut sent = Box::pin(sender.send_request(request));
    let (answered, connection) = tokio::select! {
        answered = &mut sent => (answered, Some(connection)),
        // The connection may end just as the answer arrives; `sent` says whether one arrived.
        _ = &mut connection => ((&mut sent).await, None),
    };
    drop(sent);
    let mut response = answered.map_err(Unhelpful::NoAnswer)?;
    match response.status() {
        status if status.is_success() => {}
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => return Err(Unhelpful::Credentials),
        status => return Err(Unhelpful::Refused { target: target.to_owned(), status }),
    }
    let upgraded = hyper::upgrade::on(&mut response);
    // Without a sender `connection` completes; if the upstream opened a tunnel, `upgraded` then gets it.
    drop(sender);
    if let Some(connection) = connection {
        let _ = connection.await;
    }
    upgraded.await.map_err(Unhelpful::NoAnswer)
}

/// Puts the credentials for the upstream on a request. The caller has removed the browser's.
pub(crate) fn authorize<B>(request: &mut Request<B>, upstream: &Upstream) {
    if let Some(credentials) = upstream.credentials() {
        request.headers_mut().insert(PROXY_AUTHORIZATION, credentials.clone());
    }
}
