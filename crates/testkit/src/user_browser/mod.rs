//! A browser that belongs to a user, not to greenroom: a real Chromium that a test starts, kills and starts again at the
//! same address, as a person would, and inspects over its debugger, never through greenroom.
//!
//! Module `tabs` has what a person sees and does in the browser, `debugger` the CDP calls behind it,
//! `debugger_proxy` a proxy in front of the debugger.
//!
//! Dropping it also ends browsers that other programs started with its profile, for example by a start command: no
//! other browser has that profile.

mod debugger;
mod debugger_proxy;
mod tabs;

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::{
    deadline::eventually,
    http::HttpConnection,
    process::{Signal, alive, children, signal, wait_gone, with_argument},
};

pub use debugger_proxy::DebuggerProxy;
pub use tabs::Tab;

/// Debian's headless Chromium itself, not the script that starts it. It starts in half the time.
pub(crate) const HEADLESS_SHELL: &str = "/usr/lib/chromium/chromium-headless-shell";

/// The full browser: its tabs are in front of and behind each other, as on a screen.
const FULL_CHROMIUM: &str = "/usr/lib/chromium/chromium";

/// How long `drop`, which cannot await, waits for a killed browser. It is usually gone within milliseconds; a
/// failing test must not hang because of it.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);

/// A browser with its profile and its address, which stay the same when it is killed and started again.
pub struct UserBrowser {
    profile: TempDir,
    program: &'static str,
    /// The page of its first tab.
    first: String,
    port: u16,
    /// `None` after [`Self::kill`], until it is started again.
    child: Option<Child>,
}

impl UserBrowser {
    /// Starts a browser with one tab, `about:blank`, on a port of its own choice.
    pub async fn start() -> Self {
        Self::launch(HEADLESS_SHELL, "about:blank").await
    }

    /// Starts a full browser with one tab, which shows this page.
    pub async fn showing(url: &str) -> Self {
        let user_browser = Self::launch(FULL_CHROMIUM, url).await;
        let tabs = user_browser.until(|tabs| tabs.iter().any(|tab| tab.url == url)).await;
        user_browser.until_loaded(&tabs[0].id, url).await;
        user_browser
    }

    async fn launch(program: &'static str, first: &str) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let first = first.to_owned();
        let mut user_browser = Self { profile, program, first, port: 0, child: None };
        user_browser.start_again().await;
        user_browser
    }

    /// Starts it again, by hand, at its old address.
    pub async fn start_again(&mut self) {
        let command = self.command();
        let (program, arguments) = command.split_first().unwrap();
        let child = Command::new(program)
            .args(arguments)
            // A killed browser leaves its lock in this folder, which is removed with the profile.
            .env("TMPDIR", self.profile.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        self.child = Some(child);
        if self.port == 0 {
            // The file is written only for a port of the browser's own choice.
            let active = self.profile.path().join("DevToolsActivePort");
            let port = || fs::read_to_string(&active).ok()?.lines().next()?.parse().ok();
            self.port = eventually("the debugger's port", port).await;
        }
        let address = self.address();
        eventually("the debugger", || std::net::TcpStream::connect(address).ok()).await;
    }

    /// The command that starts it at its address: a program and its arguments.
    pub fn command(&self) -> Vec<String> {
        let own = [
            self.program.to_owned(),
            format!("--remote-debugging-port={}", self.port),
            format!("--user-data-dir={}", self.profile.path().display()),
        ];
        let usual = [
            "--no-sandbox",
            "--headless=new",
            "--no-first-run",
            "--disable-quic",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            &self.first,
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

    /// The debugger's WebSocket address, which changes with each start.
    pub async fn ws_endpoint(&self) -> String {
        let mut page =
            HttpConnection::connect(self.address()).await.request("GET", "/json/version", &[], None).await;
        page.json().await["webSocketDebuggerUrl"].as_str().unwrap().to_owned()
    }

    /// The browser's main process, whichever program started it.
    pub fn pid(&self) -> Option<u32> {
        self.processes().into_iter().next()
    }

    /// Kills it, and returns when it is gone.
    pub async fn kill(&mut self) {
        let processes = self.all_processes();
        processes.iter().for_each(|pid| signal(*pid, Signal::KILL));
        for pid in processes {
            wait_gone(pid).await;
        }
        if let Some(mut child) = self.child.take() {
            let _ = child.wait().await;
        }
    }

    /// Whether its main process runs.
    pub fn runs(&self) -> bool {
        self.pid().is_some_and(alive)
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// Its main processes, and then their helpers: some go on writing for a while when the main one is gone.
    fn all_processes(&self) -> Vec<u32> {
        let main = self.processes();
        let helpers = main.iter().flat_map(|pid| children(*pid)).collect::<Vec<_>>();
        main.into_iter().chain(helpers).collect()
    }

    /// Its main processes: those with its profile that are not helpers.
    fn processes(&self) -> Vec<u32> {
        with_argument(&format!("--user-data-dir={}", self.profile.path().display()))
            .into_iter()
            .filter(|(_, line)| !line.iter().any(|argument| argument.starts_with("--type=")))
            .map(|(pid, _)| pid)
            .collect()
    }
}

impl Drop for UserBrowser {
    fn drop(&mut self) {
        let processes = self.all_processes();
        processes.iter().for_each(|pid| signal(*pid, Signal::KILL));
        // A process that still writes would keep its profile from being removed.
        let begun = Instant::now();
        while processes.iter().any(|pid| alive(*pid)) && begun.elapsed() < KILL_TIMEOUT {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A loopback address where nothing listens.
pub fn unused_address() -> SocketAddr {
    // This binds a port and releases it: the system gives it to no other program as long as others are free.
    std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr()).unwrap()
}
