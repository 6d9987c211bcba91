//! Plain `http://`: carries a request in absolute form to its site and streams bodies both ways, unchanged except
//! for hop-by-hop headers.
//!
//! Each request has its own connection to its site, judged for it and ended with it: plain HTTP is rare on
//! the web, and a kept connection would outlive its verdict. The site has no deadline for its answer, because a
//! long poll may take minutes; a browser that disconnects ends the request.
//! With an upstream proxy the connection goes there and the request stays in absolute form. The proxy cannot tell the
//! upstream's own answers from the site's, except for a request for credentials, and passes them on as the site's.
//! An `Upgrade` that the site accepts turns the connection into a tunnel.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use greenroom_core::port::BoxFuture;
use http_body_util::BodyExt;
use hyper::{
    HeaderMap, Request, Response, StatusCode, Uri, Version,
    body::{Frame, Incoming, SizeHint},
    client::conn::http1,
    header::{
        CONNECTION, HOST, HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
        TRANSFER_ENCODING, UPGRADE,
    },
    http::uri::{Parts, PathAndQuery, Scheme},
};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{
    answer::{self, NOT_A_HOST, NotCarried, ResponseBody},
    chain::{self, Unhelpful},
    connection::{Afterwards, HEAD_BYTES_MAX, HEADERS_MAX},
    dial::OutboundConnection,
    port::PortState,
    tunnel,
};

/// The connection to a site. hyper reads and writes only while this is polled: `carry` polls it up to the
/// head of the answer, [`SiteBody`] from then on.
type Site = BoxFuture<'static, Result<(), hyper::Error>>;

/// Hop-by-hop headers (RFC 9110, 7.6.1), and those between client and proxy.
const ONE_HOP: [HeaderName; 8] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// A connection to a site: direct, or through a tunnel of the upstream.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Carries one request to its site and returns the head of the answer; the body follows as it arrives.
pub(crate) async fn carry(
    mut request: Request<Incoming>,
    through: &PortState,
    afterwards: &Afterwards,
) -> Result<Response<ResponseBody>, NotCarried> {
    let (host, port) = site_of(request.uri())?;
    let upgrade = strip(request.headers_mut());
    let browser = upgrade.is_some().then(|| hyper::upgrade::on(&mut request));

    let site_port = port.unwrap_or(80);
    let (stream, upstream): (Box<dyn Stream>, _) =
        match through.shared.dialer.dial(through, &host, site_port).await? {
            OutboundConnection::ToSite(stream) => {
                address(&mut request, &host, port, None)?;
                (Box::new(stream), None)
            }
            // The upstream would take an address in absolute form for the site's name and change `Host`; a tunnel leaves it.
            OutboundConnection::ToUpstream { stream, upstream, host: judged, resolved: true } => {
                address(&mut request, &host, port, None)?;
                let tunnel = chain::tunnel(stream, upstream, &format!("{judged}:{site_port}")).await?;
                (Box::new(TokioIo::new(tunnel)), None)
            }
            OutboundConnection::ToUpstream { stream, upstream, host: judged, resolved: false } => {
                address(&mut request, &judged, port, Some(Scheme::HTTP))?;
                chain::authorize(&mut request, upstream);
                (Box::new(stream), Some(upstream))
            }
        };
    let bad_site = |source| match upstream {
        None => NotCarried::BadSite { host: host.clone(), source },
        Some(_) => Unhelpful::NoAnswer(source).into(),
    };
    let (mut sender, site) = http1::Builder::new()
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .preserve_header_case(true)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(bad_site)?;
    let mut site: Site = Box::pin(site.with_upgrades());
    let mut sent = Box::pin(sender.send_request(request));
    let (answered, site) = tokio::select! {
        answered = &mut sent => (answered, Some(site)),
        // A site may close the connection right after its answer, or without an answer; `sent` says which.
        _ = &mut site => (sent.await, None),
    };
    let mut response = answered.map_err(bad_site)?;
    if upstream.is_some() && response.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED {
        return Err(Unhelpful::Credentials.into());
    }

    let accepted = strip(response.headers_mut());
    if response.status() == StatusCode::SWITCHING_PROTOCOLS
        && let (Some(browser), Some(protocol)) = (browser, accepted)
    {
        put_upgrade(response.headers_mut(), protocol);
        let upgraded = hyper::upgrade::on(&mut response);
        afterwards.set(async move {
            if let Some(site) = site {
                let _ = site.await;
            }
            if let (Ok(browser), Ok(site)) = (browser.await, upgraded.await) {
                tunnel::join(TokioIo::new(browser), TokioIo::new(site)).await;
            }
        });
        return Ok(response.map(|_| answer::empty()));
    }
    Ok(response.map(|body| SiteBody { body, site }.boxed_unsync()))
}

/// The host and port that an absolute-form request names.
fn site_of(uri: &Uri) -> Result<(String, Option<u16>), NotCarried> {
    let Some(host) = uri.host().map(str::to_owned) else {
        return Err(NotCarried::NotForProxy("a request must name its site, as in GET http://host/path"));
    };
    if uri.scheme() != Some(&Scheme::HTTP) {
        return Err(NotCarried::NotForProxy("only http:// is carried in the open; use CONNECT for the rest"));
    }
    // For a port that is no number up to 65535 the parser says that there is none.
    let has_port = uri.authority().is_some_and(|authority| {
        let after_host = authority.as_str().rsplit_once(&*host).map_or("", |(_, after)| after);
        !after_host.trim_start_matches([']', ':']).is_empty()
    });
    match (uri.port_u16(), has_port) {
        (None, true) => Err(NotCarried::NotForProxy("the request's port is not one: it must be 1 to 65535")),
        (port, _) => Ok((host, port)),
    }
}

/// Writes the request line that the next hop expects: origin form for a site, absolute form for an upstream
/// proxy. In both cases the host of the browser's request line replaces the `Host` header.
fn address(
    request: &mut Request<Incoming>,
    host: &str,
    port: Option<u16>,
    scheme: Option<Scheme>,
) -> Result<(), NotCarried> {
    let authority = port.map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    let path = request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    let mut parts = Parts::default();
    parts.authority = match &scheme {
        Some(_) => Some(authority.parse().map_err(|_| NOT_A_HOST)?),
        None => None,
    };
    parts.scheme = scheme;
    parts.path_and_query = Some(path);
    *request.uri_mut() = Uri::from_parts(parts).map_err(|_| NOT_A_HOST)?;
    *request.version_mut() = Version::HTTP_11;
    request.headers_mut().insert(HOST, HeaderValue::try_from(authority).map_err(|_| NOT_A_HOST)?);
    Ok(())
}

/// Removes hop-by-hop headers, but keeps and returns an `Upgrade` that `Connection` names, which is for the site too.
fn strip(headers: &mut HeaderMap) -> Option<HeaderValue> {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let upgrade = if named.contains(&UPGRADE) { headers.get(UPGRADE).cloned() } else { None };
    for name in named.iter().chain(&ONE_HOP) {
        headers.remove(name);
    }
    if let Some(protocol) = &upgrade {
        put_upgrade(headers, protocol.clone());
    }
    upgrade
}

fn put_upgrade(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, protocol);
}

/// A site's answer: the body, and the connection that it comes through.
struct SiteBody {
    body: Incoming,
    /// `None` once the connection has ended; dropping it hangs up.
    site: Option<Site>,
}

impl hyper::body::Body for SiteBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        // Ignore the connection's error here: hyper reports it through the body too, after the bytes that arrived
        // before it, and the browser must get those bytes first.
        if let Some(site) = &mut self.site
            && site.as_mut().poll(context).is_ready()
        {
            self.site = None;
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A port beyond 65535 is refused; it is not read as port 80.
    #[test]
    fn ports_are_read_or_refused() {
        for (uri, expected) in [
            ("http://a.test/", Some(("a.test", None))),
            ("http://a.test:/", Some(("a.test", None))),
            ("http://user:secret@a.test:81/80:1", Some(("a.test", Some(81)))),
            ("http://a.test:65535/", Some(("a.test", Some(65_535)))),
            ("http://[::1]/", Some(("[::1]", None))),
            ("http://[::1]:81/", Some(("[::1]", Some(81)))),
            ("http://a.test:65536/", None),
            ("http://a.test:99999/", None),
            ("http://[::1]:4294967376/", None),
        ] {
            let site = site_of(&uri.parse().unwrap()).ok();
            let expected = expected.map(|(host, port)| (host.to_owned(), port));
            assert_eq!(site, expected, "{uri}");
        }
    }
}
