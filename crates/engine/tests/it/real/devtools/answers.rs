//! The engine's answers, and what the adapter finds in them.

use greenroom_core::{Engine, record::Level, settings::Viewport};
use greenroom_testkit::{Site, case};
use serde_json::{Value, json};

use super::{
    super::{body, text},
    DevtoolsFixture, DevtoolsSeat, data_folder, engine, uid,
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
    // Tools about pages require a page; all others act on the selected page.
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
pub async fn snapshots_are_kept(fixture: &DevtoolsFixture, seat: &mut DevtoolsSeat) {
    seat.navigate(&fixture.site.url("/title?t=C%3A%5C%20%22x%22")).await;
    // A call that names no page acts on the selected one.
    let unnamed = seat.call("take_snapshot", json!({})).await;
    let shown = seat.call("take_snapshot", json!({ "pageId": 1 })).await;
    assert_eq!(text(&unnamed), text(&shown));
    let shot = seat.call("take_screenshot", json!({ "format": "png" })).await;
    assert!(body(&shot).contains(r#""type":"image""#), "{shot:?}");
    let snapshot = shown.snapshot_text().unwrap().clone();
    assert!(snapshot.contains(r#"heading "C:\ "x"" level="1""#), "{snapshot}");
    let tree = fixture.engine.format().data("take_snapshot", "", Some(&snapshot)).unwrap();
    assert_eq!(tree[0]["children"][0]["name"], "C:\\ \"x\"");

    let asked = json!({ "pageId": 1, "uid": uid(&snapshot, "heading"), "includeSnapshot": true });
    let clicked = seat.call("click", asked).await;
    assert_eq!(clicked.snapshot_text(), Some(&snapshot));
    let asked = json!({ "pageId": 1, "uid": uid(&snapshot, "heading") });
    assert!(seat.call("click", asked).await.snapshot().is_none());

    let filed = seat.call("take_snapshot", json!({ "pageId": 1, "filePath": "page.md" })).await;
    assert_eq!(filed.snapshot_text(), Some(&snapshot));
    let written = std::fs::read_to_string(fixture.workspace.path().join("page.txt")).unwrap();
    assert_eq!(written.trim_end(), &*snapshot, "with the ending that the engine gave it");

    seat.navigate(&fixture.site.url("/form")).await;
    let page = seat.snapshot().await;
    let fields = fixture.engine.format().fields(&page, &|name| name.contains("Password"));
    assert!(
        fields.iter().any(|field| page.contains(&format!("uid={} textbox \"Password", field.reference))),
        "{page}"
    );
}

/// Console lines are kept with their levels, and a script's value is data.
pub async fn console_lines_and_values_are_kept(fixture: &DevtoolsFixture, seat: &mut DevtoolsSeat) {
    seat.navigate(&fixture.site.url("/title?t=quiet")).await;
    seat
        .evaluate("() => { console.log('log'); console.warn('two\\nlines'); console.error('error', {}); console.debug('debug'); }")
        .await;
    let listed = seat.call("list_console_messages", json!({ "pageId": 1 })).await;
    let lines: Vec<_> = listed.console.iter().map(|line| (line.level, &*line.message)).collect();
    let expected = [
        (Level::Info, "log"),
        (Level::Warn, "two\nlines"),
        (Level::Error, "error [object Object]"),
        (Level::Debug, "debug"),
    ];
    for line in expected {
        assert!(lines.contains(&line), "{line:?}: {}", text(&listed));
    }

    let script = json!({ "pageId": 1, "function": "() => ({ a: [1, null] })" });
    let reply = seat.call("evaluate_script", script).await;
    let value = fixture.engine.format().data("evaluate_script", reply.body.unwrap().get(), None);
    assert_eq!(value, Some(json!({ "a": [1, null] })));
}

/// A seat begins with one empty page of the configured size, and its view shows address, title and tabs of its current
/// page, those of further contexts too.
async fn view_shows_the_current_page(fixture: &DevtoolsFixture, seat: &mut DevtoolsSeat) {
    let listed = seat.call("list_pages", json!({})).await;
    assert_eq!(text(&listed), "## Pages\n1: about:blank [selected]");
    assert_eq!(seat.evaluate("() => [innerWidth, innerHeight]").await, json!([1000, 500]));

    seat.navigate(&fixture.site.url("/title?t=first")).await;
    let view = seat.seat.view().borrow().clone();
    assert_eq!((view.url, &*view.title, view.tabs), (fixture.site.url("/title?t=first"), "first", 1));
    seat.evaluate("() => { document.title = 'later'; }").await;
    assert_eq!(seat.seat.view().borrow().title, "later");
    let other = json!({ "url": fixture.site.url("/title?t=other"), "isolatedContext": "other" });
    seat.call("new_page", other).await;
    let view = seat.seat.view().borrow().clone();
    assert_eq!((&*view.title, view.tabs), ("other", 2));
}

/// The settings of a pool apply to its browsers: the user agent, and the origins that pages may load from.
async fn browser_settings_apply(fixture: &DevtoolsFixture, seat: &mut DevtoolsSeat) {
    seat.navigate(&fixture.site.url("/title?t=allowed")).await;
    assert_eq!(seat.evaluate("() => navigator.userAgent").await, json!("greenroom-test"));
    let blocked = format!("http://localhost:{}/title?t=blocked", fixture.site.port());
    let reply = seat.call("navigate_page", json!({ "pageId": 1, "url": blocked })).await;
    assert!(text(&reply).contains("is blocked by blocklist/allowlist rules"), "{}", text(&reply));
    let was_requested =
        fixture.site.requests().into_iter().any(|seen| seen.query.as_deref() == Some("t=blocked"));
    assert!(!was_requested, "not even asked for");
}

/// The settings of a pool apply to its browser, and the view follows the seat's current page.
#[tokio::test]
async fn settings_apply_and_the_view_follows() {
    let fixture = DevtoolsFixture::with(|options| {
        options.pool.viewport_size = Viewport { width: 1000, height: 500 };
        options.pool.user_agent = Some("greenroom-test".to_owned());
        options.pool.blocked_origins = vec!["http://localhost:*".to_owned()];
    })
    .await;
    let mut seat = fixture.open_seat().await;
    case("the_view", view_shows_the_current_page(&fixture, &mut seat)).await;
    case("settings_of_the_browser", browser_settings_apply(&fixture, &mut seat)).await;
    fixture.end().await;
}
