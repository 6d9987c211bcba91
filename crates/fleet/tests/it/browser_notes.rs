//! Notes to agents about browsers that were lost: what is gone, and what is not. No browser is replaced silently.

use std::time::Duration;

use greenroom_core::{InstanceId, Lost, Owner};
use greenroom_fleet::{EndReason, Note, SessionKey};
use tokio::time::sleep;

use crate::{
    browser_fixture::{BrowserFixture, on},
    fake::HealthProbe,
    fixture::{FleetFixture, HEALTH, IDLE, TestAnswer, at, crash, named, settle, with_instances},
};

/// All notes of an answer.
fn notes(said: &TestAnswer) -> Vec<String> {
    said.notes.iter().map(ToString::to_string).collect()
}

/// After a session's browser was lost, the note says that its tabs are gone and that cookies and logins are not; once.
#[tokio::test(start_paused = true)]
async fn note_says_that_user_logins_stay() {
    let browser_fixture = BrowserFixture::new(2);
    browser_fixture.fixture.call_at(named("a"), on("2"), "click").await.unwrap();
    browser_fixture.world(2).lose_instance(InstanceId(0), &crash());
    settle().await;
    let said = browser_fixture.fixture.call("a", "click").await.unwrap();
    assert_eq!(said.pool, "browser-2");
    assert_eq!(
        notes(&said),
        [
            "session restarted: the browser ended (signal 9); its earlier tabs and refs are gone, the browser's cookies and logins are as they were"
        ]
    );
    assert_eq!(browser_fixture.fixture.call("a", "click").await.unwrap().notes, []);
    sleep(IDLE * 2).await;
    let said = browser_fixture.fixture.call("a", "click").await.unwrap();
    assert_eq!(said.notes, [Note::Reopened(EndReason::Idle(IDLE))]);
    browser_fixture.end().await;
}

/// In a context of greenroom's own, cookies are gone with the browser, and the note says so.
#[tokio::test(start_paused = true)]
async fn note_says_that_context_cookies_are_gone() {
    let browser_fixture = BrowserFixture::tuned(1, |_, browser| browser.pool.local_only = false);
    browser_fixture.fixture.call("a", "click").await.unwrap();
    browser_fixture.world(1).lose_instance(InstanceId(0), &crash());
    settle().await;
    let said = browser_fixture.fixture.call("a", "click").await.unwrap();
    assert_eq!(said.notes, [Note::Restarted(EndReason::Lost(crash()))]);
    browser_fixture.fixture.close("a").await.unwrap();
    browser_fixture.fixture.call_ephemeral("click").await.unwrap();
    browser_fixture.world(1).lose_instance(InstanceId(0), &crash());
    let said = browser_fixture.fixture.call_ephemeral("click").await.unwrap();
    assert_eq!(
        notes(&said),
        [
            "browser 1 was reconnected: the browser ended (signal 9); the tabs, cookies and refs of earlier calls are gone"
        ]
    );
    browser_fixture.end().await;
}

/// In a pool that keeps its browsers' profiles the note says the same.
#[tokio::test(start_paused = true)]
async fn note_says_that_profile_logins_stay() {
    let fixture = FleetFixture::fixed_with(1, 1, |settings| settings.pools[0].local_only = true).await;
    fixture.call("a", "click").await.unwrap();
    fixture.world.lose_instance(InstanceId(0), &crash());
    settle().await;
    assert_eq!(fixture.call("a", "click").await.unwrap().notes, [Note::Reopened(EndReason::Lost(crash()))]);
    fixture.end().await;
}

/// The next call without a session carries the note that the tab its owner left is gone: once, however the browser was
/// lost, and also after a first call that failed or whose caller left.
#[tokio::test(start_paused = true)]
async fn next_call_notes_a_lost_idle_tab() {
    let browser_fixture = BrowserFixture::new(2);
    let loose = || browser_fixture.call_on("2", "click");
    let words = "browser 2 was reconnected: the browser ended (signal 9); the tabs and refs of earlier calls are gone, the browser's cookies and logins are as they were";
    assert_eq!(loose().await.unwrap().notes, []);
    // The call comes at the moment of the loss, or after every task has seen the loss.
    for moment in 0..2 {
        browser_fixture.world(2).lose_instance(InstanceId(0), &crash());
        for _ in 0..moment {
            settle().await;
        }
        assert_eq!(notes(&loose().await.unwrap()), [words], "{moment}");
        assert_eq!(loose().await.unwrap().notes, [], "once");
    }

    // The connection cannot be made for a while: the error of a refused call does not carry the note.
    browser_fixture.world(2).break_instance(0);
    browser_fixture.world(2).lose_instance(InstanceId(0), &crash());
    drop(loose().await.unwrap_err());
    browser_fixture.world(2).mend();
    browser_fixture.reconnect_browser("2").await.unwrap();
    let gone = browser_fixture.begin_on("2", "hold").await;
    let held = browser_fixture.world(2).held().await;
    gone.abort();
    settle().await;
    held.answer();
    settle().await;
    assert_eq!(notes(&loose().await.unwrap()), [words], "the caller before left");

    // A call that fails with the loss needs no note.
    let call = browser_fixture.begin_on("2", "hold").await;
    drop(browser_fixture.world(2).held().await);
    browser_fixture.world(2).lose_instance(InstanceId(0), &crash());
    drop(call.await.unwrap().unwrap_err());
    assert_eq!(loose().await.unwrap().notes, []);
    browser_fixture.end().await;
}

/// The note says that an idle tab crashed, even if the next call comes at the moment of the crash.
#[tokio::test(start_paused = true)]
async fn next_call_notes_a_crashed_idle_tab() {
    let browser_fixture = BrowserFixture::new(1);
    let seat = browser_fixture.fixture.call_ephemeral("click").await.unwrap().seat;
    browser_fixture.world(1).lose_seat(seat, Lost::Page("oom".into()));
    settle().await;
    assert_eq!(browser_fixture.world(1).open_seats(), [] as [u64; 0]);
    let said = browser_fixture.fixture.call_ephemeral("click").await.unwrap();
    assert_eq!(
        notes(&said),
        [
            "a tab of browser 1 was lost: the page crashed (oom); the tabs and refs of earlier calls are gone, the browser's cookies and logins are as they were"
        ]
    );
    // The call comes at the moment of the crash.
    browser_fixture.world(1).lose_seat(said.seat, Lost::Page("oom".into()));
    let said = browser_fixture.fixture.call_ephemeral("click").await.unwrap();
    assert!(matches!(said.notes[..], [Note::NewTab(_)]), "{said:?}");
    assert_eq!(browser_fixture.world(1).counts().starts, 1, "the browser is as it was");
    browser_fixture.end().await;
}

/// If a tab is lost just as its call is answered, the next answer carries a note.
#[tokio::test(start_paused = true)]
async fn next_call_notes_a_tab_lost_with_the_answer() {
    let browser_fixture = BrowserFixture::new(1);
    let call = browser_fixture.fixture.begin_at(SessionKey::Ephemeral, at("", ""), "hold").await;
    let held = browser_fixture.world(1).held().await;
    browser_fixture.world(1).lose_when_looked_at(held.seat);
    held.answer();
    let said = call.await.unwrap().unwrap();
    assert_eq!((said.seat, said.notes), (1, vec![]));
    let said = browser_fixture.fixture.call_ephemeral("click").await.unwrap();
    assert!(matches!(said.notes[..], [Note::NewTab(_)]), "{said:?}");
    browser_fixture.end().await;
}

/// The note about a silent browser says why it was given up; each owner gets one for its own tab.
#[tokio::test(start_paused = true)]
async fn each_owner_gets_a_note_for_its_own_tab() {
    let browser_fixture = BrowserFixture::tuned(1, |_, browser| {
        browser.pool.local_only = false;
        with_instances(&mut browser.pool, |_, instance| instance.slots = 3);
    });
    let [ann, bob, eve] = ["ann", "bob", "eve"].map(Owner::new);
    let call = |owner: &Owner| {
        let browser_fixture = browser_fixture.clone();
        let owner = owner.clone();
        async move { browser_fixture.call_as(&owner, SessionKey::Ephemeral, at("", "")).await.unwrap() }
    };
    let anns = call(&ann).await;
    let bobs = call(&bob).await;
    assert_eq!((anns.notes.len(), bobs.notes.len()), (0, 0));
    browser_fixture.world(1).set_pulse(0, Some(HealthProbe::HealthCheckFailed));
    sleep(HEALTH * 3 + Duration::from_secs(1)).await;
    browser_fixture.world(1).mend();
    assert_eq!(call(&eve).await.notes, []);
    for owner in [&ann, &bob] {
        let said = notes(&call(owner).await);
        let words = "browser 1 was reconnected: it did not answer 3 times in a row: it feels faint; ";
        assert!(said.len() == 1 && said[0].starts_with(words), "{said:?}");
        assert_eq!(call(owner).await.notes, []);
    }
    browser_fixture.end().await;
}

/// The fleet closes a tab that calls without a session left, for a session or after its idle time: the next such call
/// carries the reason, once.
#[tokio::test(start_paused = true)]
async fn next_call_notes_why_its_tab_was_closed() {
    let browser_fixture = BrowserFixture::new(1);
    browser_fixture.fixture.call_ephemeral("click").await.unwrap();
    browser_fixture.fixture.call("a", "click").await.unwrap();
    browser_fixture.fixture.close("a").await.unwrap();
    let rest =
        "the tabs and refs of earlier calls are gone, the browser's cookies and logins are as they were";
    let said = browser_fixture.fixture.call_ephemeral("click").await.unwrap();
    assert_eq!(notes(&said), [format!("a tab of browser 1 was lost: a session took the browser; {rest}")]);
    assert_eq!(notes(&browser_fixture.fixture.call_ephemeral("click").await.unwrap()), [""; 0]);
    sleep(IDLE * 2).await;
    let said = browser_fixture.fixture.call_ephemeral("click").await.unwrap();
    assert_eq!(notes(&said), [format!("a tab of browser 1 was lost: it was not used for too long; {rest}")]);
    browser_fixture.end().await;
}
