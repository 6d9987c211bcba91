//! greenroom is killed over and over while clients call: every acknowledged record is there afterwards.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use greenroom_testkit::http::{HttpMcpClient, Server};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::database::RecordsDb;
use crate::{
    front::{fixture::FakeEngineSetup, recall::ref_id},
    http::http_client,
    real::random::Random,
};

/// How many agents call at once, each in a session of its own.
const AGENTS: usize = 4;

/// A server is killed after this many answers at most: enough for some commits of several calls.
const ANSWERS_MAX: usize = 40;

/// What clients of killed servers have received.
#[derive(Default)]
struct Acknowledged {
    /// Results by the names of their records, without greenroom's additions.
    results: BTreeMap<String, Value>,
    /// Records whose content was read to its end.
    read: BTreeSet<String>,
    /// Records that a client was reading when the server ended: their cursors may have moved or not.
    perhaps_read: BTreeSet<String>,
    /// Records of the last server.
    latest: Vec<String>,
}

/// Half of the kills of `make test`. Both halves run in parallel, each with a data folder of its own.
#[tokio::test]
async fn acknowledged_records_survive_kills_first_half() {
    cycles(Random::new(), 27).await;
}

/// The other half.
#[tokio::test]
async fn acknowledged_records_survive_kills_second_half() {
    cycles(Random::new(), 27).await;
}

/// Kills this many servers, one after the other, on one data folder.
pub async fn cycles(mut random: Random, count: usize) {
    let setup = FakeEngineSetup::new();
    let acknowledged = Rc::new(RefCell::new(Acknowledged::default()));
    for cycle in 0..count {
        if cycle % 9 == 8 {
            killed_at_its_start(&setup, &mut random).await;
            continue;
        }
        let server = setup.serve().await;
        let client = http_client(&server).await;
        // An answer with a name shows that the database is open.
        ref_id(&client.call("echo", json!({"text": "open", "sessionId": "first"})).await);
        check(&setup.data(), &RecordsDb::at(&setup.data()), &acknowledged.borrow(), cycle);
        read_again(&client, &acknowledged).await;
        acknowledged.borrow_mut().latest.clear();
        killed_under_load(&server, &acknowledged, &mut random).await;
    }
    let server = setup.serve().await;
    ref_id(&http_client(&server).await.call("echo", json!({"text": "open", "sessionId": "first"})).await);
    let mut acknowledged = acknowledged.borrow_mut();
    acknowledged.latest = acknowledged.results.keys().cloned().collect();
    let db = RecordsDb::at(&setup.data());
    check(&setup.data(), &db, &acknowledged, count);
    let record_count: i64 = db.one("SELECT count(*) FROM requests");
    println!("{count} kills, {} answers acknowledged, {record_count} records", acknowledged.results.len());
    assert!(acknowledged.results.len() > count, "hardly anything was answered before the kills");
}

/// Kills a server while it starts, at any moment of it.
async fn killed_at_its_start(setup: &FakeEngineSetup, random: &mut Random) {
    let server = setup.launch(&["serve", "--listen", "127.0.0.1:0"]).spawn();
    // No event marks every moment of a start; this is a random one.
    tokio::time::sleep(Duration::from_micros(random.below(80_000) as u64)).await;
    server.kill();
    server.wait().await;
}

/// Agents call until a number of answers has come; then the server is killed while they go on.
async fn killed_under_load(server: &Server, acknowledged: &Rc<RefCell<Acknowledged>>, random: &mut Random) {
    let (answers, mut count) = watch::channel(0_usize);
    let mut agents = Vec::new();
    for number in 0..AGENTS {
        agents.push((http_client(server).await, format!("agent {number}"), random.below(1 << 20)));
    }
    let after = random.below(ANSWERS_MAX);
    let a_little_later = Duration::from_micros(random.below(3_000) as u64);
    let calls =
        agents.iter().map(|(client, session, salt)| call_on(client, session, *salt, acknowledged, &answers));
    let calls = futures_util::future::join_all(calls);
    let kill = async {
        count.wait_for(|count| *count >= after).await.unwrap();
        // A random pause, so that the kill also comes between two answers.
        tokio::time::sleep(a_little_later).await;
        server.kill().await;
    };
    tokio::join!(calls, kill);
}

/// Calls one tool after the other until no server answers.
async fn call_on(
    client: &HttpMcpClient,
    session: &str,
    salt: usize,
    acknowledged: &RefCell<Acknowledged>,
    answers: &watch::Sender<usize>,
) {
    for turn in salt.. {
        let (tool, mut arguments) = match turn % 5 {
            0 => ("lines", json!({"count": turn % 200 + 1})),
            1 => ("picture", json!({"number": turn % 7, "bytes": 3_000})),
            2 => ("fail", json!({"message": format!("failure {turn}")})),
            _ => ("echo", json!({"text": format!("text {turn}")})),
        };
        arguments["sessionId"] = json!(session);
        let Some(answer) = client.call_or_end(tool, arguments).await else { return };
        let id = ref_id(&answer);
        {
            let mut acknowledged = acknowledged.borrow_mut();
            acknowledged.results.insert(id.clone(), answer["result"].clone());
            acknowledged.latest.push(id.clone());
        }
        answers.send_modify(|count| *count += 1);
        if turn % 3 == 0 {
            acknowledged.borrow_mut().perhaps_read.insert(id.clone());
            let Some(read) = client.call_or_end("get_content", json!({"ref_id": id})).await else { return };
            assert_ne!(read["result"]["isError"], true, "{read}");
            acknowledged.borrow_mut().perhaps_read.remove(&id);
            acknowledged.borrow_mut().read.insert(id);
        }
    }
}

/// Records that were read are at their end, others are whole, also for a server that did not make them.
async fn read_again(client: &HttpMcpClient, acknowledged: &RefCell<Acknowledged>) {
    let (read, unread) = {
        let acknowledged = acknowledged.borrow();
        let is_unread =
            |id: &&String| !acknowledged.read.contains(*id) && !acknowledged.perhaps_read.contains(*id);
        (
            acknowledged.latest.iter().find(|id| acknowledged.read.contains(*id)).cloned(),
            acknowledged.latest.iter().find(is_unread).cloned(),
        )
    };
    if let Some(id) = read {
        let answer = client.call("get_content", json!({"ref_id": id})).await;
        assert_eq!(answer["result"]["content"][0]["text"], "", "{id} was read before: {answer}");
    }
    if let Some(id) = unread {
        let answer = client.call("get_content", json!({"ref_id": id})).await;
        let expected = acknowledged.borrow().results[&id]["content"][0]["text"].clone();
        assert_eq!(answer["result"]["content"][0]["text"], expected, "{id}");
        acknowledged.borrow_mut().read.insert(id);
    }
}

/// The database is sound, has everything that the last server's clients received, and no session of a dead server is open.
fn check(folder: &std::path::Path, db: &RecordsDb, acknowledged: &Acknowledged, cycle: usize) {
    assert_eq!(db.all::<String>("PRAGMA integrity_check"), ["ok"], "after {cycle} kills");
    assert_eq!(db.all::<String>("SELECT \"table\" FROM pragma_foreign_key_check"), [""; 0]);
    let runs: Vec<String> = db.all("SELECT DISTINCT run FROM sessions WHERE state = 'active'");
    assert_eq!(runs.len(), 1, "sessions of dead servers are active: {runs:?}");
    let cursors: BTreeSet<String> = db.all("SELECT ref_id FROM diff_cursors").into_iter().collect();
    for id in &acknowledged.latest {
        let record = db.record(id).unwrap_or_else(|| panic!("{id} was acknowledged and is lost"));
        let result = record.result.unwrap_or_else(|| panic!("{id} was answered, and its answer is lost"));
        let mut result: Value = serde_json::from_str(&result).unwrap();
        let mut sent = acknowledged.results[id].clone();
        assert_eq!(record.status.as_deref() == Some("error"), sent["isError"] == true);
        sent.as_object_mut().unwrap().remove("_meta");
        if record.tool == "picture" {
            let picture = |value: &mut Value| value["content"][1]["data"].take();
            let name = picture(&mut result);
            let data = picture(&mut sent);
            let bytes: i64 = db.one(&format!("SELECT bytes FROM blobs WHERE sha256 = {}", quoted(&name)));
            assert_eq!(bytes as usize, data.as_str().unwrap().len() / 4 * 3, "{id}");
            let name = name.as_str().unwrap();
            let file = folder.join("blobs").join(&name[..2]).join(&name[2..4]).join(name);
            let record =
                std::fs::read(&file).unwrap_or_else(|error| panic!("{id}: {}: {error}", file.display()));
            assert_eq!(record.len(), bytes as usize, "{id}: the blob is whole");
        }
        // After the engine's parts greenroom adds the name of a picture's blob.
        let parts = result["content"].as_array().unwrap().len();
        sent["content"].as_array_mut().unwrap().truncate(parts);
        assert_eq!(result, sent, "{id}: what is kept is not what was sent");
        if !acknowledged.perhaps_read.contains(id) {
            assert_eq!(cursors.contains(id), acknowledged.read.contains(id), "the cursor of {id}");
        }
    }
}

/// A hash as an SQL text.
fn quoted(name: &Value) -> String {
    format!("'{}'", name.as_str().unwrap())
}
