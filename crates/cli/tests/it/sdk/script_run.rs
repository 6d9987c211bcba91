//! One run of the script: which revision over which transport, how the client reaches greenroom, and what it must see.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use greenroom_testkit::{TEST_TIMEOUT, within};
use serde_json::{Map, Value, json};
use tokio::process::Command;

use super::server::SdkServer;
use crate::front::fixture::FakeEngineSetup;

/// What every client must see. A line may have `but`: other values for a revision, or for a revision over one
/// transport.
const EXPECTED: &str = include_str!("../../../../../sdk/expected.jsonl");

/// How a client reaches greenroom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientTransport {
    /// It starts `greenroom mcp`, which brings browsers of its own.
    Stdio,
    /// It connects to `greenroom serve`.
    Http,
    /// It starts `greenroom mcp`, which joins `greenroom serve`.
    Joined,
}

impl ClientTransport {
    fn name(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
            Self::Joined => "a joined front",
        }
    }
}

/// A run of the script, with a greenroom of its own.
pub struct ScriptRun {
    /// The revision that the negotiation must yield.
    pub revision: &'static str,
    /// Whether the client discovers the server's revision, instead of asking for one.
    pub probes: bool,
    pub transport: ClientTransport,
    pub setup: FakeEngineSetup,
    pub server: Option<SdkServer>,
}

impl ScriptRun {
    pub async fn new(revision: &'static str, transport: ClientTransport) -> Self {
        // The limit is so high that a big answer arrives whole.
        let setup = FakeEngineSetup::new().set("inline_tokens", "1000000");
        let server = match transport {
            ClientTransport::Stdio => None,
            ClientTransport::Http | ClientTransport::Joined => {
                Some(SdkServer::start(setup.environment(), &setup.path("home"), &[]).await)
            }
        };
        Self { revision, probes: false, transport, setup, server }
    }

    /// A client that asks `server/discover` first.
    pub async fn probing(revision: &'static str, transport: ClientTransport) -> Self {
        Self { probes: true, ..Self::new(revision, transport).await }
    }

    /// The URL of the server, for a client that does not start greenroom itself.
    pub fn url(&self) -> Option<String> {
        self.server.as_ref().filter(|_| self.transport == ClientTransport::Http).map(SdkServer::url)
    }

    /// The arguments with which a client starts greenroom.
    pub fn args(&self) -> Vec<String> {
        let joins = self.server.iter().flat_map(|server| ["--server".to_owned(), server.url()]);
        std::iter::once("mcp".to_owned()).chain(joins).collect()
    }

    /// Whether the revision has no handshake, sessions and ping.
    pub fn modern(&self) -> bool {
        self.revision >= "2026-07-28"
    }

    /// Whether the revision knows questions to the user.
    pub fn elicits(&self) -> bool {
        self.revision >= "2025-06-18"
    }

    /// Runs a script in another language, and compares its output.
    pub async fn run_program(self, program: &Path, script: &str, more: Value, environment: &[(&str, &Path)]) {
        let mut request =
            json!({"revision": self.revision, "probe": self.probes, "gate": self.setup.path("gate")});
        match self.url() {
            Some(url) => request["url"] = json!(url),
            None => {
                request["command"] = json!(env!("CARGO_BIN_EXE_greenroom"));
                request["args"] = json!(self.args());
                request["env"] = environment_of(&self.setup);
                request["cwd"] = json!(self.setup.path("home"));
            }
        }
        merge(&mut request, more);
        let lines = run(program, script, &request, environment).await;
        self.check(&lines);
        self.end().await;
    }

    /// Compares the lines of a client with the expected ones.
    #[track_caller]
    pub fn check(&self, lines: &[Value]) {
        let expected: Vec<Value> = self.expected();
        let actual: Vec<Value> = lines.iter().map(plain).collect();
        if actual == expected {
            return;
        }
        let mut shown = format!("{} over {}: not what is expected\n", self.revision, self.transport.name());
        for n in 0..expected.len().max(actual.len()) {
            match (expected.get(n), actual.get(n)) {
                (Some(expected), Some(actual)) if expected == actual => shown += &format!("    {actual}\n"),
                (expected, actual) => {
                    let sides = [("  - ", expected), ("  + ", actual)];
                    for (mark, line) in sides {
                        shown += &line.map(|line| format!("{mark}{line}\n")).unwrap_or_default();
                    }
                }
            }
        }
        panic!("{shown}");
    }

    /// Ends the server, if there is one, and checks that it ends well.
    pub async fn end(self) {
        if let Some(server) = self.server {
            server.end().await;
        }
    }

    fn expected(&self) -> Vec<Value> {
        let revision_and_transport = format!("{} {}", self.revision, self.transport.name());
        let line = |line: &str| {
            let mut line: Value =
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            let but = line.as_object_mut().and_then(|facts| facts.shift_remove("but")).unwrap_or_default();
            if let Some(facts) = but.get(&revision_and_transport).or_else(|| but.get(self.revision)) {
                let step = line["step"].take();
                line = json!({ "step": step });
                merge(&mut line, facts.clone());
            }
            if line["revision"] == "REVISION" {
                line["revision"] = json!(self.revision);
            }
            plain(&line)
        };
        EXPECTED.lines().map(line).collect()
    }
}

/// Where `make test` installs the SDKs.
pub fn installed() -> PathBuf {
    let folder = std::env::var_os("GREENROOM_TEST_SDK_DIR").map(PathBuf::from).unwrap_or_default();
    assert!(
        folder.is_dir(),
        "no SDKs are installed for the tests: `{}`\n\nhint: run them with `make test`, which installs them and \
         sets GREENROOM_TEST_SDK_DIR; scripts/sdks only installs",
        folder.display()
    );
    folder
}

/// Runs a script to its end, and reads its lines. Its stderr shows only when it fails.
pub async fn run(program: &Path, script: &str, run: &Value, environment: &[(&str, &Path)]) -> Vec<Value> {
    let home = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk").join(script);
    let child = Command::new(program)
        .arg(script)
        .arg(run.to_string())
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .env("HOME", home.path())
        .envs(environment.iter().copied())
        .current_dir(home.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start `{}`: {error}", program.display()));
    let output = within(TEST_TIMEOUT, child.wait_with_output()).await.unwrap();
    let actual = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the script ended with {}:\n{actual}{complaints}", output.status);
    actual
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}\n{complaints}")))
        .collect()
}

/// The same value with its names in order and its numbers in one spelling: languages write 1 as `1` or `1.0`.
fn plain(value: &Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(whole) if whole.fract() == 0.0 => json!(whole as i64),
            fraction => json!(fraction),
        },
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Object(fields) => {
            let mut names: Vec<_> = fields.keys().collect();
            // The step's name first, since people read the lines.
            names.sort_by_key(|name| (*name != "step", *name));
            names.into_iter().map(|name| (name.clone(), plain(&fields[name]))).collect()
        }
        other => other.clone(),
    }
}

fn environment_of(setup: &FakeEngineSetup) -> Value {
    setup.environment().into_iter().map(|(name, value)| (name, json!(value))).collect::<Map<_, _>>().into()
}

fn merge(into: &mut Value, more: Value) {
    if let (Value::Object(into), Value::Object(more)) = (into, more) {
        into.extend(more);
    }
}
