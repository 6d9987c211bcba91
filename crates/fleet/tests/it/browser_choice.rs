//! Which attached browser a call runs in: by the strict rules, by index or label, by session; and how errors name it.

use greenroom_core::Owner;
use greenroom_fleet::{CallTarget, FleetError, NotChosen, SessionKey};

use crate::{
    browser_fixture::{BrowserFixture, on, took, url},
    fixture::{LEASE, at, named, settle},
};

/// The four rows of the rules: with one browser `browserIndex` must not be given, with several it must.
#[tokio::test(start_paused = true)]
async fn browser_index_is_required_or_forbidden_by_count() {
    const ERROR: &str = "❌ → ERROR";
    const SUCCESS: &str = "✅ → SUCCESS";
    let rows = [
        // Single browser + `browserIndex` specified
        (1, Some("1"), ERROR, "browserIndex must NOT be specified when only one browser is connected"),
        // Single browser + no `browserIndex`
        (1, None, SUCCESS, ""),
        // Multiple browsers + no `browserIndex`
        (2, None, ERROR, "browserIndex parameter is required when multiple browsers are connected"),
        // Multiple browsers + `browserIndex` specified
        (2, Some("1"), SUCCESS, ""),
    ];
    for (browsers, index, outcome, words) in rows {
        let browser_fixture = BrowserFixture::new(browsers);
        let target = CallTarget { browser: index.map(str::to_owned), ..CallTarget::default() };
        for session_key in [SessionKey::Ephemeral, named("a")] {
            let said = browser_fixture.fixture.call_at(session_key, target.clone(), "click").await;
            match said {
                Ok(said) => {
                    assert_eq!((outcome, said.pool.as_str()), (SUCCESS, "browser-1"));
                    let _ = browser_fixture.fixture.close("a").await;
                }
                Err(error) => assert_eq!((outcome, error.to_string().as_str()), (ERROR, words)),
            }
        }
        let tried = browser_fixture.world(1).counts().starts;
        assert_eq!(tried > 0, outcome == SUCCESS, "nothing is connected for a call that does not run");
        browser_fixture.end().await;
    }
}

/// An index or a label names a browser, and nothing else does.
#[tokio::test(start_paused = true)]
async fn browser_is_named_by_index_or_label() {
    let browser_fixture =
        BrowserFixture::tuned(3, |index, browser| browser.label = (index == 2).then(|| "work".to_owned()));
    for (name, pool) in [("1", "browser-1"), ("2", "browser-2"), ("work", "browser-2"), ("3", "browser-3")] {
        assert_eq!(browser_fixture.call_on(name, "click").await.unwrap().pool, pool);
    }
    for name in ["0", "4", "02", "+2", "WORK", "", "browser-1"] {
        let error = browser_fixture.call_on(name, "click").await.unwrap_err();
        let words = format!("no such browser: \"{name}\"; there are 1, 2 (\"work\"), 3");
        assert_eq!(error.to_string(), words);
        assert!(browser_fixture.browser(name).is_err());
    }
    assert!(
        matches!(browser_fixture.pool("browser-1"), Err(FleetError::NoPool { .. })),
        "its pool cannot be named"
    );
    assert_eq!(
        (browser_fixture.pools().len(), browser_fixture.default_pool(), browser_fixture.pool_names().len()),
        (0, "", 0)
    );
    browser_fixture.end().await;
}

/// A call finds its session without naming the browser, and with any of the browser's names; if it names another browser,
/// the error says where the session lives. With a single browser `browserIndex` is a mistake also for an existing session.
#[tokio::test(start_paused = true)]
async fn session_stays_in_its_browser() {
    let mut browser_fixture = BrowserFixture::new(1);
    let call = |target| browser_fixture.fixture.call_at(named("a"), target, "click");
    let seat = call(CallTarget::default()).await.unwrap().seat;
    let only_one = call(on("1")).await.unwrap_err();
    assert!(matches!(only_one, FleetError::NotChosen(NotChosen::OnlyOne)), "{only_one}");

    browser_fixture.add(|(_, browser)| browser.label = Some("work".to_owned())).unwrap();
    let call = |target| browser_fixture.fixture.call_at(named("a"), target, "click");
    for target in [CallTarget::default(), on("1")] {
        assert_eq!(call(target).await.unwrap().seat, seat);
    }
    for name in ["2", "work"] {
        let error = call(on(name)).await.unwrap_err();
        assert!(matches!(error, FleetError::Elsewhere { .. }));
        assert_eq!(error.to_string(), "session \"a\" lives in browser 1");
    }
    browser_fixture.fixture.call_at(named("b"), on("work"), "click").await.unwrap();
    let error = browser_fixture.fixture.call_at(named("b"), on("1"), "click").await.unwrap_err();
    assert_eq!(error.to_string(), "session \"b\" lives in browser 2 (\"work\")");
    assert!(matches!(call(on("3")).await, Err(FleetError::NotChosen(NotChosen::Unknown { .. }))));
    browser_fixture.end().await;
}

/// In a fleet with pools and browsers, a call that names a pool runs there, a call that names nothing runs in a browser,
/// and a call that names both is refused. Without browsers, a call that names one is refused.
#[tokio::test(start_paused = true)]
async fn calls_choose_between_pools_and_browsers() {
    let mut browser_fixture = BrowserFixture::with_a_pool(0);
    let error = browser_fixture.call_on("1", "click").await.unwrap_err();
    assert_eq!(error.to_string(), "no browser is attached: browserIndex must NOT be specified");
    assert_eq!(browser_fixture.fixture.call("a", "click").await.unwrap().pool, "DEFAULT");

    browser_fixture.add(|_| {}).unwrap();
    let call = |session_key, target| browser_fixture.fixture.call_at(session_key, target, "click");
    assert_eq!(call(SessionKey::Ephemeral, CallTarget::default()).await.unwrap().pool, "browser-1");
    assert_eq!(
        call(named("a"), CallTarget::default()).await.unwrap().pool,
        "DEFAULT",
        "the session stays in its pool"
    );
    browser_fixture.fixture.close("a").await.unwrap();
    assert_eq!(call(SessionKey::Ephemeral, at("DEFAULT", "")).await.unwrap().pool, "DEFAULT");
    let both = CallTarget { browser: Some("1".to_owned()), ..at("DEFAULT", "") };
    let error = call(SessionKey::Ephemeral, both).await.unwrap_err();
    assert!(matches!(error, FleetError::NotChosen(NotChosen::Both)), "{error}");
    let error = call(named("b"), at("browser-1", "")).await.unwrap_err();
    assert_eq!(error.to_string(), "no such pool: \"browser-1\"; there is \"DEFAULT\"");

    call(named("c"), CallTarget::default()).await.unwrap();
    let error = call(named("c"), at("DEFAULT", "")).await.unwrap_err();
    assert_eq!(error.to_string(), "session \"c\" lives in browser 1");
    browser_fixture.end().await;
}

/// A call gets an error that says so if no pool and no browser is left.
#[tokio::test(start_paused = true)]
async fn without_pool_and_browser_calls_fail() {
    let browser_fixture = BrowserFixture::new(1);
    browser_fixture.remove_browser("1").await.unwrap();
    for session_key in [SessionKey::Ephemeral, named("a")] {
        let error =
            browser_fixture.fixture.call_at(session_key, CallTarget::default(), "click").await.unwrap_err();
        assert!(matches!(error, FleetError::NotChosen(NotChosen::Nowhere)), "{error}");
    }
    let error =
        browser_fixture.fixture.call_at(SessionKey::Ephemeral, at("ANY", ""), "click").await.unwrap_err();
    assert_eq!(error.to_string(), "no such pool: \"ANY\"; there is none");
    browser_fixture.end().await;
}

/// The fleet says beforehand in which pool a call would run, and whether it would run.
#[tokio::test(start_paused = true)]
async fn pool_of_a_call_is_known_beforehand() {
    let browser_fixture = BrowserFixture::new(2);
    let local = Owner::local();
    let of = |session_key: &SessionKey, target: &CallTarget| {
        browser_fixture.pool_of_call(&local, session_key, target)
    };
    let any = CallTarget::default();
    let no_session = SessionKey::Ephemeral;
    assert_eq!(of(&no_session, &on("2")).unwrap(), "browser-2");
    assert!(matches!(of(&no_session, &any), Err(FleetError::NotChosen(NotChosen::Required { .. }))));
    browser_fixture.fixture.call_at(named("a"), on("2"), "click").await.unwrap();
    assert_eq!(of(&named("a"), &any).unwrap(), "browser-2");
    assert!(matches!(of(&named("a"), &on("1")), Err(FleetError::Elsewhere { .. })));
    assert_eq!(browser_fixture.world(1).counts().starts, 0, "asking starts nothing");

    browser_fixture.remove_browser("1").await.unwrap();
    assert_eq!(of(&no_session, &any).unwrap(), "browser-2");
    browser_fixture.end().await;
}

/// A browser with its user's logins serves the local owner alone; one with greenroom's own contexts serves others too.
#[tokio::test(start_paused = true)]
async fn user_browser_serves_the_local_owner_only() {
    let browser_fixture = BrowserFixture::tuned(2, |index, browser| {
        browser.pool.local_only = index == 1;
        browser.label = Some(format!("b{index}"));
    });
    let bob = Owner::new("bob");
    let error = browser_fixture.call_as(&bob, named("a"), on("1")).await.unwrap_err();
    assert!(matches!(error, FleetError::NotYours { .. }));
    let words = "browser 1 (\"b1\") has its user's logins and belongs to another owner";
    assert_eq!(error.to_string(), words);
    browser_fixture.call_as(&bob, named("a"), on("2")).await.unwrap();
    browser_fixture.call_as(&Owner::local(), named("a"), on("1")).await.unwrap();
    browser_fixture.end().await;
}

/// A caller that waits too long for a browser in use gets an error that names the browser and the holder.
#[tokio::test(start_paused = true)]
async fn busy_browser_timeout_names_the_holder() {
    let browser_fixture = BrowserFixture::new(2);
    browser_fixture.fixture.call_at(named("a"), on("2"), "click").await.unwrap();
    let (error, waited) = took(browser_fixture.call_on("2", "click")).await;
    let error = error.unwrap_err();
    assert_eq!((error.to_string().as_str(), waited), ("browser 2 was not free within 5 s", LEASE));
    let FleetError::Lease(late) = error else { panic!("{error}") };
    assert_eq!((late.leased, late.slots, late.holders), (1, 1, vec!["session \"a\"".to_owned()]));
    assert_eq!(browser_fixture.status(2).leased_slots, 1);
    browser_fixture.end().await;
}

/// A call may name the only instance of a browser, and waits for it as other calls do. Another instance is refused.
#[tokio::test(start_paused = true)]
async fn call_may_name_the_only_instance_of_a_browser() {
    let browser_fixture = BrowserFixture::new(1);
    let call =
        |instance: &str| browser_fixture.fixture.call_at(SessionKey::Ephemeral, at("", instance), "click");
    browser_fixture.world(1).fail_start("not yet");
    call("0").await.unwrap();
    let error = call("1").await.unwrap_err().to_string();
    assert_eq!(error, "no such instance in browser 1: \"1\"; there is \"0\"");
    // The same holds for a session that has not begun yet.
    browser_fixture.world(1).opening.shut();
    let first = browser_fixture.fixture.begin_at(named("a"), at("", "0"), "click").await;
    let second = browser_fixture.fixture.begin_at(named("a"), at("", "0"), "click").await;
    browser_fixture.world(1).opening.open();
    first.await.unwrap().unwrap();
    second.await.unwrap().unwrap();
    settle().await;
    browser_fixture.end().await;
}

/// Browsers show their tags, which several can share.
#[tokio::test(start_paused = true)]
async fn several_browsers_can_share_a_tag() {
    let browser_fixture = BrowserFixture::tuned(3, |index, browser| {
        browser.tags = match index {
            1 => vec!["work".to_owned(), "eu".to_owned()],
            2 => vec![],
            _ => vec!["work".to_owned()],
        };
    });
    let browsers = browser_fixture.browsers();
    let tags: Vec<_> = browsers.iter().map(|browser| (browser.index, browser.tags.join(" "))).collect();
    assert_eq!(tags, [(1, "work eu".to_owned()), (2, String::new()), (3, "work".to_owned())]);
    assert_eq!((&browsers[0].url, browsers[0].engine.as_str()), (&url(1), "fake"));
    browser_fixture.end().await;
}

/// Two browsers run calls at the same time: both calls are under way before either is answered, over and over, even
/// while a third browser does not answer at all.
#[tokio::test(start_paused = true)]
async fn browsers_are_driven_in_parallel() {
    let browser_fixture = BrowserFixture::new(3);
    browser_fixture.world(3).starting.shut();
    let stuck = browser_fixture.begin_on("3", "click").await;
    for round in 1..=20 {
        let calls =
            [browser_fixture.begin_on("1", "hold").await, browser_fixture.begin_on("2", "hold").await];
        let one = browser_fixture.world(1).held().await;
        let two = browser_fixture.world(2).held().await;
        assert_eq!(
            (browser_fixture.world(1).counts().calls, browser_fixture.world(2).counts().calls),
            (round, round)
        );
        assert!(one.is_awaited() && two.is_awaited() && calls.iter().all(|call| !call.is_finished()));
        // The two calls are answered in either order.
        let (first, second) = if round % 2 == 0 { (one, two) } else { (two, one) };
        second.answer();
        first.answer();
        for (nth, call) in calls.into_iter().enumerate() {
            let said = call.await.unwrap().unwrap();
            assert_eq!((said.pool, said.notes), (format!("browser-{}", nth + 1), vec![]));
        }
    }
    assert!(!stuck.is_finished());
    assert_eq!(
        (browser_fixture.world(1).counts().opens, browser_fixture.world(2).counts().opens),
        (1, 1),
        "each in its one tab"
    );
    browser_fixture.end().await;
    assert!(stuck.await.unwrap().is_err());
}

/// Two addresses that differ in their secrets only are two browsers; the same address twice is refused, also in another
/// spelling.
#[tokio::test(start_paused = true)]
async fn addresses_with_different_secrets_are_different_browsers() {
    let mut browser_fixture = BrowserFixture::new(0);
    let at = |address: &'static str| {
        move |(_, settings): &mut (u32, greenroom_fleet::BrowserSettings)| {
            settings.url = "wss://browsers.example/?***".to_owned();
            settings.address = address.to_owned();
        }
    };
    browser_fixture.add(at("wss://browsers.example/?token=a")).unwrap();
    browser_fixture.add(at("wss://browsers.example/?token=b")).unwrap();
    let twice = browser_fixture.add(at("wss://browsers.example/?token=b")).unwrap_err();
    assert_eq!(twice.to_string(), "\"wss://browsers.example/?***\" is attached already, as browser 2");
    browser_fixture.add(at("http://127.0.0.1:9222")).unwrap();
    browser_fixture.add(at("http://[::1]:9222")).unwrap();
    let respelled = browser_fixture.add(at("http://localhost:9222/")).unwrap_err();
    assert!(respelled.to_string().ends_with("is attached already, as browser 3"), "{respelled}");
    browser_fixture.end().await;
}
