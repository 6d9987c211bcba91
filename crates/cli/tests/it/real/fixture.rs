//! A greenroom under test: its data folder, its workspace, and methods for calls.

use std::path::{Path, PathBuf};

use greenroom_testkit::{Client, Launch, Pending, text_of};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The newest protocol revision that has a handshake.
pub const REVISION: &str = "2025-11-25";

/// A data folder with the installed engine in it, removed when dropped.
pub struct DataFolder(TempDir);

impl DataFolder {
    /// Links to the engine that `make test` installs. The tool list is kept with it, so that not every test has to ask Node
    /// for it.
    pub fn new() -> Self {
        Self::in_folder(&std::env::temp_dir())
    }

    /// A data folder somewhere below `folder`.
    pub fn in_folder(folder: &Path) -> Self {
        let data = Self(tempfile::tempdir_in(folder).unwrap());
        let installed = installed();
        std::fs::create_dir_all(installed.join("cache")).unwrap();
        for shared in ["engines", "cache"] {
            std::os::unix::fs::symlink(installed.join(shared), data.path().join(shared)).unwrap();
        }
        data
    }

    pub fn without_engine() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

/// The data folder that holds the installed engine.
pub fn installed() -> PathBuf {
    let folder = std::env::var_os("GREENROOM_TEST_DATA_DIR").map(PathBuf::from).unwrap_or_default();
    assert!(
        folder.join("engines").is_dir(),
        "no engine is installed for the tests: `{}`\n\nhint: run them with `make test`, which installs it and \
         sets GREENROOM_TEST_DATA_DIR",
        folder.display()
    );
    folder
}

/// `greenroom mcp` on a data folder, with these settings as flags. The engine's settling time is zero, since the tests
/// wait for what they want to see.
pub fn launch(data: &Path, flags: &[&str]) -> Launch {
    Launch::new(env!("CARGO_BIN_EXE_greenroom"))
        .arg("mcp")
        .arg("--data-dir")
        .arg(data)
        .args(["--pool-timeout-settle", "0"])
        .args(flags)
}

/// A greenroom after the handshake with a client without roots.
pub struct GatewayFixture {
    pub client: Client,
}

impl GatewayFixture {
    pub async fn start(data: &DataFolder, flags: &[&str]) -> Self {
        Self::spawn(launch(data.path(), flags)).await
    }

    pub async fn spawn(launch: Launch) -> Self {
        let client = launch.spawn();
        client.initialize(REVISION, json!({})).await;
        Self { client }
    }

    /// Calls a tool in a session; the session without a name is the connection's own.
    pub async fn call(&self, session: &str, tool: &str, arguments: Value) -> ToolAnswer {
        ToolAnswer::new(self.start_call(session, tool, arguments).await.response().await)
    }

    pub async fn start_call(&self, session: &str, tool: &str, mut arguments: Value) -> Pending {
        if !session.is_empty() {
            arguments["sessionId"] = json!(session);
        }
        self.client.start_call(tool, arguments).await
    }

    pub async fn navigate(&self, session: &str, url: &str) -> ToolAnswer {
        self.call(session, "browser_navigate", json!({ "url": url })).await
    }

    /// Evaluates a function in the page.
    pub async fn evaluate(&self, session: &str, function: &str) -> ToolAnswer {
        self.call(session, "browser_evaluate", json!({ "function": function })).await
    }

    /// Begins a call that the page never answers, and returns once the page runs it: it asks `site` for `path`.
    pub async fn hang(&self, session: &str, site: &greenroom_testkit::Site, path: &str) -> Pending {
        let function = format!("() => {{ fetch('{path}'); return new Promise(() => {{}}); }}");
        let pending = self.start_call(session, "browser_evaluate", json!({ "function": function })).await;
        site.wait_for_hit(path).await;
        pending
    }

    /// The answer of `session_list`, one object per session.
    pub async fn sessions(&self) -> Vec<Value> {
        let text = self.call("", "session_list", json!({})).await.ok();
        let list: Value = serde_json::from_str(&text).unwrap();
        list["sessions"].as_array().unwrap().clone()
    }

    /// Returns when the session is no longer listed: greenroom has noticed that it is lost.
    pub async fn until_lost(&self, session: &str) {
        let is_lost =
            async || (!self.sessions().await.iter().any(|listed| listed["id"] == session)).then_some(());
        greenroom_testkit::until_some("the session's end", is_lost).await;
    }

    /// Ends greenroom as a client does, and waits for it.
    pub async fn end(self) {
        self.client.close_stdin().await;
        let status = self.client.wait().await;
        assert!(status.success(), "greenroom ended with {status}: {}", self.client.stderr());
    }
}

/// A tool's answer.
pub struct ToolAnswer {
    pub response: Value,
}

impl ToolAnswer {
    pub fn new(response: Value) -> Self {
        Self { response }
    }

    pub fn is_error(&self) -> bool {
        self.response["result"]["isError"] == true
    }

    /// The text of an answer that must be a success.
    #[track_caller]
    pub fn ok(&self) -> String {
        assert!(!self.is_error(), "the call failed: {}", self.text());
        self.text()
    }

    /// The text of an answer that must be a failed tool.
    #[track_caller]
    pub fn failed(&self) -> String {
        assert!(self.is_error(), "the call did not fail: {}", self.text());
        self.text()
    }

    /// A success without a note about another browser.
    #[track_caller]
    pub fn ok_without_restart(&self) -> String {
        let text = self.ok();
        assert!(!text.contains("session restarted"), "the session was restarted: {text}");
        text
    }

    /// A success with a note that the session was lost, and why.
    #[track_caller]
    pub fn restarted(&self, why: &str) -> String {
        let text = self.ok();
        let note = text.lines().find(|line| line.starts_with("session restarted: "));
        let note = note.unwrap_or_else(|| panic!("the answer has no note of a restart: {text}"));
        assert!(note.contains(why), "`{why}` is not the reason: {note}");
        text
    }

    /// Failed because the session was lost during the call, for this reason.
    #[track_caller]
    pub fn lost(&self, why: &str) -> String {
        let text = self.failed();
        assert_eq!(self.response["result"]["_meta"]["greenroom/error"]["code"], "session_lost", "{text}");
        assert!(text.contains(why), "`{why}` is not the reason: {text}");
        text
    }

    /// greenroom's code for the failure of the call; empty if it did not fail.
    pub fn code(&self) -> &str {
        self.response["result"]["_meta"]["greenroom/error"]["code"].as_str().unwrap_or_default()
    }

    pub fn text(&self) -> String {
        text_of(&self.response)
    }
}

/// The answer of a call that was begun before.
pub async fn answer(pending: Pending) -> ToolAnswer {
    ToolAnswer::new(pending.response().await)
}

/// Runs everything at once and waits for all of it.
pub async fn all<T>(futures: impl IntoIterator<Item = impl Future<Output = T>>) -> Vec<T> {
    futures_util::future::join_all(futures).await
}
