//! Element selectors as hostile agents write them: every call is answered, and neither the engine nor another seat's page
//! notices.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use greenroom_core::{Call, Reply, raw::parse, settings::Cap};
use greenroom_testkit::{HostileJson, TEST_TIMEOUT, within};
use serde_json::json;

use super::{super::devtools, AgentWithWorkspace, BrowserKind, SharedBrowser, SharedSeat, text};

/// The arguments of every tool, by its name.
type SelectorArguments = BTreeMap<String, Vec<String>>;

const PLAYWRIGHT: &str = include_str!("../../../../src/recorded/playwright-arguments.json");
const DEVTOOLS: &str = include_str!("../../../../src/recorded/devtools-arguments.json");

/// Arguments that name an element, or contain one.
const SELECTORS: [&str; 8] =
    ["target", "startTarget", "endTarget", "fields", "uid", "from_uid", "to_uid", "elements"];

/// How many calls of each tool are tried.
const TRIES: u64 = 16;

/// The seed of a tool's first call; each further call takes the next number.
const SEED: u64 = 13;

/// Text that only the neighbour's page contains.
const SECRET: &str = "what the neighbour reads";

/// Selectors in every syntax that the engines know, and some that none knows.
fn selectors() -> Vec<String> {
    let nested = format!("css={}b{}", ":is(".repeat(2_000), ")".repeat(2_000));
    let inner = (0..40).fold("b".to_owned(), |inner, _| format!("*:has({inner})"));
    let chain = format!("body{}", " >> nth=0".repeat(3_000));
    let locator = format!("page{}", ".locator('b')".repeat(1_000));
    // The engine doubles the backslashes of a nested selector for each level.
    let doubled = |levels: usize| {
        format!("{}locator(\"a\"){}", "locator(\"a\").and(".repeat(levels), ")".repeat(levels))
    };
    let plain = [
        "e1",
        "e99999999999999999999",
        "f1e1",
        "1_0",
        "aria-ref=e1",
        "aria-ref=",
        "b",
        "xpath=//*[contains(., 'a')]",
        "xpath=document('file:///etc/passwd')",
        "text=/a+/",
        "role=button[name=/x/i]",
        "internal:control=enter-frame",
        "internal:control=component",
        "internal:has=\"internal:control=enter-frame\"",
        "internal:describe=\"x\"",
        "_react=B",
        "getByRole('button', { name: /(x+x+)+y/ })",
        "frameLocator('iframe').first().owner()",
        "locator('b', { has: page.locator('b') })",
        "page.evaluate(() => process.exit())",
        "constructor",
        "__proto__",
        "\"><img src=x>",
        "'",
        "",
    ];
    plain
        .map(str::to_owned)
        .into_iter()
        .chain([nested, inner, chain, locator, doubled(7), doubled(25)])
        .collect()
}

/// A call with hostile selectors; its other arguments are valid.
fn params(odd: &mut HostileJson, tool: &str, arguments: &[String], selectors: &[String]) -> Option<String> {
    let texts: Vec<_> = selectors.iter().map(String::as_str).collect();
    let mut given = Vec::new();
    for name in arguments {
        let value = match name.as_str() {
            "fields" | "elements" => {
                let target = odd.value(&texts);
                let uid = odd.value(&texts);
                format!(r#"[{{"name":"x","type":"textbox","target":{target},"uid":{uid},"value":"y"}}]"#)
            }
            name if SELECTORS.contains(&name) => odd.value(&texts),
            "values" => r#"["x"]"#.to_owned(),
            "function" => r#""(element) => 1""#.to_owned(),
            "text" | "value" | "key" => r#""x""#.to_owned(),
            "pageId" => "1".to_owned(),
            _ => continue,
        };
        given.push((name.as_str(), value));
    }
    if !given.iter().any(|(name, _)| SELECTORS.contains(name)) {
        return None;
    }
    let given: Vec<_> = given.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    Some(format!(r#"{{"name":"{tool}","arguments":{{{}}}}}"#, given.join(",")))
}

/// All calls of an engine's tools that take a selector.
fn calls(recorded: &str) -> Vec<(String, String)> {
    let tools: SelectorArguments = serde_json::from_str(recorded).unwrap();
    let selectors = selectors();
    let mut calls = Vec::new();
    for (tool, arguments) in tools {
        for n in 0..TRIES {
            let mut odd = HostileJson::new(SEED + n);
            calls
                .extend(params(&mut odd, &tool, &arguments, &selectors).map(|params| (tool.clone(), params)));
        }
    }
    calls
}

async fn raw_call(seat: &mut SharedSeat, tool: &str, params: &str) -> Reply {
    let call = Call::new(tool, parse(params.to_owned()).unwrap());
    let worker = Arc::new(AgentWithWorkspace(seat.workspace.path().to_owned()));
    within(TEST_TIMEOUT, seat.seat.call(call, worker)).await.unwrap_or_else(|lost| panic!("{params}: {lost}"))
}

/// Two seats of one browser: whatever selectors one of them names, both go on, and no answer contains the other's text.
#[tokio::test]
async fn selectors_of_one_seat_harm_no_other() {
    let browser = SharedBrowser::start_with(BrowserKind::HeadlessShell, |options| {
        options.pool.caps = vec![Cap::Testing, Cap::Devtools, Cap::Vision];
        options.pool.timeout_action = Some(Duration::from_millis(50));
    })
    .await;
    let mut hostile = browser.seat().await;
    let mut neighbour = browser.seat().await;
    let url = |path: &str| json!({ "url": browser.site.url(path) });
    neighbour.call("browser_navigate", url("/title?t=neighbour")).await;
    neighbour.evaluate(&format!("() => {{ document.body.innerHTML = '<b>{SECRET}</b>'; }}")).await;
    hostile.call("browser_navigate", url("/title?t=hostile")).await;
    hostile.evaluate("() => { document.body.innerHTML = '<b>aaaa</b><iframe></iframe><input>'; }").await;
    let calls = calls(PLAYWRIGHT);
    assert!(calls.len() > 12 * TRIES as usize, "only {} calls", calls.len());
    let mut failed = 0;
    for (tool, params) in &calls {
        let reply = raw_call(&mut hostile, tool, params).await;
        failed += usize::from(reply.is_failure());
        assert!(!text(&reply).contains(SECRET), "{params}: {}", text(&reply));
    }
    assert!(failed > calls.len() / 2 && failed < calls.len(), "{failed} of {} failed", calls.len());
    assert_eq!(hostile.evaluate("() => document.title").await, json!("hostile"));
    assert_eq!(neighbour.evaluate("() => document.body.innerText").await, json!(SECRET));
    browser.end().await;
}

/// The same selectors for the devtools engine, whose seats have a process each: every call is answered.
pub async fn devtools_answers_every_selector(
    fixture: &devtools::DevtoolsFixture,
    seat: &mut devtools::DevtoolsSeat,
) {
    seat.navigate(&fixture.site.url("/title?t=hostile")).await;
    for (tool, params) in calls(DEVTOOLS) {
        let call = Call::new(tool.as_str(), parse(params.clone()).unwrap());
        seat.raw_call(call).await.unwrap_or_else(|lost| panic!("{params}: {lost}"));
    }
    assert_eq!(seat.evaluate("() => document.title").await, json!("hostile"));
}
