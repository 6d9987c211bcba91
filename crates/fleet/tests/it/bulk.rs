//! Several calls under one lease.

use std::sync::{Arc, Mutex};

use greenroom_core::Owner;
use greenroom_fleet::{Bulk, BulkAnswers, CallTarget, FleetError, SessionKey};
use tokio::task::JoinHandle;

use crate::{
    agents::FakeAgent,
    fake::call,
    fixture::{FleetFixture, at, crash, named, permit, settle},
};

type Progress = Arc<Mutex<Vec<usize>>>;

/// Several calls in a task of their own, and their progress.
async fn begin(
    fixture: &FleetFixture,
    session_key: SessionKey,
    tools: &[&str],
    stop_on_error: bool,
) -> (JoinHandle<Result<BulkAnswers, FleetError>>, Progress) {
    let progress = Progress::default();
    let calls = tools.iter().map(|tool| call(tool, "{}")).collect();
    let told = progress.clone();
    let bulk = Bulk { calls, stop_on_error, progress: Arc::new(move |done| told.lock().unwrap().push(done)) };
    let fleet = fixture.fleet.clone();
    let task = tokio::spawn(async move {
        let permit = permit(&Owner::local(), "browser_execute_bulk");
        fleet.bulk(permit, session_key, CallTarget::default(), bulk, Arc::new(FakeAgent)).await
    });
    settle().await;
    (task, progress)
}

async fn run(
    fixture: &FleetFixture,
    session_key: SessionKey,
    tools: &[&str],
    stop_on_error: bool,
) -> BulkAnswers {
    begin(fixture, session_key, tools, stop_on_error).await.0.await.unwrap().unwrap()
}

/// Three commands run in one browser, one after the other, though two more are free: in a session and without one.
#[tokio::test(start_paused = true)]
async fn bulk_commands_run_in_one_seat() {
    let fixture = FleetFixture::fixed(3, 1).await;
    for session_key in [SessionKey::Ephemeral, named("a")] {
        let before = fixture.world.log().len();
        let leased = fixture.watcher.events().leased;
        let (task, progress) = begin(&fixture, session_key, &["navigate", "click", "snapshot"], true).await;
        let answer = task.await.unwrap().unwrap();
        assert_eq!((answer.answers.len(), answer.lost.is_none()), (3, true));
        let log = fixture.world.log().split_off(before);
        assert_eq!(
            log.iter().map(|(_, tool)| tool.as_str()).collect::<Vec<_>>(),
            ["navigate", "click", "snapshot"]
        );
        assert!(log.iter().all(|(seat, _)| *seat == log[0].0), "{log:?}");
        assert_eq!(fixture.watcher.events().leased, leased + 1, "one lease");
        assert_eq!(*progress.lock().unwrap(), [1, 2, 3]);
    }
    fixture.end().await;
}

/// No other call runs between the calls of a bulk: neither one of the same session nor one that waits for the slot.
#[tokio::test(start_paused = true)]
async fn no_other_call_runs_between_the_calls_of_a_bulk() {
    for session_key in [named("a"), SessionKey::Ephemeral] {
        let fixture = FleetFixture::fixed(1, 1).await;
        let (task, _) = begin(&fixture, session_key.clone(), &["one", "hold two", "three"], true).await;
        let others = [fixture.begin_at(session_key, at("", ""), "other").await];
        fixture.world.held().await.answer();
        assert_eq!(task.await.unwrap().unwrap().answers.len(), 3);
        for other in others {
            other.await.unwrap().unwrap();
        }
        let log: Vec<_> = fixture.world.log().into_iter().map(|(_, tool)| tool).collect();
        assert_eq!(log, ["one", "hold two", "three", "other"]);
        fixture.end().await;
    }
}

/// The first failure ends the bulk, or does not, as asked; a result with `isError` is a failure, and so is an error.
#[tokio::test(start_paused = true)]
async fn bulk_ends_or_continues_at_a_failure() {
    let fixture = FleetFixture::fixed(1, 1).await;
    for session_key in [SessionKey::Ephemeral, named("a")] {
        for bad in ["fail", "refuse"] {
            let tools = ["one", bad, "three"];
            let stopped = run(&fixture, session_key.clone(), &tools, true).await;
            assert_eq!((stopped.answers.len(), stopped.answers[1].reply.is_failure()), (2, true), "{bad}");
            let all = run(&fixture, session_key.clone(), &tools, false).await;
            let failed: Vec<_> = all.answers.iter().map(|answer| answer.reply.is_failure()).collect();
            assert_eq!(failed, [false, true, false], "{bad}");
        }
    }
    fixture.end().await;
}

/// A caller that leaves ends the bulk after the call that runs; the slot comes back, and the session lives.
#[tokio::test(start_paused = true)]
async fn cancelled_bulk_ends_after_the_running_call() {
    for session_key in [named("a"), SessionKey::Ephemeral] {
        let fixture = FleetFixture::fixed(1, 1).await;
        let (task, progress) =
            begin(&fixture, session_key.clone(), &["one", "hold two", "three"], true).await;
        let held = fixture.world.held().await;
        task.abort();
        settle().await;
        assert!(held.is_awaited(), "the running call is not broken off");
        assert_eq!(fixture.leased(), 1);
        held.answer();
        settle().await;
        let log: Vec<_> = fixture.world.log().into_iter().map(|(_, tool)| tool).collect();
        assert_eq!((log.join(" "), progress.lock().unwrap().len()), ("one hold two".to_owned(), 2));
        assert_eq!(fixture.call_at(session_key, at("", ""), "next").await.unwrap().seat, 1);
        fixture.end().await;
    }
}

/// A bulk that is cancelled while it waits for a slot runs nothing.
#[tokio::test(start_paused = true)]
async fn bulk_cancelled_in_the_queue_runs_nothing() {
    let fixture = FleetFixture::fixed(1, 1).await;
    fixture.create("a").await.unwrap();
    let (task, _) = begin(&fixture, SessionKey::Ephemeral, &["one", "two"], true).await;
    assert_eq!(fixture.waiting(), 1);
    task.abort();
    settle().await;
    fixture.close("a").await.unwrap();
    settle().await;
    assert_eq!((fixture.waiting(), fixture.leased(), fixture.world.log().len()), (0, 0, 0));
    fixture.end().await;
}

/// A browser is lost in the middle: earlier answers are there, the call that lost it gets the error, and nothing more
/// runs; the next call has a new browser.
#[tokio::test(start_paused = true)]
async fn bulk_keeps_answers_before_a_lost_browser() {
    for session_key in [named("a"), SessionKey::Ephemeral] {
        let fixture = FleetFixture::fixed(1, 1).await;
        let (task, progress) =
            begin(&fixture, session_key.clone(), &["one", "hold two", "three"], false).await;
        let held = fixture.world.held().await;
        let behind = fixture.begin_at(session_key.clone(), at("", ""), "behind").await;
        fixture.world.lose_seat(held.seat, crash());
        let answer = task.await.unwrap().unwrap();
        assert_eq!((answer.answers.len(), progress.lock().unwrap().len()), (1, 1));
        assert!(matches!(answer.lost, Some(FleetError::Lost(_))), "{:?}", answer.lost);
        match behind.await.unwrap() {
            // The call did not run, because it relied on the session's page.
            Err(FleetError::NotRun(_)) => assert_eq!(session_key, named("a")),
            other => assert_eq!(other.unwrap().seat, 2),
        }
        let said = fixture.call_at(session_key.clone(), at("", ""), "next").await.unwrap();
        assert_eq!((said.seat, said.restarted().is_some()), (2, session_key == named("a")));
        fixture.end().await;
    }
}

/// Closing the session ends the bulk at once, and its caller gets the error.
#[tokio::test(start_paused = true)]
async fn closing_the_session_ends_the_bulk() {
    let fixture = FleetFixture::fixed(1, 1).await;
    let (task, _) = begin(&fixture, named("a"), &["one", "hold two", "three"], false).await;
    let _held = fixture.world.held().await;
    fixture.close("a").await.unwrap();
    assert!(matches!(task.await.unwrap(), Err(FleetError::Closed)));
    assert_eq!((fixture.leased(), fixture.world.log().len()), (0, 2));
    fixture.end().await;
}
