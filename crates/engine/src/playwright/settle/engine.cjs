// Runs in the engine's process, once for every page. After an action the engine lets the page rest for a fixed time, by
// evaluating a timer in it; this script answers that one evaluation itself, as soon as nothing is pending that could still
// change the page, and at the latest when the timer would have. The engine does the rest: its further waits, its snapshot,
// its answer.
//
// `page.js` knows what is pending in documents, and `wait_until_idle.cjs` asks it; this script knows requests,
// navigations, windows, downloads and sockets. A future engine that waits in another way is not disturbed by this, only
// as slow as it is by itself.
'use strict';

const { randomUUID } = require('node:crypto');
const { readFileSync } = require('node:fs');
const { join } = require('node:path');

const { waitUntilIdle } = require('./wait_until_idle.cjs');

/** How the engine rests: this function, with the time of its setting. */
const ENGINE_WAIT = '(ms) => new Promise((f) => setTimeout(f, ms))';
/** That time. Longer timers are not tracked. */
const SETTLE_TIMEOUT_MS = 500;
/** The engine lets a page rest twice when the action made requests. A rest right after another finds nothing new. */
const SETTLED_FOR_MS = 10;
/** A request without an event for so long is forgotten. */
const PENDING_MAX_MS = 60_000;
/** How many requests of a page are remembered, if it makes them without end; an action makes a few. */
const REQUESTS_MAX = 256;
/** Requests whose response changes the page only when it is complete; of others the head is enough. */
const WHOLE_RESPONSE_TYPES = new Set(['document', 'stylesheet', 'script', 'xhr', 'fetch']);

/** The value that marks a question to a document's `setTimeout`; it is random, so no page knows it beforehand. */
const secret = randomUUID();
const account = readFileSync(join(__dirname, 'page.js'), 'utf8').replace(/^\s*\/\/.*\n|^\s+/gm, '');
// By this name the CDP proxy recognises its functions in stacks, and removes them.
const source = `(${account})(${JSON.stringify(secret)}, ${SETTLE_TIMEOUT_MS})\n//# sourceURL=settle.js`;
const installed = new WeakSet();

/** How much of an address counts. A page can make one of two million letters, and it is compared with every other one. */
const ADDRESS_MAX = 4_096;
/** How many bodies one document may report as read, as in `page.js`. */
const READS_MAX = 64;

const cut = (url) => url.slice(0, ADDRESS_MAX).split('#', 1)[0];
/** A request's address, as the page sees it in the response. */
const address = (request) => cut(request.url());

/** Whether a document's account is usable. A page can replace the functions that make it, and return anything. */
const readable = ({ read }) =>
  Array.isArray(read) && read.length <= READS_MAX && read.every((url) => typeof url === 'string');

class SettleWatcher {
  constructor(page) {
    this.page = page;
    /** When the action began. */
    this.since = 0;
    /** When the page was last found at rest. */
    this.settledAt = 0;
    /** What may still change the page, and when it began. */
    this.pending = new Map();
    /** Fetches whose heads have come; the addresses of finished ones; those whose bodies the page does not read. */
    this.heads = new WeakSet();
    this.finished = [];
    this.unread = new WeakSet();
    /** The number of events so far. */
    this.events = 0;
    /** When the last navigation failed, and when the last window opened. */
    this.failedAt = 0;
    this.openedAt = 0;
    this.wakers = new Set();
  }

  follow() {
    const { page } = this;
    page.on('request', (request) => this.begin(request));
    page.on('response', (response) => {
      const request = response.request();
      const type = request.resourceType();
      if (!WHOLE_RESPONSE_TYPES.has(type)) this.end(request);
      else if (type === 'fetch') this.onResponseHead(request, response);
    });
    page.on('requestfinished', (request) => {
      if (this.heads.has(request)) this.finished.push(address(request));
      if (this.finished.length > REQUESTS_MAX) this.finished.shift();
      this.end(request);
    });
    page.on('requestfailed', (request) => {
      if (request.isNavigationRequest()) this.failedAt = Date.now();
      this.end(request);
    });
    page.on('framenavigated', () => {
      this.dropOldPending();
      this.onEvent();
    });
    page.on('popup', (popup) => {
      this.openedAt = Date.now();
      this.during(popup, popup.waitForLoadState('load'));
    });
    page.on('download', (download) => {
      // The engine's own listener runs first, and saves the file a moment later.
      const save = download.saveAs;
      this.begin(download);
      download.saveAs = (...args) => this.during(download, save.apply(download, args));
    });
    page.on('websocket', (socket) => {
      // A page that sends something mostly waits for the answer.
      socket.on('framesent', () => this.begin(socket));
      socket.on('framereceived', () => this.end(socket));
      socket.on('close', () => this.end(socket));
    });
    // The engine listens to requests from the beginning of an action.
    page.on('newListener', (name) => {
      if (name === 'request') [this.since, this.settledAt, this.finished] = [Date.now(), 0, []];
    });
  }

  begin(what) {
    if (this.pending.size > REQUESTS_MAX) this.dropOldPending();
    this.pending.set(what, Date.now());
    this.onEvent();
  }

  end(what) {
    if (this.pending.delete(what)) this.onEvent();
  }

  during(what, promise) {
    this.begin(what);
    promise.then(() => this.end(what), () => this.end(what));
    return promise;
  }

  /** The head of a response has come. If the page does not read its body, the response never finishes, and is not waited for. */
  onResponseHead(request, response) {
    const { finished } = response;
    response.finished = () => (this.unread.has(request) ? Promise.resolve(null) : finished.call(response));
    this.heads.add(request);
    this.onEvent();
  }

  onEvent() {
    this.events++;
    for (const wake of this.wakers) wake();
    this.wakers.clear();
  }

  dropOldPending() {
    for (const [what, at] of this.pending) if (at < Date.now() - PENDING_MAX_MS) this.pending.delete(what);
  }

  /** Whether something is pending that began with the action; with `heads`, a response whose head has come counts as over. */
  hasPending({ heads } = { heads: false }) {
    for (const [what, at] of this.pending) {
      if (at >= this.since && (!heads || !this.heads.has(what))) return true;
    }
    return false;
  }

  /** Gives up waiting for bodies that the page does not read: it read no more bodies of that address than are finished. */
  ignoreUnreadBodies(read) {
    for (const [what, at] of this.pending) {
      if (at < this.since || !this.heads.has(what)) continue;
      const sought = address(what);
      const count = (addresses) => addresses.filter((one) => one === sought).length;
      if (count(read) > count(this.finished)) continue;
      this.unread.add(what);
      this.pending.delete(what);
    }
  }

  /** Resolves with the next event, or when `over` does. */
  nextEvent(over) {
    return Promise.race([over, new Promise((wake) => this.wakers.add(wake))]);
  }

  /** Resolves when the page is at rest, after `within` milliseconds at the latest. Never rejects. */
  async untilSettled(within) {
    const end = Date.now() + within;
    let timer;
    const over = new Promise((resolve) => (timer = setTimeout(resolve, within)));
    try {
      await this.observe(end, over);
    } finally {
      clearTimeout(timer);
    }
  }

  async observe(end, over) {
    if (Date.now() - this.settledAt < SETTLED_FOR_MS && !this.hasPending()) return;
    while (Date.now() < end && !this.page.isClosed()) {
      if (this.hasPending({ heads: true })) {
        await this.nextEvent(over);
        continue;
      }
      const { events } = this;
      const accounts = await Promise.race([over, this.askDocuments(end)]);
      if (!accounts) return;
      // The document is gone, and its successor is asked next; or it cannot be asked.
      if (!accounts[0]) {
        if (events === this.events) await this.nextEvent(over);
        continue;
      }
      // Without an account the engine's own wait is the best there is.
      const existing = accounts.filter(Boolean);
      if (existing.some((account) => typeof account !== 'object' || !readable(account))) return over;
      this.ignoreUnreadBodies(existing.flatMap((account) => account.read.map(cut)));
      const expected = existing.some((account) => account.opened > this.openedAt) || existing[0].going > this.failedAt;
      if (expected || (events === this.events && this.hasPending())) {
        await this.nextEvent(over);
      } else if (events === this.events && !existing.slice(1).some((account) => account.waited)) {
        this.settledAt = Date.now();
        return;
      }
    }
  }

  /** The accounts of all documents of the page, the top one's first: `null` for a document that is gone. */
  askDocuments(end) {
    const top = this.page.mainFrame();
    return Promise.all(this.page.frames().sort((a, b) => (a === top ? -1 : b === top ? 1 : 0)).map((frame) =>
      frame.evaluate(waitUntilIdle, [secret, this.since, end - Date.now(), frame !== top]).catch(() => null)));
  }
}

/** For all pages of the context; with `alone` for this page only. */
exports.default = async ({ page, alone }) => {
  const watcher = new SettleWatcher(page);
  watcher.follow();
  const { evaluate } = page;
  const isEngineWait = ([what, time]) =>
    time === SETTLE_TIMEOUT_MS && typeof what === 'function' && String(what) === ENGINE_WAIT;
  page.evaluate = (...args) =>
    (isEngineWait(args) ? watcher.untilSettled(SETTLE_TIMEOUT_MS) : evaluate.apply(page, args));
  const scriptOwner = alone ? page : page.context();
  if (!installed.has(scriptOwner)) {
    installed.add(scriptOwner);
    // The first page's empty document already exists, and needs no script.
    await scriptOwner.addInitScript({ content: source });
  }
};
