//! Pictures of real pages: with the refs of elements drawn on them, smaller, and as links.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use greenroom_testkit::{Site, case, picture::Pixels};
use serde_json::{Value, json};

use super::fixture::{DataFolder, GatewayFixture, ToolAnswer};

const SHOT: &str = "browser_take_screenshot";

/// How often the page has changed.
const CHANGES: &str = "() => changes";

/// Makes a page: three buttons and a field at known places, a button far below, one in a frame, and a disabled one. The page
/// counts what changes in it.
const PAGE: &str = r#"() => {
    document.body.style.cssText = 'margin:0;height:3000px;background:white';
    const at = (tag, x, y, text) => `<${tag} style="position:absolute;box-sizing:border-box;left:${x}px;top:${y}px;width:120px;height:40px;border:0;background:#eee">${text}`;
    document.body.innerHTML = at('button id=a onclick="this.textContent=`done`"', 100, 100, 'One</button>')
        + at('button', 500, 300, 'Two</button>') + at('button', 900, 600, 'Three</button>')
        + at('input aria-label=Name value=typed', 100, 300, '') + at('button disabled', 100, 500, 'Off</button>')
        + at('button', 700, 2500, 'Below</button>')
        + '<iframe style="position:absolute;left:700px;top:100px;width:300px;height:150px;border:0" srcdoc="<body style=margin:0><button style=\'position:absolute;left:50px;top:60px;width:120px;height:40px;border:0\'>Framed</button>"></iframe>';
    globalThis.changes = 0;
    new MutationObserver(records => { changes += records.length; })
        .observe(document, { attributes: true, characterData: true, childList: true, subtree: true });
    return new Promise(loaded => { document.querySelector('iframe').onload = () => loaded(1); });
}"#;

fn picture(answer: &ToolAnswer) -> Pixels {
    answer.ok();
    let parts = answer.response["result"]["content"].as_array().unwrap();
    let image =
        parts.iter().find(|part| part["type"] == "image").unwrap_or_else(|| panic!("{}", answer.text()));
    Pixels::decode(&BASE64_STANDARD.decode(image["data"].as_str().unwrap()).unwrap())
}

/// The ref of a listed element.
fn listed(text: &str, element: &str) -> String {
    let line = text.lines().find(|line| line.ends_with(&format!(": {element}")));
    let line = line.unwrap_or_else(|| panic!("no {element}: {text}"));
    line.strip_prefix("- ").unwrap().split(':').next().unwrap().to_owned()
}

/// A box of 120 by 40 CSS pixels begins there: its edges have one colour, and the pixels inside and outside another.
#[track_caller]
fn assert_box(pixels: &Pixels, x: u32, y: u32, scale: u32) {
    let colour = pixels.at(x * scale, y * scale);
    let right = (x + 120) * scale - 1;
    let bottom = (y + 40) * scale - 1;
    for (x, y) in [(right, y * scale), (x * scale, bottom), (right, bottom), ((x + 60) * scale, bottom)] {
        assert_eq!(pixels.at(x, y), colour, "{x},{y}");
    }
    for (x, y) in [(right + 1, bottom), ((x + 100) * scale, (y + 30) * scale)] {
        assert_ne!(pixels.at(x, y), colour, "{x},{y}");
    }
    let [red, green, blue] = colour;
    assert!(red.max(green).max(blue) - red.min(green).min(blue) > 60, "no colour of a box: {colour:?}");
}

/// The number that a function in the page returns.
async fn evaluated(gateway: &GatewayFixture, function: &str) -> i64 {
    let text = gateway.evaluate("", function).await.ok();
    let number = text.strip_prefix("### Result\n").and_then(|text| text.lines().next()?.parse().ok());
    number.unwrap_or_else(|| panic!("no number: {text}"))
}

/// One greenroom with two device pixels for each CSS pixel, one case after the other.
#[tokio::test]
async fn pictures_with_two_device_pixels_per_css_pixel() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let flags = ["--pool-device-scale-factor", "2", "--picture-side-pixels", "1280"];
    let gateway = &GatewayFixture::start(&data, &flags).await;
    gateway.navigate("", &site.url("/show")).await.ok();
    assert_eq!(evaluated(gateway, PAGE).await, 1);
    case("viewport_is_annotated", viewport_is_annotated(gateway)).await;
    case("device_pixels_and_whole_pages_are_annotated", device_pixels_and_whole_pages(gateway)).await;
    case("what_cannot_be_annotated_is_refused", refusals(gateway)).await;
    case("large_picture_is_halved", large_picture_is_halved(gateway)).await;
    case("link_is_the_whole_picture", link_is_the_whole_picture(gateway)).await;
}

/// The picture has boxes where the elements are, the answer lists their refs, the page is as it was, and a click on a listed
/// ref works.
async fn viewport_is_annotated(gateway: &GatewayFixture) {
    // The engine hides the caret while it takes a picture.
    let before = evaluated(gateway, CHANGES).await;
    gateway.call("", SHOT, json!({})).await.ok();
    let plain = evaluated(gateway, CHANGES).await - before;
    let shot = gateway.call("", SHOT, json!({ "annotate": true })).await;
    let annotated = evaluated(gateway, CHANGES).await - before - plain;
    assert_eq!(annotated, plain, "the page has changed more than without `annotate`");
    let pixels = picture(&shot);
    assert_eq!((pixels.width, pixels.height), (1280, 720));
    for (x, y) in [(100, 100), (500, 300), (900, 600), (100, 300), (750, 160)] {
        assert_box(&pixels, x, y, 1);
    }
    let text = shot.ok();
    for element in ["button \"Two\"", "button \"Three\"", "textbox \"Name\"", "button \"Framed\""] {
        listed(&text, element);
    }
    assert!(!["Off", "Below", "typed"].iter().any(|word| text.contains(word)), "{text}");
    let target = listed(&text, "button \"One\"");
    gateway.call("", "browser_click", json!({ "target": target })).await.ok();
    assert_eq!(evaluated(gateway, "() => Number(a.textContent == 'done')").await, 1);
    let framed = listed(&text, "button \"Framed\"");
    gateway.call("", "browser_click", json!({ "target": framed })).await.ok();
}

/// Boxes are also right in device pixels, on a page that is scrolled, and in a picture of the whole page.
async fn device_pixels_and_whole_pages(gateway: &GatewayFixture) {
    gateway.evaluate("", "() => scrollTo(0, 80)").await.ok();
    for (arguments, size, scale, scrolled) in [
        (json!({}), (1280, 720), 1, 80),
        (json!({ "scale": "device" }), (2560, 1440), 2, 80),
        (json!({ "fullPage": true }), (1280, 3000), 1, 0),
        (json!({ "fullPage": true, "scale": "device", "type": "webp" }), (2560, 6000), 2, 0),
    ] {
        let mut arguments = arguments;
        arguments["annotate"] = json!(true);
        arguments["pictures"] = json!("inline");
        let shot = gateway.call("", SHOT, arguments.clone()).await;
        let pixels = picture(&shot);
        assert_eq!((pixels.width, pixels.height), size, "{arguments}");
        for (x, y) in [(500, 300), (900, 600), (750, 160)] {
            assert_box(&pixels, x, y - scrolled, scale);
        }
        let has_below = shot.ok().contains("button \"Below\"");
        assert_eq!(has_below, scrolled == 0, "{arguments}");
        if has_below {
            assert_box(&pixels, 700, 2500, scale);
        }
    }
    gateway.evaluate("", "() => scrollTo(0, 0)").await.ok();
}

async fn refusals(gateway: &GatewayFixture) {
    for (arguments, says) in [
        (json!({ "annotate": true, "target": "#a" }), "leave out `target`"),
        (json!({ "annotate": true, "filename": "a.png" }), "leave out `filename`"),
        (json!({ "annotate": "yes" }), "`annotate` must be true or false"),
    ] {
        let refused = gateway.call("", SHOT, arguments).await.failed();
        assert!(refused.contains(says), "{refused}");
    }
}

/// The picture of 2560 by 1440 pixels has half of that in the answer, which says so and names the whole; annotated too.
async fn large_picture_is_halved(gateway: &GatewayFixture) {
    for annotate in [false, true] {
        let shot = gateway.call("", SHOT, json!({ "scale": "device", "annotate": annotate })).await;
        let pixels = picture(&shot);
        assert_eq!((pixels.width, pixels.height), (1280, 720));
        let text = shot.ok();
        assert!(text.contains("picture: 2560x1440, sent as 1280x720; whole: greenroom://blobs/"), "{text}");
    }
}

/// With `link` there is no picture in the answer, and the resource is the whole one.
async fn link_is_the_whole_picture(gateway: &GatewayFixture) {
    let shot = gateway.call("", SHOT, json!({ "scale": "device", "pictures": "link" })).await;
    shot.ok();
    let parts = shot.response["result"]["content"].as_array().unwrap();
    assert!(parts.iter().all(|part| part["type"] != "image"), "{parts:?}");
    let link = parts.iter().find(|part| part["type"] == "resource_link").unwrap();
    let read = gateway.client.request("resources/read", json!({ "uri": link["uri"] })).await;
    let content: &Value = &read["result"]["contents"][0];
    assert_eq!(content["mimeType"], "image/png");
    let data = BASE64_STANDARD.decode(content["blob"].as_str().unwrap()).unwrap();
    assert_eq!(json!(data.len()), link["size"]);
    let pixels = Pixels::decode(&data);
    assert_eq!((pixels.width, pixels.height), (2560, 1440));
}
