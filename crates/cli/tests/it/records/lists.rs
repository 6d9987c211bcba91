//! Lists of calls with texts of megabytes: what is sent, and what it costs the server.

use std::{collections::HashSet, fs};

use futures_util::future::join_all;
use greenroom_testkit::http::{HttpMcpClient, Server};
use serde_json::{Value, json};

use crate::front::fixture::{FakeEngineSetup, NEWEST};

/// The error of each call. A page's answer may have sixty times that.
const ERROR_BYTES: usize = 1024 * 1024;

const CALLS: usize = 12;

/// How much the server's memory may grow while twenty lists are made at once. Whole errors would take 240 MiB and more.
const GROWTH_BYTES_MAX: u64 = 100 * 1024 * 1024;

/// The most memory that a process has had.
fn peak(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

async fn list(server: &Server, path: &str) -> (usize, Value) {
    let text = server.get(path).await.body().await;
    (text.len(), serde_json::from_str(&text).unwrap())
}

/// Calls with errors of megabytes are listed with the beginning and the length of each error; the list comes in parts of
/// bounded size that reach every call once, many lists at once cost little memory, and a single call's record has the
/// whole.
#[tokio::test]
async fn long_errors_are_cut_in_lists() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = HttpMcpClient::open(&server, NEWEST, json!({})).await;
    let message = "e".repeat(ERROR_BYTES);
    for _ in 0..CALLS {
        client.call("fail", json!({"message": message, "sessionId": "s"})).await;
    }
    server.stop().await;

    let server = setup.serve().await;
    let before = peak(&server);
    let lists = join_all((0..20).map(|_| list(&server, "/api/calls?limit=1000"))).await;
    assert!(lists.iter().all(|(bytes, _)| *bytes < 1024 * 1024), "{:?}", lists[0].0);
    let grown = peak(&server).saturating_sub(before);
    assert!(grown < GROWTH_BYTES_MAX, "{grown}");

    let mut path = "/api/calls?limit=1000".to_owned();
    let mut seen = HashSet::new();
    loop {
        let (_, part) = list(&server, &path).await;
        for call in part["calls"].as_array().unwrap() {
            let error = call["error"].as_str().unwrap();
            assert!(error.contains("bytes in all; read the call by its ref_id for the whole"), "{error}");
            assert!(seen.insert(call["ref_id"].as_str().unwrap().to_owned()), "it comes once");
        }
        match part["next"].as_u64() {
            Some(next) => path = format!("/api/calls?limit=1000&before={next}"),
            None => break,
        }
    }
    assert_eq!(seen.len(), CALLS);
    let (_, whole) = list(&server, &format!("/api/calls/{}", seen.iter().next().unwrap())).await;
    assert!(whole["error"].as_str().unwrap().len() >= ERROR_BYTES);
    let (bytes, _) = list(&server, "/api/sessions/s/timeline?limit=1000").await;
    assert!(bytes < 1024 * 1024, "{bytes}");
}
