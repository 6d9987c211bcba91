//! A page of another origin in an ordinary browser without greenroom's proxy: what it can make the server do.

use greenroom_testkit::{
    Site, UserBrowser,
    http::{HttpMcpClient, Server},
};
use serde_json::{Value, json};

use crate::front::fixture::{FakeEngineSetup, NEWEST};

/// Requests that a page can make to a URL without its browser sending the page's origin. Each ends when the browser has an
/// answer, or has given up.
const WAYS: [(&str, &str); 6] = [
    ("fetch", "fetch(url, {mode: 'no-cors'}).then(done, done)"),
    ("picture", "const it = new Image(); it.onload = it.onerror = done; it.src = url"),
    (
        "script",
        "const it = document.createElement('script'); it.onload = it.onerror = done; it.src = url; document.head.append(it)",
    ),
    (
        "frame",
        "const it = document.createElement('iframe'); it.onload = it.onerror = done; it.src = url; document.body.append(it)",
    ),
    ("events", "const it = new EventSource(url); it.onerror = () => { it.close(); done() }"),
    (
        "window",
        "const it = window.open(url); const look = setInterval(() => { try { it.location.href } catch { clearInterval(look); it.close(); done() } }, 10)",
    ),
];

/// Makes a call and returns the address of its content. Reading that moves the cursor.
async fn call(server: &Server, client: &HttpMcpClient, text: &str) -> String {
    client.call("echo", json!({"text": text})).await;
    let calls = server.get("/api/calls?limit=1").await.json().await;
    format!("/api/calls/{}/content", calls["calls"][0]["ref_id"].as_str().unwrap())
}

async fn read(server: &Server, path: &str) -> Value {
    server.get(path).await.json().await["content"].clone()
}

/// Pictures, scripts, frames, links, event streams and blind fetches of a page, from another port of this machine and from
/// another site, reach nothing: the cursor has not moved. An address that a person types is served, and a script in that
/// answer could load nothing.
#[tokio::test]
async fn page_of_another_origin_cannot_use_the_server() {
    let setup = FakeEngineSetup::new();
    let site = Site::start().await;
    let server = setup.serve().await;
    let client = HttpMcpClient::open(&server, NEWEST, json!({})).await;
    let user_browser = UserBrowser::showing(&site.url("/title?t=evil")).await;
    let page = user_browser.tabs().await[0].id.clone();
    let port = server.address().port();
    for (relation, host) in [("same-site", "127.0.0.1"), ("cross-site", "localhost")] {
        for (way, code) in WAYS {
            let text = format!("{relation} {way}");
            let path = call(&server, &client, &text).await;
            let url = format!("http://{host}:{port}{path}");
            let code = format!("new Promise(done => {{ const url = '{url}'; {code} }}).then(() => 'done')");
            assert_eq!(user_browser.evaluate(&page, &code).await, "done", "{text}");
            assert_eq!(read(&server, &path).await, text, "it is still new");
        }
    }

    let path = call(&server, &client, "typed").await;
    let own = user_browser.open(&format!("http://127.0.0.1:{port}{path}")).await;
    assert_eq!(user_browser.evaluate(&own, "document.body.innerText.includes('typed')").await, true);
    let status = "fetch('/api/calls').then(reply => reply.status, () => 'blocked')";
    assert_eq!(user_browser.evaluate(&own, status).await, "blocked");
}
