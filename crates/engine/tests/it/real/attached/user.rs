//! A browser as a person has it: started by the test, with tabs of its own, and looked at over its debugger.

use std::{path::Path, process::Stdio, sync::Arc};

use greenroom_cdp::{Client, Events};
use greenroom_engine::{Endpoint, StartCommand};
use greenroom_testkit::{PATIENCE, within};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    sync::Mutex,
};

pub const CHROMIUM: &str = "/usr/lib/chromium/chromium";

pub const FLAGS: [&str; 8] = [
    "--no-sandbox",
    "--headless=new",
    "--no-first-run",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
];

/// A running browser, which ends with the test.
pub struct UserBrowser {
    child: Child,
    pub port: u16,
    client: Client,
    events: Mutex<Events>,
    _profile: TempDir,
}

impl UserBrowser {
    /// With one tab, at `url`.
    pub async fn start(url: &str) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut child = command(profile.path(), 0).arg(url).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = within(PATIENCE, async {
            loop {
                let line =
                    lines.next_line().await.unwrap().unwrap_or_else(|| panic!("it ended before it listened"));
                if let Some(address) = line.strip_prefix("DevTools listening on ") {
                    break address.to_owned();
                }
            }
        })
        .await;
        // Somebody must go on reading, or a talkative browser would block on a full pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let (client, events) = Client::connect(&address).await.unwrap();
        let port = client.local_port().unwrap();
        let browser = Self { child, port, client, events: Mutex::new(events), _profile: profile };
        let tabs = browser.until(|tabs| tabs.iter().any(|tab| tab.url == url)).await;
        browser.until_loaded(&tabs[0].id, url).await;
        browser
    }

    pub fn endpoint(&self) -> Arc<Endpoint> {
        Arc::new(Endpoint {
            url: format!("http://127.0.0.1:{}", self.port),
            headers: Vec::new(),
            start_command: StartCommand::default(),
        })
    }

    pub async fn call(&self, method: &str, params: Value) -> Value {
        let answer = self.client.call(method, &params).await.unwrap();
        serde_json::from_str(answer.get()).unwrap()
    }

    /// The tabs of the browser's own context.
    pub async fn tabs(&self) -> Vec<Tab> {
        let contexts = self.call("Target.getBrowserContexts", json!({})).await;
        let own = &contexts["defaultBrowserContextId"];
        let targets = self.call("Target.getTargets", json!({})).await;
        let is_tab = |info: &&Value| info["type"] == "page" && info["browserContextId"] == *own;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let tab = |info: &Value| Tab { id: text(&info["targetId"]), url: text(&info["url"]) };
        targets["targetInfos"].as_array().unwrap().iter().filter(is_tab).map(tab).collect()
    }

    /// Opens a tab as its user would.
    pub async fn open_tab(&self, url: &str) -> String {
        let made = self.call("Target.createTarget", json!({ "url": url })).await;
        let tab = made["targetId"].as_str().unwrap();
        self.until_loaded(tab, url).await;
        tab.to_owned()
    }

    async fn until_loaded(&self, tab: &str, url: &str) {
        let loaded = format!("location.href === '{url}' && document.readyState === 'complete'");
        within(PATIENCE, async { while self.evaluate(tab, &loaded).await != true {} }).await;
    }

    /// Waits until the tabs are as they should be.
    pub async fn until(&self, fine: impl Fn(&[Tab]) -> bool) -> Vec<Tab> {
        within(PATIENCE, async {
            loop {
                let tabs = self.tabs().await;
                if fine(&tabs) {
                    return tabs;
                }
                tokio::task::yield_now().await;
            }
        })
        .await
    }

    /// Runs code in a tab, and says what it gives.
    pub async fn evaluate(&self, tab: &str, code: &str) -> Value {
        let attached = self.call("Target.attachToTarget", json!({ "targetId": tab, "flatten": true })).await;
        let session = attached["sessionId"].as_str().unwrap();
        let code =
            json!({ "expression": code, "returnByValue": true, "awaitPromise": true, "userGesture": true });
        let answer = self.client.call_in(session, "Runtime.evaluate", &code).await.unwrap();
        let _ = self.call("Target.detachFromTarget", json!({ "sessionId": session })).await;
        let answer: Value = serde_json::from_str(answer.get()).unwrap();
        answer["result"]["value"].clone()
    }

    /// Goes elsewhere in a tab, as its user would.
    pub async fn navigate(&self, tab: &str, url: &str) {
        let attached = self.call("Target.attachToTarget", json!({ "targetId": tab, "flatten": true })).await;
        let session = attached["sessionId"].as_str().unwrap();
        self.client.call_in(session, "Page.navigate", &json!({ "url": url })).await.unwrap();
        self.until_loaded(tab, url).await;
    }

    /// How many contexts there are beside the browser's own.
    pub async fn contexts(&self) -> usize {
        self.made_contexts().await.len()
    }

    /// Which these are.
    pub async fn made_contexts(&self) -> Vec<String> {
        let contexts = self.call("Target.getBrowserContexts", json!({})).await;
        let made = contexts["browserContextIds"].as_array().unwrap().iter();
        made.map(|context| context.as_str().unwrap().to_owned()).collect()
    }

    /// Makes one more.
    pub async fn make_context(&self) -> String {
        let made = self.call("Target.createBrowserContext", json!({})).await;
        made["browserContextId"].as_str().unwrap().to_owned()
    }

    /// Has a tab's page crash, and waits until the browser has noticed.
    pub async fn crash(&self, tab: &str) {
        let attached = self.call("Target.attachToTarget", json!({ "targetId": tab, "flatten": true })).await;
        let session = attached["sessionId"].as_str().unwrap();
        self.client.call_in(session, "Inspector.enable", &json!({})).await.unwrap();
        // It is never answered, or with the crash.
        let crash = json!({});
        let crashed = self.client.call_in(session, "Page.crash", &crash);
        let noticed = within(PATIENCE, async {
            loop {
                let event = self.events.lock().await.next().await.unwrap();
                if event.method == "Inspector.targetCrashed" && event.session.as_deref() == Some(session) {
                    break;
                }
            }
        });
        tokio::select! {
            () = noticed => {}
            () = async { let _ = crashed.await; std::future::pending().await } => {}
        }
    }

    pub async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tab {
    pub id: String,
    pub url: String,
}

/// The command of such a browser. Port 0 is any.
#[allow(clippy::disallowed_methods, reason = "a person starts it, not greenroom")]
pub fn command(profile: &Path, port: u16) -> Command {
    let mut command = Command::new(CHROMIUM);
    command.args(FLAGS).arg(format!("--remote-debugging-port={port}"));
    command.arg(format!("--user-data-dir={}", profile.display()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    command
}
