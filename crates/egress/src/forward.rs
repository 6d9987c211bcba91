//! Plain `http://`: a request in absolute form goes to its site, bodies streaming both ways, untouched but
//! for what concerns one hop only.
//!
//! Each request has its own connection to its site, judged for it and ended with it: plain HTTP is rare on
//! the web, and a kept connection would outlive its verdict. The site has no deadline for its answer, as a
//! long poll may take minutes; the browser's patience bounds it, and a browser that leaves ends it.
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
    http::uri::Scheme,
};
use hyper_util::rt::TokioIo;

use crate::{
    answer::{self, Body, NotCarried},
    connection::{Afterwards, HEAD_BYTES_MAX, HEADERS_MAX},
    dial::Dialer,
    tunnel,
};

/// The connection to a site. Nothing moves on it unless it is polled, by [`Answer`] or before there is one.
type Site = BoxFuture<'static, Result<(), hyper::Error>>;

/// Headers between two neighbours (RFC 9110, 7.6.1), and a proxy's own.
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

/// Carries one request to its site and the head of the answer back; the body follows as it comes.
pub(crate) async fn carry(
    mut request: Request<Incoming>,
    dialer: &Dialer,
    afterwards: &Afterwards,
) -> Result<Response<Body>, NotCarried> {
    let (host, port) = to_origin_form(&mut request)?;
    let upgrade = strip(request.headers_mut());
    let browser = upgrade.is_some().then(|| hyper::upgrade::on(&mut request));

    let bad_site = |source| NotCarried::BadSite { host: host.clone(), source };
    let stream = dialer.dial(&host, port).await?;
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
        // A site may answer and hang up in one go, or hang up without a word; `sent` knows which.
        _ = &mut site => (sent.await, None),
    };
    let mut response = answered.map_err(bad_site)?;

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
    Ok(response.map(|body| Answer { body, site }.boxed_unsync()))
}

/// Rewrites an absolute-form request as its site expects it, and says where that is.
fn to_origin_form(request: &mut Request<Incoming>) -> Result<(String, u16), NotCarried> {
    let uri = request.uri();
    let Some(host) = uri.host().map(str::to_owned) else {
        return Err(NotCarried::NotForProxy("a request must name its site, as in GET http://host/path"));
    };
    if uri.scheme() != Some(&Scheme::HTTP) {
        return Err(NotCarried::NotForProxy("only http:// is carried in the open; use CONNECT for the rest"));
    }
    let authority = uri.port().map_or_else(|| host.clone(), |port| format!("{host}:{port}"));
    let port = uri.port_u16().unwrap_or(80);
    let not_a_host = |_| NotCarried::NotForProxy("the request's host is not one");
    let authority = HeaderValue::try_from(authority).map_err(not_a_host)?;
    let path = uri.path_and_query().cloned().map_or_else(|| Uri::from_static("/"), Uri::from);
    *request.uri_mut() = path;
    *request.version_mut() = Version::HTTP_11;
    request.headers_mut().insert(HOST, authority);
    Ok((host, port))
}

/// Removes what concerns one hop only. An `Upgrade` concerns both when it is really asked for: it stays, and
/// is returned.
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
struct Answer {
    body: Incoming,
    /// `None` once it has said everything; dropping it hangs up.
    site: Option<Site>,
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        // What the connection has to say about its end, the body says too, and in its place.
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
