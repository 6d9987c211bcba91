//! Random histories of attached browsers: calls that come, wait and leave; browsers that die, cannot be reached, hang or
//! fall silent; others that are added, removed and reconnected meanwhile.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use greenroom_core::InstanceId;
use greenroom_fleet::{BrowserState, CallTarget, FleetError, Note, SessionKey};
use proptest::{collection::vec, prelude::*, sample::Index};
use tokio::{task::JoinHandle, time::sleep};

use crate::{
    browser_fixture::{BrowserFixture, COOLDOWN, SERIES, on},
    fake::{HealthProbe, Held, Revival, World},
    fixture::{MS, Outcome, at, crash, named, settle, with_instances},
};

/// The most browsers in one history.
const MOST: u32 = 5;

/// Sessions below this are never closed, and their callers never leave: so every new browser must come with a note.
const FAITHFUL: u8 = 2;

#[derive(Debug, Clone)]
enum Step {
    /// A call, in one of a few sessions or in none, that names a browser or not; it may be held up, and its caller may
    /// leave.
    Call {
        session: Option<u8>,
        browser: Option<u32>,
        hold: bool,
        leave_after: Option<u8>,
    },
    Answer(Index),
    Close(u8),
    Lose(u32),
    LoseSeat(u32, Index),
    Break(u32),
    HealthProbe(u32, Option<bool>),
    Revival(u32, Option<bool>),
    Mend(u32),
    Stall(u32),
    Go(u32),
    Reconnect(u32),
    Remove(u32),
    Add,
    ConnectAll,
    Wait(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let one = || 1..=MOST;
    prop_oneof![
        12 => (
            prop::option::weighted(0.6, 0..4_u8),
            prop::option::weighted(0.8, one()),
            any::<bool>(),
            prop::option::weighted(0.3, 0..30_u8),
        )
            .prop_map(|(session, browser, hold, leave_after)| Step::Call {
                session,
                browser,
                hold,
                leave_after,
            }),
        6 => any::<Index>().prop_map(Step::Answer),
        2 => (FAITHFUL..4).prop_map(Step::Close),
        3 => one().prop_map(Step::Lose),
        1 => (one(), any::<Index>()).prop_map(|(nth, seat)| Step::LoseSeat(nth, seat)),
        2 => one().prop_map(Step::Break),
        1 => (one(), prop::option::of(any::<bool>())).prop_map(|(nth, pulse)| Step::HealthProbe(nth, pulse)),
        1 => (one(), prop::option::of(any::<bool>())).prop_map(|(nth, works)| Step::Revival(nth, works)),
        3 => one().prop_map(Step::Mend),
        1 => one().prop_map(Step::Stall),
        2 => one().prop_map(Step::Go),
        3 => one().prop_map(Step::Reconnect),
        1 => one().prop_map(Step::Remove),
        2 => Just(Step::Add),
        1 => Just(Step::ConnectAll),
        5 => (0..3_000_u16).prop_map(Step::Wait),
        1 => (3_000..60_000_u16).prop_map(Step::Wait),
    ]
}

/// What happened so far, apart from what the worlds know.
struct History {
    browser_fixture: BrowserFixture,
    slots: usize,
    running: Vec<JoinHandle<Outcome>>,
    /// Calls of sessions whose answers the test checks.
    faithful: Vec<(u8, JoinHandle<Outcome>)>,
    /// All calls are without a session, and no caller leaves: so every new tab must come with a note.
    loose_only: bool,
    held: Vec<Held>,
    stalled: BTreeSet<u32>,
    reconnects: usize,
    orders: Vec<JoinHandle<bool>>,
    /// Indices that were given.
    given: u32,
}

impl History {
    fn world(&self, nth: u32) -> Option<&World> {
        (nth <= self.given).then(|| &**self.browser_fixture.world(nth))
    }

    /// Checks what holds whenever all tasks rest; and more, where nothing is stalled.
    fn check(&self) {
        let mut last = 0;
        for browser in self.browser_fixture.browsers() {
            assert!(browser.index > last && browser.index <= self.given, "{browser:?}");
            last = browser.index;
            let counts = self.browser_fixture.world(browser.index).counts();
            let stalled = self.stalled.contains(&browser.index);
            assert!(browser.leased_slots <= browser.slots, "{browser:?}");
            let is_connected = browser.state == BrowserState::Connected;
            assert!(is_connected || browser.leased_slots == 0, "{browser:?}");
            assert_eq!(browser.state == BrowserState::Pending, counts.starts + counts.revives == 0);
            assert_eq!(browser.last_attempt.is_none(), browser.state == BrowserState::Pending);
            assert_eq!(browser.reconnects, counts.started.saturating_sub(1) as u64, "{browser:?} {counts:?}");
            let is_full = browser.leased_slots == browser.slots;
            // A browser that missed its last check leases nothing until it answers.
            let is_silent = browser.last_error.is_some();
            let can_lease = is_connected && !is_silent;
            assert!(stalled || !can_lease || browser.waiting == 0 || is_full, "{browser:?}");
            let rests = browser.state == BrowserState::Disconnected
                && browser.retry_in.is_some_and(|pause| pause > Duration::from_secs(1));
            assert!(stalled || !rests || browser.waiting == 0, "a caller waits in vain: {browser:?}");
        }
        let revives: usize =
            (1..=self.given).map(|nth| self.browser_fixture.world(nth).counts().revives).sum();
        assert!(revives <= self.reconnects, "a browser was brought back unasked");
        for nth in 1..=self.given {
            let world = self.browser_fixture.world(nth);
            let counts = self.browser_fixture.world(nth).counts();
            assert!(counts.starting_max <= 1, "one try at a time: {counts:?}");
            assert!(counts.seats_max <= self.slots, "a slot is leased twice: {counts:?}");
            assert_eq!(
                (counts.dropped, counts.calls_on_lost, world.stopped_twice()),
                (0, 0, 0),
                "{counts:?}"
            );
        }
    }

    async fn take_held(&mut self) {
        for nth in 1..=self.given {
            while self.browser_fixture.world(nth).holds_any().await {
                self.held.push(self.browser_fixture.world(nth).held().await);
            }
        }
    }

    fn add(&mut self) {
        if self.given >= MOST {
            return;
        }
        let slots = self.slots;
        let index = self.browser_fixture.add(|(_, browser)| {
            browser.pool.local_only = slots == 1;
            with_instances(&mut browser.pool, move |_, instance| instance.slots = slots);
        });
        assert_eq!(index.unwrap(), self.given + 1);
        self.given += 1;
    }

    async fn call(&mut self, session: Option<u8>, browser: Option<u32>, hold: bool, leave_after: Option<u8>) {
        let session = session.filter(|_| !self.loose_only);
        let leave_after = leave_after.filter(|_| !self.loose_only);
        let session_key = session.map_or(SessionKey::Ephemeral, |id| named(&id.to_string()));
        let target = browser.map_or(CallTarget::default(), |index| on(&index.to_string()));
        let fixture = self.browser_fixture.fixture.clone();
        let tool = if hold { "hold" } else { "click" };
        let call = tokio::spawn(async move { fixture.call_at(session_key, target, tool).await });
        match (session.filter(|id| *id < FAITHFUL), leave_after) {
            (Some(id), _) => self.faithful.push((id, call)),
            (None, None) => self.running.push(call),
            (None, Some(turns)) => {
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
                call.abort();
            }
        }
    }

    /// Removes or reconnects a browser, in a task of its own.
    fn order(&mut self, nth: u32, removes: bool) {
        self.reconnects += usize::from(!removes);
        let fleet = self.browser_fixture.fixture.fleet.clone();
        let name = nth.to_string();
        self.orders.push(tokio::spawn(async move {
            match removes {
                true => fleet.remove_browser(&name).await.is_ok(),
                false => fleet.reconnect_browser(&name).await.is_ok(),
            }
        }));
    }

    async fn play(&mut self, step: Step) {
        match step {
            Step::Call { session, browser, hold, leave_after } => {
                self.call(session, browser, hold, leave_after).await;
            }
            Step::Answer(index) if !self.held.is_empty() => {
                self.held.swap_remove(index.index(self.held.len())).answer();
            }
            Step::Answer(_) => {}
            Step::Close(id) => {
                let fixture = self.browser_fixture.fixture.clone();
                tokio::spawn(async move { fixture.close(&id.to_string()).await });
            }
            Step::Reconnect(nth) => self.order(nth, false),
            Step::Remove(nth) => self.order(nth, true),
            Step::Add => self.add(),
            Step::ConnectAll => self.browser_fixture.connect_browsers(),
            Step::Wait(ms) => {
                sleep(MS * ms.into()).await;
                settle().await;
                self.check();
            }
            Step::Stall(nth) | Step::Go(nth) => {
                let Some(world) = self.world(nth) else { return };
                let gates = [&world.starting, &world.opening, &world.stopping, &world.reviving];
                if matches!(step, Step::Stall(_)) {
                    gates.iter().for_each(|gate| gate.shut());
                    self.stalled.insert(nth);
                } else {
                    gates.iter().for_each(|gate| gate.open());
                    self.stalled.remove(&nth);
                }
            }
            Step::Lose(nth)
            | Step::LoseSeat(nth, _)
            | Step::Break(nth)
            | Step::HealthProbe(nth, _)
            | Step::Revival(nth, _)
            | Step::Mend(nth) => {
                if let Some(world) = self.world(nth) {
                    befall(world, &step);
                }
            }
        }
    }

    /// Mends all browsers and answers all calls, then checks that every call and order has ended and every browser is
    /// connected.
    async fn finish(mut self) {
        for nth in 1..=self.given {
            self.play(Step::Go(nth)).await;
            self.play(Step::Mend(nth)).await;
        }
        for _ in 0..12 {
            settle().await;
            self.take_held().await;
            self.held.drain(..).for_each(Held::answer);
            sleep((COOLDOWN + SERIES) / 6).await;
        }
        settle().await;
        self.check();
        let calls = self.running.iter().chain(self.faithful.iter().map(|(_, call)| call));
        assert!(calls.into_iter().all(JoinHandle::is_finished), "a call was never answered");
        assert!(self.orders.iter().all(JoinHandle::is_finished), "an order was never carried out");
        if self.loose_only {
            self.check_tabs().await;
        }
        self.check_notes().await;
        for id in 0..4 {
            let _ = self.browser_fixture.fixture.close(&id.to_string()).await;
        }
        for browser in self.browser_fixture.browsers() {
            assert!(matches!(browser.state, BrowserState::Pending | BrowserState::Connected), "{browser:?}");
            let target = match self.browser_fixture.browsers().len() {
                1 => at("", ""),
                _ => on(&browser.index.to_string()),
            };
            self.browser_fixture.fixture.call_at(SessionKey::Ephemeral, target, "click").await.unwrap();
        }
        self.browser_fixture.end().await;
    }

    /// Calls without a session have one tab in each browser, or learn of each further one: by a note or by the error of the
    /// call that lost it.
    async fn check_tabs(&mut self) {
        let mut tabs: BTreeMap<(String, u64), bool> = BTreeMap::new();
        let mut lost = 0;
        for call in self.running.drain(..) {
            match call.await.unwrap() {
                Ok(said) => {
                    let told = said.notes.iter().any(|note| matches!(note, Note::NewTab(_)));
                    *tabs.entry((said.pool, said.seat)).or_default() |= told;
                }
                Err(FleetError::Lost(_)) => lost += 1,
                Err(_) => {}
            }
        }
        let browsers: BTreeSet<_> = tabs.keys().map(|(pool, _)| pool).collect();
        let untold = tabs.values().filter(|told| !**told).count();
        assert!(untold <= browsers.len() + lost, "a tab was replaced without a note: {tabs:?}, {lost} lost");
    }

    /// A session that was never closed has one browser, or learns of each further one.
    async fn check_notes(&mut self) {
        let mut seats: BTreeMap<(u8, String, u64), bool> = BTreeMap::new();
        for (id, call) in self.faithful.drain(..) {
            match call.await.unwrap() {
                Ok(said) => {
                    *seats.entry((id, said.pool.clone(), said.seat)).or_default() |=
                        said.restarted().is_some();
                }
                Err(
                    FleetError::BrowserDown { .. }
                    | FleetError::NotChosen(_)
                    | FleetError::Elsewhere { .. }
                    | FleetError::Lease(_)
                    | FleetError::Lost(_)
                    | FleetError::NotRun(_)
                    | FleetError::BrowserRemoved { .. },
                ) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
        for id in 0..FAITHFUL {
            let untold: Vec<_> = seats.iter().filter(|((of, ..), told)| *of == id && !**told).collect();
            assert!(untold.len() <= 1, "a browser was replaced without a note: {untold:?}");
        }
    }
}

/// Applies a step to a browser's world.
fn befall(world: &World, step: &Step) {
    match step {
        Step::Lose(_) => world.lose_if_started(InstanceId(0), &crash()),
        Step::LoseSeat(_, index) => {
            let open = world.open_seats();
            if !open.is_empty() {
                world.lose_if_open(*index.get(&open), crash());
            }
        }
        Step::Break(_) => world.break_instance(0),
        Step::HealthProbe(_, hangs) => {
            world.set_pulse(
                0,
                hangs.map(|hangs| if hangs { HealthProbe::Hangs } else { HealthProbe::HealthCheckFailed }),
            );
        }
        Step::Revival(_, works) => world.set_revival(match works {
            None => Revival::Nothing,
            Some(true) => Revival::Mends,
            Some(false) => Revival::Fails("no such program"),
        }),
        Step::Mend(_) => world.mend(),
        _ => {}
    }
}

async fn play(browsers: u32, slots: usize, loose_only: bool, steps: Vec<Step>) {
    let mut history = History {
        browser_fixture: BrowserFixture::with_settings(
            0,
            |_, _| {},
            |settings| {
                settings.pools.clear();
                // No tab is closed for being idle.
                settings.idle_timeout = Duration::from_secs(86_400);
            },
        ),
        slots,
        loose_only,
        running: Vec::new(),
        faithful: Vec::new(),
        held: Vec::new(),
        stalled: BTreeSet::new(),
        reconnects: 0,
        orders: Vec::new(),
        given: 0,
    };
    (0..browsers).for_each(|_| history.add());
    for step in steps {
        history.take_held().await;
        history.play(step).await;
    }
    history.finish().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// In any history there is one attempt at a time per browser, no browser is brought back unasked, no slot is
    /// leased twice, no caller waits in vain, no session gets another browser without a note, every call and order is
    /// answered, no index is used twice, and a shutdown leaves nothing.
    #[test]
    fn attached_browser_invariants_hold_in_random_histories(
        browsers in 0..4_u32,
        slots in 1..3_usize,
        steps in vec(step(), 1..80),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(play(browsers, slots, false, steps));
    }

    /// In any history of calls without sessions, none gets another tab without a note.
    #[test]
    fn no_tab_is_replaced_without_a_note(browsers in 1..3_u32, steps in vec(step(), 1..80)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(play(browsers, 1, true, steps));
    }
}
