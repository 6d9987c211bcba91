//! `greenroom serve` for clients that connect to it: started on a free port, ready when this returns.

use std::{path::Path, process::Stdio};

use greenroom_testkit::{
    TEST_TIMEOUT,
    process::{Signal, signal},
    within,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::{Child, Command},
    task::JoinHandle,
};

pub struct SdkServer {
    child: Child,
    url: String,
    /// Its stderr, for a failure.
    log: JoinHandle<String>,
}

impl SdkServer {
    pub async fn start(environment: Vec<(String, String)>, folder: &Path, flags: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_greenroom"))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(flags)
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .envs(environment)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut stderr = child.stderr.take().unwrap();
        let log = tokio::spawn(async move {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text).await;
            text
        });
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = within(TEST_TIMEOUT, lines.next_line()).await.unwrap();
        let Some(url) = line.as_deref().and_then(|line| line.strip_prefix("ready: ")) else {
            let _ = child.start_kill();
            panic!("not ready: {line:?}\n{}", within(TEST_TIMEOUT, log).await.unwrap());
        };
        Self { url: url.to_owned(), child, log }
    }

    /// The URL of its MCP endpoint.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Ends it as a service manager does.
    pub async fn end(mut self) {
        signal(self.child.id().unwrap(), Signal::TERM);
        let status = within(TEST_TIMEOUT, self.child.wait()).await.unwrap();
        assert!(
            status.success(),
            "greenroom ended with {status}:\n{}",
            within(TEST_TIMEOUT, self.log).await.unwrap()
        );
    }
}
