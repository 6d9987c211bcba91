//! The catalog over several pools, against engines that only list tools.

use std::sync::atomic::{AtomicUsize, Ordering};

use greenroom_core::{Agent, BoxFuture, Instance, InstanceId, Tool, raw};
use tempfile::TempDir;

use super::*;

/// An engine with tools that can be counted being asked for.
struct Lists {
    fingerprint: &'static str,
    /// Name and schema of each; `None` for an engine that cannot be asked.
    tools: Option<&'static [(&'static str, &'static str)]>,
    asked: AtomicUsize,
}

fn lists(fingerprint: &'static str, tools: Option<&'static [(&'static str, &'static str)]>) -> Arc<Lists> {
    Arc::new(Lists { fingerprint, tools, asked: AtomicUsize::new(0) })
}

fn set(tools: &[(&str, &str)]) -> Toolset {
    let tool = |(name, properties): &(&str, &str)| {
        let text = format!(
            r#"{{"name":"{name}","inputSchema":{{"type":"object","properties":{{{properties}}},"additionalProperties":false}}}}"#
        );
        Tool { name: (*name).into(), definition: raw::parse(text).unwrap() }
    };
    Toolset { tools: tools.iter().map(tool).collect() }
}

impl Engine for Lists {
    fn fingerprint(&self) -> String {
        self.fingerprint.to_owned()
    }

    fn unsafe_tools(&self) -> BTreeSet<&'static str> {
        BTreeSet::from([self.fingerprint])
    }

    fn tools(&self) -> BoxFuture<'_, Result<Toolset, StartError>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
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

fn catalog(pools: &[(&str, &Arc<Lists>)]) -> (Arc<Catalog>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let source = |(pool, engine): &(&str, &Arc<Lists>)| {
        let engine: Arc<dyn Engine> = (*engine).clone();
        Source { pool: (*pool).into(), engine, several: false }
    };
    let sources = pools.iter().map(source).collect();
    (Catalog::new(sources, Scope::Call, false, folder.path().to_owned()), folder)
}

fn names(listed: &Listed) -> Vec<&str> {
    listed.iter().map(|(name, _)| &**name).collect()
}

fn elsewhere<'a>(listed: &'a Listed, tool: &str, pool: &str) -> Option<Vec<&'a str>> {
    listed.elsewhere(listed.get(tool).unwrap().1, pool)
}

fn arguments(text: &str) -> greenroom_core::Raw {
    raw::parse(text.to_owned()).unwrap()
}

/// The list is the union in the order of the pools; the first description is shown, and the called pool's counts.
#[tokio::test]
async fn the_union_of_several_pools() {
    let (chromium, firefox) = (lists("chromium", CHROMIUM), lists("firefox", FIREFOX));
    let (catalog, _folder) = catalog(&[("C", &chromium), ("F", &firefox)]);
    assert_eq!(catalog.unsafe_tools(), BTreeSet::from(["chromium", "firefox"]));
    let listed = catalog.list().await.unwrap();
    assert_eq!(names(&listed), ["click", "pdf", "find"]);
    assert_eq!(elsewhere(&listed, "pdf", "F"), Some(vec!["C"]));
    assert_eq!(elsewhere(&listed, "find", "C"), Some(vec!["F"]));
    assert_eq!((elsewhere(&listed, "pdf", "C"), elsewhere(&listed, "click", "F")), (None, None));
    let (_, click) = listed.get("click").unwrap();
    let shown = click.shown.get();
    assert!(shown.contains("Pool: C (default), F") && !shown.contains("force"), "{shown}");
    let force = arguments(r#"{"force":true}"#);
    assert_eq!(listed.check(click, Some("F"), Some(&force)), Ok(()));
    for pool in [Some("C"), None] {
        let Err(Invalid::Unknown { name, known }) = listed.check(click, pool, Some(&force)) else {
            panic!("C has no such argument")
        };
        assert_eq!(name, "force");
        assert_eq!(known, ["target", "sessionId", "browser_pool"]);
    }
}

/// Engines with the same fingerprint are asked once, and what was kept on disk not at all.
#[tokio::test]
async fn equal_engines_are_asked_once() {
    let (one, other) = (lists("same", CHROMIUM), lists("same", CHROMIUM));
    let (first, folder) = catalog(&[("A", &one), ("B", &other)]);
    let listed = first.list().await.unwrap();
    assert_eq!(elsewhere(&listed, "pdf", "B"), None);
    let (_, pdf) = listed.get("pdf").unwrap();
    assert!(!listed.differs(pdf), "both have it, described the same");
    let asked = || one.asked.load(Ordering::Relaxed) + other.asked.load(Ordering::Relaxed);
    assert_eq!(asked(), 1);
    first.refresh().await.unwrap();
    assert_eq!(asked(), 2, "once more, for both");
    let sources = vec![Source { pool: "A".into(), engine: one.clone(), several: true }];
    let second = Catalog::new(sources, Scope::Call, false, folder.path().to_owned());
    let listed = second.list().await.unwrap();
    let shown = listed.get("pdf").unwrap().1.shown.get();
    assert!(shown.contains("browser_instance") && !shown.contains("browser_pool"), "{shown}");
    assert_eq!(asked(), 2, "kept on disk");
}

/// A pool whose engine cannot be asked hides nothing and refuses nothing; only when none can be asked is that an error.
#[tokio::test]
async fn one_engine_that_cannot_be_asked() {
    let (chromium, broken) = (lists("chromium", CHROMIUM), lists("broken", None));
    let (some, _folder) = catalog(&[("C", &chromium), ("X", &broken)]);
    let listed = some.list().await.unwrap();
    assert_eq!(names(&listed), ["click", "pdf"]);
    assert_eq!(elsewhere(&listed, "pdf", "X"), None, "nobody knows");
    some.list().await.unwrap();
    assert_eq!(broken.asked.load(Ordering::Relaxed), 1, "not asked again with every call");
    some.offered("X", &set(&[("find", "")]));
    let listed = some.list().await.unwrap();
    assert_eq!(names(&listed), ["click", "pdf", "find"]);
    assert_eq!(elsewhere(&listed, "pdf", "X"), Some(vec!["C"]), "now it is known");
    let (none, _folder) = catalog(&[("X", &broken), ("Y", &lists("also", None))]);
    assert_eq!(none.list().await.err().unwrap().message, "no broken");
}

/// A change in one pool is announced if clients would see it, and only then.
#[tokio::test]
async fn changes_are_compared() {
    let (chromium, firefox) = (lists("chromium", CHROMIUM), lists("firefox", FIREFOX));
    let (catalog, _folder) = catalog(&[("C", &chromium), ("F", &firefox)]);
    let changes = catalog.changes();
    let count = || *changes.borrow();
    let newer = set(&[("click", ""), ("find", ""), ("hover", "")]);
    catalog.announced("F", &newer);
    assert_eq!(count(), 0, "nobody was shown a list yet");
    let listed = catalog.list().await.unwrap();
    assert_eq!(
        names(&listed),
        ["click", "pdf", "find", "hover"],
        "as the running engine said, not as on disk"
    );
    assert_eq!(firefox.asked.load(Ordering::Relaxed), 0);
    catalog.announced("F", &newer);
    assert_eq!(count(), 0, "the same again");
    catalog.announced("F", &set(&[("click", r#""x":{}"#), ("find", ""), ("hover", "")]));
    assert_eq!(count(), 0, "C's click is the one that is shown");
    catalog.announced("F", &set(&[("click", ""), ("find", "")]));
    assert_eq!(count(), 1);
    catalog.offered("C", &set(&[("click", ""), ("pdf", "")]));
    assert_eq!(count(), 2);
    catalog.announced("elsewhere", &newer);
    assert_eq!(count(), 2);
}
