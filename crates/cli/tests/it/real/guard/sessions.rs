//! Two sessions in one browser, each with a network policy of its own.

use greenroom_core::{
    network::NetworkPolicy,
    settings::{Browser, NetworkPreset},
};

use super::{GuardFixture, attack_site::Victim};

/// What a page gets of an address, in words.
async fn fetched(seat: &mut crate::real::instance::TestSeat, url: &str) -> String {
    let function =
        format!("() => fetch('{url}').then((answer) => 'status ' + answer.status, () => 'failed')");
    seat.evaluate(&function).await
}

/// Each session is judged by its own policy, narrower than its pool's, and each knows its own refusals only; a new user of
/// a seat has a new policy at once.
#[tokio::test]
async fn sessions_of_one_browser_have_their_own_policies() {
    let fixture = GuardFixture::start(Browser::HeadlessShell, NetworkPreset::Open).await;
    let victim = Victim::start().await;
    let page = format!("http://{}/", fixture.site.host());
    let url = format!("http://127.0.0.1:{}/1", victim.port());
    let guarded =
        NetworkPolicy { allow: vec![fixture.site.host().parse().unwrap()], ..NetworkPolicy::GUARDED };
    let denied = NetworkPolicy { deny: vec!["127.0.0.0/8".parse().unwrap()], ..NetworkPolicy::OPEN };

    let mut free = fixture.seat("free", None).await;
    let mut narrow = fixture.seat("narrow", Some(guarded.clone())).await;
    for seat in [&mut free, &mut narrow] {
        seat.navigate(&page).await.unwrap();
    }
    let (first, second) = tokio::join!(fetched(&mut free, &url), fetched(&mut narrow, &url));
    assert!(first.contains("status 200"), "{first}");
    assert!(second.contains("failed"), "the refusal's page is of another origin: {second}");
    assert_eq!(victim.hits().len(), 1);
    assert!(free.0.take_refusals().is_empty());
    let refusals = narrow.0.take_refusals();
    assert_eq!((refusals.count, refusals.listed[0].port), (1, victim.port()));
    let users: Vec<_> = fixture.refusals().into_iter().filter_map(|(user, _)| user?.session).collect();
    assert_eq!(users, ["narrow".into()]);

    // The same seats for other users.
    free.0.assign(super::user("free now denied", Some(denied)));
    narrow.0.assign(super::user("narrow now free", None));
    let (first, second) = tokio::join!(fetched(&mut free, &url), fetched(&mut narrow, &url));
    assert!(first.contains("failed"), "{first}");
    assert!(second.contains("status 200"), "{second}");
    let refusals = free.0.take_refusals();
    assert_eq!(
        refusals.listed[0].reason.to_string(),
        "the session's own `network` refuses it: the rule `127.0.0.0/8` denies it"
    );
    assert_eq!(victim.hits().len(), 2);
    free.close().await;
    narrow.close().await;
    fixture.end().await;
}

/// The policy of a session stays when its browser context is replaced: `browser_close` ends the context, and the next call
/// makes another one.
#[tokio::test]
async fn policy_outlives_the_context() {
    let fixture = GuardFixture::start(Browser::HeadlessShell, NetworkPreset::Open).await;
    let victim = Victim::start().await;
    let mut seat = fixture.seat("a", Some(NetworkPolicy::GUARDED)).await;
    let url = format!("http://127.0.0.1:{}/1", victim.port());
    for _ in 0..2 {
        let _ = seat.navigate(&url).await;
        let refusals = seat.0.take_refusals();
        assert!(!refusals.is_empty() && refusals.listed[0].port == victim.port(), "{refusals:?}");
        seat.call("browser_close", serde_json::json!({})).await.unwrap();
    }
    assert_eq!(victim.hits(), [] as [String; 0]);
    assert!(fixture.refusals().iter().all(|(user, _)| user.is_some()), "a refusal belongs to no session");
    seat.close().await;
    fixture.end().await;
}
