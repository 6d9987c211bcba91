//! Browsers that already run, real ones, driven through greenroom by real engines.
//!
//! Each test starts the browsers itself, as a person would ([`Theirs`]), and inspects them from outside.

mod changes;
mod devtools;
mod down;
mod eager;
mod headers;
mod mixed;
mod parallel;
mod recovery;
mod rules;
mod tagged;
mod untouched;

use greenroom_testkit::{Launch, Pending, Theirs, case, until_some};
use serde_json::{Value, json};

use super::house::{Answer, Data, GatewayFixture, answer, launch};

/// One browser, one greenroom, one case after the other: which browser a call means, whose tabs are closed, and browsers that
/// come and go.
#[tokio::test]
async fn one_browser() {
    let attached = Attached::start(1, &[]).await;
    case("rules::single_browser", rules::single_browser(&attached)).await;
    case("untouched::closing_closes_own_tabs", untouched::closing_closes_own_tabs(&attached)).await;
    case("untouched::the_neighbour_is_not_taken", untouched::the_neighbour_is_not_taken(&attached)).await;
    case("changes::added_and_removed", changes::added_and_removed(&attached)).await;
    case("changes::a_name_is_looked_up_once", changes::a_name_is_looked_up_once(&attached)).await;
    attached.house.end().await;
}

/// Two browsers, one greenroom, one case after the other: which browser a call means, and that both are driven at once.
#[tokio::test]
async fn two_browsers() {
    let attached = Attached::start(2, &[]).await;
    case("rules::a_session_stays_in_its_browser", rules::a_session_stays_in_its_browser(&attached)).await;
    case("rules::multiple_browsers", rules::multiple_browsers(&attached)).await;
    let moment = parallel::two_browsers_at_the_same_moment(&attached);
    case("parallel::two_browsers_at_the_same_moment", moment).await;
    // Last, since its call never ends.
    let busy = parallel::a_busy_browser_holds_up_no_other(&attached);
    case("parallel::a_busy_browser_holds_up_no_other", busy).await;
    attached.house.end().await;
}

/// A greenroom and the browsers it is attached to.
pub struct Attached {
    pub house: GatewayFixture,
    pub theirs: Vec<Theirs>,
    _data: Data,
}

impl Attached {
    /// This many browsers, named by `--browserUrl` in order.
    pub async fn start(count: usize, flags: &[&str]) -> Self {
        let theirs = all_of(count).await;
        let urls: Vec<_> = theirs.iter().map(Theirs::url).collect();
        Self::to(theirs, &urls, flags).await
    }

    /// These browsers, at these addresses.
    pub async fn to(theirs: Vec<Theirs>, urls: &[String], flags: &[&str]) -> Self {
        let data = Data::new();
        let house = GatewayFixture::of(with(launch(data.path(), flags), urls)).await;
        Self { house, theirs, _data: data }
    }

    /// Calls a tool in the browser of this index.
    pub async fn call(&self, index: impl Into<Value>, tool: &str, arguments: Value) -> Answer {
        answer(self.begin(index, tool, arguments).await).await
    }

    pub async fn begin(&self, index: impl Into<Value>, tool: &str, mut arguments: Value) -> Pending {
        arguments["browserIndex"] = index.into();
        self.house.client.start_call(tool, arguments).await
    }

    pub async fn navigate(&self, index: impl Into<Value>, url: &str) -> Answer {
        self.call(index, "browser_navigate", json!({ "url": url })).await
    }

    /// The answer of `list_browsers`, as text and as data.
    pub async fn list(&self) -> (String, Value) {
        list(&self.house).await
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

pub async fn list(house: &GatewayFixture) -> (String, Value) {
    let answer = house.call("", "list_browsers", json!({})).await;
    (answer.ok(), answer.response["result"]["structuredContent"].clone())
}

pub async fn all_of(count: usize) -> Vec<Theirs> {
    super::house::all((0..count).map(|_| Theirs::start())).await
}

/// A greenroom whose browsers are declared in this file.
pub async fn configured(data: &Data, text: &str, flags: &[&str]) -> GatewayFixture {
    let config = data.path().join("browsers.toml");
    std::fs::write(&config, text).unwrap();
    GatewayFixture::of(launch(data.path(), &["--config", config.to_str().unwrap()]).args(flags)).await
}

/// A command line with these browsers.
pub fn with(launch: Launch, urls: &[String]) -> Launch {
    urls.iter().fold(launch, |launch, url| launch.arg("--browserUrl").arg(url))
}
