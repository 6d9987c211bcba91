//! Where a request goes: to a server of somebody else's, in a session there or in none.
//!
//! A session that is named decides by where it lives; one with a browser is refused. Otherwise it is the first pool whose engine is such a server, the
//! default one before others, in the session that a tool call without `sessionId` has there, if it has one.

use greenroom_core::{Fields, SessionId};
use greenroom_fleet::Whose;
use greenroom_mcp::{RpcError, error::INVALID_PARAMS};

use super::Method;
use crate::{Gateway, call::Caller, catalog::Server, rescue::Failure, whose::whose};

/// Where a request says which session it is for.
pub(crate) const SESSION: &str = "greenroom/sessionId";

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
            // A session with a browser has nothing of the kind, and what is asked of it would pass by all that guards tools.
            (Ok(_), Some(home)) if is_named && !is_server(gateway, &home) => {
                Err(Failure::not_a_server(method.name, &home))
            }
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

fn is_server(gateway: &Gateway, pool: &str) -> bool {
    gateway.catalog.engine(pool).is_some_and(|engine| engine.is_server())
}

/// The server that is asked when no session says which: the first that has said that it has this. One that was never asked
/// may have anything, and is asked if there is no other.
pub(super) fn server(gateway: &Gateway, method: Method) -> Option<Server> {
    let servers = gateway.catalog.servers();
    let has = |server: &Server| -> Option<bool> {
        let known = Fields::open(&server.introduction.as_ref()?.capabilities).ok()?;
        Some(known.get(method.of).is_some())
    };
    let found =
        [Some(true), None].into_iter().find_map(|wanted| servers.iter().position(|one| has(one) == wanted));
    found.and_then(|at| servers.into_iter().nth(at))
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
