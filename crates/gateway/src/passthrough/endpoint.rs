//! Decides where a request other than a tool call goes: to which custom MCP server, and in which session
//! there, if in any.
//!
//! If the request names a session, it goes to the server in which that session lives; a session with a browser is
//! refused. Otherwise the request goes to the first pool whose engine is a custom server, the default pool before
//! others, in the session that a tool call without `sessionId` has there, if there is one.

use greenroom_core::{Fields, SessionId};
use greenroom_fleet::SessionKey;
use greenroom_mcp::{RpcError, error::INVALID_PARAMS};

use super::PassthroughMethod;
use crate::{
    Gateway, caller::Caller, catalog::CustomPool, error_response::ErrorResponse, session_key::resolve_session,
};

/// The field of `_meta` in which a request names its session.
pub(crate) const SESSION: &str = "greenroom/sessionId";

pub(super) struct PassthroughTarget {
    pub(super) pool: String,
    pub(super) session_key: SessionKey,
}

impl PassthroughTarget {
    /// Decides where the request goes.
    pub(super) async fn resolve(
        gateway: &Gateway,
        caller: &Caller,
        method: PassthroughMethod,
        session: Option<SessionId>,
    ) -> Result<Self, ErrorResponse> {
        let is_named = session.is_some();
        let session_key = resolve_session(gateway, caller, session).await;
        let home = session_key
            .as_ref()
            .ok()
            .and_then(|session_key| gateway.fleet.session_pool(&caller.owner, session_key));
        let pool = server(gateway, method).map_or_else(String::new, |server| server.pool.to_string());
        match (session_key, home) {
            // Browser engines have none of these methods, and the request would bypass the checks that guard tools.
            (Ok(_), Some(home)) if is_named && !is_server(gateway, &home) => {
                Err(ErrorResponse::not_a_server(method.name, &home))
            }
            (Ok(session_key), Some(home)) if is_named || home == pool => Ok(Self { pool: home, session_key }),
            (Ok(session_key), None) if is_named => Ok(Self { pool, session_key }),
            // A connection's own session is opened in the default pool, so that must be the server's pool.
            (Ok(session_key @ SessionKey::Connection(_)), None)
                if method.needs_session && pool == gateway.fleet.default_pool() =>
            {
                Ok(Self { pool, session_key })
            }
            _ if method.needs_session => Err(ErrorResponse::lasting_session_required(method.name, SESSION)),
            _ => Ok(Self { pool, session_key: SessionKey::Ephemeral }),
        }
    }
}

fn is_server(gateway: &Gateway, pool: &str) -> bool {
    gateway.catalog.engine(pool).is_some_and(|engine| engine.is_server())
}

/// The server to ask when the request names no session: the first that declares the capability. A server whose
/// capabilities are unknown is tried last.
pub(super) fn server(gateway: &Gateway, method: PassthroughMethod) -> Option<CustomPool> {
    let servers = gateway.catalog.servers();
    let has = |server: &CustomPool| -> Option<bool> {
        let known = Fields::open(&server.introduction.as_ref()?.capabilities).ok()?;
        Some(known.get(method.capability).is_some())
    };
    let found =
        [Some(true), None].into_iter().find_map(|wanted| servers.iter().position(|one| has(one) == wanted));
    found.and_then(|at| servers.into_iter().nth(at))
}

/// Takes the session that the request names out of `_meta`, so that the engine does not see it.
pub(super) fn take_session(params: &mut Fields) -> Result<Option<SessionId>, RpcError> {
    let wrong = |why: String| RpcError::new(INVALID_PARAMS, why);
    let Some(meta) = params.get("_meta").filter(|meta| meta.get() != "null") else { return Ok(None) };
    let mut meta = Fields::open(meta).map_err(|_| wrong("`_meta` must be an object".to_owned()))?;
    let named = meta.guarded::<String>(SESSION).map_err(|error| wrong(error.to_string()))?;
    if meta.remove(SESSION).is_some() {
        params.set("_meta", meta.to_raw());
    }
    named
        .map(|named| SessionId::new(&named).map_err(|error| wrong(format!("`{SESSION}`: {error}"))))
        .transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The session is absent, named, or an error; a session that cannot be read never sends the request to another
    /// session.
    #[test]
    fn session_is_read_from_meta() {
        let take = |params: &str| {
            let raw = greenroom_core::raw::parse(params.to_owned()).unwrap();
            take_session(&mut Fields::open(&raw).unwrap()).map(|id| id.map(|id| id.to_string()))
        };
        assert_eq!(take(r#"{"_meta":{"greenroom/sessionId":"s","a":1}}"#).unwrap().as_deref(), Some("s"));
        for absent in ["{}", r#"{"_meta":null}"#, r#"{"_meta":{}}"#] {
            assert_eq!(take(absent).unwrap(), None, "{absent}");
        }
        for odd in [
            r#"{"_meta":[]}"#,
            r#"{"_meta":"greenroom/sessionId"}"#,
            r#"{"_meta":{"greenroom/sessionId":5}}"#,
            r#"{"_meta":{"greenroom/sessionId":"\ud800"}}"#,
            r#"{"_meta":{"greenroom/sessionId":""}}"#,
        ] {
            assert_eq!(take(odd).unwrap_err().code, INVALID_PARAMS, "{odd}");
        }
    }
}
