//! The proxy's own answers: this module turns a reason into a status, a header and a line of text.
//!
//! The text is for people who look at the page or read the log; `x-greenroom-refused` is for programs, and
//! tells a refusal apart from a 403 that a site sent itself.

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full, combinators::UnsyncBoxBody};
use hyper::{
    Response, StatusCode,
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
};

use crate::{chain::Unhelpful, dial::NoConnection};

/// A body on its way to a browser, streamed.
pub(crate) type ResponseBody = UnsyncBoxBody<Bytes, hyper::Error>;

const REFUSED: HeaderName = HeaderName::from_static("x-greenroom-refused");

/// Why the proxy does not carry a request to its site.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotCarried {
    #[error("this is a proxy, not a site: {0}")]
    NotForProxy(&'static str),
    #[error(transparent)]
    NoConnection(#[from] NoConnection),
    #[error("{host} gave no usable answer: {source}")]
    BadSite { host: String, source: hyper::Error },
    #[error(transparent)]
    Unhelpful(#[from] Unhelpful),
}

/// The refusal of a host that may not stand in a request line or a header.
pub(crate) const NOT_A_HOST: NotCarried = NotCarried::NotForProxy("the request's host is not one");

impl NotCarried {
    /// Whether the upstream proxy is at fault and not the request, so that other requests fail too.
    pub(crate) fn blames_upstream(&self) -> bool {
        match self {
            Self::NoConnection(NoConnection::NoUpstream(_)) => true,
            Self::Unhelpful(unhelpful) => !matches!(unhelpful, Unhelpful::Refused { .. }),
            Self::NoConnection(_) | Self::NotForProxy(_) | Self::BadSite { .. } => false,
        }
    }

    pub(crate) fn into_response(self) -> Response<ResponseBody> {
        let status = match &self {
            Self::NotForProxy(_) => StatusCode::BAD_REQUEST,
            Self::NoConnection(NoConnection::Blocked { .. }) => StatusCode::FORBIDDEN,
            Self::NoConnection(_) | Self::BadSite { .. } => StatusCode::BAD_GATEWAY,
            Self::Unhelpful(unhelpful) => unhelpful.status(),
        };
        let mut response = Response::new(text(format!("greenroom: {self}\n")));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        if let Self::NoConnection(NoConnection::Blocked { reason, .. }) = &self {
            headers.insert(REFUSED, HeaderValue::from_static(reason.word()));
        }
        response
    }
}

fn text(text: String) -> ResponseBody {
    Full::from(text).map_err(|never| match never {}).boxed_unsync()
}

pub(crate) fn empty() -> ResponseBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}
