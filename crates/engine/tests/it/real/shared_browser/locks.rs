//! Web Locks without end: when the process of a page that has many of them ends, Chromium serves no session until it has
//! released them.

use greenroom_testkit::until_some;
use serde_json::{Value, json};

use super::{BrowserKind, SharedBrowser, SharedSeat};

/// How many locks a tab may have, and each frame or worker.
const LOCKS_PER_TAB: u64 = 64;
const LOCKS_PER_FRAME_OR_WORKER: u64 = 8;

/// Asks for 200 locks one after the other, in a page that keeps 60 of them. Returns how many were granted, and the outcome
/// of one that fails.
const USE: &str = "async () => {
    const { locks } = navigator;
    for (let i = 0; i < 60; i++) locks.request('kept' + i, () => new Promise(() => {}));
    let granted = 0;
    await Promise.all(Array.from({ length: 200 }, (_, i) => locks.request('short' + i, async () => { granted++; })));
    const value = await locks.request('value', { mode: 'shared' }, async lock => lock.name + lock.mode);
    const error = await locks.request('error', () => { throw new Error('own'); }).catch(error => error.message);
    const none = await locks.request('kept0', { ifAvailable: true }, async lock => lock);
    const unhandled = new Promise(done => addEventListener('unhandledrejection', event => done(event.reason.message)));
    locks.request('error', () => { throw new Error('unhandled'); });
    const long = await locks.request('x'.repeat(257), () => 0).catch(error => error.message);
    let reads = 0;
    const other = { toString: () => 'x'.repeat(reads++ ? 1000 : 1) };
    const name = await locks.request(other, async lock => lock.name);
    const counts = await Promise.all(Array.from({ length: 50 }, async () => (await locks.query()).held.length));
    const isCounted = counts.every(count => count === 60);
    return [granted, value, error, none, await unhandled, String(locks.request), long, name, isCounted];
}";

async fn page(browser: &SharedBrowser) -> SharedSeat {
    let mut seat = browser.seat().await;
    seat.call("browser_navigate", json!({ "url": browser.site.url("/title?t=locks") })).await;
    seat
}

/// Each document and each worker gets a few locks, however a page makes it and whatever the page replaces in it.
pub async fn locks_are_bounded(kind: BrowserKind, browser: &SharedBrowser) {
    let mut seat = page(browser).await;
    let taken = seat.evaluate(include_str!("locks.js")).await;
    let realms = ["frame", "blank", "worker", "nested", "shared", "service", "replaced"];
    let expected: Value = realms
        .iter()
        .map(|realm| ((*realm).to_owned(), json!(LOCKS_PER_FRAME_OR_WORKER)))
        .chain(
            [("popup", LOCKS_PER_TAB), ("tab", LOCKS_PER_TAB), ("gone", 0)]
                .map(|(realm, most)| (realm.to_owned(), json!(most))),
        )
        .collect::<serde_json::Map<_, _>>()
        .into();
    assert_eq!(taken, expected, "{kind:?}");
    seat.seat.close().await;
}

/// A page starts 200 workers: 128 of them run. Once these have ended, others run.
pub async fn workers_are_bounded(kind: BrowserKind, browser: &SharedBrowser) {
    let mut seat = page(browser).await;
    let start = "() => {
        window.started = 0;
        window.url = URL.createObjectURL(new Blob(['postMessage(0)'], { type: 'text/javascript' }));
        window.workers = Array.from({ length: 200 }, () => {
            const worker = new Worker(url);
            worker.onmessage = () => started++;
            return worker;
        });
    }";
    seat.evaluate(start).await;
    until_some("128 workers run", async || {
        (seat.evaluate("() => started").await == json!(128)).then_some(())
    })
    .await;
    seat.evaluate("() => workers.forEach(worker => worker.terminate())").await;
    // The proxy learns of the end of a worker some time after the page.
    let next = "() => new Promise(done => {
        new Worker(url).onmessage = () => done(true);
        setTimeout(() => done(false), 500);
    })";
    until_some("a worker runs again", async || (seat.evaluate(next).await == json!(true)).then_some(()))
        .await;
    assert_eq!(seat.evaluate("() => started").await, json!(128), "{kind:?}");
    seat.seat.close().await;
}

/// A document that the page before it wanted to be prerendered is not prerendered, and has the limit.
pub async fn prerendered_documents_are_limited(kind: BrowserKind, browser: &SharedBrowser) {
    let mut seat = page(browser).await;
    let rules = "() => {
        const url = '/html?html=' + encodeURIComponent('<title>prerendered</title>');
        document.body.innerHTML = `<a id=\"next\" href=\"${url}\">next</a>`;
        const rules = document.createElement('script');
        rules.type = 'speculationrules';
        rules.textContent = JSON.stringify({ prerender: [{ urls: [url], eagerness: 'immediate' }] });
        document.head.append(rules);
    }";
    seat.evaluate(rules).await;
    browser.site.wait_for_hit("/html").await;
    // The engine answers a click when the next document is there.
    seat.call("browser_click", json!({ "target": "#next" })).await;
    assert_eq!(seat.evaluate("() => document.title").await, json!("prerendered"));
    let taken = "async () => {
        for (let i = 0; i < 200; i++) navigator.locks.request('own' + i, () => new Promise(() => {}));
        const { held } = await navigator.locks.query();
        return [performance.getEntriesByType('navigation')[0].activationStart, held.length];
    }";
    assert_eq!(seat.evaluate(taken).await, json!([0, LOCKS_PER_TAB]), "{kind:?}");
    seat.seat.close().await;
}

/// A page that uses more locks than it may have gets one after the other, and sees no difference.
pub async fn surplus_locks_wait(browser: &SharedBrowser) {
    let mut seat = page(browser).await;
    let native = "function () { [native code] }";
    let long = "the name of the lock is too long";
    let expected = json!([200, "valueshared", "own", null, "unhandled", native, long, "x", true]);
    assert_eq!(seat.evaluate(USE).await, expected);
    seat.seat.close().await;
}
