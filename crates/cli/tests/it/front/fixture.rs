//! Starts greenroom for tests without a browser: with a home folder, settings, and the command of the fake engine.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use greenroom_testkit::{
    Client, EngineLog, Gate, Launch, TEST_TIMEOUT, eventually, fake_engine_path, http::Server, text_of,
    within,
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The newest revision of the protocol that has sessions.
pub const NEWEST: &str = "2025-11-25";

/// The home folder, settings and engine command of one greenroom. A test may start several greenrooms with it; they share
/// the home folder and the engine log.
pub struct FakeEngineSetup {
    folder: TempDir,
    command: Vec<String>,
    settings: Vec<(String, String)>,
}

impl FakeEngineSetup {
    /// greenroom with fake engines that log what reaches them.
    pub fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let log = folder.path().join("engine.log").display().to_string();
        fs::create_dir(folder.path().join("home")).unwrap();
        let engine = fake_engine_path().display().to_string();
        Self { folder, command: vec![engine, "--log".to_owned(), log], settings: Vec::new() }
    }

    /// Further flags of the fake engine.
    pub fn flags(mut self, flags: &[&str]) -> Self {
        self.command.extend(flags.iter().map(|flag| (*flag).to_owned()));
        self
    }

    /// Replaces the fake engine's command.
    pub fn command(mut self, command: &[&str]) -> Self {
        self.command = command.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// Puts a shell script before the engine: one command line whose behaviour a test changes between starts. In
    /// the script `$0` is this setup's folder and `"$@"` the engine's command.
    pub fn script(self, script: &str) -> Self {
        let folder = self.folder.path().display().to_string();
        let mut command = vec!["sh".to_owned(), "-c".to_owned(), script.to_owned(), folder];
        command.extend(self.command.iter().cloned());
        Self { command, ..self }
    }

    /// Sets a setting, by its variable.
    pub fn set(mut self, key: &str, value: &str) -> Self {
        let variable = format!("GREENROOM_{}", key.to_uppercase().replace('.', "_"));
        self.settings.push((variable, value.to_owned()));
        self
    }

    /// Sets a variable of a declared pool: `MAIN_INSTANCES`, `MAIN__0_ALIAS`.
    pub fn pools(mut self, key: &str, value: &str) -> Self {
        self.settings.push((format!("PW_MCP_PROXY__{key}"), value.to_owned()));
        self
    }

    pub fn log(&self) -> EngineLog {
        EngineLog::at(self.path("engine.log"))
    }

    pub fn gate(&self, name: &str) -> Gate {
        Gate::new(self.folder.path(), name)
    }

    /// A path in this setup's folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file that is not executable, or is.
    pub fn file(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    /// Where greenroom keeps its data.
    pub fn data(&self) -> PathBuf {
        self.path("home/.local/share/greenroom")
    }

    /// The private folders of seats that exist now.
    pub fn seats(&self) -> Vec<PathBuf> {
        let entries =
            |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path());
        entries(self.data().join("run")).flat_map(|run| entries(run.join("seats"))).collect()
    }

    /// The environment in which greenroom starts, for clients that start it themselves.
    pub fn environment(&self) -> Vec<(String, String)> {
        let mut environment = vec![
            ("HOME".to_owned(), self.path("home").display().to_string()),
            ("GREENROOM_POOL_ENGINE".to_owned(), "custom".to_owned()),
            ("GREENROOM_POOL_COMMAND".to_owned(), json!(self.command).to_string()),
        ];
        environment.extend(self.settings.iter().cloned());
        environment
    }

    /// greenroom with these arguments, ready to start.
    pub fn launch(&self, arguments: &[&str]) -> Launch {
        let launch = Launch::new(env!("CARGO_BIN_EXE_greenroom")).args(arguments).home(self.path("home"));
        self.environment().into_iter().fold(launch, |launch, (name, value)| launch.env(name, value))
    }

    /// Starts greenroom without a handshake.
    pub fn spawn(&self) -> Client {
        self.launch(&["mcp"]).spawn()
    }

    /// Starts a server on a port of its own.
    pub async fn serve(&self) -> Server {
        Server::start(self.launch(&["serve", "--listen", "127.0.0.1:0"])).await
    }

    /// Starts greenroom and does the handshake as a client with all capabilities.
    pub async fn client(&self) -> Client {
        self.client_with(json!({"roots": {}, "elicitation": {}, "sampling": {}})).await
    }

    pub async fn client_with(&self, capabilities: Value) -> Client {
        let client = self.spawn();
        let answer = client.initialize(NEWEST, capabilities).await;
        assert_eq!(answer["result"]["protocolVersion"], NEWEST, "{answer}");
        client
    }
}

/// The process of a session.
pub async fn pid(client: &Client, session: &str) -> u32 {
    pid_of(&client.call("pid", json!({"sessionId": session})).await)
}

/// The process in an answer of the tool `pid`: its first text; notes come after it.
pub fn pid_of(answer: &Value) -> u32 {
    let text = answer["result"]["content"][0]["text"].as_str();
    text.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no process id: {answer}"))
}

/// Code and text of a failed call.
#[track_caller]
pub fn failure(answer: &Value) -> (String, String) {
    assert_eq!(answer["result"]["isError"], true, "no failure: {answer}");
    let code = answer["result"]["_meta"]["greenroom/error"]["code"].as_str().unwrap_or_default();
    (code.to_owned(), text_of(answer))
}

/// Whether the failure says that the same call may be made again.
pub fn retryable(answer: &Value) -> bool {
    answer["result"]["_meta"]["greenroom/error"]["retryable"] == true
}

/// A JSON-RPC error's code and message.
#[track_caller]
pub fn error(answer: &Value) -> (i64, String) {
    let code = answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {answer}"));
    (code, answer["error"]["message"].as_str().unwrap_or_default().to_owned())
}

/// The tools that are listed.
pub async fn tools(client: &Client) -> Vec<Value> {
    let answer = client.request("tools/list", Value::Null).await;
    answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("no list: {answer}")).clone()
}

/// The names of the tools that are listed.
pub async fn tool_names(client: &Client) -> Vec<String> {
    let name = |tool: &Value| tool["name"].as_str().unwrap_or_default().to_owned();
    tools(client).await.iter().map(name).collect()
}

/// What `session_list` shows.
pub async fn sessions(client: &Client) -> Vec<Value> {
    let answer = client.call("session_list", json!({})).await;
    let list: Value = serde_json::from_str(&text_of(&answer)).unwrap();
    list["sessions"].as_array().unwrap_or_else(|| panic!("no list: {list}")).clone()
}

/// Asks again until `session_list` shows these ids: no message announces the end of a session.
pub async fn until_sessions(client: &Client, ids: &[&str]) {
    let poll = async {
        while sessions(client)
            .await
            .iter()
            .map(|session| session["id"].clone())
            .ne(ids.iter().map(|id| json!(id)))
        {
            tokio::task::yield_now().await;
        }
    };
    within(TEST_TIMEOUT, poll).await;
}

/// Asks again until this many calls of a session are in flight: no message announces a queued call.
pub async fn until_in_flight(client: &Client, id: &str, calls: usize) {
    let is_match = |session: &Value| session["id"] == id && session["callsInFlight"] == calls;
    let poll = async {
        while !sessions(client).await.iter().any(is_match) {
            tokio::task::yield_now().await;
        }
    };
    within(TEST_TIMEOUT, poll).await;
}

/// The one array after the first `before` lines of the transcript: the answer to a batch.
pub async fn batch_answer(client: &Client, before: usize) -> Vec<Value> {
    eventually("a batch's answer", || {
        let lines = client.transcript();
        let line = lines.iter().skip(before).find_map(|line| line.strip_prefix("<-- ["))?;
        serde_json::from_str(&format!("[{line}")).ok()
    })
    .await
}
