//! Kept files and records as MCP resources: with a handshake and without one.

use greenroom_testkit::http::{STATELESS, Server, stateless};
use serde_json::{Value, json};

use super::http_client;
use crate::front::fixture::{FakeEngineSetup, error};

/// A stateless request, with its headers.
async fn ask(server: &Server, method: &str, params: Value) -> (u16, Value) {
    let request = stateless(1, method, params, json!({}));
    let mut reply = server.post_stateless(&request).await;
    (reply.status, reply.json().await)
}

/// Files of answers and templates are listed and read; each revision has its own code for a missing resource.
#[tokio::test]
async fn resources_are_listed_and_read() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = http_client(&server).await;
    client.call("echo", json!({"text": "a", "rich": true, "sessionId": "a"})).await;
    let list = client.request("resources/list", json!({})).await["result"].take();
    let picture = list["resources"].as_array().unwrap().iter().find(|one| one["mimeType"] == "image/png");
    let uri = picture.unwrap()["uri"].clone();
    let read = client.request("resources/read", json!({ "uri": uri })).await["result"].take();
    let data = read["contents"][0]["blob"].as_str().unwrap();
    assert!(data.starts_with("iVBORw0KGgo"), "{read}");
    let templates = client.request("resources/templates/list", json!({})).await["result"].take();
    assert_eq!(templates["resourceTemplates"].as_array().unwrap().len(), 2);
    let absent = json!({"uri": "greenroom://blobs/none"});
    let refused = client.request("resources/read", absent.clone()).await;
    assert_eq!((error(&refused).0, &refused["error"]["data"]), (-32002, &absent));

    let (_, discovered) = ask(&server, "server/discover", json!({})).await;
    assert_eq!(discovered["result"]["capabilities"]["resources"], json!({}));
    for (method, params) in [
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({ "uri": uri })),
    ] {
        let (_, answer) = ask(&server, method, params).await;
        let result = &answer["result"];
        assert_eq!((&result["resultType"], &result["cacheScope"]), (&json!("complete"), &json!("private")));
        assert!(result["ttlMs"].is_u64(), "{answer}");
    }
    let (_, refused) = ask(&server, "resources/read", absent.clone()).await;
    assert_eq!((error(&refused).0, &refused["error"]["data"]), (-32602, &absent));
}

/// The header must name the resource that the body names.
#[tokio::test]
async fn header_must_match_the_resource_in_the_body() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let request = stateless(1, "resources/read", json!({"uri": "greenroom://blobs/a"}), json!({}));
    for name in [None, Some("greenroom://blobs/b")] {
        let mut headers = vec![
            ("content-type", "application/json"),
            ("mcp-protocol-version", STATELESS),
            ("mcp-method", "resources/read"),
        ];
        headers.extend(name.map(|name| ("mcp-name", name)));
        let mut reply =
            server.connection().await.request("POST", "/mcp", &headers, Some(&request.to_string())).await;
        assert_eq!((reply.status, error(&reply.json().await).0), (400, -32020));
    }
}

/// Where nothing is recorded, resources are not offered, and the methods do not exist.
#[tokio::test]
async fn disabled_records_offer_no_resources() {
    let setup = FakeEngineSetup::new().set("records.enabled", "false");
    let server = setup.serve().await;
    let (_, discovered) = ask(&server, "server/discover", json!({})).await;
    assert_eq!(discovered["result"]["capabilities"].get("resources"), None);
    let (status, refused) = ask(&server, "resources/list", json!({})).await;
    assert_eq!((status, error(&refused).0), (404, -32601));
    let refused = http_client(&server).await.request("resources/list", json!({})).await;
    assert_eq!(error(&refused).0, -32601);
}
