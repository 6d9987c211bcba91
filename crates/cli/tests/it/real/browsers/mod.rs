//! Browsers that already run, real ones, driven through greenroom by real engines.
//!
//! Each test starts the browsers itself, as a person would ([`UserBrowser`]), and inspects them from outside.

mod changes;
mod devtools;
mod eager;
mod headers;
mod mixed_engines;
mod parallel;
mod recovery;
mod rules;
mod tags;
mod unreachable;
mod user_tabs;

use greenroom_testkit::{Launch, Pending, UserBrowser, case, until_some};
use serde_json::{Value, json};

use super::fixture::{DataFolder, GatewayFixture, ToolAnswer, answer, launch};

/// One browser, one greenroom, one case after the other: which browser a call means, whose tabs are closed, and browsers that
/// come and go.
#[tokio::test]
async fn cases_with_one_browser() {
    let attached = AttachedFixture::start(1, &[]).await;
    case("rules::single_browser_needs_no_index", rules::single_browser_needs_no_index(&attached)).await;
    case("user_tabs::closing_closes_own_tabs", user_tabs::closing_closes_own_tabs(&attached)).await;
    case("user_tabs::user_tabs_are_not_taken", user_tabs::user_tabs_are_not_taken(&attached)).await;
    case("changes::browsers_are_added_and_removed", changes::browsers_are_added_and_removed(&attached)).await;
    case("changes::name_is_resolved_once", changes::name_is_resolved_once(&attached)).await;
    attached.gateway.end().await;
}

/// Two browsers, one greenroom, one case after the other: which browser a call means, and that both are driven at once.
#[tokio::test]
async fn cases_with_two_browsers() {
    let attached = AttachedFixture::start(2, &[]).await;
    case("rules::session_stays_in_its_browser", rules::session_stays_in_its_browser(&attached)).await;
    case("rules::several_browsers_need_an_index", rules::several_browsers_need_an_index(&attached)).await;
    let moment = parallel::two_browsers_at_the_same_moment(&attached);
    case("parallel::two_browsers_at_the_same_moment", moment).await;
    // Last, since its call never ends.
    let busy = parallel::busy_browser_delays_no_other(&attached);
    case("parallel::busy_browser_delays_no_other", busy).await;
    attached.gateway.end().await;
}

/// A greenroom and the browsers it is attached to.
pub struct AttachedFixture {
    pub gateway: GatewayFixture,
    pub user_browsers: Vec<UserBrowser>,
    _data: DataFolder,
}

impl AttachedFixture {
    /// This many browsers, named by `--browserUrl` in order.
    pub async fn start(count: usize, flags: &[&str]) -> Self {
        let user_browsers = all_of(count).await;
        let urls: Vec<_> = user_browsers.iter().map(UserBrowser::url).collect();
        Self::to(user_browsers, &urls, flags).await
    }

    /// These browsers, at these addresses.
    pub async fn to(user_browsers: Vec<UserBrowser>, urls: &[String], flags: &[&str]) -> Self {
        let data = DataFolder::new();
        let gateway = GatewayFixture::spawn(with(launch(data.path(), flags), urls)).await;
        Self { gateway, user_browsers, _data: data }
    }

    /// Calls a tool in the browser of this index.
    pub async fn call(&self, index: impl Into<Value>, tool: &str, arguments: Value) -> ToolAnswer {
        answer(self.begin(index, tool, arguments).await).await
    }

    pub async fn begin(&self, index: impl Into<Value>, tool: &str, mut arguments: Value) -> Pending {
        arguments["browserIndex"] = index.into();
        self.gateway.client.start_call(tool, arguments).await
    }

    pub async fn navigate(&self, index: impl Into<Value>, url: &str) -> ToolAnswer {
        self.call(index, "browser_navigate", json!({ "url": url })).await
    }

    /// The answer of `list_browsers`, as text and as data.
    pub async fn list(&self) -> (String, Value) {
        list(&self.gateway).await
    }

    /// The state of each browser, by index.
    pub async fn states(&self) -> Vec<String> {
        let (_, structured) = self.list().await;
        let browsers = structured["browsers"].as_array().unwrap();
        browsers.iter().map(|browser| browser["state"].as_str().unwrap().to_owned()).collect()
    }

    /// Returns when the browser of this index is in this state.
    pub async fn until(&self, index: usize, state: &str) {
        // No notification reports the state of a browser.
        until_some(state, async || (self.states().await[index - 1] == state).then_some(())).await;
    }
}

pub async fn list(gateway: &GatewayFixture) -> (String, Value) {
    let answer = gateway.call("", "list_browsers", json!({})).await;
    (answer.ok(), answer.response["result"]["structuredContent"].clone())
}

pub async fn all_of(count: usize) -> Vec<UserBrowser> {
    super::fixture::all((0..count).map(|_| UserBrowser::start())).await
}

/// A greenroom whose browsers are declared in this file.
pub async fn configured(data: &DataFolder, text: &str, flags: &[&str]) -> GatewayFixture {
    let config = data.path().join("browsers.toml");
    std::fs::write(&config, text).unwrap();
    GatewayFixture::spawn(launch(data.path(), &["--config", config.to_str().unwrap()]).args(flags)).await
}

/// A command line with these browsers.
pub fn with(launch: Launch, urls: &[String]) -> Launch {
    urls.iter().fold(launch, |launch, url| launch.arg("--browserUrl").arg(url))
}
