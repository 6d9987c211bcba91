//! Sessions: active while they live, closed when their process is gone.

use std::{fs, time::Duration};

use greenroom_core::{Owner, Records as _, record::SessionState};
use greenroom_store::{Store, StoreSettings};

use crate::kit::{folder, now, open, request, response, rows, session, settings, soon};

/// A session begins with its first call, its last activity is its last call, and it ends in the given state.
#[tokio::test]
async fn a_session_lives_as_long_as_its_calls() {
    let folder = folder();
    let owner = Owner::local();
    let store = open(folder.path());
    let session = session("shop");
    let mut first = request(&owner, Some(&session));
    first.at = now() - Duration::from_secs(50);
    let mut second = request(&owner, Some(&session));
    second.at = now() - Duration::from_secs(20);
    soon(store.begin(first.clone())).await.unwrap();
    soon(store.begin(second.clone())).await.unwrap();
    let row = soon(store.session(&owner, "shop")).await.unwrap().unwrap();
    assert_eq!((row.created, row.last_activity), (first.at, second.at));
    assert_eq!(row.state, SessionState::Active);

    // A call that ended earlier does not set the last activity back.
    let mut ended = response(&first.ref_id);
    ended.session = Some(session.clone());
    ended.at = second.at - Duration::from_secs(5);
    soon(store.end(ended)).await.unwrap();
    let row = soon(store.session(&owner, session.uid.as_str())).await.unwrap().unwrap();
    assert_eq!(row.last_activity, second.at);

    // An end that names no session belongs to the session in which its call began.
    let ended = response(&second.ref_id);
    soon(store.end(ended.clone())).await.unwrap();
    let row = soon(store.session(&owner, "shop")).await.unwrap().unwrap();
    assert_eq!(row.last_activity, ended.at);

    store.session_ended(&session.uid, SessionState::Error);
    soon(store.close()).await;
    let store = open(folder.path());
    let row = soon(store.session(&owner, "shop")).await.unwrap().unwrap();
    assert_eq!(row.state, SessionState::Error);
    soon(store.close()).await;
}

/// A store that opens closes the sessions of dead processes; those of living processes and its own stay active.
#[tokio::test]
async fn sessions_of_dead_processes_are_closed() {
    let folder = folder();
    let owner = Owner::local();
    for run in ["dead", "neighbour", "own"] {
        let mut settings = settings(folder.path());
        settings.process_tag = run.to_owned();
        settings.running_tags = vec!["dead".to_owned(), "neighbour".to_owned()];
        let store = Store::open(settings);
        soon(store.begin(request(&owner, Some(&session(run))))).await.unwrap();
        soon(store.close()).await;
    }
    let mut settings = settings(folder.path());
    settings.process_tag = "own".to_owned();
    settings.running_tags = vec!["neighbour".to_owned()];
    let store = Store::open(settings);
    let state = async |name: &str| soon(store.session(&owner, name)).await.unwrap().unwrap().state;
    assert_eq!(state("dead").await, SessionState::Closed);
    assert_eq!(state("neighbour").await, SessionState::Active);
    assert_eq!(state("own").await, SessionState::Active);
    soon(store.close()).await;
    assert_eq!(rows(folder.path(), "sessions"), 3);
}

/// A session that began after the living processes were determined stays active, even if its process is unknown.
#[tokio::test]
async fn sessions_younger_than_the_look_stay_active() {
    let folder = folder();
    let owner = Owner::local();
    let looked = now();
    let mut unknown = settings(folder.path());
    unknown.process_tag = "unknown".to_owned();
    let store = Store::open(unknown);
    soon(store.begin(request(&owner, Some(&session("shop"))))).await.unwrap();
    soon(store.close()).await;
    let later = now() + Duration::from_secs(1);
    for (began, state) in [(looked, SessionState::Active), (later, SessionState::Closed)] {
        let store = Store::open(StoreSettings { processes_listed_after: began, ..settings(folder.path()) });
        assert_eq!(soon(store.session(&owner, "shop")).await.unwrap().unwrap().state, state);
        soon(store.close()).await;
    }
}

/// A store that opens its database once more does not close the sessions of processes that came after it.
#[tokio::test]
async fn opening_again_closes_no_session_of_a_later_process() {
    let parent = folder();
    let owner = Owner::local();
    let here = parent.path().join("data");
    let away = parent.path().join("away");
    let old = open(&here);
    soon(old.begin(request(&owner, None))).await.unwrap();
    let mut later = settings(&here);
    later.process_tag = "later".to_owned();
    later.running_tags = vec!["1-1-a".to_owned()];
    let store = Store::open(later);
    soon(store.begin(request(&owner, Some(&session("shop"))))).await.unwrap();
    fs::rename(&here, &away).unwrap();
    soon(old.begin(request(&owner, None))).await.unwrap_err();
    fs::rename(&away, &here).unwrap();
    soon(async { while old.begin(request(&owner, None)).await.is_err() {} }).await;
    let row = soon(old.session(&owner, "shop")).await.unwrap().unwrap();
    assert_eq!(row.state, SessionState::Active);
    soon(old.close()).await;
    soon(store.close()).await;
}

/// The end of a session that never had a call leaves no trace and does no harm.
#[tokio::test]
async fn a_session_without_calls_leaves_no_trace() {
    let folder = folder();
    let store = open(folder.path());
    store.session_ended(&session("quiet").uid, SessionState::Closed);
    soon(store.close()).await;
    assert_eq!(rows(folder.path(), "sessions"), 0);
    assert_eq!(store.health(), Ok(()));
}
