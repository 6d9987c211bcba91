//! What a person sees and does in the browser: its tabs, and their content.

use serde_json::{Value, json};

use super::{UserBrowser, debugger::Debugger};
use crate::until_some;

/// A page in the browser's own context, also one that greenroom opened there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tab {
    pub id: String,
    pub url: String,
}

impl UserBrowser {
    /// The tabs of the browser's own context, always in the same order: lists are equal if the tabs are.
    pub async fn tabs(&self) -> Vec<Tab> {
        let mut debugger = self.debugger().await;
        let contexts = debugger.call(None, "Target.getBrowserContexts", json!({})).await;
        let made = ids(&contexts);
        let targets = debugger.call(None, "Target.getTargets", json!({})).await;
        let is_tab = |info: &&Value| {
            let context = info["browserContextId"].as_str().unwrap_or_default();
            info["type"] == "page" && made.iter().all(|made| made != context)
        };
        let tab = |info: &Value| Tab { id: text(&info["targetId"]), url: text(&info["url"]) };
        let mut tabs: Vec<_> =
            targets["targetInfos"].as_array().unwrap().iter().filter(is_tab).map(tab).collect();
        tabs.sort();
        tabs
    }

    /// The addresses of its tabs, sorted.
    pub async fn urls(&self) -> Vec<String> {
        let mut urls: Vec<_> = self.tabs().await.into_iter().map(|tab| tab.url).collect();
        urls.sort();
        urls
    }

    /// Waits until its tabs satisfy the predicate, and returns them.
    pub async fn until(&self, is_match: impl Fn(&[Tab]) -> bool) -> Vec<Tab> {
        let look = async || Some(self.tabs().await).filter(|tabs| is_match(tabs));
        until_some("tabs as they should be", look).await
    }

    /// Returns when its tabs have exactly these addresses, in whatever order.
    pub async fn wait_for_urls(&self, wanted: &[&str]) {
        let mut wanted: Vec<_> = wanted.to_vec();
        wanted.sort_unstable();
        let what = format!("{wanted:?}");
        until_some(&what, async || (self.urls().await == wanted).then_some(())).await;
    }

    /// Opens a tab as a person does, and returns its id when its page is there.
    pub async fn open(&self, url: &str) -> String {
        let made = self.debugger().await.call(None, "Target.createTarget", json!({ "url": url })).await;
        let tab = text(&made["targetId"]);
        self.until_loaded(&tab, url).await;
        tab
    }

    /// Navigates a tab, as a person does.
    pub async fn navigate(&self, tab: &str, url: &str) {
        let mut debugger = self.debugger().await;
        let session = debugger.attach(tab).await;
        debugger.call(Some(&session), "Page.navigate", json!({ "url": url })).await;
        self.until_loaded(tab, url).await;
    }

    /// Closes a tab as a person does.
    pub async fn close(&self, tab: &str) {
        self.debugger().await.call(None, "Target.closeTarget", json!({ "targetId": tab })).await;
    }

    /// Runs code in a tab, and returns its value.
    pub async fn evaluate(&self, tab: &str, code: &str) -> Value {
        let mut debugger = self.debugger().await;
        let session = debugger.attach(tab).await;
        let code =
            json!({ "expression": code, "returnByValue": true, "awaitPromise": true, "userGesture": true });
        let mut answer = debugger.call(Some(&session), "Runtime.evaluate", code).await;
        answer["result"]["value"].take()
    }

    /// Crashes a tab's page, and waits until the browser has noticed.
    pub async fn crash(&self, tab: &str) {
        let mut debugger = self.debugger().await;
        let session = debugger.attach(tab).await;
        debugger.call(Some(&session), "Inspector.enable", json!({})).await;
        // The browser answers this call never, or with the crash.
        debugger.send(Some(&session), "Page.crash", json!({})).await;
        debugger.event(&session, "Inspector.targetCrashed").await;
    }

    /// The contexts other than the browser's own.
    pub async fn contexts(&self) -> Vec<String> {
        ids(&self.debugger().await.call(None, "Target.getBrowserContexts", json!({})).await)
    }

    /// Makes one more context.
    pub async fn make_context(&self) -> String {
        let made = self.debugger().await.call(None, "Target.createBrowserContext", json!({})).await;
        text(&made["browserContextId"])
    }

    pub(super) async fn until_loaded(&self, tab: &str, url: &str) {
        let loaded = format!("location.href === '{url}' && document.readyState === 'complete'");
        let is_loaded = async || (self.evaluate(tab, &loaded).await == true).then_some(());
        until_some(url, is_loaded).await;
    }

    async fn debugger(&self) -> Debugger {
        Debugger::connect(self.address(), &self.ws_endpoint().await).await
    }
}

fn ids(contexts: &Value) -> Vec<String> {
    contexts["browserContextIds"].as_array().unwrap().iter().map(text).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
