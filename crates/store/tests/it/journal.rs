//! The journal: what is acknowledged before it is committed is read, survives, and is written once.

use std::{fs, path::Path};

use greenroom_core::{
    Owner, Records as _,
    record::{Filter, Response},
};

use crate::kit::{folder, open, request, response, rows, session, soon, sql};

/// The text of all journals of a data folder.
fn journals(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder.join("journal")).into_iter().flatten().flatten();
    entries.map(|entry| fs::read_to_string(entry.path()).unwrap()).collect()
}

/// A store that has opened its database, so that it acknowledges what it has noted.
async fn opened(folder: &Path) -> greenroom_store::Store {
    let store = open(folder);
    soon(store.begin(request(&Owner::local(), None))).await.unwrap();
    store
}

/// A call is acknowledged while the database is locked by another process, is in the journal alone, and is read as soon
/// as it can be committed; then the journal is empty, and at the end it is gone.
#[tokio::test]
async fn noted_before_it_is_committed() {
    let (folder, owner) = (folder(), Owner::local());
    let store = opened(folder.path()).await;
    let other = sql(folder.path());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let begun = request(&owner, Some(&session("shop")));
    let ended = Response { snapshot: Some("- text: \"1 % of…\"\n".into()), ..response(&begun.ref_id) };
    soon(store.begin(begun.clone())).await.unwrap();
    soon(store.end(ended.clone())).await.unwrap();
    let lines: Vec<_> =
        journals(folder.path()).iter().flat_map(|text| text.lines()).map(str::to_owned).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(rows(folder.path(), "responses"), 0);
    other.execute_batch("COMMIT").unwrap();
    let record = soon(store.record(&owner, &begun.ref_id)).await.unwrap().unwrap();
    assert_eq!(record.summary.session, begun.session);
    assert_eq!(record.snapshot.as_deref(), ended.snapshot.as_deref());
    assert_eq!(record.result.as_deref(), Some(&*ended.result));
    assert_eq!(journals(folder.path()), [""]);
    soon(store.close()).await;
    assert_eq!(journals(folder.path()), [""; 0]);
}

/// What a process has left in its journal is written by the next one, once, whatever of it the database has already; a
/// line that was cut short is left out. Its sessions are over.
#[tokio::test]
async fn leftovers_are_written() {
    let (here, there, owner) = (folder(), folder(), Owner::local());
    let store = opened(here.path()).await;
    let other = sql(here.path());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let calls: Vec<_> = (0..3).map(|_| request(&owner, Some(&session("shop")))).collect();
    for call in &calls {
        soon(store.begin(call.clone())).await.unwrap();
        soon(store.end(response(&call.ref_id))).await.unwrap();
    }
    let text = journals(here.path()).concat();
    other.execute_batch("COMMIT").unwrap();
    soon(store.close()).await;
    // One journal beside a database that knows nothing of it, and one that has all of it.
    for data in [there.path(), here.path()] {
        fs::create_dir_all(data.join("journal")).unwrap();
        fs::write(data.join("journal/1"), format!("{text}{{\"Begin\":{{\"ref_id\":")).unwrap();
        let store = open(data);
        let all = Filter {
            limit: 9,
            session: calls[0].session.as_ref().map(|one| one.uid.clone()),
            ..Filter::default()
        };
        assert_eq!(soon(store.list(&owner, all)).await.unwrap().len(), 1);
        for call in &calls {
            let record = soon(store.record(&owner, &call.ref_id)).await.unwrap().unwrap();
            assert!(record.summary.outcome.is_some());
        }
        soon(store.close()).await;
        assert_eq!(journals(data), [""; 0]);
        assert_eq!(rows(data, "sessions WHERE state = 'active' AND run <> '1-1-a'"), 0);
    }
    assert_eq!(rows(there.path(), "requests"), 3);
    assert_eq!(rows(here.path(), "requests"), 4);
}

/// What a store cannot commit before it ends stays in its journal, for the next one.
#[tokio::test]
async fn what_cannot_be_committed_stays() {
    let (folder, owner) = (folder(), Owner::local());
    let store = opened(folder.path()).await;
    let other = sql(folder.path());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let call = request(&owner, None);
    soon(store.begin(call.clone())).await.unwrap();
    soon(store.close()).await;
    assert!(journals(folder.path()).concat().contains(call.ref_id.as_str()));
    other.execute_batch("COMMIT").unwrap();
    let store = open(folder.path());
    assert!(soon(store.record(&owner, &call.ref_id)).await.unwrap().is_some());
    soon(store.close()).await;
}

/// The journal of a store that lives is nobody's leftover.
#[tokio::test]
async fn a_living_journal_is_left_alone() {
    let (folder, owner) = (folder(), Owner::local());
    let store = opened(folder.path()).await;
    soon(store.begin(request(&owner, None))).await.unwrap();
    let other = open(folder.path());
    soon(other.begin(request(&owner, None))).await.unwrap();
    assert!(!journals(folder.path()).is_empty());
    soon(other.close()).await;
    soon(store.close()).await;
    assert_eq!(rows(folder.path(), "requests"), 3);
}

/// An end without a beginning is refused at once, big or not: it is never acknowledged for the journal's sake.
#[tokio::test]
async fn an_end_alone_is_refused() {
    let folder = folder();
    let store = opened(folder.path()).await;
    let refused = soon(store.end(response(&request(&Owner::local(), None).ref_id))).await.unwrap_err();
    assert_eq!(refused.to_string(), "its beginning was not recorded");
    soon(store.close()).await;
}

/// Calls that come faster than they can be committed are all kept, through many files of the journal.
#[tokio::test]
async fn many_files() {
    const CALLS: usize = 1_500;
    let (folder, owner) = (folder(), Owner::local());
    let store = opened(folder.path()).await;
    let page: std::sync::Arc<str> = "x".repeat(12_000).into();
    for _ in 0..CALLS {
        let begun = request(&owner, None);
        let ended = Response { snapshot: Some(page.clone()), ..response(&begun.ref_id) };
        soon(store.begin(begun)).await.unwrap();
        soon(store.end(ended)).await.unwrap();
    }
    let listed = soon(store.list(&owner, Filter { limit: 10_000, ..Filter::default() })).await.unwrap();
    assert_eq!(listed.len(), CALLS + 1);
    assert_eq!(journals(folder.path()).concat(), "");
    soon(store.close()).await;
    assert_eq!(rows(folder.path(), "responses"), CALLS);
    assert_eq!(journals(folder.path()), [""; 0]);
}
