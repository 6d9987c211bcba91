//! One browser connection: its requests, one after another, and the tunnel that the last one may turn it into.
//!
//! Everything that belongs to a connection runs in its one task and ends with it: the current request, the
//! connection to the site behind it, and the tunnel, which starts where HTTP ends. So a browser that
//! disconnects leaves nothing behind, and the owner of the task owns all of it.

use std::{convert::Infallible, sync::Arc, time::Duration};

use greenroom_core::port::BoxFuture;
use hyper::{Method, Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::net::TcpStream;

use crate::{answer::ResponseBody, forward, port::PortState, tunnel};

/// The largest head of a request or an answer: Chromium's own limit for answers, and far above the cookies that it
/// sends.
pub(crate) const HEAD_BYTES_MAX: usize = 256 * 1024;

/// The most header lines in a head. Chromium has no such limit; hyper's 100 is too low for sites with many policies.
pub(crate) const HEADERS_MAX: usize = 512;

/// How long a connection may be open without a complete request, also between two requests. Chromium opens some
/// connections ahead of need and gives up an unused one after a minute itself. A tunnel has no such limit: a
/// WebSocket may well be silent for an hour.
const REQUEST_WITHIN: Duration = Duration::from_secs(60);

/// What a connection does after its last HTTP response. A request that opens a tunnel puts the tunnel here.
#[derive(Clone, Default)]
pub(crate) struct Afterwards(Arc<Mutex<Option<BoxFuture<'static, ()>>>>);

impl Afterwards {
    pub(crate) fn set(&self, work: impl Future<Output = ()> + Send + 'static) {
        *self.0.lock() = Some(Box::pin(work));
    }

    fn take(&self) -> Option<BoxFuture<'static, ()>> {
        self.0.lock().take()
    }
}

/// Serves one connection to its end.
pub(crate) async fn serve(stream: TcpStream, port: Arc<PortState>) {
    // See `dial`: an answer in small pieces must not wait for acknowledgements.
    let _ = stream.set_nodelay(true);
    let afterwards = Afterwards::default();
    let service = service_fn(|request| {
        let port = port.clone();
        let afterwards = afterwards.clone();
        async move { Ok::<_, Infallible>(answer(request, &port, &afterwards).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_WITHIN)
        .max_header_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .preserve_header_case(true)
        .auto_date_header(false)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    match served {
        Ok(()) => {
            if let Some(tunnel) = afterwards.take() {
                tunnel.await;
            }
        }
        // Browsers often close a connection in the middle of a request; that is no fault.
        Err(error) => tracing::debug!(%error, "a browser's connection ended early"),
    }
}

async fn answer(
    request: Request<Incoming>,
    port: &PortState,
    afterwards: &Afterwards,
) -> Response<ResponseBody> {
    let dialer = &port.shared.dialer;
    let answered = if request.method() == Method::CONNECT {
        tunnel::open(request, port, afterwards).await
    } else {
        forward::carry(request, port, afterwards).await
    };
    match answered {
        Ok(response) => {
            dialer.upstream_works();
            response
        }
        Err(reason) => {
            match dialer.upstream() {
                Some(upstream) if reason.blames_upstream() && dialer.upstream_fails() => {
                    tracing::warn!(%upstream, %reason, "browsers cannot reach the web");
                }
                _ => tracing::debug!(%reason, "request not carried"),
            }
            reason.into_response()
        }
    }
}
