//! Answers as data.

use std::collections::{BTreeMap, BTreeSet};

use greenroom_core::Engine;
use greenroom_testkit::Site;
use serde_json::{Value, json};

use super::{PlaywrightFixture, body, data_folder, engine, snapshot, text};

/// A page with everything that snapshots can show.
const PAGE: &str = r##"<h1>Head: "one"</h1>
    <form><label>Name <input placeholder="Your: name" value="Ada"></label><label>Plain <input value="- x"></label>
    <label><input type=checkbox checked> Ok</label><select><option>A<option selected>B</select>
    <textarea>l1
l2</textarea><button disabled>Go</button><button aria-pressed=mixed aria-expanded=true>it's: "q"</button></form>
    <ul><li>one<li><a href="/x?a=1#f">two: 2</a><li>three <b>bold</b> four</ul>
    <p>12<p>back`tick {b} \ "c"<p>yes<p>- dash<p># hash<p>'quoted'<p>[bracket] #<p>ü  é &nbsp;
    <iframe srcdoc="<button>in</button><p>text"></iframe><img alt="pic"><input type=password value=secret>
    <table><tr><th>a<th>b<tr><td>1<td><button>x</button></table>"##;

/// greenroom's tree of a page equals the engine's own tree: forms, lists, tables, an iframe, and unusual texts.
pub async fn trees_are_the_engines_own(fixture: &mut PlaywrightFixture) {
    fixture.show(PAGE).await;
    let reply = fixture.call("browser_snapshot", json!({})).await;
    let tree =
        fixture.engine.format().data("browser_snapshot", body(&reply), Some(snapshot(&reply))).unwrap();
    // An undocumented argument makes the engine answer with its tree.
    let own = fixture.call("browser_snapshot", json!({ "_meta": { "json": true } })).await;
    let own: Value = serde_json::from_str(&text(&own)).unwrap();
    let own: Value = own["snapshot"].as_array().unwrap().iter().map(with_greenroom_names).collect();
    assert_eq!(tree, own, "{}", snapshot(&reply));
    let shown = tree.to_string();
    for part in [
        r#"{"role":"textbox","name":"Name","ref":"e"#,
        r#""placeholder":"Your: name","value":"Ada"}"#,
        r#""checked":true"#,
        r#""pressed":"mixed""#,
        r#""url":"/x?a=1#f""#,
        r#""level":1"#,
        r#"{"role":"button","name":"in","ref":"f"#,
    ] {
        assert!(shown.contains(part), "no {part}: {shown}");
    }
    let navigated = fixture.navigate("/title?t=now").await;
    let tree = fixture
        .engine
        .format()
        .data("browser_navigate", body(&navigated), Some(snapshot(&navigated)))
        .unwrap();
    assert!(tree.to_string().contains(r#""name":"now""#), "{tree}");
}

/// A node of the engine's own tree, with greenroom's names.
fn with_greenroom_names(node: &Value) -> Value {
    let object = match node {
        Value::String(text) => return json!({ "role": "text", "name": text }),
        node => node.as_object().unwrap(),
    };
    let role = object["role"].as_str().unwrap();
    if role == "text" {
        return json!({ "role": "text", "name": object["text"] });
    }
    let mut renamed = json!({});
    for (name, value) in object {
        match &**name {
            "children" => {
                renamed["children"] = value.as_array().unwrap().iter().map(with_greenroom_names).collect();
            }
            "text" if ["textbox", "combobox"].contains(&role) => renamed["value"] = value.clone(),
            // False attributes are not shown.
            _ if value == false => {}
            name => renamed[name] = value.clone(),
        }
    }
    renamed
}

/// Every value that a function returns is data; a failure is not.
pub async fn evaluated_values_are_data(fixture: &mut PlaywrightFixture) {
    fixture.navigate("/title?t=x").await;
    for (function, value) in [
        (
            "() => ({ a: [1, { b: null }], c: 'x\\n### Result\\ny' })",
            json!({ "a": [1, { "b": null }], "c": "x\n### Result\ny" }),
        ),
        ("() => undefined", json!(null)),
        ("() => () => 1", json!(null)),
        ("() => 'text'", json!("text")),
        ("1 + 1.5", json!(2.5)),
        ("() => []", json!([])),
    ] {
        let reply = fixture.evaluate(function).await;
        let data = fixture.engine.format().data("browser_evaluate", body(&reply), None);
        assert_eq!(data, Some(value), "{function}");
    }
    let named =
        fixture.call("browser_evaluate", json!({ "function": "() => 7", "filename": "a.json" })).await;
    assert_eq!(fixture.engine.format().data("browser_evaluate", body(&named), None), None);
}

/// Every tool that is listed as giving snapshots or data is one of the engine's; and tools that were seen to give snapshots
/// are listed.
#[tokio::test]
async fn tools_are_the_engines_own() {
    let site = Site::start().await;
    let data = data_folder();
    let caps = ["config", "network", "pdf", "storage", "testing", "vision", "devtools"];
    let engine = engine(data.path(), site.port(), &caps);
    let tools = engine.tools().await.unwrap().tools;
    let tools_that = |gives: &dyn Fn(&str) -> bool| -> BTreeSet<String> {
        tools.iter().filter(|tool| gives(&tool.name)).map(|tool| tool.name.to_string()).collect()
    };
    assert_eq!(
        tools_that(&|tool| engine.format().gives_snapshots(tool)).len(),
        16,
        "one of them is not there"
    );
    assert_eq!(tools_that(&|tool| engine.format().gives_data(tool)).len(), 3, "one of them is not there");
    let none_missing = |tool: &str| engine.missing_cap(tool).is_none();
    assert!(tools.iter().all(|tool| none_missing(&tool.name)));
    drop(engine);

    let mut fixture = PlaywrightFixture::open(&["vision"]).await;
    // For every further tool the needed cap is known: those of `vision` are offered.
    let offered: BTreeSet<_> =
        fixture.engine.tools().await.unwrap().tools.into_iter().map(|tool| tool.name).collect();
    let mut by_cap = BTreeMap::<_, usize>::new();
    for tool in &tools {
        let cap = fixture.engine.missing_cap(&tool.name);
        assert_eq!(cap.is_none(), offered.contains(&tool.name), "{}", tool.name);
        *by_cap.entry(cap.unwrap_or("there")).or_default() += 1;
    }
    let counts = [
        ("config", 1),
        ("devtools", 13),
        ("network", 4),
        ("pdf", 1),
        ("storage", 17),
        ("testing", 5),
        ("there", 31),
    ];
    assert_eq!(by_cap, BTreeMap::from(counts));
    fixture.show("<button id=b>x</button><select id=s><option>A</select><input id=i><input id=j>").await;
    let url = fixture.site.url("/title?t=y");
    for (tool, arguments) in [
        ("browser_click", json!({ "target": "#b" })),
        ("browser_hover", json!({ "target": "#b" })),
        ("browser_select_option", json!({ "target": "#s", "values": ["A"] })),
        ("browser_type", json!({ "target": "#i", "text": "x", "slowly": true })),
        ("browser_press_key", json!({ "key": "Enter" })),
        ("browser_drag", json!({ "startTarget": "#i", "endTarget": "#j" })),
        ("browser_mouse_click_xy", json!({ "x": 1, "y": 1 })),
        ("browser_wait_for", json!({ "time": 0.01 })),
        ("browser_navigate", json!({ "url": url })),
        ("browser_navigate_back", json!({})),
        ("browser_tabs", json!({ "action": "new", "url": url })),
    ] {
        let reply = fixture.call(tool, arguments).await;
        assert!(fixture.engine.format().gives_snapshots(tool) && !snapshot(&reply).is_empty(), "{tool}");
    }
    for (tool, arguments) in [
        ("browser_resize", json!({ "width": 800, "height": 600 })),
        ("browser_tabs", json!({ "action": "list" })),
    ] {
        assert!(fixture.call(tool, arguments).await.snapshot().is_none(), "{tool}");
    }
    fixture.end().await;
}
