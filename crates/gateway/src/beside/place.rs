//! Where a request goes: to a server of somebody else's, in a session there or in none.
//!
//! A session that is named decides by where it lives. Otherwise it is the first pool whose engine is such a server, the
//! default one before others, in the session that a tool call without `sessionId` has there, if it has one.

use greenroom_core::{Fields, SessionId};
use greenroom_fleet::Whose;
use greenroom_mcp::{RpcError, error::INVALID_PARAMS};

use super::Method;
use crate::{Gateway, call::Caller, catalog::Server, rescue::Failure, whose::whose};

/// Where a request says which session it is for.
const SESSION: &str = "greenroom/sessionId";

pub(super) struct Place {
    pub(super) pool: String,
    pub(super) whose: Whose,
}

impl Place {
    /// The place of a request, if a server may have what it asks for.
    pub(super) fn of(
        gateway: &Gateway,
        caller: &Caller,
        method: Method,
        session: Option<SessionId>,
    ) -> Result<Self, Failure> {
        let is_named = session.is_some();
        let whose = whose(gateway, caller, session);
        let home = whose.as_ref().ok().and_then(|whose| gateway.fleet.home(&caller.owner, whose));
        let pool = server(gateway, method).map_or_else(String::new, |server| server.pool.to_string());
        match (whose, home) {
            (Ok(whose), Some(home)) if is_named || home == pool => Ok(Self { pool: home, whose }),
            (Ok(whose), None) if is_named => Ok(Self { pool, whose }),
            // What a connection's own session is made for is the default pool's.
            (Ok(whose @ Whose::Connection(_)), None)
                if method.stays && pool == gateway.fleet.default_pool() =>
            {
                Ok(Self { pool, whose })
            }
            _ if method.stays => Err(Failure::session_to_stay(method.name, SESSION)),
            _ => Ok(Self { pool, whose: Whose::NoOne }),
        }
    }
}

/// The server that is asked when no session says which. One that is not known yet may have anything.
pub(super) fn server(gateway: &Gateway, method: Method) -> Option<Server> {
    gateway.catalog.servers().into_iter().find(|server| {
        let known = server.introduction.as_ref().and_then(|said| Fields::open(&said.capabilities).ok());
        known.is_none_or(|known| known.get(method.of).is_some())
    })
}

/// The session that is named in `_meta`, which the engine does not hear of.
pub(super) fn take_session(params: &mut Fields) -> Result<Option<SessionId>, RpcError> {
    let Some(mut meta) = params.get("_meta").and_then(|meta| Fields::open(meta).ok()) else {
        return Ok(None);
    };
    let Some(named) = meta.remove(SESSION) else { return Ok(None) };
    params.set("_meta", meta.to_raw());
    let wrong = |why: &dyn std::fmt::Display| RpcError::new(INVALID_PARAMS, format!("`{SESSION}`: {why}"));
    let named: String = serde_json::from_str(named.get()).map_err(|error| wrong(&error))?;
    SessionId::new(&named).map(Some).map_err(|error| wrong(&error))
}
