//! A browser of somebody else's: a real Chromium that a test starts, kills and starts again at the same address, as a
//! person would, and looks into from outside through its debugger's own pages (`/json`), never through greenroom.
//!
//! What is started with its profile by others, such as by a start command, is ended with it: its processes are known by
//! the profile, which no other browser has.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::Stdio,
};

use serde::Deserialize;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::{
    deadline::eventually,
    http::Wire,
    process::{Signal, alive, signal, wait_gone, with_argument},
};

/// Debian's headless Chromium itself, not the script that starts it.
const CHROMIUM: &str = "/usr/lib/chromium/chromium-headless-shell";

/// A browser with its profile and its address, which stay the same when it is killed and started again.
pub struct Theirs {
    profile: TempDir,
    port: u16,
    /// Reaped when it ends. `None` while nobody has started it again.
    child: Option<Child>,
}

/// A page, as the browser lists it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Tab {
    pub id: String,
    pub url: String,
}

impl Theirs {
    /// Starts a browser with one tab, `about:blank`, on a port of its own choice.
    pub async fn start() -> Self {
        let mut theirs = Self { profile: tempfile::tempdir().unwrap(), port: 0, child: None };
        theirs.start_again().await;
        theirs
    }

    /// Starts it again, by hand, at its old address.
    pub async fn start_again(&mut self) {
        let command = self.command();
        let (program, arguments) = command.split_first().unwrap();
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        self.child = Some(child);
        if self.port == 0 {
            // Only a port of the browser's own choice is written there.
            let active = self.profile.path().join("DevToolsActivePort");
            let port = || fs::read_to_string(&active).ok()?.lines().next()?.parse().ok();
            self.port = eventually("the debugger's port", port).await;
        }
        let address = self.address();
        eventually("the debugger", || std::net::TcpStream::connect(address).ok()).await;
    }

    /// What starts it at its address: a program and its arguments.
    pub fn command(&self) -> Vec<String> {
        let own = [
            CHROMIUM.to_owned(),
            format!("--remote-debugging-port={}", self.port),
            format!("--user-data-dir={}", self.profile.path().display()),
        ];
        let usual = [
            "--no-sandbox",
            "--no-first-run",
            "--disable-quic",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "about:blank",
        ];
        own.into_iter().chain(usual.map(str::to_owned)).collect()
    }

    pub fn profile(&self) -> &Path {
        self.profile.path()
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The debugger's WebSocket address, which is another one after each start.
    pub async fn ws_endpoint(&self) -> String {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Version {
            web_socket_debugger_url: String,
        }
        let version: Version = serde_json::from_str(&self.ask("GET", "/json/version").await).unwrap();
        version.web_socket_debugger_url
    }

    /// The browser's main process, whoever started it.
    pub fn pid(&self) -> Option<u32> {
        self.processes().into_iter().next()
    }

    /// Kills it, and returns when it is gone.
    pub async fn kill(&mut self) {
        for pid in self.processes() {
            signal(pid, Signal::KILL);
            wait_gone(pid).await;
        }
        if let Some(mut child) = self.child.take() {
            let _ = child.wait().await;
        }
    }

    /// Its pages, oldest first, as far as it has windows: those of other contexts too.
    pub async fn tabs(&self) -> Vec<Tab> {
        #[derive(Deserialize)]
        struct Target {
            r#type: String,
            #[serde(flatten)]
            tab: Tab,
        }
        let targets: Vec<Target> = serde_json::from_str(&self.ask("GET", "/json/list").await).unwrap();
        let mut tabs: Vec<_> =
            targets.into_iter().filter(|target| target.r#type == "page").map(|target| target.tab).collect();
        tabs.reverse();
        tabs
    }

    /// The addresses of its pages, sorted.
    pub async fn urls(&self) -> Vec<String> {
        let mut urls: Vec<_> = self.tabs().await.into_iter().map(|tab| tab.url).collect();
        urls.sort();
        urls
    }

    /// Returns when its pages have exactly these addresses, in whatever order.
    pub async fn wait_for_urls(&self, wanted: &[&str]) {
        let mut wanted: Vec<_> = wanted.iter().map(|url| (*url).to_owned()).collect();
        wanted.sort();
        let deadline = tokio::time::Instant::now() + crate::PATIENCE;
        loop {
            let urls = self.urls().await;
            if urls == wanted {
                return;
            }
            assert!(tokio::time::Instant::now() < deadline, "wanted {wanted:?}, there is {urls:?}");
            // A page that loads tells its own debuggers, which a look from outside is not.
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    /// Opens a tab as a person does, and returns its id.
    pub async fn open(&self, url: &str) -> String {
        let tab: Tab = serde_json::from_str(&self.ask("PUT", &format!("/json/new?{url}")).await).unwrap();
        tab.id
    }

    /// Closes a tab as a person does.
    pub async fn close(&self, tab: &str) {
        self.ask("GET", &format!("/json/close/{tab}")).await;
    }

    /// Whether its main process runs.
    pub fn runs(&self) -> bool {
        self.pid().is_some_and(alive)
    }

    async fn ask(&self, method: &str, path: &str) -> String {
        Wire::connect(self.address()).await.request(method, path, &[], None).await.body().await
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// Its main processes: those that have its profile and are no helpers of one.
    fn processes(&self) -> Vec<u32> {
        with_argument(&format!("--user-data-dir={}", self.profile.path().display()))
            .into_iter()
            .filter(|(_, line)| !line.iter().any(|argument| argument.starts_with("--type=")))
            .map(|(pid, _)| pid)
            .collect()
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        self.processes().into_iter().for_each(|pid| signal(pid, Signal::KILL));
    }
}

/// A loopback address where nobody listens.
pub fn nobody() -> SocketAddr {
    // Taken and given back: nobody else is given it as long as others are free.
    std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr()).unwrap()
}
