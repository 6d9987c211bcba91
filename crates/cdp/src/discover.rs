//! From the address that people know, `http://host:port`, to the WebSocket of the browser behind it.
//!
//! A debugger says at `/json/version` where its WebSocket is, with the host and the port that it believes to
//! have. It answers only to an IP address or `localhost` as `Host`, so that no page can reach it by a name of
//! its own. If it refuses a name, `discover` asks it again by its IP address.

use std::net::IpAddr;

use bytes::Bytes;
use greenroom_core::web_address::shown;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{
    Request, StatusCode,
    header::{HOST, HeaderValue},
};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::time::timeout;

use crate::{
    DISCOVER_WITHIN, Error, Unreachable,
    address::Address,
    dial::{Dialled, dial},
};

/// The largest answer of a debugger that is read; it usually has half a kilobyte.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Finds the WebSocket address of the browser at `url`, within [`DISCOVER_WITHIN`]. A `ws://` or `wss://` address is
/// returned as it is, unless it has no path and a debugger there names the browser's endpoint. A password in the address
/// is not in the result: see [`crate::authorization`].
pub async fn discover(url: &str, headers: &[(String, String)]) -> Result<String, Error> {
    let found = async {
        let address = Address::parse(url)?;
        if address.is_web_socket() && !address.has_no_path() {
            return Ok(address.url_without_credentials());
        }
        let queried = timeout(DISCOVER_WITHIN, query_web_socket(&address, headers)).await;
        match queried.unwrap_or(Err(Unreachable::Silent(DISCOVER_WITHIN))) {
            // Not every WebSocket server also serves a debugger's HTTP pages.
            Err(Unreachable::Status(_) | Unreachable::InvalidResponse(_)) if address.is_web_socket() => {
                Ok(address.url_without_credentials())
            }
            found => found,
        }
    };
    found.await.map_err(|why| Error::Connect { url: shown(url), why })
}

async fn query_web_socket(address: &Address, headers: &[(String, String)]) -> Result<String, Unreachable> {
    match get_version(address, headers).await? {
        (Ok(named), _) => address.web_socket(&named),
        // A certificate is for the name, so a TLS server can be asked by its name only.
        (Err(why), peer) => match address.on_ip(peer).filter(|_| why.may_refuse_host_name(address)) {
            Some(by_ip) => match get_version(&by_ip, headers).await? {
                (Ok(named), _) => by_ip.web_socket(&named),
                (Err(why), _) => Err(why),
            },
            None => Err(why),
        },
    }
}

impl Unreachable {
    fn may_refuse_host_name(&self, address: &Address) -> bool {
        let refused =
            matches!(self, Self::Status(status) if *status == StatusCode::INTERNAL_SERVER_ERROR.as_u16());
        refused && address.has_host_name() && !address.is_encrypted()
    }
}

#[derive(Deserialize)]
struct VersionResponse {
    #[serde(rename = "webSocketDebuggerUrl")]
    web_socket: Option<String>,
}

/// The WebSocket that the debugger names, and the machine that answered.
async fn get_version(
    address: &Address,
    headers: &[(String, String)],
) -> Result<(Result<String, Unreachable>, IpAddr), Unreachable> {
    let mut all = address.headers(headers)?;
    if !all.contains_key(HOST) {
        let host = HeaderValue::try_from(address.authority());
        all.insert(HOST, host.map_err(|_| Unreachable::Address("its host cannot be sent".to_owned()))?);
    }
    let Dialled { stream, peer, .. } = dial(address).await?;
    let invalid = |error: hyper::Error| Unreachable::InvalidResponse(error.to_string());
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(invalid)?;
    let mut request = Request::get(address.version_path())
        .body(Empty::<Bytes>::new())
        .map_err(|error| Unreachable::Address(error.to_string()))?;
    *request.headers_mut() = all;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(invalid)?;
        if response.status() != StatusCode::OK {
            return Ok(Err(Unreachable::Status(response.status().as_u16())));
        }
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| Unreachable::InvalidResponse(error.to_string()))?.to_bytes();
        let version =
            serde_json::from_slice::<VersionResponse>(&body).ok().and_then(|version| version.web_socket);
        Ok(version.ok_or_else(|| Unreachable::InvalidResponse("its answer names no WebSocket".to_owned())))
    };
    // The exchange drives the connection, so the connection lives as long as the exchange.
    tokio::select! {
        biased;
        // The connection's error explains more than the exchange's, so it comes first.
        Err(error) = connection => Err(invalid(error)),
        answer = exchange => Ok((answer?, peer.ip())),
    }
}
