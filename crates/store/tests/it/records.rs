//! Records: begun, ended, and found again by their owner alone.

use std::{sync::Arc, time::Duration};

use greenroom_core::{
    Owner, Records as _, raw,
    record::{
        Claim, ConsoleLine, Cursor, Level, Location, RecordFilter, Request, Response, SessionState, Status,
        What,
    },
};

use crate::kit::{folder, name, now, open, request, response, rows, session, soon, sql};

/// A record is found as it was written, to the letter, by its owner and by no other.
#[tokio::test]
async fn a_record_is_found_as_it_was_written() {
    let folder = folder();
    let owner = Owner::local();
    let store = open(folder.path());
    let session = session("shop");
    let mut begun = request(&owner, Some(&session));
    begun.params = raw::parse("{ \"n\": 1.50, \"text\": \"\\u0000é\" }".to_owned()).unwrap();
    soon(store.begin(begun.clone())).await.unwrap();
    let running = soon(store.record(&owner, &begun.ref_id)).await.unwrap().unwrap();
    assert_eq!(running.summary.outcome, None);
    assert_eq!(running.result, None);

    let mut ended = response(&begun.ref_id);
    ended.session = Some(session.clone());
    ended.result = Arc::from("{\"content\": [],  \"x\": 1e3}");
    ended.snapshot = Some(Arc::from("- button \"Buy\" [ref=e7]\n"));
    ended.url = Some("https://shop.test/".to_owned());
    ended.title = Some("Shop".to_owned());
    ended.console = vec![
        ConsoleLine { level: Level::Warn, message: "old API".to_owned(), at: Some(now()), location: None },
        ConsoleLine {
            level: Level::Error,
            message: "boom".to_owned(),
            at: None,
            location: Some(Location {
                url: "https://shop.test/a.js".to_owned(),
                line_number: Some(7),
                column_number: None,
            }),
        },
    ];
    soon(store.end(ended.clone())).await.unwrap();

    let record = soon(store.record(&owner, &begun.ref_id)).await.unwrap().unwrap();
    assert_eq!(record.params.get(), begun.params.get());
    assert_eq!(record.result.as_deref(), Some(&*ended.result));
    assert_eq!(record.snapshot.as_deref(), ended.snapshot.as_deref());
    assert_eq!(record.summary.session, Some(session));
    assert_eq!(record.summary.tool, "browser_click");
    assert_eq!(record.summary.at, begun.at);
    let outcome = record.summary.outcome.unwrap();
    assert_eq!((outcome.status, outcome.at, outcome.took), (Status::Success, ended.at, ended.took));
    assert_eq!((outcome.url, outcome.title), (ended.url, ended.title));
    assert_eq!((outcome.has_snapshot, outcome.console, outcome.console_errors), (true, 2, 1));
    let console = soon(store.console(&owner, &begun.ref_id, None)).await.unwrap().unwrap();
    assert_eq!(console, ended.console);
    let errors = soon(store.console(&owner, &begun.ref_id, Some(Level::Error))).await.unwrap().unwrap();
    assert_eq!(errors, ended.console[1..]);

    let stranger = Owner::new("stranger");
    assert!(soon(store.record(&stranger, &begun.ref_id)).await.unwrap().is_none());
    assert!(soon(store.console(&stranger, &begun.ref_id, None)).await.unwrap().is_none());
    assert!(soon(store.snapshot_before(&stranger, &begun.ref_id)).await.unwrap().is_none());
    assert!(soon(store.session(&stranger, "shop")).await.unwrap().is_none());
    assert!(
        soon(store.list(&stranger, RecordFilter { limit: 9, ..RecordFilter::default() }))
            .await
            .unwrap()
            .is_empty()
    );
    soon(store.close()).await;
}

/// Operations are written in the order of their calls, though the test awaits nothing in between.
#[tokio::test]
async fn operations_keep_their_order() {
    let folder = folder();
    let owner = Owner::local();
    let store = open(folder.path());
    let mut waiting = Vec::new();
    let mut names = Vec::new();
    for _ in 0..500 {
        let begun = request(&owner, None);
        names.push(begun.ref_id.clone());
        let ended = response(&begun.ref_id);
        waiting.push(store.begin(begun));
        waiting.push(store.end(ended));
    }
    // Polled from the last to the first: the order is that of the calls.
    while let Some(one) = waiting.pop() {
        soon(one).await.unwrap();
    }
    let listed =
        soon(store.list(&owner, RecordFilter { limit: 1000, ..RecordFilter::default() })).await.unwrap();
    let listed: Vec<_> = listed.summaries.into_iter().rev().map(|summary| summary.ref_id).collect();
    assert_eq!(listed, names);
    soon(store.close()).await;
}

/// A `ref_id` that a client chose is new once; after that its owner gets the record back, and another owner learns that
/// it is taken.
#[tokio::test]
async fn a_given_name_is_claimed_once() {
    let folder = folder();
    let owner = Owner::local();
    let store = open(folder.path());
    let mut first = request(&owner, None);
    first.ref_id = name();
    assert!(matches!(soon(store.claim(first.clone())).await.unwrap(), Claim::New));
    let Claim::Repeat(running) = soon(store.claim(first.clone())).await.unwrap() else { panic!("no repeat") };
    assert_eq!(running.result, None, "it still runs");
    let found = request(&owner, Some(&session("a")));
    soon(store.begin(Request { ref_id: first.ref_id.clone(), ..found.clone() })).await.unwrap();
    let running = soon(store.record(&owner, &first.ref_id)).await.unwrap().unwrap();
    assert_eq!(running.summary.session, found.session, "it has found its session while it runs");
    let ended = response(&first.ref_id);
    soon(store.end(ended.clone())).await.unwrap();
    let Claim::Repeat(record) = soon(store.claim(first.clone())).await.unwrap() else { panic!("no repeat") };
    assert_eq!(record.result.as_deref(), Some(&*ended.result));
    let mut theirs = request(&Owner::new("other"), None);
    theirs.ref_id = first.ref_id.clone();
    assert!(matches!(soon(store.claim(theirs)).await.unwrap(), Claim::Taken));
    soon(store.close()).await;
    assert_eq!(rows(folder.path(), "requests"), 1);

    // Of two claims at once one is new, even if one batch has both.
    let store = open(folder.path());
    let twice = request(&owner, None);
    let one = store.claim(twice.clone());
    let other = store.claim(twice);
    assert!(matches!(soon(one).await.unwrap(), Claim::New));
    assert!(matches!(soon(other).await.unwrap(), Claim::Repeat(_)));
    soon(store.close()).await;
}

/// An end without a beginning, a second end and a second beginning are refused, and their neighbours are written.
#[tokio::test]
async fn what_cannot_be_written_is_refused_alone() {
    let folder = folder();
    let owner = Owner::local();
    let store = open(folder.path());
    let begun = request(&owner, None);
    let unknown = response(&name());
    let outcomes = [
        store.end(unknown),
        store.begin(begun.clone()),
        store.begin(begun.clone()),
        store.end(response(&begun.ref_id)),
        store.end(response(&begun.ref_id)),
        store.set_cursor(&name(), Cursor { position: 1, hash: "a".to_owned() }),
        store.set_cursor(&begun.ref_id, Cursor { position: 1, hash: "a".to_owned() }),
    ];
    let mut said = Vec::new();
    for outcome in outcomes {
        said.push(soon(outcome).await.map_err(|error| error.to_string()));
    }
    let refused = |text: &str| Err(text.to_owned());
    assert_eq!(
        said,
        [
            refused("its beginning was not recorded"),
            Ok(()),
            refused("a record of this name already exists"),
            Ok(()),
            refused("it has already ended"),
            refused("there is no such record"),
            Ok(()),
        ]
    );
    assert_eq!(store.health(), Ok(()));
    soon(store.close()).await;
}

/// A record that the database refuses fails alone and leaves nothing of itself behind; its neighbours in the same batch are
/// written.
#[tokio::test]
async fn a_bad_record_does_not_fail_its_neighbours() {
    let folder = folder();
    let owner = Owner::local();
    let store = open(folder.path());
    soon(store.begin(request(&owner, None))).await.unwrap();
    let other = sql(folder.path());
    let poison = "CREATE TRIGGER poison BEFORE INSERT ON console_logs WHEN new.message = 'poison'
                  BEGIN SELECT RAISE (ABORT, 'poisoned'); END; BEGIN IMMEDIATE";
    other.execute_batch(poison).unwrap();
    let mut waiting = Vec::new();
    let mut names = Vec::new();
    for message in ["fine", "poison", "fine"] {
        let begun = request(&owner, Some(&session("one")));
        let mut ended = response(&begun.ref_id);
        names.push(begun.ref_id.clone());
        let line = |message: &str| ConsoleLine {
            level: Level::Info,
            message: message.to_owned(),
            at: None,
            location: None,
        };
        ended.console = vec![line("first"), line(message)];
        waiting.extend([store.begin(begun), store.end(ended)]);
    }
    // All operations wait for this commit, and are then written in one or two batches.
    other.execute_batch("COMMIT").unwrap();
    let mut said = Vec::new();
    for one in waiting {
        said.push(soon(one).await.map_err(|error| error.to_string()));
    }
    assert_eq!(said, [Ok(()), Ok(()), Ok(()), Err("poisoned".to_owned()), Ok(()), Ok(())]);
    let half = soon(store.record(&owner, &names[1])).await.unwrap().unwrap();
    assert_eq!((half.result, half.summary.outcome), (None, None));
    assert_eq!(store.health(), Ok(()));
    soon(store.close()).await;
    assert_eq!(rows(folder.path(), "console_logs"), 4);
}

/// A session whose row another process has removed gets a new one with its next call.
#[tokio::test]
async fn a_removed_session_comes_back_with_its_next_call() {
    let folder = folder();
    let owner = Owner::local();
    let store = open(folder.path());
    let session = session("one");
    soon(store.begin(request(&owner, Some(&session)))).await.unwrap();
    sql(folder.path()).execute_batch("DELETE FROM requests; DELETE FROM sessions").unwrap();
    let begun = request(&owner, Some(&session));
    soon(store.begin(begun.clone())).await.unwrap();
    let record = soon(store.record(&owner, &begun.ref_id)).await.unwrap().unwrap();
    assert_eq!(record.summary.session, Some(session));
    soon(store.close()).await;
}

/// Lists are filtered by session, tool and outcome, and the next part goes on where the last one ended.
#[tokio::test]
async fn lists_are_filtered_and_come_in_parts() {
    let folder = folder();
    let owner = Owner::local();
    let store = open(folder.path());
    let one = session("one");
    let other = session("other");
    for number in 0..12 {
        let mut begun = request(&owner, Some(if number % 2 == 0 { &one } else { &other }));
        begun.tool = Arc::from(if number % 3 == 0 { "browser_snapshot" } else { "browser_click" });
        soon(store.begin(begun.clone())).await.unwrap();
        let mut ended = response(&begun.ref_id);
        if number % 4 == 0 {
            ended.status = Status::Error;
            ended.error = Some("no such element".to_owned());
        }
        if number != 11 {
            soon(store.end(ended)).await.unwrap();
        }
    }
    let all = RecordFilter { limit: 100, ..RecordFilter::default() };
    let count = async |filter: RecordFilter| soon(store.list(&owner, filter)).await.unwrap().len();
    assert_eq!(count(all.clone()).await, 12);
    assert_eq!(count(RecordFilter { session: Some(one.uid.clone()), ..all.clone() }).await, 6);
    assert_eq!(count(RecordFilter { tool: Some("browser_snapshot".to_owned()), ..all.clone() }).await, 4);
    assert_eq!(count(RecordFilter { status: Some(Status::Error), ..all.clone() }).await, 3);
    assert_eq!(count(RecordFilter { status: Some(Status::Success), ..all.clone() }).await, 8);
    let mixed = RecordFilter {
        session: Some(one.uid.clone()),
        status: Some(Status::Error),
        tool: Some("browser_click".to_owned()),
        ..all.clone()
    };
    assert_eq!(count(mixed).await, 2);
    let mut seen = Vec::new();
    let mut before = None;
    loop {
        let part = soon(store.list(&owner, RecordFilter { before, limit: 5, ..RecordFilter::default() }))
            .await
            .unwrap();
        let Some(last) = part.last() else { break };
        before = Some(last.position);
        seen.extend(part.iter().map(|summary| summary.position));
    }
    assert_eq!(seen.len(), 12);
    assert!(seen.is_sorted_by(|newer, older| newer > older), "{seen:?}");
    soon(store.close()).await;
}

/// A call that moved to its session's successor is found there.
#[tokio::test]
async fn a_call_can_move_to_another_session() {
    let folder = folder();
    let owner = Owner::local();
    let store = open(folder.path());
    let first = session("shop");
    let second = session("shop");
    let begun = request(&owner, Some(&first));
    soon(store.begin(begun.clone())).await.unwrap();
    let mut ended = response(&begun.ref_id);
    ended.session = Some(second.clone());
    soon(store.end(ended)).await.unwrap();
    let record = soon(store.record(&owner, &begun.ref_id)).await.unwrap().unwrap();
    assert_eq!(record.summary.session, Some(second.clone()));
    let youngest = soon(store.session(&owner, "shop")).await.unwrap().unwrap();
    assert_eq!(youngest.session, second);
    soon(store.close()).await;
}

/// The snapshot before a record is the last one of its session, not of another, and not its own.
#[tokio::test]
async fn the_snapshot_before_is_of_the_same_session() {
    let folder = folder();
    let owner = Owner::local();
    let store = open(folder.path());
    let one = session("one");
    let other = session("other");
    let mut names = Vec::new();
    for (of, snapshot) in [(&one, Some("a")), (&other, Some("x")), (&one, None), (&one, Some("b"))] {
        let begun = request(&owner, Some(of));
        names.push(begun.ref_id.clone());
        soon(store.begin(begun.clone())).await.unwrap();
        let mut ended = response(&begun.ref_id);
        ended.snapshot = snapshot.map(Arc::from);
        soon(store.end(ended)).await.unwrap();
    }
    let before = async |index: usize| soon(store.snapshot_before(&owner, &names[index])).await.unwrap();
    assert_eq!(before(3).await, Some((names[0].clone(), "a".to_owned())));
    assert_eq!(before(2).await, Some((names[0].clone(), "a".to_owned())));
    assert_eq!(before(1).await, None);
    assert_eq!(before(0).await, None);
    soon(store.close()).await;
}

/// A timeline has calls, pages, console lines and errors in one order, and goes on where a part ended.
#[tokio::test]
async fn a_timeline_is_in_one_order() {
    let folder = folder();
    let owner = Owner::local();
    let store = open(folder.path());
    let session = session("shop");
    for (url, error) in [("a", None), ("a", Some("lost")), ("b", None)] {
        let begun = request(&owner, Some(&session));
        soon(store.begin(begun.clone())).await.unwrap();
        let mut ended = response(&begun.ref_id);
        ended.url = Some(url.to_owned());
        ended.console =
            vec![ConsoleLine { level: Level::Info, message: format!("at {url}"), at: None, location: None }];
        ended.error = error.map(str::to_owned);
        ended.status = if error.is_some() { Status::Error } else { Status::Success };
        soon(store.end(ended)).await.unwrap();
    }
    soon(store.begin(request(&owner, Some(&session)))).await.unwrap();
    let words = |what: What| match what {
        What::Call { status, took, .. } => {
            assert_eq!(took, status.map(|_| Duration::from_millis(12)));
            format!("call {}", status.map_or("runs", Status::as_str))
        }
        What::Navigation { url, .. } => format!("page {url}"),
        What::Console { message, .. } => format!("console {message}"),
        What::Error { message } => format!("error {message}"),
    };
    let expected = [
        "call success",
        "page a",
        "console at a",
        "call error",
        "console at a",
        "error lost",
        "call success",
        "page b",
        "console at b",
        "call runs",
    ];
    for calls_max in [1, 2, 100] {
        let mut said = Vec::new();
        let mut from = 0;
        let mut last = None;
        loop {
            let part = soon(store.timeline(&owner, &session.uid, from, calls_max)).await.unwrap();
            if part.next == from {
                // A call that is under way comes again.
                assert!(part.events.iter().all(|event| Some(&event.ref_id) == last.as_ref()));
                break;
            }
            from = part.next;
            let again = last.clone();
            last = part.events.last().map(|event| event.ref_id.clone());
            let new = part.events.into_iter().filter(|event| Some(&event.ref_id) != again.as_ref());
            said.extend(new.map(|event| words(event.what)));
        }
        assert_eq!(said, expected);
    }
    let foreign = soon(store.timeline(&Owner::new("x"), &session.uid, 0, 9)).await.unwrap();
    assert!(foreign.events.is_empty());
    soon(store.close()).await;
}

/// A client that follows a timeline later learns the outcome of a call that was under way, unless the session is over;
/// a call that never ends does not hold the client up.
#[tokio::test]
async fn a_timeline_waits_for_calls_under_way() {
    let folder = folder();
    let owner = Owner::local();
    let store = open(folder.path());
    let session = session("shop");
    let calls: Vec<_> = (0..3).map(|_| request(&owner, Some(&session))).collect();
    for call in &calls {
        soon(store.begin(call.clone())).await.unwrap();
    }
    for call in [&calls[0], &calls[2]] {
        soon(store.end(response(&call.ref_id))).await.unwrap();
    }
    let read = async |from, calls_max| {
        let part = soon(store.timeline(&owner, &session.uid, from, calls_max)).await.unwrap();
        (part.events.len(), part.next)
    };
    assert_eq!(read(0, 9).await, (3, 2));
    assert_eq!(read(2, 9).await, (2, 2), "it is still under way");
    assert_eq!(read(2, 2).await, (2, 4), "what is behind a full part is reached");
    soon(store.end(response(&calls[1].ref_id))).await.unwrap();
    assert_eq!(read(2, 9).await, (2, 4));

    soon(store.begin(request(&owner, Some(&session)))).await.unwrap();
    assert_eq!(read(4, 9).await, (1, 4));
    store.session_ended(&session.uid, SessionState::Closed);
    // Operations are committed in order: when this call's begin is, so is the session's end.
    soon(store.begin(request(&owner, None))).await.unwrap();
    assert_eq!(read(4, 9).await, (1, 5), "it will not end any more");
    soon(store.close()).await;
}

/// A part of a timeline ends with the call that brings too many events, and the next part begins after that call.
#[tokio::test]
async fn a_timeline_comes_in_parts_of_some_size() {
    let folder = folder();
    let owner = Owner::local();
    let store = open(folder.path());
    let session = session("shop");
    let line = ConsoleLine { level: Level::Info, message: "x".to_owned(), at: None, location: None };
    for _ in 0..25 {
        let begun = request(&owner, Some(&session));
        soon(store.begin(begun.clone())).await.unwrap();
        let ended = Response { console: vec![line.clone(); 1_500], ..response(&begun.ref_id) };
        soon(store.end(ended)).await.unwrap();
    }
    // A call, a thousand lines, and how many more there are.
    for (from, events, next) in [(0, 20 * 1_002, 21), (21, 5 * 1_002, 26), (26, 0, 26)] {
        let part = soon(store.timeline(&owner, &session.uid, from, 100)).await.unwrap();
        assert_eq!((part.events.len(), part.next), (events, next));
    }
    soon(store.close()).await;
}

/// A cursor survives a reopen of the store.
#[tokio::test]
async fn cursors_last() {
    let folder = folder();
    let owner = Owner::local();
    let store = open(folder.path());
    let begun = request(&owner, None);
    soon(store.begin(begun.clone())).await.unwrap();
    assert_eq!(soon(store.cursor(&begun.ref_id)).await.unwrap(), None);
    for position in [5, 9] {
        let cursor = Cursor { position, hash: format!("h{position}") };
        soon(store.set_cursor(&begun.ref_id, cursor)).await.unwrap();
    }
    soon(store.close()).await;
    let store = open(folder.path());
    let cursor = soon(store.cursor(&begun.ref_id)).await.unwrap();
    assert_eq!(cursor, Some(Cursor { position: 9, hash: "h9".to_owned() }));
    soon(store.close()).await;
}
