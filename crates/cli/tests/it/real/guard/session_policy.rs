//! Sessions that narrow their network, from the real binary.

use greenroom_testkit::{
    Launch, Site,
    http::{HttpMcpClient, Server},
    process::{Signal, signal},
    text_of,
};
use serde_json::{Value, json};

use crate::real::{
    fixture::{DataFolder, GatewayFixture, REVISION},
    inspect,
};

/// Two sessions in one browser: one narrows its network. The other reaches the page on loopback, the narrow one is refused
/// with the reason and sends nothing; so does its successor after the browser was killed.
#[tokio::test]
async fn narrow_session_reaches_less_than_its_neighbour() {
    let data = DataFolder::new();
    let (free_site, closed_site) = (Site::start().await, Site::start().await);
    let gateway = GatewayFixture::start(&data, &[]).await;
    let network = json!({ "deny": [format!("127.0.0.1:{}", closed_site.port())] });
    gateway.call("narrow", "create_new_session", json!({ "network": network })).await.ok();
    let listed = gateway.sessions().await;
    assert_eq!(listed[0]["network"], network, "{listed:?}");

    let free = gateway.navigate("free", &closed_site.url("/title?t=free")).await.ok();
    assert!(free.contains("heading \"free\""), "{free}");
    let hits = closed_site.requests().len();
    let refused = async |what: &str| {
        let answer = gateway.navigate("narrow", &closed_site.url("/title")).await.text();
        let why = format!(
            "127.0.0.1:{port} is refused: the session's own `network` refuses it: the rule `127.0.0.1:{port}` denies it",
            port = closed_site.port()
        );
        assert!(answer.contains(&why), "{what}: {answer}");
        let fetch = format!(
            "() => fetch('{}', {{ mode: 'no-cors' }}).then(() => 'tried', () => 'tried')",
            closed_site.url("/")
        );
        gateway.evaluate("narrow", &fetch).await.ok();
        assert_eq!(closed_site.requests().len(), hits, "{what}: a request got through");
    };
    refused("at first").await;
    let open = gateway.navigate("narrow", &free_site.url("/title?t=open")).await.ok();
    assert!(open.contains("heading \"open\""), "{open}");

    let browser = inspect::browsers(gateway.client.pid())[0];
    signal(browser, Signal::KILL);
    gateway.until_lost("narrow").await;
    refused("after a crash").await;
    let listed = gateway.sessions().await;
    let narrow = listed.iter().find(|session| session["id"] == "narrow").unwrap();
    assert_eq!(narrow["network"], network, "{listed:?}");

    let wider = gateway.call("w", "create_new_session", json!({ "network": { "allow": ["x"] } })).await;
    assert!(wider.failed().contains("set `preset` to `guarded`, or use `only`"), "{}", wider.text());
    assert_eq!(wider.code(), "bad_network");
    gateway.end().await;
}

/// Asks for a session over REST.
async fn open(server: &Server, request: &Value) -> (u16, Value) {
    let headers = [("content-type", "application/json")];
    let connection = server.connection().await;
    let mut reply = connection.request("POST", "/api/sessions", &headers, Some(&request.to_string())).await;
    (reply.status, reply.json().await)
}

/// A program opens a session that reaches one site only, over REST; a wider policy than the server's is refused.
#[tokio::test]
async fn programs_narrow_sessions_too() {
    let data = DataFolder::new();
    let (site, other) = (Site::start().await, Site::start().await);
    let allow = format!("127.0.0.1:{},127.0.0.1:{}", site.port(), other.port());
    let launch = Launch::new(env!("CARGO_BIN_EXE_greenroom"))
        .args(["serve", "--listen", "127.0.0.1:0", "--pool-timeout-settle", "0", "--data-dir"])
        .arg(data.path())
        .args(["--network-preset", "guarded", "--network-allow", &allow]);
    let server = Server::start(launch).await;
    let only = json!({ "only": [format!("127.0.0.1:{}", site.port())] });
    let (status, opened) = open(&server, &json!({ "session_id": "one", "network": only })).await;
    assert_eq!((status, &opened["network"]), (201, &only), "{opened}");
    let wider = json!({ "session_id": "two", "network": { "allow": ["10.0.0.0/8"] } });
    let (status, body) = open(&server, &wider).await;
    assert_eq!((status, &body["error"]), (400, &json!("bad_network")), "{body}");
    assert!(body.to_string().contains("`allow` has `10.0.0.0/8`"), "{body}");

    let client = HttpMcpClient::open(&server, REVISION, json!({})).await;
    let visit = async |site: &Site| {
        let arguments = json!({ "url": site.url("/title?t=seen"), "sessionId": "one" });
        text_of(&client.call("browser_navigate", arguments).await)
    };
    let seen = visit(&site).await;
    assert!(seen.contains("heading \"seen\""), "{seen}");
    let unseen = visit(&other).await;
    assert!(unseen.contains("the session's own `network` refuses it: its rules do not name it"), "{unseen}");
    assert_eq!(other.requests(), vec![]);
    assert!(server.stop().await.success());
}
