//! Instances that do not answer lease nothing until they do, and a late seat costs no other seat.

use std::time::Duration;

use greenroom_core::{InstanceId, Lost, OpenError, StartError};
use greenroom_fleet::{FleetError, Health, LeaseTimeout, Note, SessionKey};
use tokio::time::{Instant, sleep};

use crate::{
    fake::HealthProbe,
    fixture::{CALL, FleetFixture, HEALTH, LEASE, MS, at, named, settle, with_instances},
};

/// Instance 0 does not answer from now on: neither calls nor health checks.
async fn stop_first(fixture: &FleetFixture) {
    fixture.world.set_pulse(0, Some(HealthProbe::Hangs));
    let began = Instant::now();
    let pending = fixture.begin("a", "hold").await;
    let _never = fixture.world.held().await;
    assert!(matches!(pending.await.unwrap(), Err(FleetError::Lost(Lost::Hung(_)))));
    assert!(began.elapsed() < CALL + Duration::from_secs(2), "the instance is asked only briefly");
}

/// A stopped instance costs one call: the call that waited for it in vain is lost, and another instance serves every later
/// one. The instance leases again soon after it answers, without a restart.
#[tokio::test(start_paused = true)]
async fn unresponsive_instance_costs_one_call() {
    let fixture = FleetFixture::fixed(2, 4).await;
    stop_first(&fixture).await;
    let instance = fixture.instance(0);
    assert_eq!((instance.health, instance.check.responsive), (Health::Healthy, false));
    for session in ["a", "b", "c"] {
        assert_eq!(fixture.call(session, "click").await.unwrap().instance, 1);
    }
    assert_eq!(fixture.call_ephemeral("click").await.unwrap().instance, 1);
    fixture.world.set_pulse(0, None);
    sleep(Duration::from_secs(7)).await;
    settle().await;
    assert!(fixture.instance(0).check.responsive);
    fixture.call_at(named("d"), at("DEFAULT", "0"), "click").await.unwrap();
    assert_eq!(fixture.world.counts().stops, 0);
    fixture.end().await;
}

/// In an elastic pool, the next call after a stopped instance gets a new instance.
#[tokio::test(start_paused = true)]
async fn unresponsive_instance_is_replaced_in_an_elastic_pool() {
    let fixture = FleetFixture::new(4, 2);
    fixture.call("b", "click").await.unwrap();
    stop_first(&fixture).await;
    let said = fixture.call("a", "click").await.unwrap();
    assert_eq!((said.instance, fixture.world.counts().started), (1, 2));
    fixture.end().await;
}

/// A page that hangs is no reason to withhold an instance that answers.
#[tokio::test(start_paused = true)]
async fn hanging_page_does_not_withhold_its_instance() {
    let fixture = FleetFixture::new(4, 2);
    let pending = fixture.begin("a", "hold").await;
    let _never = fixture.world.held().await;
    assert!(matches!(pending.await.unwrap(), Err(FleetError::Lost(Lost::Hung(_)))));
    assert_eq!(fixture.call("a", "click").await.unwrap().instance, 0);
    assert_eq!(fixture.world.counts().started, 1);
    fixture.end().await;
}

/// A caller that finds all instances silent waits for an answer, and is served as soon as there is one; if there is none,
/// the error says so.
#[tokio::test(start_paused = true)]
async fn caller_waits_until_an_instance_responds() {
    let fixture = FleetFixture::fixed(1, 4).await;
    fixture.world.set_pulse(0, Some(HealthProbe::HealthCheckFailed));
    sleep(HEALTH + MS).await;
    settle().await;
    let error = fixture.call("a", "click").await.unwrap_err();
    assert!(
        matches!(&error, FleetError::Lease(LeaseTimeout { silent: 1, leased: 0, waited, .. }) if *waited == LEASE),
        "{error}"
    );
    let began = Instant::now();
    let waiting = fixture.begin("a", "click").await;
    fixture.world.set_pulse(0, None);
    assert_eq!(waiting.await.unwrap().unwrap().instance, 0);
    assert!(began.elapsed() <= Duration::from_secs(1), "{:?}", began.elapsed());
    fixture.end().await;
}

/// A seat that does not open in time costs only itself: the instance and its sessions go on, and another attempt serves the
/// call, in another instance if the first does not answer.
#[tokio::test(start_paused = true)]
async fn late_seat_is_replaced() {
    let late = || OpenError::Late(StartError::new("no context within 15 s"));
    let fixture = FleetFixture::fixed(2, 2).await;
    fixture.call_at(named("neighbour"), at("DEFAULT", "0"), "click").await.unwrap();
    fixture.world.set_pulse(0, Some(HealthProbe::Hangs));
    fixture.world.fail_open(late());
    assert_eq!(fixture.call("a", "click").await.unwrap().instance, 1);
    fixture.call("neighbour", "click").await.unwrap();
    fixture.world.set_pulse(0, None);
    sleep(Duration::from_secs(7)).await;

    // Two late seats in a row are an error, and the call may be tried again.
    fixture.world.fail_open(late());
    fixture.world.fail_open(late());
    let error = fixture.call("b", "click").await.unwrap_err();
    assert!(matches!(&error, FleetError::Late(why) if why.message == "no context within 15 s"), "{error}");
    assert_eq!(fixture.call("neighbour", "click").await.unwrap().notes, []);
    assert_eq!((fixture.world.counts().stops, fixture.leased()), (0, 2));
    fixture.end().await;
}

/// A check that ends after its instance was replaced does not count for the new one.
#[tokio::test(start_paused = true)]
async fn check_of_a_replaced_instance_does_not_count() {
    let fixture = FleetFixture::fixed_with(1, 2, |settings| {
        with_instances(&mut settings.pools[0], |_, instance| instance.call_timeout = Duration::from_secs(1));
    })
    .await;
    fixture.world.set_pulse(0, Some(HealthProbe::Hangs));
    let pending = fixture.begin("a", "hold").await;
    let _never = fixture.world.held().await;
    sleep(Duration::from_millis(1_500)).await;
    assert!(!pending.is_finished(), "the instance is being asked");
    fixture.world.set_pulse(0, None);
    fixture.world.lose_instance(InstanceId(0), &crate::fixture::crash());
    fixture.world.until(|counts| counts.started == 2).await;
    assert!(pending.await.unwrap().is_err());
    settle().await;
    assert!(fixture.instance(0).is_available());
    fixture.call("a", "click").await.unwrap();
    fixture.end().await;
}

/// Stopped downloads are in the next answer's note, once, with the limit; those that reached no caller are one note.
#[tokio::test(start_paused = true)]
async fn stopped_downloads_are_noted_once() {
    let fixture = FleetFixture::new(2, 1);
    fixture.call("a", "click").await.unwrap();
    fixture.world.stop_downloads(1, 1);
    let said = fixture.call("a", "click").await.unwrap();
    assert_eq!((said.seat, said.restarted(), said.notes.len()), (1, None, 1));
    assert_eq!(
        said.notes[0].to_string(),
        "1 download was stopped: the files of this session would take more than 1073741824 bytes (sessions.disk_bytes_max). It can download no more, and goes on otherwise; another sessionId starts without files"
    );
    assert_eq!(fixture.call("a", "click").await.unwrap().notes, [], "said once");

    fixture.world.stop_downloads(1, 3);
    let left = fixture.begin("a", "hold").await;
    let held = fixture.world.held().await;
    left.abort();
    settle().await;
    held.answer();
    settle().await;
    fixture.world.stop_downloads(1, 7);
    let notes = fixture.call("a", "click").await.unwrap().notes;
    let told = notes.iter().filter(|note| matches!(note, Note::DownloadsStopped(_))).collect::<Vec<_>>();
    assert!(
        matches!(&told[..], [one] if one.to_string().starts_with("10 downloads were stopped")),
        "{notes:?}"
    );
    fixture.end().await;
}

/// A crashed tab is in the next answer's note, once, with its URL; the session goes on in the same seat.
#[tokio::test(start_paused = true)]
async fn crashed_tab_is_noted_once() {
    let fixture = FleetFixture::new(2, 1);
    fixture.call("a", "click").await.unwrap();
    fixture.world.crash_tab(1, "http://site/page");
    let said = fixture.call("a", "click").await.unwrap();
    assert_eq!((said.seat, said.restarted(), said.notes.len()), (1, None, 1));
    assert_eq!(
        said.notes[0].to_string(),
        "a tab crashed (oom): http://site/page; what it showed is gone and its refs are void, the session's cookies and other tabs are as they were"
    );
    assert_eq!(fixture.call("a", "click").await.unwrap().notes, [], "said once");

    // A note that reached no caller is sent again; of very many the last few.
    for number in 0..20 {
        fixture.world.crash_tab(1, &format!("http://site/{number}"));
    }
    let left = fixture.begin("a", "hold").await;
    let held = fixture.world.held().await;
    left.abort();
    settle().await;
    held.answer();
    let notes = fixture.call("a", "click").await.unwrap().notes;
    let crashed = notes.iter().filter(|note| matches!(note, Note::Crashed(_))).count();
    assert_eq!((crashed, notes.len()), (8, 8));
    assert!(notes[7].to_string().contains("http://site/19"), "{}", notes[7]);
    fixture.world.crash_tab(1, &format!("data:text/html,{}", "x".repeat(10_000)));
    assert!(fixture.call("a", "click").await.unwrap().notes[0].to_string().len() < 500);
    // A call without a session gets the note about its tab, too.
    let seat = fixture
        .call_as(&greenroom_core::Owner::local(), SessionKey::Ephemeral, "click", "{}")
        .await
        .unwrap()
        .seat;
    fixture.world.crash_tab(seat, "http://site/loose");
    let said = fixture.call_ephemeral("click").await.unwrap();
    assert_eq!((said.seat, said.notes.len()), (seat, 1));
    fixture.end().await;
}
