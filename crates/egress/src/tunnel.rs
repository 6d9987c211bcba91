//! `CONNECT`: carries bytes both ways without reading them. Browsers use it for `https://`, `wss://` and `ws://`.
//!
//! A tunnel has no idle limit, for long silence is normal in a WebSocket. It ends when both sides have
//! ended, when either breaks, or when one side has ended and the other has been silent for
//! [`LINGER`], since the side that ended may be gone for good.

use std::{io, time::Duration};

use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::watch,
    time::sleep,
};

use crate::{
    answer::{self, NotCarried, ResponseBody},
    chain,
    connection::Afterwards,
    dial::OutboundConnection,
    port::PortState,
};

/// How long the other side may stay silent once one side has ended. Until the proxy writes to it, a closed socket
/// looks like one that merely finished sending; a site that never sends again would hold the tunnel open for ever.
const LINGER: Duration = Duration::from_secs(30);

/// One direction's buffer: a TLS record is at most 16 KiB, so each passes in one piece.
const BUFFER_BYTES: usize = 16 * 1024;

/// Connects to the site, or to the upstream that connects to it. The tunnel starts after the browser has the answer.
pub(crate) async fn open(
    request: Request<Incoming>,
    through: &PortState,
    afterwards: &Afterwards,
) -> Result<Response<ResponseBody>, NotCarried> {
    let (Some(host), Some(port)) = (request.uri().host(), request.uri().port_u16()) else {
        return Err(NotCarried::NotForProxy("CONNECT wants host:port"));
    };
    match through.shared.dialer.dial(through, host, port).await? {
        OutboundConnection::ToSite(site) => follow(request, site, afterwards),
        OutboundConnection::ToUpstream { stream, upstream, host, .. } => {
            let site = chain::tunnel(stream, upstream, &format!("{host}:{port}")).await?;
            follow(request, TokioIo::new(site), afterwards);
        }
    }
    Ok(Response::new(answer::empty()))
}

/// Makes the connection a tunnel once hyper has sent the answer: `afterwards` then copies bytes between browser and
/// site.
fn follow(
    request: Request<Incoming>,
    site: impl AsyncRead + AsyncWrite + Send + 'static,
    afterwards: &Afterwards,
) {
    let browser = hyper::upgrade::on(request);
    afterwards.set(async move {
        if let Ok(browser) = browser.await {
            join(TokioIo::new(browser), site).await;
        }
    });
}

/// Carries bytes between the two until both directions are done.
pub(crate) async fn join(browser: impl AsyncRead + AsyncWrite, site: impl AsyncRead + AsyncWrite) {
    let (from_browser, to_browser) = tokio::io::split(browser);
    let (from_site, to_site) = tokio::io::split(site);
    let (browser_ended, seen_by_site) = watch::channel(false);
    let (site_ended, seen_by_browser) = watch::channel(false);
    let up = pump(from_browser, to_site, browser_ended, seen_by_browser);
    let down = pump(from_site, to_browser, site_ended, seen_by_site);
    if let Err(error) = tokio::try_join!(up, down) {
        tracing::debug!(%error, "a tunnel broke");
    }
}

/// Copies one direction until its source ends, or is silent for [`LINGER`] after the other direction has
/// ended.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    end: watch::Sender<bool>,
    mut other_ended: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let silence = async {
            // The other direction reports its end before it drops its sender; if it fails instead, `join`
            // ends both.
            let _ = other_ended.wait_for(|ended| *ended).await;
            sleep(LINGER).await;
        };
        let count = tokio::select! {
            count = from.read(&mut buffer) => count?,
            () = silence => 0,
        };
        if count == 0 {
            break;
        }
        to.write_all(&buffer[..count]).await?;
        to.flush().await?;
    }
    end.send_replace(true);
    to.shutdown().await
}
