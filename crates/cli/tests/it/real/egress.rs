//! Browsers reach the web, and not greenroom's own ports.

use std::collections::BTreeSet;

use futures_util::{SinkExt, StreamExt};
use greenroom_testkit::{Launch, Site, case, http::Server};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{
    fixture::{DataFolder, GatewayFixture, all},
    inspect,
};

/// Ports that belong to greenroom, or that another greenroom has declared, are out of reach for every page.
#[tokio::test]
async fn pages_reach_no_greenroom_port() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let declared = Site::start().await;
    let run = data.path().join("run/neighbour");
    std::fs::create_dir_all(&run).unwrap();
    std::fs::write(run.join("ports"), format!("{}\n", declared.port())).unwrap();
    let gateway = GatewayFixture::start(&data, &[]).await;
    case("own_ports_are_out_of_reach", own_ports_are_out_of_reach(&data, &site, &gateway)).await;
    case("a_declared_port_sees_nothing", a_declared_port_sees_nothing(&declared, &site, &gateway)).await;
    gateway.end().await;
}

/// No page reaches a debugger, an engine or a proxy: not its own greenroom's, not a neighbour's.
async fn own_ports_are_out_of_reach(data: &DataFolder, site: &Site, gateway: &GatewayFixture) {
    let neighbour = GatewayFixture::start(data, &[]).await;
    neighbour.navigate("victim", &site.url("/title?t=victim")).await.ok();
    gateway.navigate("a", &site.url("/")).await.ok();
    let ports_of =
        |gateway: &GatewayFixture| inspect::ports(&inspect::run_of(data.path(), gateway.client.pid()));
    let own = ports_of(gateway);
    let neighbours = ports_of(&neighbour);
    let what = "CDP proxy and engine of both, and the ports of their egress proxies: for browsers that an \
                engine starts, for the browser itself, and for its one context";
    assert_eq!((own.len(), neighbours.len()), (5, 5), "{what}");
    let ports: Vec<_> = own.into_iter().chain(neighbours).collect();

    // A direct request gets a clear refusal.
    for port in &ports {
        let page = gateway.navigate("a", &format!("http://127.0.0.1:{port}/json/version")).await.ok();
        assert!(page.contains("this port belongs to greenroom"), "port {port}: {page}");
    }
    // Every way of a page to connect, at all ports at once.
    let sessions: Vec<_> = ports.iter().map(|port| format!("at {port}")).collect();
    all(sessions.iter().map(|session| gateway.navigate(session, "about:blank"))).await;
    let pages = async || [pages_of(gateway).await, pages_of(&neighbour).await];
    let before = pages().await;
    assert!(before[0].len() > ports.len() && !before[1].is_empty(), "the browsers have pages: {before:?}");
    all(sessions.iter().zip(&ports).map(|(session, port)| attack(gateway, site, session, *port))).await;
    assert_eq!(pages().await, before, "a page was opened through a debugger");
    neighbour.call("victim", "browser_snapshot", json!({})).await.ok_without_restart();
    neighbour.end().await;
}

/// The attack reaches a port that no greenroom has declared, and fails once another greenroom declares that port.
async fn a_declared_port_sees_nothing(closed: &Site, site: &Site, gateway: &GatewayFixture) {
    let open = &Site::start().await;
    all([open, closed].map(|victim| async move {
        attack(gateway, site, &victim.port().to_string(), victim.port()).await;
    }))
    .await;
    let paths: Vec<_> = open.requests().into_iter().map(|seen| seen.path).collect();
    for path in
        ["/", "/json/version", "/json/new", "/mcp", "/devtools/browser", "/image", "/frame", "/redirected"]
    {
        assert!(paths.iter().any(|seen| seen == path), "the attack never tried {path}: {paths:?}");
    }
    assert_eq!(closed.requests(), [], "the port was reached");
}

/// Pages, redirects, forms and WebSockets work through the proxy.
pub async fn the_web_is_reached(gateway: &GatewayFixture, site: &Site) {
    let other = Site::start().await;
    let to = other.url("/title?t=the%20other%20site").replace(':', "%3A").replace('?', "%3F");
    let page = gateway.navigate("", &site.url(&format!("/redirect?to={to}"))).await.ok();
    assert!(page.contains("heading \"the other site\""), "{page}");
    for host in ["localhost", "sub.localhost", "[::ffff:127.0.0.1]"] {
        let page = gateway.navigate("", &format!("http://{host}:{}/title?t=here", site.port())).await.ok();
        assert!(page.contains("heading \"here\""), "{host}: {page}");
    }
    gateway.navigate("", &site.url("/form")).await.ok();
    let typing = json!({ "target": "input[name=name]", "text": "grün & blau", "submit": true });
    gateway.call("", "browser_type", typing).await.ok();
    let sent = gateway.call("", "browser_snapshot", json!({})).await.ok();
    assert!(sent.contains("grün & blau"), "{sent}");
    assert!(site.requests().iter().any(|seen| seen.method == "POST" && seen.path == "/form"));

    let echo = echo().await;
    let talk = format!(
        "() => new Promise((resolve, reject) => {{ const socket = new WebSocket('ws://127.0.0.1:{echo}/'); \
         socket.onopen = () => socket.send('there and back'); socket.onerror = reject; \
         socket.onmessage = (event) => resolve(event.data); }})"
    );
    assert!(gateway.evaluate("", &talk).await.ok().contains("echo: there and back"));
}

/// No page reaches the port of the server that it belongs to, nor another server's: there it could use other agents'
/// browsers.
#[tokio::test]
async fn pages_reach_no_server_port() {
    let data = DataFolder::new();
    let site = &Site::start().await;
    let flags = ["serve", "--listen", "127.0.0.1:0", "--pool-timeout-settle", "0", "--data-dir"];
    let program = env!("CARGO_BIN_EXE_greenroom");
    let server = Server::start(Launch::new(program).args(flags).arg(data.path())).await;
    let joined = &GatewayFixture::start(&data, &[]).await;
    let alone = &GatewayFixture::start(&data, &["--standalone"]).await;
    let port = server.address().port();
    assert!(inspect::ports(&inspect::run_of(data.path(), server.pid())).contains(&port));
    for gateway in [joined, alone] {
        let page = gateway.navigate("a", &format!("{}/health", server.url())).await.ok();
        assert!(page.contains("this port belongs to greenroom"), "{page}");
        attack(gateway, site, "b", port).await;
        let fetched = gateway.navigate("a", &site.url("/")).await;
        fetched.ok();
        let fetch =
            format!("() => fetch('{}/health', {{ mode: 'no-cors' }}).then((r) => r.text())", server.url());
        assert!(!gateway.evaluate("a", &fetch).await.text().contains("version"));
    }
    let clients = server.get("/metrics").await.body().await;
    assert!(clients.lines().any(|line| line == "greenroom_http_clients 0"), "{clients}");
    assert!(server.stop().await.success());
}

/// Opens the site's attack page for a port, and returns when the page has tried everything.
async fn attack(gateway: &GatewayFixture, site: &Site, session: &str, port: u16) {
    gateway.navigate(session, &site.url(&format!("/attack?port={port}"))).await.ok();
    let done = "async () => { const state = document.getElementById('state'); \
                while (state.textContent !== 'done') await new Promise(requestAnimationFrame); \
                return document.getElementById('outcomes').children.length; }";
    let outcomes = gateway.evaluate(session, done).await.ok();
    assert!(outcomes.contains("### Result\n20"), "not every way was tried: {outcomes}");
    gateway.navigate(session, "about:blank").await.ok();
}

/// The ids of the pages of a greenroom's browsers.
async fn pages_of(gateway: &GatewayFixture) -> BTreeSet<String> {
    let mut pages = BTreeSet::new();
    for engine in inspect::engines(gateway.client.pid()) {
        let targets = inspect::call_browser_of(engine, "Target.getTargets").await;
        let targets = targets["targetInfos"].as_array().unwrap();
        let is_page = |target: &&Value| target["type"] == "page";
        pages.extend(targets.iter().filter(is_page).map(|page| page["targetId"].to_string()));
    }
    pages
}

/// A WebSocket server that echoes every message, on the port that is returned.
async fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        while let Some(Ok(message)) = socket.next().await {
            if let Ok(text) = message.to_text() {
                let _ = socket.send(format!("echo: {text}").into()).await;
            }
        }
    });
    port
}
