//! Attached browsers. [`AttachedFixture`] is greenroom attached to one of them, with an agent.
//!
//! The tests in `reach`, `loss` and `tabs` run with both adapters. Tests of what only one adapter does are in a file
//! with its name.

mod devtools;
mod loss;
mod playwright;
mod reach;
mod silent_tabs;
mod tabs;

use std::{path::Path, sync::Arc};

use greenroom_core::{Call, Engine, Instance, InstanceId, Lost, Reply, Seat};
use greenroom_engine::{
    DevtoolsEngine, Endpoint, EngineBase, EngineOptions, PlaywrightEngine, StartCommand, launcher::Launcher,
    ports::Ports, run_folder::RunFolder,
};
use greenroom_testkit::{Site, TEST_TIMEOUT, UserBrowser, case, until_some, within};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;

use super::{AgentWithWorkspace, GRACE, data_folder, text};

/// A port without a listener: there is no proxy, since an attached browser has its own network settings.
const NO_PROXY: u16 = 9;

/// Which engine drives the browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Adapter {
    Playwright,
    Devtools,
}

const ADAPTERS: [Adapter; 2] = [Adapter::Playwright, Adapter::Devtools];

/// An engine for a browser, and its parts.
struct AttachedEngine {
    engine: Arc<dyn Engine>,
    launcher: Launcher,
    ports: Ports,
    run: Arc<RunFolder>,
}

impl Adapter {
    fn engine(self, data: &Path, endpoint: Endpoint) -> AttachedEngine {
        match self {
            Self::Playwright => with_playwright(data, endpoint, |_| {}),
            Self::Devtools => with_devtools(data, endpoint, |_| {}),
        }
    }
}

/// The playwright engine, with other options if need be.
fn with_playwright(
    data: &Path,
    endpoint: Endpoint,
    change: impl FnOnce(&mut EngineOptions),
) -> AttachedEngine {
    let engine = super::engine(data, NO_PROXY, &[]);
    let mut options = (*engine.options).clone();
    options.attach = Some(Arc::new(endpoint));
    options.pool.isolated = false;
    options.pool.timeout_settle = None;
    change(&mut options);
    let engine = PlaywrightEngine(EngineBase { options: Arc::new(options), ..engine.0 });
    let launcher = engine.launcher.clone();
    let ports = engine.ports.clone();
    let run = engine.run.clone();
    AttachedEngine { engine: Arc::new(engine), launcher, ports, run }
}

/// The devtools engine, with other options if need be.
fn with_devtools(data: &Path, endpoint: Endpoint, change: impl FnOnce(&mut EngineOptions)) -> AttachedEngine {
    let engine: DevtoolsEngine = super::devtools::engine(data, NO_PROXY, |options| {
        options.attach = Some(Arc::new(endpoint));
        options.pool.isolated = false;
        change(options);
    });
    let launcher = engine.launcher.clone();
    let ports = engine.ports.clone();
    let run = engine.run.clone();
    AttachedEngine { engine: Arc::new(engine), launcher, ports, run }
}

fn at(url: impl Into<String>) -> Endpoint {
    Endpoint { url: url.into(), headers: Vec::new(), start_command: StartCommand::default() }
}

/// greenroom, attached to a browser, and perhaps an agent with a seat in it.
struct AttachedFixture {
    adapter: Adapter,
    attached: AttachedEngine,
    instance: Arc<dyn Instance>,
    seat: Option<Box<dyn Seat>>,
    /// The number of the page that calls of the devtools engine name.
    page: u64,
    workspace: TempDir,
    /// Last, so that it is dropped after all users of it.
    _data: TempDir,
}

impl AttachedFixture {
    /// Attaches to a browser, and opens a seat.
    async fn with_seat(adapter: Adapter, user_browser: &UserBrowser) -> Self {
        let mut fixture = Self::at(adapter, at(user_browser.url())).await;
        fixture.open_seat().await;
        fixture
    }

    /// Attaches to a browser, without a seat.
    async fn at(adapter: Adapter, endpoint: Endpoint) -> Self {
        let data = data_folder();
        let attached = adapter.engine(data.path(), endpoint);
        Self::with_engine(adapter, attached, data).await
    }

    /// Attaches with an engine whose actions have a long timeout: on a busy machine playwright has exceeded its 5 s for a
    /// picture of a tab in the background.
    async fn with_long_timeouts(adapter: Adapter, user_browser: &UserBrowser) -> Self {
        let data = data_folder();
        let attached = match adapter {
            Adapter::Playwright => with_playwright(data.path(), at(user_browser.url()), |options| {
                options.pool.timeout_action = Some(TEST_TIMEOUT);
            }),
            Adapter::Devtools => adapter.engine(data.path(), at(user_browser.url())),
        };
        Self::with_engine(adapter, attached, data).await
    }

    async fn with_engine(adapter: Adapter, attached: AttachedEngine, data: TempDir) -> Self {
        let instance = within(TEST_TIMEOUT, attached.engine.start(InstanceId(0))).await.unwrap();
        let workspace = tempfile::tempdir().unwrap();
        Self { adapter, attached, instance, seat: None, page: 0, workspace, _data: data }
    }

    fn worker(&self) -> Arc<AgentWithWorkspace> {
        Arc::new(AgentWithWorkspace(self.workspace.path().to_owned()))
    }

    async fn open_seat(&mut self) {
        self.seat = Some(within(TEST_TIMEOUT, self.instance.open(self.worker())).await.unwrap());
        if self.adapter == Adapter::Devtools {
            self.page = self.page_of(|line| line.ends_with("[selected]")).await;
        }
    }

    fn seat(&self) -> &dyn Seat {
        self.seat.as_deref().unwrap()
    }

    fn seat_mut(&mut self) -> &mut dyn Seat {
        self.seat.as_mut().unwrap().as_mut()
    }

    async fn close_seat(&mut self) {
        if let Some(seat) = self.seat.take() {
            seat.close().await;
        }
    }

    async fn stop(mut self) {
        self.close_seat().await;
        self.instance.stop(GRACE).await;
        within(TEST_TIMEOUT, self.attached.launcher.all_ended()).await;
    }

    async fn try_call(&mut self, tool: &str, arguments: Value) -> Result<Reply, Lost> {
        let params = greenroom_core::raw::encode(&json!({ "name": tool, "arguments": arguments }));
        let worker = self.worker();
        within(TEST_TIMEOUT, self.seat.as_mut().unwrap().call(Call::new(tool, params), worker)).await
    }

    /// The text that a tool answers, which must not fail.
    async fn call(&mut self, tool: &str, arguments: Value) -> String {
        let reply = self.try_call(tool, arguments).await.unwrap();
        assert!(!reply.is_failure(), "{tool}: {}", text(&reply));
        text(&reply)
    }

    async fn navigate(&mut self, url: &str) -> String {
        match self.adapter {
            Adapter::Playwright => self.call("browser_navigate", json!({ "url": url })).await,
            Adapter::Devtools => {
                let answer = self.call("navigate_page", json!({ "pageId": self.page, "url": url })).await;
                assert!(answer.starts_with("Successfully navigated"), "{answer}");
                answer
            }
        }
    }

    async fn try_evaluate(&mut self, function: &str) -> Result<Reply, Lost> {
        match self.adapter {
            Adapter::Playwright => self.try_call("browser_evaluate", json!({ "function": function })).await,
            Adapter::Devtools => {
                let arguments = json!({ "pageId": self.page, "function": function });
                self.try_call("evaluate_script", arguments).await
            }
        }
    }

    async fn evaluate(&mut self, function: &str) -> String {
        let reply = self.try_evaluate(function).await.unwrap();
        assert!(!reply.is_failure(), "{}", text(&reply));
        text(&reply)
    }

    async fn take_picture(&mut self) {
        match self.adapter {
            Adapter::Playwright => self.call("browser_take_screenshot", json!({})).await,
            Adapter::Devtools => self.call("take_screenshot", json!({ "pageId": self.page })).await,
        };
    }

    /// Opens one more tab.
    async fn open(&mut self, url: &str) {
        match self.adapter {
            Adapter::Playwright => {
                self.call("browser_tabs", json!({ "action": "new", "url": url })).await;
            }
            Adapter::Devtools => {
                self.call("new_page", json!({ "url": url })).await;
            }
        }
    }

    /// Waits until the engine has noticed that tabs were closed, which may be after the browser closed them.
    async fn until_tabs(&mut self, count: usize) {
        let (tool, arguments) = match self.adapter {
            Adapter::Playwright => ("browser_tabs", json!({ "action": "list" })),
            Adapter::Devtools => ("list_pages", json!({})),
        };
        let is_tab =
            |line: &&str| line.starts_with("- ") || line.starts_with(|first: char| first.is_ascii_digit());
        until_some("the engine's list of tabs", async || {
            // The engine fails to list a tab that is just closing.
            let list = self.try_call(tool, arguments.clone()).await.unwrap();
            (!list.is_failure() && text(&list).lines().filter(is_tab).count() == count).then_some(())
        })
        .await;
    }

    /// Uses the tab of this title from now on.
    async fn select(&mut self, title: &str) {
        let title = format!("t={title}");
        match self.adapter {
            Adapter::Playwright => {
                let list = self.call("browser_tabs", json!({ "action": "list" })).await;
                let line = list.lines().find(|line| line.contains(&title)).unwrap();
                let index: u32 = line.trim_start_matches("- ").split(':').next().unwrap().parse().unwrap();
                self.call("browser_tabs", json!({ "action": "select", "index": index })).await;
            }
            Adapter::Devtools => self.page = self.page_of(|line| line.contains(&title)).await,
        }
    }

    /// The number of a page that the devtools engine lists.
    async fn page_of(&mut self, is_it: impl Fn(&str) -> bool) -> u64 {
        let pages = self.call("list_pages", json!({})).await;
        let line = pages.lines().find(|line| is_it(line));
        line.unwrap_or_else(|| panic!("{pages}")).split(':').next().unwrap().parse().unwrap()
    }
}

/// Runs cases one after the other in one browser, driven by one engine, and returns the site and the browser. Before each case
/// the browser has one tab, which shows `/title?t=home`, and no seat uses it.
macro_rules! in_one_browser {
    ($adapter:expr, $($name:path),+ $(,)?) => {{
        let site = Site::start().await;
        let home = site.url("/title?t=home");
        let user_browser = UserBrowser::showing(&home).await;
        let mut fixture = AttachedFixture::with_long_timeouts($adapter, &user_browser).await;
        $(
            case(stringify!($name), $name(&site, &user_browser, &mut fixture)).await;
            show_only(&user_browser, &home).await;
        )+
        fixture.stop().await;
        user_browser.wait_for_urls(&[&home]).await;
        (site, user_browser)
    }};
}

/// Closes all tabs of a browser and opens this address in a new one.
async fn show_only(user_browser: &UserBrowser, url: &str) {
    let before = user_browser.tabs().await;
    let kept = user_browser.open(url).await;
    for tab in before {
        user_browser.close(&tab.id).await;
    }
    user_browser.until(|tabs| matches!(tabs, [only] if only.id == kept)).await;
}

/// What the playwright engine does in an attached browser: which tabs it uses, closes and leaves.
#[tokio::test]
async fn tabs_with_playwright() {
    let (site, user_browser) = in_one_browser!(
        Adapter::Playwright,
        tabs::seat_leaves_the_users_tabs_unchanged,
        tabs::opened_tabs_belong_to_their_opener,
        tabs::users_tab_is_used_when_selected,
        tabs::empty_tab_replaces_the_last_tab,
        playwright::closed_tab_is_replaced_by_an_own_tab,
        playwright::agent_returns_to_its_tab_when_a_selected_tab_closes,
        playwright::browser_close_closes_own_tabs_only,
        playwright::users_tabs_keep_their_file_dialogs_and_scripts,
        playwright::agent_that_closes_the_last_tab_leaves_an_empty_one,
        playwright::other_methods_than_tool_calls_are_refused,
        loss::only_own_tabs_count_as_crashed,
    );
    // These cases need engines with other settings.
    case(
        "playwright::isolated_guests_see_nothing",
        playwright::isolated_seats_do_not_see_the_users_cookies(&site, &user_browser),
    )
    .await;
    case(
        "playwright::guests_come_and_go",
        playwright::seats_and_users_tabs_open_at_once(&site, &user_browser),
    )
    .await;
}

/// The same with the devtools engine, and files in and out of such a browser.
#[tokio::test]
async fn tabs_with_devtools() {
    in_one_browser!(
        Adapter::Devtools,
        tabs::seat_leaves_the_users_tabs_unchanged,
        tabs::opened_tabs_belong_to_their_opener,
        tabs::users_tab_is_used_when_selected,
        tabs::empty_tab_replaces_the_last_tab,
        devtools::requested_contexts_end_with_the_seat,
        devtools::last_tab_cannot_be_closed,
        devtools::files_go_to_the_workspace,
        loss::only_own_tabs_count_as_crashed,
    );
}

/// Waits until a seat or an instance is lost, and says why.
async fn wait_for_loss(mut lost: watch::Receiver<Option<Lost>>) -> Lost {
    within(TEST_TIMEOUT, lost.wait_for(Option::is_some)).await.unwrap().clone().unwrap()
}
