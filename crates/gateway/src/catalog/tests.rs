//! The catalog over several pools, with engines that only list tools.

use std::sync::atomic::{AtomicUsize, Ordering};

use greenroom_core::{Agent, BoxFuture, Instance, InstanceId, Tool, raw};
use greenroom_fleet::{BrowserState, BrowserStatus};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

/// An engine that lists tools and counts how often it is asked.
struct CountingEngine {
    fingerprint: &'static str,
    /// Name and schema of each; `None` for an engine that cannot be asked.
    tools: Option<&'static [(&'static str, &'static str)]>,
    list_requests: AtomicUsize,
}

fn lists(
    fingerprint: &'static str,
    tools: Option<&'static [(&'static str, &'static str)]>,
) -> Arc<CountingEngine> {
    Arc::new(CountingEngine { fingerprint, tools, list_requests: AtomicUsize::new(0) })
}

fn set(tools: &[(&str, &str)]) -> Toolset {
    let tool = |(name, properties): &(&str, &str)| {
        let text = format!(
            r#"{{"name":"{name}","inputSchema":{{"type":"object","properties":{{{properties}}},"additionalProperties":false}}}}"#
        );
        Tool { name: (*name).into(), definition: raw::parse(text).unwrap() }
    };
    Toolset { tools: tools.iter().map(tool).collect(), introduction: None }
}

impl Engine for CountingEngine {
    fn fingerprint(&self) -> String {
        self.fingerprint.to_owned()
    }

    fn unsafe_tools(&self) -> BTreeSet<&'static str> {
        BTreeSet::from([self.fingerprint])
    }

    fn tools(&self) -> BoxFuture<'_, Result<Toolset, StartError>> {
        self.list_requests.fetch_add(1, Ordering::Relaxed);
        let tools = self.tools.map(set).ok_or_else(|| StartError::new(format!("no {}", self.fingerprint)));
        Box::pin(async { tools })
    }

    fn start(&self, _: InstanceId) -> BoxFuture<'_, Result<Arc<dyn Instance>, StartError>> {
        Box::pin(async { Err(StartError::new("it only lists tools")) })
    }

    fn spare_suits(&self, _: &dyn Agent) -> bool {
        false
    }
}

const CHROMIUM: Option<&[(&str, &str)]> = Some(&[("click", r#""target":{"type":"string"}"#), ("pdf", "")]);
const FIREFOX: Option<&[(&str, &str)]> =
    Some(&[("find", ""), ("click", r#""target":{"type":"string"},"force":{"type":"boolean"}"#)]);

fn catalog(pools: &[(&str, &Arc<CountingEngine>)]) -> (Arc<Catalog>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let source = |(pool, engine): &(&str, &Arc<CountingEngine>)| {
        let engine: Arc<dyn Engine> = (*engine).clone();
        ToolSource { pool: (*pool).into(), engine, has_instance_choice: false }
    };
    let sources = pools.iter().map(source).collect();
    (Catalog::new(sources, Scope::Call, ToolProfile::Full, false, folder.path().to_owned()), folder)
}

fn names(listed: &ToolList) -> Vec<&str> {
    listed.iter().map(|(name, _)| &**name).collect()
}

fn elsewhere(listed: &ToolList, tool: &str, pool: &str) -> Option<Vec<String>> {
    let (_, others) = listed.pools_with_tool(listed.get(tool).unwrap().1, pool)?;
    Some(others.iter().map(ToString::to_string).collect())
}

fn arguments(text: &str) -> greenroom_core::Raw {
    raw::parse(text.to_owned()).unwrap()
}

/// The list is the union in the order of the pools; it shows the first description and checks against the called
/// pool's.
#[tokio::test]
async fn list_is_the_union_of_all_pools() {
    let chromium = lists("chromium", CHROMIUM);
    let firefox = lists("firefox", FIREFOX);
    let (catalog, _folder) = catalog(&[("C", &chromium), ("F", &firefox)]);
    assert_eq!(catalog.unsafe_tools(), BTreeSet::from(["chromium", "firefox"]));
    let listed = catalog.list().await.unwrap();
    assert_eq!(names(&listed), ["click", "pdf", "find"]);
    assert_eq!(elsewhere(&listed, "pdf", "F"), Some(vec![r#"pool "C""#.to_owned()]));
    assert_eq!(elsewhere(&listed, "find", "C"), Some(vec![r#"pool "F""#.to_owned()]));
    assert_eq!((elsewhere(&listed, "pdf", "C"), elsewhere(&listed, "click", "F")), (None, None));
    let (_, click) = listed.get("click").unwrap();
    let shown = click.shown.get();
    assert!(shown.contains("Pool: C (default), F") && !shown.contains("force"), "{shown}");
    let force = arguments(r#"{"force":true}"#);
    assert_eq!(listed.check(click, Some("F"), Some(&force)), Ok(()));
    for pool in [Some("C"), None] {
        let Err(InvalidArguments::Unknown { name, known }) = listed.check(click, pool, Some(&force)) else {
            panic!("C has no such argument")
        };
        assert_eq!(name, "force");
        assert_eq!(known, ["target", "sessionId", "browser_pool"]);
    }
}

/// Engines with the same fingerprint are asked once, and not at all if a list is on disk.
#[tokio::test]
async fn equal_engines_are_asked_once() {
    let one = lists("same", CHROMIUM);
    let other = lists("same", CHROMIUM);
    let (first, folder) = catalog(&[("A", &one), ("B", &other)]);
    let listed = first.list().await.unwrap();
    assert_eq!(elsewhere(&listed, "pdf", "B"), None);
    let (_, pdf) = listed.get("pdf").unwrap();
    assert!(!listed.depends_on_target(pdf), "both have it, described the same");
    let list_requests =
        || one.list_requests.load(Ordering::Relaxed) + other.list_requests.load(Ordering::Relaxed);
    assert_eq!(list_requests(), 1);
    first.refresh().await.unwrap();
    assert_eq!(list_requests(), 2, "once more, for both");
    let sources = vec![ToolSource { pool: "A".into(), engine: one.clone(), has_instance_choice: true }];
    let second = Catalog::new(sources, Scope::Call, ToolProfile::Full, false, folder.path().to_owned());
    let listed = second.list().await.unwrap();
    let shown = listed.get("pdf").unwrap().1.shown.get();
    assert!(shown.contains("browser_instance") && !shown.contains("browser_pool"), "{shown}");
    assert_eq!(list_requests(), 2, "kept on disk");
}

/// A pool whose engine cannot be asked hides no tool and refuses none; only if no engine can be asked, the list fails.
#[tokio::test]
async fn unreachable_engine_hides_no_tools() {
    let chromium = lists("chromium", CHROMIUM);
    let broken = lists("broken", None);
    let (some, _folder) = catalog(&[("C", &chromium), ("X", &broken)]);
    let listed = some.list().await.unwrap();
    assert_eq!(names(&listed), ["click", "pdf"]);
    assert_eq!(elsewhere(&listed, "pdf", "X"), None, "its tools are unknown");
    some.list().await.unwrap();
    assert_eq!(broken.list_requests.load(Ordering::Relaxed), 1, "not asked again with every call");
    some.engine_started_with("X", &set(&[("find", "")]), false);
    let listed = some.list().await.unwrap();
    assert_eq!(names(&listed), ["click", "pdf", "find"]);
    assert_eq!(elsewhere(&listed, "pdf", "X"), Some(vec![r#"pool "C""#.to_owned()]), "now it is known");
    let (none, _folder) = catalog(&[("X", &broken), ("Y", &lists("also", None))]);
    assert_eq!(none.list().await.err().unwrap().message, "no broken");
}

/// The catalog announces a change in one pool if clients would see it, and only then.
#[tokio::test]
async fn only_visible_changes_are_announced() {
    let chromium = lists("chromium", CHROMIUM);
    let firefox = lists("firefox", FIREFOX);
    let (catalog, _folder) = catalog(&[("C", &chromium), ("F", &firefox)]);
    let changes = catalog.changes();
    let count = || *changes.borrow();
    let newer = set(&[("click", ""), ("find", ""), ("hover", "")]);
    catalog.engine_changed_to("F", &newer, false);
    assert_eq!(count(), 0, "no client was shown a list yet");
    let listed = catalog.list().await.unwrap();
    assert_eq!(
        names(&listed),
        ["click", "pdf", "find", "hover"],
        "as the running engine said, not as on disk"
    );
    assert_eq!(firefox.list_requests.load(Ordering::Relaxed), 0);
    catalog.engine_changed_to("F", &newer, false);
    assert_eq!(count(), 0, "the same again");
    catalog.engine_changed_to("F", &set(&[("click", r#""x":{}"#), ("find", ""), ("hover", "")]), false);
    assert_eq!(count(), 0, "C's click is the one that is shown");
    catalog.engine_changed_to("F", &set(&[("click", ""), ("find", "")]), false);
    assert_eq!(count(), 1);
    catalog.engine_started_with("C", &set(&[("click", ""), ("pdf", "")]), false);
    assert_eq!(count(), 2);
    catalog.engine_changed_to("elsewhere", &newer, false);
    assert_eq!(count(), 2);
}

fn browser(index: u32, label: Option<&str>, tags: &[&str]) -> BrowserStatus {
    BrowserStatus {
        index,
        url: format!("http://127.0.0.1:{}", 9221 + index),
        label: label.map(ToOwned::to_owned),
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        engine: "playwright".to_owned(),
        state: BrowserState::Pending,
        last_error: None,
        last_attempt: None,
        retry_in: None,
        reconnects: 0,
        slots: 1,
        leased_slots: 0,
        waiting: 0,
    }
}

/// Whether the parameter of a browser's index also accepts text.
fn index_has_label(shown: &Value) -> bool {
    shown["anyOf"][1]["type"] == "string"
}

/// Attached browsers come and go: the catalog notifies clients if they would see a difference, and only then. The
/// catalog does not ask an engine with a known fingerprint.
#[tokio::test]
async fn attached_browsers_change_the_list() {
    let chromium = lists("chromium", CHROMIUM);
    let firefox = lists("firefox", FIREFOX);
    let (catalog, _folder) = catalog(&[]);
    let changes = catalog.changes();
    let count = || *changes.borrow();
    catalog.add_browser(&browser(1, None, &[]), chromium.clone());
    assert_eq!(
        (count(), chromium.list_requests.load(Ordering::Relaxed)),
        (0, 0),
        "no client was shown a list yet"
    );
    let listed = catalog.list().await.unwrap();
    assert_eq!(names(&listed), ["click", "pdf"]);
    let shown = |name: &str| {
        let listed = catalog.known().unwrap();
        listed.get(name).map(|(_, entry)| entry.shown.get().to_owned())
    };
    assert!(!shown("click").unwrap().contains("browserIndex"), "there is no choice");
    let shown_index = || {
        let definition: Value = serde_json::from_str(&shown("click").unwrap()).unwrap();
        definition["inputSchema"]["properties"]["browserIndex"].clone()
    };
    for (index, label, tags, heard, why) in [
        (2, None, &[][..], 1, "now there is a choice"),
        (3, None, &[], 1, "there was one before"),
        (4, Some("work"), &[], 2, "labels can be given"),
        (5, None, &["a"], 3, "a tag can be given"),
    ] {
        catalog.add_browser(&browser(index, label, tags), chromium.clone());
        assert_eq!(count(), heard, "{why}");
        let shown = shown_index();
        let number = if index_has_label(&shown) { &shown["anyOf"][0] } else { &shown };
        assert_eq!((&number["type"], &number["minimum"]), (&json!("integer"), &json!(1)), "{why}");
        assert_eq!(index_has_label(&shown), heard > 1, "{why}");
    }
    catalog.fetch_missing().await;
    assert_eq!(chromium.list_requests.load(Ordering::Relaxed), 1);
    let listed = catalog.list().await.unwrap();
    let odd = arguments(r#"{"odd":1}"#);
    let (_, click) = listed.get("click").unwrap();
    let Err(InvalidArguments::Unknown { known, .. }) = listed.check(click, Some("browser-2"), Some(&odd))
    else {
        panic!("it has no such argument")
    };
    assert_eq!(known, ["target", "sessionId", "browserIndex"]);
    catalog.add_browser(&browser(6, None, &[]), firefox.clone());
    assert_eq!((count(), shown("find")), (3, None), "its engine has said nothing yet");
    let listed = catalog.list().await.unwrap();
    assert_eq!(elsewhere(&listed, "pdf", "browser-6"), None, "its tools are unknown");
    catalog.fetch_missing().await;
    assert_eq!((count(), firefox.list_requests.load(Ordering::Relaxed)), (4, 1));
    let listed = catalog.list().await.unwrap();
    assert_eq!(elsewhere(&listed, "find", "browser-4"), Some(vec!["browser 6".to_owned()]));
    let others = elsewhere(&listed, "pdf", "browser-6").unwrap();
    assert_eq!(others, ["browser 1", "browser 2", "browser 3", "browser 4 (\"work\")", "browser 5"]);
    for (index, heard, why) in [
        (6, 5, "its tools are gone"),
        (5, 6, "no tag is left"),
        (4, 7, "no label is left"),
        (3, 7, "there still is a choice"),
        (2, 8, "there is none"),
        (1, 9, "there is nothing"),
        (1, 9, "it was not there"),
    ] {
        catalog.remove_browser(index);
        assert_eq!(count(), heard, "{why}");
    }
    assert_eq!(names(&catalog.list().await.unwrap()), Vec::<&str>::new());
    assert!(catalog.refresh().await.is_ok(), "an empty list is no failure");
}

/// With attached browsers, pools come first, none of them is the default, and a single pool is a choice already.
#[tokio::test]
async fn pools_are_listed_with_attached_browsers() {
    let chromium = lists("chromium", CHROMIUM);
    let firefox = lists("firefox", FIREFOX);
    let (catalog, _folder) = catalog(&[("F", &firefox)]);
    catalog.add_browser(&browser(1, None, &[]), chromium);
    let listed = catalog.list().await.unwrap();
    assert_eq!(names(&listed), ["find", "click", "pdf"]);
    let (_, click) = listed.get("click").unwrap();
    let shown = click.shown.get();
    assert!(
        shown.contains("\"Pool, instead of an attached browser: F\"") && shown.contains("force"),
        "{shown}"
    );
    let force = arguments(r#"{"force":true}"#);
    assert_eq!(listed.check(click, Some("F"), Some(&force)), Ok(()));
    let Err(InvalidArguments::Unknown { known, .. }) = listed.check(click, Some("browser-1"), Some(&force))
    else {
        panic!("the called pool's description counts")
    };
    assert_eq!(known, ["target", "sessionId", "browser_pool"], "there is no browser to choose");
    assert!(listed.depends_on_target(listed.get("pdf").unwrap().1));
    catalog.remove_browser(1);
    let listed = catalog.list().await.unwrap();
    assert!(!listed.get("click").unwrap().1.shown.get().contains("Pool"));
    assert!(!listed.depends_on_target(listed.get("click").unwrap().1));
}

/// A partial list removes no tool; it adds and changes those it has.
#[tokio::test]
async fn partial_lists_remove_no_tool() {
    let asks = lists("asks", Some(&[("click", ""), ("ask", "")]));
    let (catalog, _folder) = catalog(&[("F", &asks)]);
    catalog.list().await.unwrap();
    let changes = catalog.changes();
    for (set, partial, expected) in [
        (set(&[("click", "")]), true, vec!["click", "ask"]),
        (set(&[("click", ""), ("find", "")]), true, vec!["click", "ask", "find"]),
        (set(&[("click", "")]), false, vec!["click"]),
    ] {
        catalog.engine_started_with("F", &set, partial);
        catalog.engine_changed_to("F", &set, partial);
        assert_eq!(names(&catalog.list().await.unwrap()), expected);
    }
    assert_eq!(*changes.borrow(), 2, "the first list changed nothing");
}
