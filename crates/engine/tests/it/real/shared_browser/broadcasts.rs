//! Broadcast messages, which the browser copies for every receiver on the thread that serves all sessions.

use serde_json::json;

use super::{BrowserKind, SharedBrowser};

/// Sends large messages in documents and workers, and one in a page that replaces what the limit could rely on. Then a small
/// one from a worker to the page. Returns the outcomes.
const SEND: &str = "async () => {
    const outcome = (kinds, message) => {
        try { new kinds.BroadcastChannel('large').postMessage(message); return 'sent'; } catch (error) { return error.name; }
    };
    const large = new Uint8Array(1 << 20);
    const nested = { list: [new Map([['key', 'x'.repeat(1 << 20)]])] };
    let reads = 0;
    const growing = { get text() { return 'x'.repeat(reads++ ? 1 << 20 : 1); } };
    const frame = document.body.appendChild(document.createElement('iframe')).contentWindow;
    const run = (code) => new Promise(done => {
        new Worker(URL.createObjectURL(new Blob([code]))).onmessage = event => done(event.data);
    });
    const outcomes = [outcome(window, large), outcome(window, nested), outcome(window, growing), outcome(frame, large)];
    outcomes.push(await run(`postMessage((${outcome})(self, new Uint8Array(1 << 20)))`));
    const receiver = new BroadcastChannel('small');
    const received = new Promise(done => { receiver.onmessage = event => done(event.data); });
    await run(`new BroadcastChannel('small').postMessage({ date: new Date(0), list: ['x'] }); postMessage(0)`);
    const { date, list } = await received;
    outcomes.push(date.getTime(), list);
    frame.structuredClone = () => 0;
    frame.Set.prototype.has = frame.Reflect.apply = () => true;
    frame.Uint8Array.prototype.__proto__ = frame.Object.prototype;
    outcomes.push(outcome(frame, large), String(frame.BroadcastChannel.prototype.postMessage));
    return outcomes;
}";

/// Large messages are refused wherever a page sends them from; others arrive.
pub async fn large_broadcasts_are_refused(kind: BrowserKind, browser: &SharedBrowser) {
    let mut seat = browser.seat().await;
    seat.call("browser_navigate", json!({ "url": browser.site.url("/title?t=broadcasts") })).await;
    let refused = "DataCloneError";
    let native = "function () { [native code] }";
    let expected = json!([refused, refused, "sent", refused, refused, 0, ["x"], refused, native]);
    assert_eq!(seat.evaluate(SEND).await, expected, "{kind:?}");
    seat.seat.close().await;
}
