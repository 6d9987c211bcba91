//! A disk that is full or read-only: calls go on, answers say that they are not recorded, and later ones are recorded again.
//!
//! The disk is a small file system in memory, mounted for greenroom alone, in user and mount namespaces of its own.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use greenroom_testkit::{
    Launch, TEST_TIMEOUT,
    http::{HttpMcpClient, Server},
    text_of, within,
};
use serde_json::{Value, json};

use super::database::RecordsDb;
use crate::{
    front::{fixture::FakeEngineSetup, recall::ref_id},
    http::http_client,
};

/// A server whose data folder is a file system of its own, of a few megabytes.
struct SmallDiskServer {
    setup: FakeEngineSetup,
    server: Server,
}

impl SmallDiskServer {
    async fn start() -> Self {
        let setup = FakeEngineSetup::new();
        fs::create_dir_all(setup.data()).unwrap();
        let data = setup.data();
        Self::with(setup, "mount -t tmpfs -o size=6m tmpfs \"$0\" && exec \"$@\"", &data).await
    }

    /// A server behind a script that mounts something: `$0` is what to mount, `"$@"` the server.
    async fn with(setup: FakeEngineSetup, script: &str, what: &Path) -> Self {
        let launch = Launch::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
            .arg(what)
            .arg(env!("CARGO_BIN_EXE_greenroom"))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .home(setup.path("home"));
        let launch =
            setup.environment().into_iter().fold(launch, |launch, (name, value)| launch.env(name, value));
        let server = Server::start(launch).await;
        Self { setup, server }
    }

    /// The data folder as this server sees it.
    fn data(&self) -> PathBuf {
        let inside = PathBuf::from(format!("/proc/{}/root", self.server.pid()));
        inside.join(self.setup.data().strip_prefix("/").unwrap())
    }

    /// Reads a copy of the database, while nothing writes to it: SQLite needs paths that are the same for all
    /// processes.
    fn database(&self) -> RecordsDb {
        let copy = self.setup.path("copy");
        fs::create_dir(&copy).unwrap();
        for file in ["records.db", "records.db-wal"] {
            fs::copy(self.data().join(file), copy.join(file)).unwrap();
        }
        RecordsDb::at(&copy)
    }

    /// What `/ready` says about records.
    async fn records(&self) -> String {
        let readiness = self.server.get("/ready").await.json().await;
        readiness["records"].as_str().unwrap_or_else(|| panic!("{readiness}")).to_owned()
    }
}

async fn echo(client: &HttpMcpClient, text: &str) -> Value {
    let answer = client.call("echo", json!({"text": text, "sessionId": "a"})).await;
    assert_eq!(answer["result"]["content"][0]["text"], text, "{answer}");
    answer
}

/// The note of an answer that is not recorded: why, and no claim to the contrary.
#[track_caller]
fn not_recorded(answer: &Value) -> String {
    let text = text_of(answer);
    let note = text.lines().find(|line| line.starts_with("not recorded: "));
    assert!(answer["result"]["_meta"].get("greenroom/ref_id").is_none(), "{answer}");
    note.unwrap_or_else(|| panic!("nothing is said of the record: {answer}")).to_owned()
}

/// Calls until one is recorded again, however long that takes.
async fn until_kept(client: &HttpMcpClient) -> String {
    let poll = async {
        loop {
            let answer = echo(client, "again").await;
            if answer["result"]["_meta"].get("greenroom/ref_id").is_some() {
                return ref_id(&answer);
            }
        }
    };
    within(TEST_TIMEOUT, poll).await
}

/// A full disk costs records, not calls. Each answer and `/ready` say so, until there is room again.
#[tokio::test]
async fn full_disk_costs_records_not_calls() {
    let server_on_small_disk = SmallDiskServer::start().await;
    let client = http_client(&server_on_small_disk.server).await;
    let before = ref_id(&echo(&client, "before").await);
    assert_eq!(server_on_small_disk.records().await, "kept");
    let filler = server_on_small_disk.data().join("filler");
    let filled = File::create(&filler).unwrap().write_all(&vec![0; 64 << 20]);
    assert_eq!(filled.unwrap_err().kind(), std::io::ErrorKind::StorageFull, "the disk is small");

    // The database still has room for small records; a picture needs more.
    let full = async {
        loop {
            let answer =
                client.call("picture", json!({"number": 1, "bytes": 600_000, "sessionId": "a"})).await;
            if text_of(&answer).contains("not recorded: ") {
                return answer;
            }
        }
    };
    let note = not_recorded(&within(TEST_TIMEOUT, full).await);
    assert!(note.contains("full") || note.contains("No space left"), "{note}");
    let text = "x".repeat(200_000);
    let note = within(TEST_TIMEOUT, async {
        loop {
            let answer = client.call("echo", json!({"text": text, "sessionId": "a"})).await;
            if answer["result"]["_meta"].get("greenroom/ref_id").is_none() {
                assert_eq!(
                    answer["result"]["content"][0]["text"],
                    text.as_str(),
                    "it cannot be recalled, so it is whole"
                );
                return not_recorded(&answer);
            }
        }
    })
    .await;
    assert!(note.contains("full"), "{note}");
    let readiness = server_on_small_disk.records().await;
    assert!(readiness.starts_with("not kept: ") && readiness.contains("full"), "{readiness}");
    let read = client.call("get_content", json!({"ref_id": before, "offset": 0})).await;
    assert_eq!(read["result"]["content"][0]["text"], "before", "what was kept can be read: {read}");

    fs::remove_file(filler).unwrap();
    let after = until_kept(&client).await;
    assert_eq!(server_on_small_disk.records().await, "kept");
    let db = server_on_small_disk.database();
    assert_eq!(db.all::<String>("PRAGMA integrity_check"), ["ok"]);
    for id in [before, after] {
        assert_eq!(db.record(&id).unwrap().status.as_deref(), Some("success"));
    }
    drop(db);
    assert!(server_on_small_disk.server.stop().await.success(), "{}", server_on_small_disk.server.stderr());
}

/// A read-only database costs records as well, and is used when it is writable again.
#[tokio::test]
async fn read_only_database_costs_records_not_calls() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let before = ref_id(&client.call("echo", json!({"text": "before"})).await);
    client.close_stdin().await;
    client.wait().await;

    let database = setup.data().join("records.db");
    let bind = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" && exec \"$@\"";
    let SmallDiskServer { setup, server } = SmallDiskServer::with(setup, bind, &database).await;
    let inside = PathBuf::from(format!("/proc/{}/root", server.pid()));
    let opened = File::options().append(true).open(inside.join(database.strip_prefix("/").unwrap()));
    assert_eq!(opened.unwrap_err().kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    let client = http_client(&server).await;
    let note = not_recorded(&echo(&client, "meanwhile").await);
    assert!(note.contains("records.db` is read-only"), "{note}");
    let server_on_small_disk = SmallDiskServer { setup, server };
    let readiness = server_on_small_disk.records().await;
    assert!(readiness.starts_with("not kept: "), "{readiness}");

    let unmounted = Command::new("nsenter")
        .args([
            "--target",
            &server_on_small_disk.server.pid().to_string(),
            "--user",
            "--mount",
            "umount",
            "--lazy",
        ])
        .arg(&database)
        .status()
        .unwrap();
    assert!(unmounted.success(), "{unmounted}");
    let after = until_kept(&client).await;
    assert_eq!(server_on_small_disk.records().await, "kept");
    let db = RecordsDb::at(&server_on_small_disk.setup.data());
    for id in [before, after] {
        assert_eq!(db.record(&id).unwrap().status.as_deref(), Some("success"));
    }
    assert!(server_on_small_disk.server.stop().await.success(), "{}", server_on_small_disk.server.stderr());
}
