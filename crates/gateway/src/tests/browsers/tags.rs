//! Bulks in all browsers with a tag.

use tokio::sync::Barrier;

use super::*;

/// Commands run in every browser with the tag, in all of them at the same time, and each reports its result.
#[tokio::test]
async fn tagged_browsers_run_in_parallel() {
    let meeting: &Barrier = Box::leak(Box::new(Barrier::new(2)));
    let tagged = TestBrowser { tools: &["meet", "t"], meeting: Some(meeting), ..WORK };
    let other = TestBrowser { url: "http://127.0.0.1:9224", label: None, ..tagged };
    let client = attached(&[], &[ONE, tagged, other]);
    let commands = json!([{"tool": "meet", "return_result": true}, {"tool": "t"}]);
    let bulk = client.call("browser_execute_bulk", json!({"commands": commands, "browserTag": "a"}));
    let answer = timeout(Duration::from_secs(10), bulk).await.expect("the first waits for the second inside");
    let structured = &answer["structuredContent"];
    assert_eq!((&structured["success"], &structured["browserTag"]), (&json!(true), &json!("a")), "{answer}");
    assert_eq!(answer.get("isError"), None);
    let browsers = structured["browsers"].as_array().unwrap();
    assert_eq!(browsers.iter().map(|one| one["browserIndex"].clone()).collect::<Vec<_>>(), [2, 3]);
    assert_eq!((&browsers[0]["label"], &browsers[1]["label"]), (&json!("work"), &Value::Null));
    for (n, one) in browsers.iter().enumerate() {
        assert_eq!(
            (&one["success"], &one["executed_count"], &one["total_count"]),
            (&json!(true), &json!(2), &json!(2))
        );
        assert_eq!(text(&one["results"][0]), format!("browser-{}/0 meet", n + 2));
        assert_eq!((&one["results"][1], &one["stopped_at"]), (&Value::Null, &Value::Null));
    }
}

/// A browser that is down fails alone; an error in a command is reported before any browser is touched.
#[tokio::test(start_paused = true)]
async fn commands_are_checked_for_all_tagged_browsers() {
    let down = TestBrowser { url: "http://127.0.0.1:9224", label: None, down: true, ..WORK };
    let devtools =
        TestBrowser { url: "http://127.0.0.1:9225", label: None, tags: &["b"], tools: DEVTOOLS, ..WORK };
    let client = attached(&[CHROMIUM], &[WORK, down, devtools]);
    let bulk = |tag: &str, tools: &[&str]| {
        let commands: Vec<_> = tools.iter().map(|tool| json!({"tool": tool})).collect();
        json!({"commands": commands, "browserTag": tag})
    };
    let answer = client.call("browser_execute_bulk", bulk("a", &["t", "pdf"])).await;
    assert_eq!((&answer["isError"], &answer["structuredContent"]["success"]), (&json!(true), &json!(false)));
    let browsers = &answer["structuredContent"]["browsers"];
    assert_eq!((&browsers[0]["success"], &browsers[0]["executed_count"]), (&json!(true), &json!(2)));
    assert_eq!((&browsers[1]["success"], &browsers[1]["browserIndex"]), (&json!(false), &json!(2)));
    let error = browsers[1]["error"].as_str().unwrap();
    assert!(
        error.starts_with("browser 2 cannot be reached: http://127.0.0.1:9224: no browser answers"),
        "{error}"
    );
    assert_eq!(browsers[1].get("executed_count"), None);
    let (code, structured) = client.fails("browser_execute_bulk", bulk("b", &["t", "pdf"])).await;
    assert_eq!(code, "tool_not_in_browser");
    assert!(
        structured.starts_with("commands[1]: browser 3 has no tool \"pdf\"")
            && structured.contains("no command was run"),
        "{structured}"
    );
    let (code, structured) = client.fails("browser_execute_bulk", bulk("c", &["t"])).await;
    assert_eq!(code, "no_such_tag");
    assert!(structured.starts_with("no such tag: \"c\"; there are \"a\", \"b\""), "{structured}");
    for (name, value) in
        [("browserIndex", json!(1)), ("browser_pool", json!("CHROMIUM")), ("sessionId", json!("s"))]
    {
        let mut arguments = bulk("a", &["t"]);
        arguments[name] = value;
        let (code, structured) = client.fails("browser_execute_bulk", arguments).await;
        assert_eq!(code, "invalid_arguments");
        assert!(structured.contains(&format!("`browserTag` and `{name}`")), "{structured}");
    }
    let failing = client.call("browser_execute_bulk", bulk("a", &["fail", "t"])).await;
    let first = &failing["structuredContent"]["browsers"][0];
    assert_eq!((&first["executed_count"], &first["stopped_at"]), (&json!(1), &json!(0)));
    let only = attached(&[], &[WORK]);
    let answer = only.call("browser_execute_bulk", bulk("a", &["t"])).await;
    assert_eq!(answer["structuredContent"]["success"], true, "the only browser needs no name: {answer}");
}
