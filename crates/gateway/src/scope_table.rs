//! Which scope each route and each tool needs: the one table. A test compares it with the OpenAPI description.

use axum::http::Method;
use greenroom_core::ApiScope::{self, Admin, Browse, Control, Watch};

/// What a request must have to reach its handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteAccess {
    /// Nothing: the answer reveals only that the server runs.
    Open,
    /// A valid key with any scope.
    AnyKey,
    /// A valid key with one of these scopes.
    OneOf(&'static [ApiScope]),
}

use RouteAccess::{AnyKey, OneOf, Open};

/// To read the owner's own things. An agent reads what its calls left, a viewer looks at them.
const READ: RouteAccess = OneOf(&[Browse, Watch]);
const CALL: RouteAccess = OneOf(&[Browse]);
const ADMIN: RouteAccess = OneOf(&[Admin]);

/// Method, path as the router has it, and what it needs. `HEAD` is `GET`.
const ROUTES: &[(Method, &str, RouteAccess)] = &[
    (Method::GET, "/health", Open),
    (Method::GET, "/ready", AnyKey),
    (Method::GET, "/metrics", ADMIN),
    (Method::GET, "/", AnyKey),
    (Method::GET, "/mcp", CALL),
    (Method::POST, "/mcp", CALL),
    (Method::DELETE, "/mcp", CALL),
    (Method::GET, "/front", CALL),
    (Method::GET, "/api/openapi.json", AnyKey),
    (Method::GET, "/api/calls", READ),
    (Method::POST, "/api/calls", CALL),
    (Method::GET, "/api/calls/{ref_id}", READ),
    (Method::GET, "/api/calls/{ref_id}/content", READ),
    (Method::GET, "/api/calls/{ref_id}/console", READ),
    (Method::GET, "/api/blobs", READ),
    (Method::PUT, "/api/blobs", CALL),
    (Method::GET, "/api/blobs/{sha256}", READ),
    (Method::GET, "/api/sessions", READ),
    (Method::POST, "/api/sessions", CALL),
    (Method::GET, "/api/sessions/{id}", READ),
    (Method::DELETE, "/api/sessions/{id}", OneOf(&[Browse, Control])),
    (Method::GET, "/api/sessions/{id}/timeline", READ),
    (Method::GET, "/api/pools", AnyKey),
    (Method::GET, "/api/pools/{name}", AnyKey),
    (Method::GET, "/api/pools/{name}/health", AnyKey),
    (Method::POST, "/api/pools/{name}/scale", ADMIN),
    (Method::POST, "/api/pools/{name}/restart", ADMIN),
    (Method::POST, "/api/pools/{name}/drain", ADMIN),
    (Method::GET, "/api/browsers", AnyKey),
    (Method::POST, "/api/browsers", ADMIN),
    (Method::GET, "/api/browsers/{index}", AnyKey),
    (Method::DELETE, "/api/browsers/{index}", ADMIN),
    (Method::POST, "/api/browsers/{index}/reconnect", ADMIN),
];

/// greenroom's own tools that need more than `browse`, which every call over MCP and REST needs: they change browsers that
/// all owners share.
const TOOLS: [(&str, ApiScope); 3] =
    [("connect_browser", Admin), ("disconnect_browser", Admin), ("reconnect_browser", Admin)];

/// What a request needs. `path` is the route's, or `None` where there is none: then any key gets the 404. A path with
/// another method leads to the 405. A route that is missing in the table needs `admin`.
pub(crate) fn access(method: &Method, path: Option<&str>) -> RouteAccess {
    let Some(path) = path else { return AnyKey };
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let mut of_path = ROUTES.iter().filter(|(_, known, _)| *known == path).peekable();
    if of_path.peek().is_none() {
        return ADMIN;
    }
    of_path.find(|(known, ..)| known == method).map_or(AnyKey, |(.., access)| *access)
}

/// The scope that a tool needs.
pub(crate) fn tool_scope(tool: &str) -> ApiScope {
    TOOLS.iter().find(|(known, _)| *known == tool).map_or(Browse, |(_, scope)| *scope)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The table has every route of the OpenAPI description, and describes no route below `/api` that does not exist.
    #[test]
    fn table_covers_the_openapi_description() {
        let document = serde_json::to_value(crate::rest::document()).unwrap();
        let paths = document["paths"].as_object().unwrap();
        let described: BTreeSet<_> = paths
            .iter()
            .flat_map(|(path, item)| item.as_object().unwrap().keys().map(move |method| (path, method)))
            .filter_map(|(path, method)| {
                let method: Method = method.to_uppercase().parse().unwrap();
                (method != Method::HEAD).then(|| format!("{method} {path}"))
            })
            .collect();
        let listed: BTreeSet<_> = ROUTES
            .iter()
            .filter(|(_, path, _)| path.starts_with("/api/") && *path != "/api/openapi.json")
            .map(|(method, path, _)| format!("{method} {path}"))
            .collect();
        assert_eq!(listed, described);
        assert!(described.len() > 20, "{described:?}");
    }

    /// Every tool in the table exists.
    #[test]
    fn table_names_real_tools() {
        for (tool, _) in TOOLS {
            assert!(crate::tools::find(tool).is_some(), "{tool}");
        }
        assert_eq!(tool_scope("browser_click"), Browse);
        assert_eq!(tool_scope("connect_browser"), Admin);
    }

    /// Only `/health` is open; an unknown method of a known path leads to the 405, and a route that the table lacks needs
    /// `admin`.
    #[test]
    fn unlisted_routes_need_admin() {
        let open: Vec<_> =
            ROUTES.iter().filter(|(.., access)| *access == Open).map(|(_, path, _)| path).collect();
        assert_eq!(open, [&"/health"]);
        assert_eq!(access(&Method::HEAD, Some("/api/blobs/{sha256}")), READ);
        assert_eq!(access(&Method::PUT, Some("/mcp")), AnyKey);
        assert_eq!(access(&Method::GET, Some("/new")), ADMIN);
        assert_eq!(access(&Method::GET, None), AnyKey);
    }
}
