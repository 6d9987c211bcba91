//! Several processes on one data folder, and processes that end without warning.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use greenroom_core::{Owner, Records as _, RefId, record::RecordFilter};

use crate::kit::{folder, open, request, response, rows, session, settings, soon, sql};

/// The variable that names the folder to a test that runs as a further process.
const AGAIN: &str = "GREENROOM_STORE_TEST_FOLDER";

/// The folder, in a process that a test started from itself.
pub fn is_rerun() -> Option<PathBuf> {
    env::var_os(AGAIN).map(PathBuf::from)
}

/// This very test in a further process, through a shell script if one is given. Dropping this value ends the process.
pub struct ChildRun(Child);

pub fn rerun_this_test(test: &str, folder: &Path, script: Option<&str>) -> ChildRun {
    let program = env::current_exe().unwrap();
    let mut command = match script {
        Some(script) => {
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(script).arg(program);
            shell
        }
        None => Command::new(program),
    };
    command.args(["--exact", test, "--nocapture"]).env(AGAIN, folder).stdout(Stdio::piped());
    ChildRun(command.spawn().unwrap())
}

impl ChildRun {
    /// Waits until the process has ended, and panics if it failed.
    pub fn wait(&mut self) {
        let status = self.0.wait().unwrap();
        assert!(status.success(), "the other process failed: {status}");
    }
}

impl Drop for ChildRun {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Three processes make the database together and write to it at once: nothing is lost, nothing is refused, and none
/// closes the sessions of another.
#[tokio::test]
async fn processes_share_a_database() {
    const EACH: usize = 600;
    const TOGETHER: usize = 8;
    let Some(folder) = is_rerun() else {
        let folder = folder();
        let mut others: Vec<_> = (0..3)
            .map(|_| rerun_this_test("sharing::processes_share_a_database", folder.path(), None))
            .collect();
        others.iter_mut().for_each(ChildRun::wait);
        for table in ["requests", "responses"] {
            assert_eq!(rows(folder.path(), table), 3 * EACH, "{table}");
        }
        assert_eq!(rows(folder.path(), "sessions WHERE state = 'active'"), 3);
        let whole: String =
            sql(folder.path()).query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(whole, "ok");
        return;
    };
    let run = std::process::id().to_string();
    let mut settings = settings(&folder);
    settings.process_tag = run.clone();
    // Every possible process counts as alive.
    settings.running_tags = (1..=4_194_304).map(|pid: u32| pid.to_string()).collect();
    let store = greenroom_store::Store::open(settings);
    let owner = Owner::new(&run);
    let session = session("one");
    for _ in 0..EACH / TOGETHER {
        let mut waiting = Vec::new();
        for _ in 0..TOGETHER {
            let begun = request(&owner, Some(&session));
            let ended = response(&begun.ref_id);
            waiting.extend([store.begin(begun), store.end(ended)]);
        }
        for one in waiting {
            soon(one).await.unwrap();
        }
    }
    let listed =
        soon(store.list(&owner, RecordFilter { limit: 10_000, ..RecordFilter::default() })).await.unwrap();
    assert_eq!(listed.len(), EACH);
    soon(store.close()).await;
}

/// An acknowledged operation is there after its process was killed in the middle of its work.
#[tokio::test]
async fn what_was_acknowledged_survives_a_kill() {
    let Some(folder) = is_rerun() else {
        let folder = folder();
        let mut other =
            rerun_this_test("sharing::what_was_acknowledged_survives_a_kill", folder.path(), None);
        let lines = BufReader::new(other.0.stdout.take().unwrap()).lines();
        let names = lines.map_while(Result::ok).filter_map(|line| RefId::parse(&line).ok());
        let acknowledged: Vec<_> = names.take(300).collect();
        assert_eq!(acknowledged.len(), 300);
        other.0.kill().unwrap();
        other.0.wait().unwrap();
        let store = open(folder.path());
        for id in &acknowledged {
            let record = soon(store.record(&Owner::local(), id)).await.unwrap().unwrap();
            assert!(record.result.is_some(), "{id} has ended");
        }
        soon(store.close()).await;
        return;
    };
    let store = open(&folder);
    loop {
        let begun = request(&Owner::local(), None);
        let id = begun.ref_id.clone();
        soon(store.begin(begun)).await.unwrap();
        soon(store.end(response(&id))).await.unwrap();
        println!("{id}");
    }
}

/// The store acknowledges an operation after its commit: another program's connection sees it at once.
#[tokio::test]
async fn what_was_acknowledged_is_seen_by_others() {
    let folder = folder();
    let store = open(folder.path());
    for before in 0..20 {
        let begun = request(&Owner::local(), Some(&session("one")));
        let ended = response(&begun.ref_id);
        soon(store.begin(begun)).await.unwrap();
        assert_eq!((rows(folder.path(), "requests"), rows(folder.path(), "responses")), (before + 1, before));
        soon(store.end(ended)).await.unwrap();
        assert_eq!(rows(folder.path(), "responses"), before + 1);
    }
    soon(store.close()).await;
}

/// A copy of the files, taken while records are written, has everything that was acknowledged before.
#[tokio::test]
async fn a_copy_taken_while_writing_is_whole() {
    let here = folder();
    let there = folder();
    let owner = Owner::local();
    let store = open(here.path());
    let mut acknowledged = Vec::new();
    for _ in 0..100 {
        let begun = request(&owner, None);
        acknowledged.push(begun.ref_id.clone());
        soon(store.begin(begun)).await.unwrap();
    }
    let waiting: Vec<_> = (0..2000).map(|_| store.begin(request(&owner, None))).collect();
    for name in ["records.db", "records.db-wal"] {
        fs::copy(here.path().join(name), there.path().join(name)).unwrap();
    }
    let copy = open(there.path());
    for id in &acknowledged {
        assert!(soon(copy.record(&owner, id)).await.unwrap().is_some());
    }
    soon(copy.begin(request(&owner, None))).await.unwrap();
    soon(copy.close()).await;
    for one in waiting {
        soon(one).await.unwrap();
    }
    soon(store.close()).await;
}
