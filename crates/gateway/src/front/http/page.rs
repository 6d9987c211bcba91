//! `GET /`: a page for a person who opens the server's address in a browser. It says what greenroom is and how a
//! client connects. It is plain HTML: no scripts, no styles, and it loads nothing.

use std::sync::Arc;

use axum::{extract::State, response::Html};

use super::HttpState;

pub(super) async fn show(State(http_state): State<Arc<HttpState>>) -> Html<String> {
    // The server's own address or the operator's setting, checked to be an origin: nothing in it needs escaping.
    let base_url = http_state.gateway.recall.base_url.get().map_or("http://127.0.0.1:34501", String::as_str);
    Html(page(base_url))
}

fn page(base_url: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "<!doctype html>
<html lang=\"en\">
<head><meta charset=\"utf-8\"><title>greenroom</title></head>
<body>
<h1>greenroom {version}</h1>
<p>This server gives AI agents their own isolated browsers, over MCP. It has no page to work with; an MCP client connects
to it:</p>
<pre>{base_url}/mcp</pre>
<p>For example:</p>
<pre>greenroom setup claude
claude mcp add --transport http greenroom {base_url}/mcp</pre>
<p>What else is here:</p>
<ul>
<li><a href=\"/health\">/health</a>: this process answers</li>
<li><a href=\"/ready\">/ready</a>: a browser can be had</li>
<li><a href=\"/metrics\">/metrics</a>: figures for Prometheus</li>
<li><a href=\"/api/openapi.json\">/api/openapi.json</a>: the interface for programs</li>
</ul>
<p><code>greenroom status</code> shows sessions and browsers in a terminal.</p>
</body>
</html>
"
    )
}
