//! Inspects a greenroom from outside: its run folder, its ports, its processes.

use std::{
    fs,
    net::TcpStream,
    path::{Path, PathBuf},
};

use futures_util::{SinkExt, StreamExt};
use greenroom_testkit::{
    eventually,
    process::{children, processes_with_env},
};
use serde_json::{Value, json};
use tokio_tungstenite::{connect_async, tungstenite::Message};

/// The run folders of a data folder, sorted.
pub fn runs(data: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(data.join("run")) else { return Vec::new() };
    let mut runs: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    runs.sort();
    runs
}

/// The run folder of the greenroom with this process id.
pub fn run_of(data: &Path, pid: u32) -> PathBuf {
    let is_of_process = |run: &PathBuf| name(run).starts_with(&format!("{pid}-"));
    runs(data).into_iter().find(is_of_process).unwrap_or_else(|| panic!("process {pid} has no run folder"))
}

/// The ports that a greenroom keeps closed to browsers: its proxies' and its engines'.
pub fn ports(run: &Path) -> Vec<u16> {
    let text = fs::read_to_string(run.join("ports")).unwrap_or_default();
    // The port of an attached browser has a mark after it.
    text.lines().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect()
}

pub fn listens(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

/// The processes that the owner of a run folder started and that still run.
pub fn tagged(run: &Path) -> Vec<u32> {
    processes_with_env("GREENROOM_RUN", name(run))
}

/// Returns when none of them runs any more.
pub async fn all_gone(run: &Path) {
    eventually("the end of all browsers and engines", || tagged(run).is_empty().then_some(())).await;
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

/// The browsers below a greenroom, their main processes only.
pub fn browsers(greenroom: u32) -> Vec<u32> {
    below(greenroom, |line| line.contains("--remote-debugging-pipe") && !line.contains("--type="))
}

/// The browser below a greenroom that has this profile, its main process.
pub fn browser_of(greenroom: u32, profile: &Path) -> u32 {
    let wanted = format!("--user-data-dir={} ", profile.display());
    let found = below(greenroom, |line| line.contains(&wanted) && !line.contains("--type="));
    *found.first().unwrap_or_else(|| panic!("no browser with `{}`", profile.display()))
}

/// The Node processes below a greenroom.
pub fn engines(greenroom: u32) -> Vec<u32> {
    below(greenroom, |line| line.contains("@playwright/mcp"))
}

/// Calls the browser of an engine as that engine would, through greenroom's CDP proxy. Only the engine's environment has its
/// address.
pub async fn call_browser_of(engine: u32, method: &str) -> Value {
    let environment = fs::read(format!("/proc/{engine}/environ")).unwrap();
    let mut variables = environment.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let endpoint =
        variables.find_map(|line| line.strip_prefix("PLAYWRIGHT_MCP_CDP_ENDPOINT=").map(ToOwned::to_owned));
    let (mut socket, _) = connect_async(endpoint.unwrap()).await.unwrap();
    socket.send(Message::text(json!({ "id": 1, "method": method }).to_string())).await.unwrap();
    while let Some(message) = socket.next().await {
        let mut message: Value = serde_json::from_str(message.unwrap().to_text().unwrap()).unwrap();
        if message["id"] == 1 {
            return message["result"].take();
        }
    }
    panic!("the browser did not answer")
}

/// The page processes of a browser.
pub fn renderers(browser: u32) -> Vec<u32> {
    below(browser, |line| line.contains("--type=renderer"))
}

/// The network services of a browser, of which it has one.
pub fn network_services(browser: u32) -> Vec<u32> {
    below(browser, |line| line.contains("network.mojom.NetworkService"))
}

fn below(pid: u32, is_wanted: impl Fn(&str) -> bool) -> Vec<u32> {
    let line = |pid: u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).replace('\0', " ")
    };
    children(pid).into_iter().filter(|pid| is_wanted(&line(*pid))).collect()
}
