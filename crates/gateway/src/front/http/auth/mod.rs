//! Authentication, as one layer before every route: finds out who sends a request, and refuses it otherwise.
//!
//! Handlers get a [`Requester`] from the request's extensions. Where there are no keys, it is `local`. An OAuth issuer
//! would be another source of requesters here, beside [`KeyRing`].

mod credential;
mod key_ring;
mod requester;

use std::{sync::Arc, time::SystemTime};

use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderValue, StatusCode, header::WWW_AUTHENTICATE},
    middleware::Next,
    response::{IntoResponse, Response},
};
use greenroom_core::{ApiKeySecret, ApiScope, api_key::InvalidSecret};

use self::credential::Credential;
use super::{HttpState, listen::ConnectionPeer, refusal};
use crate::{
    rest::RestError,
    scope_table::{self, RouteAccess},
};

pub use self::{
    key_ring::{EndedKeys, KeyRing},
    requester::{RequestEnd, Requester},
};

/// The paths that `server.public_probes` opens.
const PROBES: [&str; 2] = ["/ready", "/metrics"];

/// Why a request is refused.
#[derive(Debug)]
enum AuthRefusal {
    KeyInQuery(&'static str),
    NoKey,
    Unreadable(&'static str),
    Incomplete,
    NotValid,
    MissingScope(&'static [ApiScope]),
}

/// Passes a request on with its requester.
pub(super) async fn authenticate(
    State(http_state): State<Arc<HttpState>>,
    mut request: Request,
    next: Next,
) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let access = scope_table::access(request.method(), route);
    let is_open = access == RouteAccess::Open
        || http_state.public_probes && route.is_some_and(|route| PROBES.contains(&route));
    if !is_open {
        match requester(&http_state, &request, access) {
            Ok(requester) => {
                request.extensions_mut().insert(requester);
            }
            Err(why) => {
                let peer = request.extensions().get::<ConnectionPeer>().copied();
                let client = http_state
                    .rules
                    .as_ref()
                    .zip(peer)
                    .and_then(|(rules, peer)| rules.client(peer, request.headers()));
                tracing::debug!(?why, ?client, "refused a request");
                return why.response(request.uri().path());
            }
        }
    }
    next.run(request).await
}

fn requester(
    http_state: &HttpState,
    request: &Request,
    access: RouteAccess,
) -> Result<Requester, AuthRefusal> {
    let Some(keys) = &http_state.keys else {
        return Ok(Requester::local(RequestEnd::with_server(&http_state.stop)));
    };
    if let Some(requester) = keys.keyless() {
        return Ok(requester);
    }
    if let Some(name) = credential::query_name(request.uri()) {
        return Err(AuthRefusal::KeyInQuery(name));
    }
    let credential = Credential::from_headers(request.headers());
    // Every request takes the same steps, so that the time of an answer does not tell which of them failed.
    let text = if let Credential::Given(text) = credential { text } else { "" };
    let found = keys.find(text, SystemTime::now());
    let parsed = ApiKeySecret::parse(text);
    let requester = match (credential, found) {
        (Credential::Given(_), Some(requester)) => requester,
        (Credential::Given(_), None) if parsed == Err(InvalidSecret::Incomplete) => {
            return Err(AuthRefusal::Incomplete);
        }
        (Credential::Given(_), None) => return Err(AuthRefusal::NotValid),
        (Credential::Missing, _) => return Err(AuthRefusal::NoKey),
        (Credential::Unreadable(why), _) => return Err(AuthRefusal::Unreadable(why)),
    };
    match access {
        RouteAccess::OneOf(scopes) if !scopes.iter().any(|scope| requester.scopes.has(*scope)) => {
            Err(AuthRefusal::MissingScope(scopes))
        }
        _ => Ok(requester),
    }
}

impl AuthRefusal {
    fn status(&self) -> StatusCode {
        match self {
            Self::KeyInQuery(_) => StatusCode::BAD_REQUEST,
            Self::MissingScope(_) => StatusCode::FORBIDDEN,
            Self::NoKey | Self::Unreadable(_) | Self::Incomplete | Self::NotValid => StatusCode::UNAUTHORIZED,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::KeyInQuery(_) => "key_in_query",
            Self::MissingScope(_) => "missing_scope",
            Self::NoKey | Self::Unreadable(_) | Self::Incomplete | Self::NotValid => "unauthorized",
        }
    }

    fn message(&self) -> String {
        const WHERE: &str = "send it as `Authorization: Bearer KEY` or as `x-api-key: KEY`";
        match self {
            Self::KeyInQuery(name) => format!(
                "an API key does not belong in the address, where logs keep it: `{name}`\n\nhint: {WHERE}; if the key was real, replace it with `greenroom keys rotate`"
            ),
            Self::NoKey => format!("this server needs an API key\n\nhint: {WHERE}"),
            Self::Unreadable(why) => format!("this server needs an API key: {why}\n\nhint: {WHERE}"),
            Self::Incomplete => {
                "the API key is not whole: a part of it is missing or mistyped\n\nhint: copy all of it, from `grm_` on"
                    .to_owned()
            }
            // The same for all: only the holder of a key may learn what became of it, from the operator.
            Self::NotValid => "the API key is not valid: it is unknown, has expired, or was revoked\n\nhint: ask the operator of this server for a key"
                .to_owned(),
            Self::MissingScope(scopes) => format!(
                "the API key lacks the scope {}\n\nhint: ask the operator of this server for a key that has it",
                names(scopes, " or ", "`")
            ),
        }
    }

    /// RFC 6750 has the form of the header.
    fn challenge(&self) -> String {
        let realm = "Bearer realm=\"greenroom\"";
        match self {
            Self::NoKey | Self::KeyInQuery(_) => realm.to_owned(),
            Self::MissingScope(scopes) => {
                format!("{realm}, error=\"insufficient_scope\", scope=\"{}\"", names(scopes, " ", ""))
            }
            Self::Unreadable(_) | Self::Incomplete | Self::NotValid => {
                format!("{realm}, error=\"invalid_token\"")
            }
        }
    }

    /// The answer in the format of the path: REST's below `/api`, JSON-RPC's elsewhere.
    fn response(&self, path: &str) -> Response {
        let status = self.status();
        let mut response = if is_rest(path) {
            RestError::refused(status, self.code(), self.message()).into_response()
        } else {
            refusal::because(status, self.message())
        };
        if let Ok(challenge) = HeaderValue::from_str(&self.challenge()) {
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

fn is_rest(path: &str) -> bool {
    path == "/api" || path.starts_with("/api/")
}

fn names(scopes: &[ApiScope], between: &str, quote: &str) -> String {
    scopes.iter().map(|scope| format!("{quote}{scope}{quote}")).collect::<Vec<_>>().join(between)
}
