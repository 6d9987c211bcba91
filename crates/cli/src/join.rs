//! Finds the server that `greenroom mcp` joins, and connects to it: through the socket in its run folder, or at a URL.

use std::{
    io,
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use greenroom_core::{
    ApiKeySecret, BoxFuture,
    network::NetworkPolicy,
    settings::{KeyLevel, Origin, Resolved, SETTINGS, Settings},
};
use greenroom_gateway::front::{
    http::{FRONT, PROTOCOL},
    relay::{ServerConnector, ServerStream},
};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{
    Request, Response, StatusCode, Uri,
    body::Incoming,
    client::conn::http1,
    header::{AUTHORIZATION, CONNECTION, HOST, HeaderValue, UPGRADE},
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    control::{self, ControlEndpoint},
    tcp, tls,
};

/// How long a server may take to accept a front. It does so at once, even when it is busy.
const JOIN_TIMEOUT: Duration = Duration::from_secs(5);

/// A refusal is a sentence or two; greenroom reads no more than this.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;

/// The settings that a process which uses a running server reads itself. For all others the server's values apply.
const OWN_SETTINGS: [&str; 2] = ["data_dir", "log"];

/// Whether a setting belongs to the network policy. [`RequiredNetwork`] makes sure that a server has the same.
fn is_of_network(key: &str) -> bool {
    key.starts_with("network.") || key.starts_with("pool.network_")
}

/// The flags of this command line that have no effect when the process uses a running server.
pub fn flags_without_effect(resolved: &Resolved) -> Vec<String> {
    let is_flag = |key| {
        let has_effect = OWN_SETTINGS.contains(&key) || is_of_network(key);
        matches!(resolved.origin(key), Origin::Flag { .. }) && !has_effect
    };
    let settings = SETTINGS.iter().filter(|setting| is_flag(setting.key));
    let browsers = resolved.settings.browsers.iter().enumerate().filter_map(|(at, browser)| {
        match resolved.browser_origin(at) {
            Origin::Flag(flag) => Some(format!("{flag} {}", browser.shown_url())),
            _ => None,
        }
    });
    settings.map(|setting| format!("--{}", setting.flag())).chain(browsers).collect()
}

/// The network policies of all pools as text: equal texts are equal policies.
pub fn network_text(settings: &Settings) -> String {
    let declared = settings.pools.iter().map(|pool| (pool.name.as_str(), &pool.common));
    let mut text = String::new();
    for (name, pool) in [("", &settings.pool)].into_iter().chain(declared) {
        let NetworkPolicy { preset, allow, deny, only: _ } = settings.network_policy(pool);
        let lines = [format!("pool {name}"), format!("preset {preset}")].into_iter();
        let allowed = allow.iter().map(|rule| format!("allow {rule}"));
        let denied = deny.iter().map(|rule| format!("deny {rule}"));
        let trust = [format!("trust_upstream {}", settings.trusts_upstream(pool))];
        text.extend(lines.chain(allowed).chain(denied).chain(trust).map(|line| line + "\n"));
    }
    text
}

/// The network policy that a user has set for this process, and by what. A server with another policy is no substitute for
/// this process's own browsers: it might reach what the user forbids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequiredNetwork {
    text: String,
    /// The flag, variable or file that sets it.
    pub origin: Origin,
}

impl RequiredNetwork {
    /// `None` if the user has set nothing about the network.
    pub fn new(resolved: &Resolved) -> Option<Self> {
        let keys = SETTINGS.iter().map(|setting| setting.key);
        let mut network = keys.filter(|key| is_of_network(key));
        let global = network.find_map(|key| match resolved.origin(key) {
            Origin::Default => None,
            origin => Some(origin.clone()),
        });
        let origin = global.or_else(|| pool_origin(resolved))?;
        Some(Self { text: network_text(&resolved.settings), origin })
    }

    pub fn is_met_by(&self, server: &ControlEndpoint) -> bool {
        server.network.as_deref() == Some(&self.text)
    }
}

/// By what a declared pool has a network policy of its own, if one has.
fn pool_origin(resolved: &Resolved) -> Option<Origin> {
    let names = ["network_preset", "network_allow", "network_deny"];
    resolved.settings.pools.iter().find_map(|pool| {
        names.iter().find_map(|name| {
            let (level, origin) = resolved.pool_origin(&pool.name, None, name);
            (level >= KeyLevel::Pool).then(|| origin.clone())
        })
    })
}

/// Where to look for servers.
#[derive(Debug, Clone)]
pub enum ServerLocation {
    /// The servers of this user: those with run folders in this data folder, and with this network policy if one is
    /// required.
    DataFolder(PathBuf, Option<RequiredNetwork>),
    /// A server, and the key that it gets.
    Url(Uri, Option<ApiKeySecret>),
}

impl ServerLocation {
    /// Reads a server's URL: `http://HOST:PORT` or `https://HOST`, whatever path follows.
    pub fn url(text: &str, key: Option<ApiKeySecret>) -> Result<Self, String> {
        let uri: Uri = text.parse().map_err(|_| "it is not a URL".to_owned())?;
        match uri.scheme_str() {
            Some("http" | "https")
                if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) =>
            {
                Err("a key does not belong in the URL: set GREENROOM_API_KEY, or give --key-file".to_owned())
            }
            Some("http" | "https") if uri.host().is_some() => Ok(Self::Url(uri, key)),
            _ => {
                Err("a server's URL looks like `http://127.0.0.1:34501` or `https://browsers.example`"
                    .to_owned())
            }
        }
    }

    /// Whether what is sent to the server passes over a network without TLS.
    pub fn is_readable_on_the_way(&self) -> bool {
        let Self::Url(uri, _) = self else { return false };
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let is_loopback =
            host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()) || host == "localhost";
        uri.scheme_str() == Some("http") && !is_loopback
    }

    /// Whether a running server has written its server file; a URL always counts as one. Sends no request.
    pub fn has_server(&self) -> bool {
        match self {
            Self::DataFolder(folder, network) => !suitable_servers(folder, network.as_ref()).is_empty(),
            Self::Url(..) => true,
        }
    }
}

/// The servers of a data folder, without those that have another network policy than the required one.
fn suitable_servers(folder: &Path, network: Option<&RequiredNetwork>) -> Vec<ControlEndpoint> {
    let mut servers = control::find_endpoints(folder);
    servers
        .retain(|server| server.server.is_some() && network.is_none_or(|network| network.is_met_by(server)));
    servers
}

impl ServerLocation {
    /// A running server that is not used because its network policy is another one than required, and by what that is set.
    pub fn unsuitable_server(&self) -> Option<(u32, &Origin)> {
        let Self::DataFolder(folder, Some(network)) = self else { return None };
        let servers = suitable_servers(folder, None);
        servers.iter().find(|server| !network.is_met_by(server)).map(|server| (server.pid, &network.origin))
    }
}

impl ServerConnector for ServerLocation {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn ServerStream>, String>> {
        Box::pin(async move {
            match self {
                Self::DataFolder(folder, network) => {
                    let servers = suitable_servers(folder, network.as_ref());
                    let mut last = format!("none runs with the data folder `{}`", folder.display());
                    for server in servers {
                        let opened = async {
                            upgrade(control::connect(&server.socket).await, "greenroom", None).await
                        };
                        match with_timeout(opened).await {
                            Ok(link) => return Ok(link),
                            Err(why) => last = format!("process {}: {why}", server.pid),
                        }
                    }
                    Err(last)
                }
                Self::Url(uri, key) => {
                    let host = uri.host().unwrap_or_default();
                    let name = host.trim_matches(['[', ']']);
                    let is_encrypted = uri.scheme_str() == Some("https");
                    let port = uri.port_u16().unwrap_or(if is_encrypted { 443 } else { 80 });
                    let opened = async {
                        let stream =
                            TcpStream::connect((name, port)).await.map_err(|error| error.to_string())?;
                        tcp::set_options(&stream);
                        let authority = format!("{host}:{port}");
                        if !is_encrypted {
                            return upgrade(Ok(stream), &authority, key.as_ref()).await;
                        }
                        let stream = tls::encrypt(stream, name).await?;
                        upgrade(Ok(stream), &authority, key.as_ref()).await
                    };
                    with_timeout(opened).await.map_err(|why| format!("`{uri}`: {why}"))
                }
            }
        })
    }
}

async fn with_timeout(
    opened: impl Future<Output = Result<Box<dyn ServerStream>, String>>,
) -> Result<Box<dyn ServerStream>, String> {
    timeout(JOIN_TIMEOUT, opened)
        .await
        .unwrap_or_else(|_| Err(format!("no answer within {} s", JOIN_TIMEOUT.as_secs())))
}

/// Asks for an upgrade to the protocol of fronts on a new connection.
async fn upgrade(
    stream: io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static>,
    host: &str,
    key: Option<&ApiKeySecret>,
) -> Result<Box<dyn ServerStream>, String> {
    let stream = stream.map_err(|error| error.to_string())?;
    let broken = |error: hyper::Error| error.to_string();
    let (mut requests, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let driver = AbortOnDropHandle::new(tokio::spawn(async move {
        // The task that waits for the answer gets the error.
        let _ = connection.with_upgrades().await;
    }));
    let mut request = Request::get(FRONT);
    if let Some(key) = key {
        let value = HeaderValue::from_str(&format!("Bearer {}", key.reveal()));
        let mut value = value.map_err(|_| "the API key cannot be sent in a header".to_owned())?;
        value.set_sensitive(true);
        request = request.header(AUTHORIZATION, value);
    }
    let request = request
        .header(HOST, host)
        .header(CONNECTION, "upgrade")
        .header(UPGRADE, PROTOCOL)
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let response = requests.send_request(request).await.map_err(broken)?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(read_refusal(response).await);
    }
    let upgraded = hyper::upgrade::on(response).await.map_err(broken)?;
    drop(driver);
    Ok(Box::new(TokioIo::new(upgraded)))
}

/// Why the server refuses: in its own words, if it gave some.
async fn read_refusal(response: Response<Incoming>) -> String {
    #[derive(serde::Deserialize)]
    struct RefusalBody {
        error: RefusalError,
    }
    #[derive(serde::Deserialize)]
    struct RefusalError {
        message: String,
    }
    let status = response.status();
    let hint = match status {
        StatusCode::UNAUTHORIZED => " (set GREENROOM_API_KEY, or give --key-file)",
        _ => "",
    };
    let body = Limited::new(response.into_body(), REFUSAL_BYTES_MAX).collect().await;
    let parsed = body.ok().and_then(|body| serde_json::from_slice::<RefusalBody>(&body.to_bytes()).ok());
    match parsed {
        // The server's own hint is for HTTP clients.
        Some(RefusalBody { error }) => {
            format!("{}{hint}", error.message.split("\n\nhint:").next().unwrap_or_default())
        }
        None => format!("it is no greenroom server, or too old to be joined: status {status}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A URL is accepted with or without a path; one that cannot work is refused before any attempt.
    #[test]
    fn server_urls_are_checked() {
        for fine in [
            "http://127.0.0.1:34501",
            "http://127.0.0.1:34501/mcp",
            "http://[::1]:1",
            "http://host",
            "https://host",
            "https://[::1]:1/mcp",
        ] {
            assert!(ServerLocation::url(fine, None).is_ok(), "{fine}");
        }
        for wrong in
            ["", "127.0.0.1:34501", "https://", "ftp://host", "http://", "/x", "a b", "https://key@host"]
        {
            assert!(ServerLocation::url(wrong, None).is_err(), "{wrong}");
        }
    }
}
