//! The answers of the real engine with a real Chromium, and what the adapter finds in them.
//!
//! [`PlaywrightFixture`] is one seat with a test site. The site is also the egress proxy: a proxy gets full addresses, of
//! which the site uses the path only.

mod answers;
mod attached;
mod data;
mod datagrams;
mod devtools;
mod failures;
mod files;
mod flags;
mod guarded;
mod shared_browser;
mod sizes;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use greenroom_core::{
    Agent, Artifact, BoxFuture, Call, Engine, Instance, InstanceId, NoAnswer, Raw, Reply, Seat,
    port::Content,
    settings::{Browser, Cap},
};
use greenroom_engine::{
    EngineBase, EngineOptions, PlaywrightEngine,
    browser::{BrowserKind, InstallPaths},
    launcher::Launcher,
    ports::Ports,
    run_folder::RunFolder,
};
use greenroom_testkit::{Site, TEST_TIMEOUT, case, within};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A page downloads a mebibyte every few milliseconds, for ever.
const DOWNLOADS_IN_A_LOOP: &str = "() => { setInterval(() => {
    const link = document.createElement('a');
    link.download = 'x.bin';
    link.href = URL.createObjectURL(new Blob([new Uint8Array(1 << 20)]));
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 5000);
}, 10); }";

/// A page starts an endless download in a frame that it removes before the download begins: the browser does not announce
/// it.
const UNANNOUNCED_DOWNLOAD: &str = "() => { const frame = document.createElement('iframe');
    document.body.append(frame);
    const link = frame.contentDocument.createElement('a');
    link.download = 'x.bin';
    link.href = '/download?name=x.bin&kind=application/octet-stream&endless=1&ms=1000';
    frame.contentDocument.body.append(link);
    link.click();
    setTimeout(() => frame.remove(), 200);
}";

/// How long an instance may take to end by itself, as in the fleet.
const GRACE: Duration = Duration::from_secs(2);

struct PlaywrightFixture {
    site: Site,
    workspace: TempDir,
    engine: PlaywrightEngine,
    instance: Arc<dyn Instance>,
    seat: Box<dyn Seat>,
    /// Last, so that it is dropped after all users of it.
    _data: TempDir,
}

impl PlaywrightFixture {
    async fn open(caps: &[&str]) -> Self {
        let site = Site::start().await;
        let data = data_folder();
        let engine = engine(data.path(), site.port(), caps);
        let instance = engine.start(InstanceId(0)).await.unwrap();
        let workspace = tempfile::tempdir().unwrap();
        let seat = instance.open(Arc::new(AgentWithWorkspace(workspace.path().to_owned()))).await.unwrap();
        Self { site, workspace, engine, instance, seat, _data: data }
    }

    /// The answer of a tool to these parameters, whether or not it fails.
    async fn try_call(&mut self, tool: &str, params: Raw) -> Reply {
        let worker = Arc::new(AgentWithWorkspace(self.workspace.path().to_owned()));
        within(TEST_TIMEOUT, self.seat.call(Call::new(tool, params), worker)).await.unwrap()
    }

    /// The answer of a tool, which must not fail.
    async fn call(&mut self, tool: &str, arguments: Value) -> Reply {
        let params = greenroom_core::raw::encode(&json!({ "name": tool, "arguments": arguments }));
        let reply = self.try_call(tool, params).await;
        assert!(!reply.is_failure(), "{tool}: {}", text(&reply));
        reply
    }

    async fn navigate(&mut self, path: &str) -> Reply {
        let url = self.site.url(path);
        self.call("browser_navigate", json!({ "url": url })).await
    }

    async fn evaluate(&mut self, function: &str) -> Reply {
        self.call("browser_evaluate", json!({ "function": function })).await
    }

    /// Shows a page of this markup.
    async fn show(&mut self, html: &str) {
        self.navigate("/title?t=shown").await;
        self.evaluate(&format!("() => {{ document.body.innerHTML = {}; }}", json!(html))).await;
    }

    /// Closes the seat and opens another one in the same browser: no page of the closed seat is left.
    async fn open_next_seat(&mut self) {
        let worker = Arc::new(AgentWithWorkspace(self.workspace.path().to_owned()));
        let next = within(TEST_TIMEOUT, self.instance.open(worker)).await.unwrap();
        std::mem::replace(&mut self.seat, next).close().await;
    }

    async fn end(self) {
        self.seat.close().await;
        self.instance.stop(GRACE).await;
    }
}

/// What the playwright engine answers, one case after the other, each in a seat of its own of one browser: snapshots, console
/// lines, files, data, sizes, and the browser's flags.
#[tokio::test]
async fn answers_of_the_playwright_engine() {
    let mut fixture = PlaywrightFixture::open(&["pdf"]).await;
    macro_rules! run {
        ($($name:path),+ $(,)?) => {
            $(
                case(stringify!($name), $name(&mut fixture)).await;
                fixture.open_next_seat().await;
            )+
        };
    }
    run!(
        flags::flags_differ_from_the_engines_only_as_listed,
        answers::snapshots_are_kept,
        answers::good_address_opens_after_a_failed_one,
        answers::console_lines_are_kept,
        answers::pages_cannot_forge_snapshots,
        files::downloads_come_with_an_answer,
        files::response_bodies_come_as_files,
        files::pictures_and_documents_are_kept,
        data::trees_are_the_engines_own,
        data::evaluated_values_are_data,
        sizes::playwright_refuses_large_sizes,
    );
    fixture.end().await;
}

/// A data folder with the engine that `make test` installs.
#[allow(clippy::disallowed_methods, reason = "the environment tells a test where the engine is")]
fn data_folder() -> TempDir {
    let installed = std::env::var_os("GREENROOM_TEST_DATA_DIR").map(PathBuf::from).unwrap_or_default();
    assert!(installed.join("engines").is_dir(), "no engine is installed for the tests: run `make test`");
    let data = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(installed.join("engines"), data.path().join("engines")).unwrap();
    data
}

#[allow(clippy::disallowed_methods, reason = "a test takes the machine's own search path")]
fn engine(data: &Path, proxy: u16, caps: &[&str]) -> PlaywrightEngine {
    let run = Arc::new(RunFolder::claim(data).unwrap());
    let install_paths = InstallPaths::new(std::env::home_dir(), std::env::var_os("PATH").unwrap_or_default());
    let mut options = EngineOptions::new(data.to_owned(), install_paths);
    options.pool.timeout_settle = Some(Duration::ZERO);
    options.pool.caps =
        caps.iter().map(|cap| CAPS.into_iter().find(|known| known.as_str() == *cap).unwrap()).collect();
    PlaywrightEngine(base(options, run, proxy))
}

/// All caps.
const CAPS: [Cap; 7] =
    [Cap::Config, Cap::Network, Cap::Pdf, Cap::Storage, Cap::Testing, Cap::Vision, Cap::Devtools];

/// The setting for a browser of this kind.
fn browser(kind: BrowserKind) -> Browser {
    match kind {
        BrowserKind::HeadlessShell => Browser::HeadlessShell,
        BrowserKind::Chromium => Browser::Chromium,
        BrowserKind::Chrome => Browser::Chrome,
        BrowserKind::Edge => Browser::Msedge,
    }
}

/// The base of an engine whose browsers use the proxy at this port.
fn base(options: EngineOptions, run: Arc<RunFolder>, proxy: u16) -> EngineBase {
    EngineBase {
        options: Arc::new(options),
        launcher: Launcher::start(run.tag()).unwrap(),
        ports: Ports::new(&run),
        run,
        proxy: ([127, 0, 0, 1], proxy).into(),
        egress: Arc::new(crate::FixedEgress(([127, 0, 0, 1], proxy).into())),
        tools_changed: Arc::new(|_| {}),
    }
}

/// An agent with a folder of its own.
struct AgentWithWorkspace(PathBuf);

impl Agent for AgentWithWorkspace {
    fn tell(&self, _: &str, _: Option<Raw>) {}

    fn ask<'a>(&'a self, _: &'a str, _: Option<Raw>) -> BoxFuture<'a, Result<Result<Raw, Raw>, NoAnswer>> {
        Box::pin(std::future::ready(Err(NoAnswer::Gone)))
    }

    fn capabilities(&self) -> Option<Raw> {
        None
    }

    fn roots(&self) -> BoxFuture<'_, Vec<PathBuf>> {
        Box::pin(std::future::ready(vec![self.0.clone()]))
    }

    fn log_level(&self) -> Option<String> {
        None
    }
}

/// The JSON text of an answer.
fn body(reply: &Reply) -> &str {
    reply.body.as_ref().unwrap().get()
}

/// The text of an answer, as the engine gave it.
fn text(reply: &Reply) -> String {
    let body: Value = serde_json::from_str(body(reply)).unwrap();
    body["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

/// The snapshot of an answer.
fn snapshot(reply: &Reply) -> &str {
    let snapshot = reply.snapshot();
    let Some(Artifact { content: Content::Text(text), .. }) = snapshot else {
        panic!("no snapshot: {reply:?}")
    };
    text
}

/// The files of an answer: name, kind and bytes.
fn files(reply: &Reply) -> Vec<(&str, &str, &[u8])> {
    let file = |artifact| match artifact {
        &Artifact { content: Content::File { ref name, mime, ref data }, .. } => {
            Some((&**name, mime, &**data))
        }
        _ => None,
    };
    reply.artifacts.iter().filter_map(file).collect()
}
