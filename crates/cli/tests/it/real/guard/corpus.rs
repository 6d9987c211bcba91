//! The SSRF corpus from a hostile page, and as addresses that an agent navigates to.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use greenroom_core::{
    network::rule::canonical_host,
    settings::{Browser, NetworkPreset},
};
use greenroom_testkit::{
    TEST_TIMEOUT,
    ssrf::{self, SsrfForm},
};
use serde_json::{Map, Value, json};

use super::{GuardFixture, attack_site::Victims};
use crate::real::fixture::all;

/// The ways in which a page connects.
const WAYS: [&str; 13] = [
    "redirect",
    "image",
    "fetch",
    "form",
    "websocket",
    "eventsource",
    "iframe",
    "worker",
    "service-worker",
    "prefetch",
    "preconnect",
    "stylesheet",
    "font",
];

/// The agent's own way.
const NAVIGATION: &str = "navigation";

/// Chromium may connect ahead of need, and need not. A page does not learn of it.
const PRECONNECT: &str = "preconnect";

/// How many sessions navigate at once: more do not help on few cores.
const NAVIGATING_SESSIONS: usize = 3;

/// Which forms each way tries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// `fetch` tries every form, the others try every host, each in another of its spellings. All ways at once.
    Hosts,
    /// Every way tries every spelling of loopback. All ways at once.
    Loopback,
    /// Every way tries every form, one way after the other.
    Everything,
}

/// An attack on the victims, carried out.
struct Attack {
    fixture: GuardFixture,
    victims: Victims,
    /// What each way has tried, with the forms' numbers.
    tried: BTreeMap<&'static str, Vec<(usize, SsrfForm)>>,
}

impl Attack {
    async fn run(browser: Browser, preset: NetworkPreset, extent: Extent) -> Self {
        let fixture = GuardFixture::start(browser, preset).await;
        let ways: Vec<&'static str> = WAYS.into_iter().chain([NAVIGATION]).collect();
        let victims = Victims::start(&ways).await;
        let tried = ways.iter().enumerate().map(|(at, way)| (*way, chosen(extent, way, at))).collect();
        let attack = Self { fixture, victims, tried };
        let waves: Vec<Value> = match extent {
            Extent::Hosts | Extent::Loopback => vec![attack.wave(&WAYS)],
            Extent::Everything => WAYS.iter().map(|way| attack.wave(&[way])).collect(),
        };
        let limit = TEST_TIMEOUT * u32::try_from(waves.len()).unwrap();
        attack.fixture.site.set_plan(Value::Array(waves));
        tokio::join!(attack.by_page(limit), attack.by_agents());
        attack
    }

    /// What the page does at once, as a part of its plan.
    fn wave(&self, ways: &[&'static str]) -> Value {
        let wave: Map<String, Value> =
            ways.iter().map(|way| ((*way).to_owned(), json!(self.attempts(way)))).collect();
        Value::Object(wave)
    }

    /// The addresses of the forms at the victim of this way, and whether the browser sends them. The path is the form's
    /// number.
    fn attempts(&self, way: &str) -> Vec<(String, bool)> {
        let port = self.victims.of(way).port();
        let attempt = |(number, form): &(usize, SsrfForm)| {
            (format!("http://{}:{port}/{number}", form.spelling), is_sent(way, form))
        };
        self.tried[way].iter().map(attempt).collect()
    }

    async fn by_page(&self, limit: Duration) {
        let mut seat = self.fixture.seat("page", None).await;
        seat.navigate(&format!("http://{}/", self.fixture.site.host())).await.unwrap();
        self.fixture.site.wait_until_done(limit).await;
        seat.close().await;
    }

    async fn by_agents(&self) {
        let attempts = &self.attempts(NAVIGATION);
        all((0..NAVIGATING_SESSIONS).map(|session| async move {
            let mut seat = self.fixture.seat("agent", None).await;
            for (address, _) in attempts.iter().skip(session).step_by(NAVIGATING_SESSIONS) {
                // Only what was dialled counts here; engines answer some of these with an error.
                let _ = seat.navigate(address).await;
            }
            seat.close().await;
        }))
        .await;
    }

    /// The hosts that were refused in this way.
    fn refused_hosts(&self, way: &str) -> BTreeSet<String> {
        let port = self.victims.of(way).port();
        let refusals = self.fixture.refusals().into_iter().map(|(_, refusal)| refusal);
        refusals.filter(|refusal| refusal.port == port).map(|refusal| canonical_host(&refusal.host)).collect()
    }

    /// Every way that has reached its proxy was refused: nothing was dialled, no victim was reached, and each form that
    /// Chromium sends was refused for the reason of its class.
    fn check_nothing_was_reached(&self) {
        assert_eq!(self.fixture.dials(), []);
        assert_eq!(self.victims.hits(), []);
        for (way, tried) in &self.tried {
            let sent = tried.iter().filter(|(_, form)| is_sent(way, form));
            let expected: BTreeSet<String> =
                sent.map(|(_, form)| canonical_host(form.host.unwrap())).collect();
            let refused = self.refused_hosts(way);
            let unsent: Vec<_> = expected.difference(&refused).collect();
            assert!(unsent.is_empty() || *way == PRECONNECT, "{way}: the browser did not send {unsent:?}");
            let unknown: Vec<_> = refused.difference(&expected).collect();
            assert!(unknown.is_empty(), "{way}: the corpus says that the browser does not send {unknown:?}");
        }
        let classes: BTreeMap<String, &str> =
            ssrf::forms().iter().filter_map(|form| Some((canonical_host(form.host?), form.class))).collect();
        for (user, refusal) in self.fixture.refusals() {
            assert!(user.is_some(), "{refusal} belongs to no session");
            assert_eq!(refusal.reason.word(), classes[&canonical_host(&refusal.host)], "{refusal}");
        }
    }

    /// Every form that Chromium sends has reached its victim, and no other.
    fn check_everything_was_reached(&self) {
        for (way, tried) in self.tried.iter().filter(|(way, _)| **way != PRECONNECT) {
            let reached = self.victims.of(way).forms();
            for (number, form) in tried {
                assert_eq!(reached.contains(number), is_sent(way, form), "{way}: {form:?}");
            }
        }
    }
}

/// The forms that a way tries. `at` is the way's number.
fn chosen(extent: Extent, way: &str, at: usize) -> Vec<(usize, SsrfForm)> {
    let all = ssrf::forms().into_iter().enumerate();
    match extent {
        Extent::Everything => all.collect(),
        Extent::Loopback => all.filter(|(_, form)| form.is_loopback).collect(),
        Extent::Hosts if way == "fetch" => all.collect(),
        Extent::Hosts => {
            let mut by_host: BTreeMap<&str, Vec<(usize, SsrfForm)>> = BTreeMap::new();
            for (number, form) in all.filter(|(_, form)| is_sent(way, form)) {
                by_host.entry(form.host.unwrap()).or_default().push((number, form));
            }
            by_host.into_values().map(|mut forms| forms.swap_remove(at % forms.len())).collect()
        }
    }
}

/// Whether Chromium makes a request of this form in this way.
fn is_sent(way: &str, form: &SsrfForm) -> bool {
    match way {
        NAVIGATION => form.is_navigable,
        "websocket" | "font" => form.is_sent,
        _ => form.is_sent && !form.has_user(),
    }
}

async fn guarded_browser_reaches_nothing(browser: Browser, extent: Extent) {
    let attack = Attack::run(browser, NetworkPreset::Guarded, extent).await;
    attack.check_nothing_was_reached();
    attack.fixture.end().await;
}

async fn open_browser_reaches_loopback(browser: Browser) {
    let attack = Attack::run(browser, NetworkPreset::Open, Extent::Loopback).await;
    attack.check_everything_was_reached();
    attack.fixture.end().await;
}

/// Under `guarded` no page and no agent of the headless shell reaches a host of the corpus, in any way.
#[tokio::test]
async fn guarded_headless_shell_reaches_nothing() {
    guarded_browser_reaches_nothing(Browser::HeadlessShell, Extent::Hosts).await;
}

/// The same with the whole Chromium.
#[tokio::test]
async fn guarded_chromium_reaches_nothing() {
    guarded_browser_reaches_nothing(Browser::Chromium, Extent::Hosts).await;
}

/// The control run: under `open` the same attack reaches loopback by every spelling that the headless shell sends.
#[tokio::test]
async fn open_headless_shell_reaches_loopback() {
    open_browser_reaches_loopback(Browser::HeadlessShell).await;
}

/// The same with the whole Chromium.
#[tokio::test]
async fn open_chromium_reaches_loopback() {
    open_browser_reaches_loopback(Browser::Chromium).await;
}

mod soak {
    use greenroom_testkit::require_long_tests;

    use super::*;

    /// Under `guarded` every form is tried in every way, in both browsers, and nothing is reached.
    #[tokio::test]
    async fn whole_corpus_reaches_nothing_in_any_way() {
        require_long_tests();
        for browser in [Browser::HeadlessShell, Browser::Chromium] {
            guarded_browser_reaches_nothing(browser, Extent::Everything).await;
        }
    }
}
