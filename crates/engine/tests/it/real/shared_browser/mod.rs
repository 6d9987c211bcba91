//! What seats of one browser can do to the machine and to each other: both kinds of Chromium, real engine, real pages.

mod addresses;
mod broadcasts;
mod clipboard;
mod disk;
mod history;
mod limits;
mod locks;
mod network;
mod overload;
mod regexps;
pub mod selectors;
mod sizes;

use std::sync::Arc;

use greenroom_core::{Call, Engine, Instance, InstanceId, Reply, Seat};
use greenroom_engine::{EngineBase, PlaywrightEngine, browser::BrowserKind};
use greenroom_testkit::{Site, TEST_TIMEOUT, case, until_some, within};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{AgentWithWorkspace, GRACE, browser, data_folder, engine, text};

/// Both kinds of browsers that greenroom starts.
const BROWSERS: [BrowserKind; 2] = [BrowserKind::HeadlessShell, BrowserKind::Chromium];

/// Clipboards, locks, broadcast messages, files of the machine and sizes of windows in the headless shell, one case
/// after the other. Each case has seats of its own.
#[tokio::test]
async fn seats_of_one_headless_shell() {
    let browser = SharedBrowser::start(BrowserKind::HeadlessShell).await;
    run_in_any_browser(BrowserKind::HeadlessShell, &browser).await;
    case("locks::surplus_locks_wait", locks::surplus_locks_wait(&browser)).await;
    case("network::long_addresses_are_cut", network::long_addresses_are_cut(&browser)).await;
    browser.end().await;
}

/// The same in full Chromium, for the cases that depend on the browser.
#[tokio::test]
async fn seats_of_one_whole_browser() {
    let browser = SharedBrowser::start(BrowserKind::Chromium).await;
    run_in_any_browser(BrowserKind::Chromium, &browser).await;
    browser.end().await;
}

async fn run_in_any_browser(kind: BrowserKind, browser: &SharedBrowser) {
    macro_rules! run {
        ($($name:path),+ $(,)?) => {
            $(case(stringify!($name), $name(kind, browser)).await;)+
        };
    }
    run!(
        clipboard::sessions_cannot_paste_what_others_copied,
        clipboard::copy_and_paste_work_within_a_session,
        clipboard::hostile_documents_read_nothing,
        locks::locks_are_bounded,
        locks::workers_are_bounded,
        locks::prerendered_documents_are_limited,
        broadcasts::large_broadcasts_are_refused,
        addresses::pages_cannot_open_refused_addresses,
        sizes::popups_are_cut,
    );
}

/// One browser with a site to look at.
pub struct SharedBrowser {
    site: Site,
    instance: Arc<dyn Instance>,
    data: TempDir,
}

impl SharedBrowser {
    async fn start(kind: BrowserKind) -> Self {
        Self::start_with(kind, |_| {}).await
    }

    async fn start_with(kind: BrowserKind, set: impl FnOnce(&mut greenroom_engine::EngineOptions)) -> Self {
        let site = Site::start().await;
        let data = data_folder();
        let engine = engine(data.path(), site.port(), &[]);
        let mut options = (*engine.options).clone();
        options.pool.browser = browser(kind);
        set(&mut options);
        let engine = PlaywrightEngine(EngineBase { options: Arc::new(options), ..engine.0 });
        let instance = engine.start(InstanceId(0)).await.unwrap();
        Self { site, instance, data }
    }

    async fn seat(&self) -> SharedSeat {
        let workspace = tempfile::tempdir().unwrap();
        let seat =
            self.instance.open(Arc::new(AgentWithWorkspace(workspace.path().to_owned()))).await.unwrap();
        SharedSeat { seat, workspace }
    }

    /// Two seats, each at a page with its name as the title.
    async fn hostile_and_neighbour(&self) -> (SharedSeat, SharedSeat) {
        let mut hostile = self.seat().await;
        let mut neighbour = self.seat().await;
        for (seat, title) in [(&mut hostile, "hostile"), (&mut neighbour, "neighbour")] {
            let url = self.site.url(&format!("/title?t={title}"));
            seat.call("browser_navigate", json!({ "url": url })).await;
        }
        (hostile, neighbour)
    }

    async fn end(self) {
        self.instance.stop(GRACE).await;
    }

    /// Closes these seats, and then ends the browser.
    async fn end_with(self, seats: [SharedSeat; 2]) {
        for seat in seats {
            seat.seat.close().await;
        }
        self.end().await;
    }
}

struct SharedSeat {
    seat: Box<dyn Seat>,
    workspace: TempDir,
}

impl SharedSeat {
    async fn reply(&mut self, tool: &str, arguments: Value) -> Reply {
        let params = greenroom_core::raw::encode(&json!({ "name": tool, "arguments": arguments }));
        let worker = Arc::new(AgentWithWorkspace(self.workspace.path().to_owned()));
        within(TEST_TIMEOUT, self.seat.call(Call::new(tool, params), worker)).await.unwrap()
    }

    /// The answer of a tool, which must not fail.
    async fn call(&mut self, tool: &str, arguments: Value) -> String {
        let reply = self.reply(tool, arguments).await;
        let answer = text(&reply);
        assert!(!reply.is_failure(), "{tool}: {answer}");
        answer
    }

    /// Selects a tab that a page has opened, once the engine knows it.
    async fn select_popup(&mut self) {
        let is_known = async || {
            let listed = self.call("browser_tabs", json!({ "action": "list" })).await;
            listed.contains("- 1: ").then_some(())
        };
        until_some("the tab in the engine's list", is_known).await;
        self.call("browser_tabs", json!({ "action": "select", "index": 1 })).await;
    }

    /// The return value of a function in the page, as JSON.
    async fn evaluate(&mut self, function: &str) -> Value {
        let answer = self.call("browser_evaluate", json!({ "function": function })).await;
        let result = answer.strip_prefix("### Result\n").unwrap_or(&answer);
        serde_json::from_str(result.split("\n### ").next().unwrap()).unwrap_or(Value::Null)
    }
}
