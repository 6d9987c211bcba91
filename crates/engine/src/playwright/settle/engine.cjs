// Runs in the engine's process, once for every page. After an action the engine lets the page rest for a fixed time,
// by evaluating a timer in it; this answers that one evaluation itself, as soon as nothing is pending that could
// still change the page, and at the latest when the timer would have. All else is left to the engine: what it then
// waits for, its snapshot, its answer.
//
// What is pending in documents `page.js` knows, and `look.cjs` asks it; requests, navigations, windows, downloads and
// sockets are known here. An engine that waits in another way one day is not disturbed by this, only as slow as it is
// by itself.
'use strict';

const { randomUUID } = require('node:crypto');
const { readFileSync } = require('node:fs');
const { join } = require('node:path');

const { look } = require('./look.cjs');

/** How the engine rests: this function, with the time that it was told. */
const REST = '(ms) => new Promise((f) => setTimeout(f, ms))';
/** That time. Timers that take longer are not followed. */
const LONGEST_MS = 500;
/** The engine lets a page rest twice when the action made requests. A rest right after another finds nothing new. */
const JUST_NOW_MS = 10;
/** A request of which nothing was heard for so long is not remembered. */
const FORGOTTEN_MS = 60_000;
/** How many requests are remembered of a page that makes them without end; an action makes a few. */
const REMEMBERED_MAX = 256;
/** Requests that the page gets something out of only when all of them has come; of others the head is enough. */
const WHOLE = new Set(['document', 'stylesheet', 'script', 'xhr', 'fetch']);

/** What a document's `setTimeout` takes for a question; no page knows it beforehand. */
const secret = randomUUID();
const account = readFileSync(join(__dirname, 'page.js'), 'utf8').replace(/^\s*\/\/.*\n|^\s+/gm, '');
// By this name the CDP proxy knows its functions in stacks, and leaves them out.
const source = `(${account})(${JSON.stringify(secret)}, ${LONGEST_MS})\n//# sourceURL=settle.js`;
const installed = new WeakSet();

/** How much of an address counts. A page can make one of two million letters, and has it compared with every other one. */
const ADDRESS_MAX = 4_096;
/** What one document may say that it has read, as `page.js` has it. */
const READS_MAX = 64;

const cut = (url) => url.slice(0, ADDRESS_MAX).split('#', 1)[0];
/** A request's address, as the page sees it in the response. */
const address = (request) => cut(request.url());

/** Whether a document's account can be used. A page can replace what it is made with, and say anything. */
const readable = ({ read }) =>
  Array.isArray(read) && read.length <= READS_MAX && read.every((url) => typeof url === 'string');

class Rest {
  constructor(page) {
    this.page = page;
    /** When the action began. */
    this.since = 0;
    /** When the page was last found at rest. */
    this.restedAt = 0;
    /** What may still change the page, and when it began. */
    this.pending = new Map();
    /** Fetches whose heads have come; the addresses of those that are finished; those whose bodies nobody reads. */
    this.heads = new WeakSet();
    this.finished = [];
    this.unread = new WeakSet();
    /** Grows with everything that happens. */
    this.events = 0;
    /** The last navigation that came to nothing, and the last window that opened. */
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
      if (!WHOLE.has(type)) this.end(request);
      else if (type === 'fetch') this.answered(request, response);
    });
    page.on('requestfinished', (request) => {
      if (this.heads.has(request)) this.finished.push(address(request));
      if (this.finished.length > REMEMBERED_MAX) this.finished.shift();
      this.end(request);
    });
    page.on('requestfailed', (request) => {
      if (request.isNavigationRequest()) this.failedAt = Date.now();
      this.end(request);
    });
    page.on('framenavigated', () => {
      this.forget();
      this.happened();
    });
    page.on('popup', (popup) => {
      this.openedAt = Date.now();
      this.during(popup, popup.waitForLoadState('load'));
    });
    page.on('download', (download) => {
      // The engine's own listener comes first, and saves the file a moment later.
      const save = download.saveAs;
      this.begin(download);
      download.saveAs = (...args) => this.during(download, save.apply(download, args));
    });
    page.on('websocket', (socket) => {
      // A page that says something mostly waits for the answer.
      socket.on('framesent', () => this.begin(socket));
      socket.on('framereceived', () => this.end(socket));
      socket.on('close', () => this.end(socket));
    });
    // The engine listens to requests from an action's beginning on.
    page.on('newListener', (name) => {
      if (name === 'request') [this.since, this.restedAt, this.finished] = [Date.now(), 0, []];
    });
  }

  begin(what) {
    if (this.pending.size > REMEMBERED_MAX) this.forget();
    this.pending.set(what, Date.now());
    this.happened();
  }

  end(what) {
    if (this.pending.delete(what)) this.happened();
  }

  during(what, promise) {
    this.begin(what);
    promise.then(() => this.end(what), () => this.end(what));
    return promise;
  }

  /** The head of a response is there. If nobody reads its body, that is never finished, and nothing to wait for. */
  answered(request, response) {
    const { finished } = response;
    response.finished = () => (this.unread.has(request) ? Promise.resolve(null) : finished.call(response));
    this.heads.add(request);
    this.happened();
  }

  happened() {
    this.events++;
    for (const wake of this.wakers) wake();
    this.wakers.clear();
  }

  forget() {
    for (const [what, at] of this.pending) if (at < Date.now() - FORGOTTEN_MS) this.pending.delete(what);
  }

  /** Whether something is pending that began with the action; with an answer's head it may be over. */
  busy({ heads } = { heads: false }) {
    for (const [what, at] of this.pending) {
      if (at >= this.since && (!heads || !this.heads.has(what))) return true;
    }
    return false;
  }

  /** Gives up waiting for bodies that the page does not read: of whose address it read no more than are finished. */
  leave(read) {
    for (const [what, at] of this.pending) {
      if (at < this.since || !this.heads.has(what)) continue;
      const sought = address(what);
      const count = (addresses) => addresses.filter((one) => one === sought).length;
      if (count(read) > count(this.finished)) continue;
      this.unread.add(what);
      this.pending.delete(what);
    }
  }

  /** Resolves when something happens, or when `over` does. */
  next(over) {
    return Promise.race([over, new Promise((wake) => this.wakers.add(wake))]);
  }

  /** Resolves when the page is at rest, after `within` milliseconds at the latest. Never rejects. */
  async rest(within) {
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
    if (Date.now() - this.restedAt < JUST_NOW_MS && !this.busy()) return;
    while (Date.now() < end && !this.page.isClosed()) {
      if (this.busy({ heads: true })) {
        await this.next(over);
        continue;
      }
      const { events } = this;
      const accounts = await Promise.race([over, this.look(end)]);
      if (!accounts) return;
      // The document has gone away, and its successor is asked next; or it cannot be asked.
      if (!accounts[0]) {
        if (events === this.events) await this.next(over);
        continue;
      }
      // Without an account there is nothing better than the engine's own wait.
      const there = accounts.filter(Boolean);
      if (there.some((account) => typeof account !== 'object' || !readable(account))) return over;
      this.leave(there.flatMap((account) => account.read.map(cut)));
      const expected = there.some((account) => account.opened > this.openedAt) || there[0].going > this.failedAt;
      if (expected || (events === this.events && this.busy())) {
        await this.next(over);
      } else if (events === this.events && !there.slice(1).some((account) => account.waited)) {
        this.restedAt = Date.now();
        return;
      }
    }
  }

  /** The accounts of all documents of the page, the top one's first: `null` for one that went away. */
  look(end) {
    const top = this.page.mainFrame();
    return Promise.all(this.page.frames().sort((a, b) => (a === top ? -1 : b === top ? 1 : 0)).map((frame) =>
      frame.evaluate(look, [secret, this.since, end - Date.now(), frame !== top]).catch(() => null)));
  }
}

/** For all pages of the context; with `alone` for this one, and no other is changed. */
exports.default = async ({ page, alone }) => {
  const rest = new Rest(page);
  rest.follow();
  const { evaluate } = page;
  const rests = ([what, time]) => time === LONGEST_MS && typeof what === 'function' && String(what) === REST;
  page.evaluate = (...args) => (rests(args) ? rest.rest(LONGEST_MS) : evaluate.apply(page, args));
  const where = alone ? page : page.context();
  if (!installed.has(where)) {
    installed.add(where);
    // The first page's empty document is there already, and does without.
    await where.addInitScript({ content: source });
  }
};
