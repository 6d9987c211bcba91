//! How pictures are sent: as the engine made them, smaller, or as links; which setting decides; and where the whole is.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use greenroom_testkit::{Client, picture::Pixels, text_of};
use serde_json::{Value, json};

use super::super::fixture::{FakeEngineSetup, failure};

/// A picture whose longest side is beyond every limit of these tests.
const WIDE: (u32, u32) = (3136, 40);

async fn take(client: &Client, mut arguments: Value) -> Value {
    arguments["width"] = json!(WIDE.0);
    arguments["height"] = json!(WIDE.1);
    client.call("picture", arguments).await
}

/// The picture's content part.
fn part(answer: &Value) -> &Value {
    &answer["result"]["content"][1]
}

fn size(data: &Value) -> (u32, u32) {
    let pixels = Pixels::decode(&BASE64_STANDARD.decode(data.as_str().unwrap()).unwrap());
    (pixels.width, pixels.height)
}

async fn form(client: &Client, arguments: Value) -> &'static str {
    let answer = take(client, arguments).await;
    let part = part(&answer);
    match part["type"].as_str().unwrap() {
        "resource_link" => "link",
        "image" if size(&part["data"]) == WIDE => "inline",
        "image" => "small",
        _ => panic!("{part}"),
    }
}

/// The resource that an answer names.
async fn resource(client: &Client, uri: &str) -> Value {
    let read = client.request("resources/read", json!({"uri": uri})).await;
    read["result"]["contents"][0].clone()
}

/// A picture beyond the limit is sent smaller, and the answer names the size of the whole and its blob, which is whole. A
/// picture within the limit is sent as it is, without a word about it.
#[tokio::test]
async fn large_pictures_are_sent_small() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let answer = take(&client, json!({})).await;
    assert_eq!(size(&part(&answer)["data"]), (1568, 20));
    assert_eq!(part(&answer)["mimeType"], "image/png");
    let text = text_of(&answer);
    let said = text.lines().find_map(|line| line.strip_prefix("picture: 3136x40, sent as 1568x20; whole: "));
    let uri = said.unwrap_or_else(|| panic!("{text}"));
    assert!(text.contains("ref_id: "), "{text}");
    assert_eq!(size(&resource(&client, uri).await["blob"]), WIDE);

    let fits = client.call("picture", json!({"width": 1568, "height": 1568})).await;
    let raw = client.call("picture", json!({"width": 1568, "height": 1568, "mode": "raw"})).await;
    assert_eq!(part(&fits), part(&raw));
    assert!(!text_of(&fits).contains("sent as"), "{}", text_of(&fits));

    let setup = FakeEngineSetup::new().set("picture_side_pixels", "100");
    let limited = setup.client().await;
    assert_eq!(size(&part(&take(&limited, json!({})).await)["data"]), (100, 1));
}

/// With `link` no picture is in the answer: a resource link is, and the resource is the whole picture. A client of a
/// revision without resource links gets the name as text.
#[tokio::test]
async fn links_replace_pictures() {
    let setup = FakeEngineSetup::new().set("pictures", "link");
    let client = setup.client().await;
    let answer = take(&client, json!({})).await;
    assert!(!answer.to_string().contains("\"image\""), "{answer}");
    let link = part(&answer);
    let uri = link["uri"].as_str().unwrap();
    let bytes = link["size"].as_u64().unwrap();
    assert_eq!(
        link,
        &json!({
            "type": "resource_link", "uri": uri, "name": "picture.png", "description": format!("3136x40, {bytes} bytes"),
            "mimeType": "image/png", "size": bytes,
        })
    );
    let read = resource(&client, uri).await;
    assert_eq!((size(&read["blob"]), &read["mimeType"]), (WIDE, &json!("image/png")));

    for (revision, kind) in [("2025-03-26", "text"), ("2025-06-18", "resource_link")] {
        let client = setup.spawn();
        client.initialize(revision, json!({})).await;
        let answer = take(&client, json!({})).await;
        assert_eq!(part(&answer)["type"], kind, "{revision}");
        if kind == "text" {
            let expected = format!("picture: {uri} (image/png, 3136x40, {bytes} bytes)");
            assert_eq!(part(&answer)["text"], expected);
        }
    }
}

/// A call's `pictures` takes precedence over its pool's, and a pool's over the server's. With `raw` the picture is the
/// engine's, and with `refs` there is none. The error for a wrong value names it.
#[tokio::test]
async fn call_goes_before_pool_and_server() {
    let setup = FakeEngineSetup::new()
        .set("pictures", "link")
        .pools("MAIN_INSTANCES", "1")
        .pools("MAIN_IS_DEFAULT", "true")
        .pools("WHOLE_INSTANCES", "1")
        .pools("WHOLE_PICTURES", "inline");
    let client = setup.client().await;
    assert_eq!(form(&client, json!({})).await, "link");
    assert_eq!(form(&client, json!({"pictures": null})).await, "link");
    assert_eq!(form(&client, json!({"browser_pool": "WHOLE"})).await, "inline");
    for word in ["inline", "small", "link"] {
        assert_eq!(form(&client, json!({"pictures": word})).await, word);
        assert_eq!(form(&client, json!({"browser_pool": "WHOLE", "pictures": word})).await, word);
        assert_eq!(form(&client, json!({"pictures": word, "mode": "raw"})).await, "inline");
        let refs = take(&client, json!({"pictures": word, "mode": "refs"})).await;
        assert_eq!(refs["result"]["content"].as_array().unwrap().len(), 1, "{refs}");
    }
    for wrong in [json!("tiny"), json!(1), json!(["link"])] {
        let (_, text) = failure(&take(&client, json!({"pictures": wrong})).await);
        assert!(text.contains("`pictures` must be one of inline, small, link"), "{text}");
    }
}

/// A picture that cannot be decoded is sent as it is. So is every picture without a record, since the agent could not ask for
/// the whole.
#[tokio::test]
async fn unreadable_and_unrecorded_pictures_stay() {
    let setup = FakeEngineSetup::new().set("picture_side_pixels", "64");
    let client = setup.client().await;
    let raw = client.call("picture", json!({"number": 3, "bytes": 300, "mode": "raw"})).await;
    let small = client.call("picture", json!({"number": 3, "bytes": 300})).await;
    assert_eq!(part(&small), part(&raw));
    for word in ["small", "link"] {
        let setup = FakeEngineSetup::new().set("records.enabled", "false").set("pictures", word);
        let client = setup.client().await;
        assert_eq!(form(&client, json!({})).await, "inline", "{word}");
    }
}
