//! The engine's answers, and what the adapter finds in them.

use greenroom_core::{Engine, record::Level, settings::Viewport};
use greenroom_testkit::{Site, case};
use serde_json::{Value, json};

use super::{
    super::{body, text},
    Room, Sitter, data_folder, engine, uid,
};

/// The engine lists its tools without a browser, and each has a parameter for its page.
#[tokio::test]
async fn tools_need_no_browser() {
    let site = Site::start().await;
    let data = data_folder();
    let engine =
        engine(data.path(), site.port(), |options| options.pool.executable_path = Some("/nowhere".into()));
    let tools = engine.tools().await.unwrap().tools;
    let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(
        names,
        [
            "click",
            "close_page",
            "drag",
            "emulate",
            "evaluate_script",
            "fill",
            "fill_form",
            "get_console_message",
            "get_css_styles",
            "get_network_request",
            "handle_dialog",
            "hover",
            "lighthouse_audit",
            "list_console_messages",
            "list_network_requests",
            "list_pages",
            "navigate_page",
            "new_page",
            "performance_analyze_insight",
            "performance_start_trace",
            "performance_stop_trace",
            "press_key",
            "resize_page",
            "screencast_start",
            "screencast_stop",
            "select_page",
            "take_heapsnapshot",
            "take_screenshot",
            "take_snapshot",
            "type_text",
            "upload_file",
            "wait_for",
        ]
    );
    let click = tools.iter().find(|tool| &*tool.name == "click").unwrap();
    assert!(click.definition.get().contains("pageId"), "{}", click.definition);
    // Tools about pages require one; all others act on the selected one.
    let needs_page = |definition: &str| {
        let definition: Value = serde_json::from_str(definition).unwrap();
        definition["inputSchema"]["required"].as_array().is_some_and(|names| names.contains(&json!("pageId")))
    };
    let needing: Vec<&str> =
        tools.iter().filter(|tool| needs_page(tool.definition.get())).map(|tool| &*tool.name).collect();
    assert_eq!(needing, ["close_page", "select_page"]);
}

/// Snapshots are kept, whether a tool shows the page by itself, was asked to, or put it into a file for the agent; and all
/// are the same. As data they are trees. Fields for secrets are known by their references.
pub async fn snapshots(room: &Room, sitter: &mut Sitter) {
    sitter.navigate(&room.site.url("/title?t=C%3A%5C%20%22x%22")).await;
    // A call that names no page means the selected one.
    let unnamed = sitter.call("take_snapshot", json!({})).await;
    let shown = sitter.call("take_snapshot", json!({ "pageId": 1 })).await;
    assert_eq!(text(&unnamed), text(&shown));
    let shot = sitter.call("take_screenshot", json!({ "format": "png" })).await;
    assert!(body(&shot).contains(r#""type":"image""#), "{shot:?}");
    let snapshot = shown.snapshot_text().unwrap().clone();
    assert!(snapshot.contains(r#"heading "C:\ "x"" level="1""#), "{snapshot}");
    let tree = room.engine.format().data("take_snapshot", "", Some(&snapshot)).unwrap();
    assert_eq!(tree[0]["children"][0]["name"], "C:\\ \"x\"");

    let asked = json!({ "pageId": 1, "uid": uid(&snapshot, "heading"), "includeSnapshot": true });
    let clicked = sitter.call("click", asked).await;
    assert_eq!(clicked.snapshot_text(), Some(&snapshot));
    let asked = json!({ "pageId": 1, "uid": uid(&snapshot, "heading") });
    assert!(sitter.call("click", asked).await.snapshot().is_none());

    let filed = sitter.call("take_snapshot", json!({ "pageId": 1, "filePath": "page.md" })).await;
    assert_eq!(filed.snapshot_text(), Some(&snapshot));
    let written = std::fs::read_to_string(room.workspace.path().join("page.txt")).unwrap();
    assert_eq!(written.trim_end(), &*snapshot, "with the ending that the engine gave it");

    sitter.navigate(&room.site.url("/form")).await;
    let page = sitter.snapshot().await;
    let fields = room.engine.format().fields(&page, &|name| name.contains("Password"));
    assert!(
        fields.iter().any(|field| page.contains(&format!("uid={} textbox \"Password", field.reference))),
        "{page}"
    );
}

/// Console lines are kept with their levels, and a script's value is data.
pub async fn console_lines_and_values(room: &Room, sitter: &mut Sitter) {
    sitter.navigate(&room.site.url("/title?t=quiet")).await;
    sitter
        .evaluate("() => { console.log('log'); console.warn('two\\nlines'); console.error('error', {}); console.debug('debug'); }")
        .await;
    let said = sitter.call("list_console_messages", json!({ "pageId": 1 })).await;
    let lines: Vec<_> = said.console.iter().map(|line| (line.level, &*line.message)).collect();
    let expected = [
        (Level::Info, "log"),
        (Level::Warn, "two\nlines"),
        (Level::Error, "error [object Object]"),
        (Level::Debug, "debug"),
    ];
    for line in expected {
        assert!(lines.contains(&line), "{line:?}: {}", text(&said));
    }

    let script = json!({ "pageId": 1, "function": "() => ({ a: [1, null] })" });
    let reply = sitter.call("evaluate_script", script).await;
    let value = room.engine.format().data("evaluate_script", reply.body.unwrap().get(), None);
    assert_eq!(value, Some(json!({ "a": [1, null] })));
}

/// A seat begins with one empty page of the size that was set, and what it looks at is seen: address, title, tabs, those of
/// further contexts too.
async fn the_view(room: &Room, sitter: &mut Sitter) {
    let listed = sitter.call("list_pages", json!({})).await;
    assert_eq!(text(&listed), "## Pages\n1: about:blank [selected]");
    assert_eq!(sitter.evaluate("() => [innerWidth, innerHeight]").await, json!([1000, 500]));

    sitter.navigate(&room.site.url("/title?t=first")).await;
    let view = sitter.seat.view().borrow().clone();
    assert_eq!((view.url, &*view.title, view.tabs), (room.site.url("/title?t=first"), "first", 1));
    sitter.evaluate("() => { document.title = 'later'; }").await;
    assert_eq!(sitter.seat.view().borrow().title, "later");
    let other = json!({ "url": room.site.url("/title?t=other"), "isolatedContext": "other" });
    sitter.call("new_page", other).await;
    let view = sitter.seat.view().borrow().clone();
    assert_eq!((&*view.title, view.tabs), ("other", 2));
}

/// What a pool says of its browsers holds: the user agent, and the origins that pages may load from.
async fn settings_of_the_browser(room: &Room, sitter: &mut Sitter) {
    sitter.navigate(&room.site.url("/title?t=allowed")).await;
    assert_eq!(sitter.evaluate("() => navigator.userAgent").await, json!("greenroom-test"));
    let blocked = format!("http://localhost:{}/title?t=blocked", room.site.port());
    let reply = sitter.call("navigate_page", json!({ "pageId": 1, "url": blocked })).await;
    assert!(text(&reply).contains("is blocked by blocklist/allowlist rules"), "{}", text(&reply));
    let came = room.site.requests().into_iter().any(|seen| seen.query.as_deref() == Some("t=blocked"));
    assert!(!came, "not even asked for");
}

/// The settings of a pool hold in its browser, and what a seat looks at is seen.
#[tokio::test]
async fn settings_and_the_view() {
    let room = Room::with(|options| {
        options.pool.viewport_size = Viewport { width: 1000, height: 500 };
        options.pool.user_agent = Some("greenroom-test".to_owned());
        options.pool.blocked_origins = vec!["http://localhost:*".to_owned()];
    })
    .await;
    let mut sitter = room.sit().await;
    case("the_view", the_view(&room, &mut sitter)).await;
    case("settings_of_the_browser", settings_of_the_browser(&room, &mut sitter)).await;
    room.end().await;
}
