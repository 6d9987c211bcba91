//! Sizes that tools ask for, with both engines.

use greenroom_core::{Reply, Toolset, raw};
use serde_json::{Value, json};

use super::{PlaywrightFixture, body, devtools, text};

/// Every argument of every tool that may be a size, as `tool.argument`.
fn size_arguments(tools: &Toolset) -> Vec<String> {
    fn collect_sizes(path: &str, schema: &Value, found: &mut Vec<String>) {
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            let lower = name.to_lowercase();
            // Lists are split into pages of a number of lines; these are no sizes.
            let is_size = ["width", "height", "size", "scale", "viewport", "fps", "factor"]
                .iter()
                .any(|word| lower.contains(word) && lower != "pagesize");
            if is_size && schema["enum"].is_null() {
                found.push(path.clone());
            }
            collect_sizes(&path, schema, found);
        }
    }
    let mut found = Vec::new();
    for tool in &tools.tools {
        let definition: Value = serde_json::from_str(tool.definition.get()).unwrap();
        collect_sizes(&tool.name, &definition["inputSchema"], &mut found);
    }
    found.sort();
    found
}

fn refused(reply: &Reply) -> bool {
    reply.is_failure() && body(reply).contains(r#""code":"size_refused""#)
}

/// The guard knows every size that the pinned engines' tools take: a new one makes this fail.
pub fn every_size_is_known(playwright: &Toolset, devtools: &Toolset) {
    assert_eq!(
        size_arguments(playwright),
        [
            "browser_resize.height",
            "browser_resize.width",
            "browser_start_video.fps",
            "browser_start_video.size",
            "browser_start_video.size.height",
            "browser_start_video.size.width",
        ]
    );
    assert_eq!(size_arguments(devtools), ["emulate.viewport", "resize_page.height", "resize_page.width"]);
}

/// A call for a larger page than settings allow leaves the page's size unchanged; a call within the limit changes it.
pub async fn playwright_refuses_large_sizes(fixture: &mut PlaywrightFixture) {
    fixture.navigate("/title?t=small").await;
    for arguments in [
        r#"{"width": 100000, "height": 100000}"#,
        r#"{"width": 16384, "height": 16384}"#,
        r#"{"width": 1280, "height": 1e9}"#,
        r#"{"width": "100000", "height": 720}"#,
    ] {
        let params =
            raw::parse(format!(r#"{{"name": "browser_resize", "arguments": {arguments}}}"#)).unwrap();
        let reply = fixture.try_call("browser_resize", params).await;
        assert!(refused(&reply), "{arguments}: {}", text(&reply));
    }
    let size = "() => `${innerWidth}x${innerHeight}`";
    assert!(text(&fixture.evaluate(size).await).contains("1280x720"));
    fixture.call("browser_resize", json!({ "width": 3840, "height": 2160 })).await;
    assert!(text(&fixture.evaluate(size).await).contains("3840x2160"));
}

/// The same with the devtools engine, by a size and by a viewport to emulate.
pub async fn devtools_refuses_large_sizes(
    fixture: &devtools::DevtoolsFixture,
    seat: &mut devtools::DevtoolsSeat,
) {
    seat.navigate(&fixture.site.url("/title?t=small")).await;
    let before = seat.evaluate("() => [innerWidth, innerHeight]").await;
    for (tool, arguments) in [
        ("resize_page", json!({ "pageId": 1, "width": 100_000, "height": 100_000 })),
        ("emulate", json!({ "pageId": 1, "viewport": "100000x100000x1" })),
        ("emulate", json!({ "pageId": 1, "viewport": "1280x720x100,mobile" })),
    ] {
        let reply = seat.try_call(tool, arguments.clone()).await.unwrap();
        assert!(refused(&reply), "{tool} {arguments}: {}", text(&reply));
    }
    assert_eq!(seat.evaluate("() => [innerWidth, innerHeight]").await, before);
    seat.call("emulate", json!({ "pageId": 1, "viewport": "412x823x2,mobile,touch" })).await;
    assert_eq!(seat.evaluate("() => [screen.width, devicePixelRatio]").await, json!([412, 2]));
}
