// Runs in every document before the document's own scripts, and tracks what may still change the page: timers, animation
// frames, bodies it reads, windows it opens, navigations it begins.
//
// `wait_until_idle.cjs` gets that account by calling `setTimeout` with a secret as the delay. So there is no name with
// which a page could collide, and a document without this script answers with a plain timer. A page that replaces these
// functions harms only its own answers, and only up to the engine's own wait.
//
// It is small on purpose, and sent without its comments: a document's script of more than 4 KB costs nearly a megabyte
// a page in Chromium.
(secret, longest) => {
  // How many bodies that the page read last are remembered. An action makes a few requests.
  const READS_MAX = 64;
  const HERE = /^_(self|top|parent)$/;

  // Taken before the page can replace them.
  const { setTimeout, clearTimeout, queueMicrotask, navigation } = window;
  const { apply } = Reflect;
  const { now } = Date;

  // What is pending, by id: when its cause began, and when it is due. The last window and the last navigation.
  const account = { timers: new Map(), frames: new Map(), reads: [], opened: {}, going: {} };
  Object.assign(account, { setTimeout, clearTimeout, now });
  const { timers, frames, reads } = account;
  // When the cause of the running callback began. A timer that a callback sets has that callback's cause: a page that has
  // been polling since yesterday is not busy because of an action of today.
  let cause = 0;

  const wrap = (on, name, handler) => {
    if (on[name]) on[name] = new Proxy(on[name], { apply: handler });
  };

  // Runs a page's callback on behalf of its cause, including the promises that it resolves.
  const run = (began, callback, self, args) => {
    cause = began;
    // A few turns: an async function that awaits a timer goes on two or three promises later.
    let turns = 4;
    const end = () => {
      if (turns-- > 0) queueMicrotask(end);
      else cause = 0;
    };
    queueMicrotask(end);
    return apply(callback, self, args);
  };

  // Sets a timer or asks for a frame, and tracks it.
  const track = (native, self, args, pending, delay, again) => {
    if (delay > longest) return apply(native, self, args);
    const callback = args[0];
    const entry = { began: cause || now(), due: now() + delay };
    let id;
    if (typeof callback === 'function') {
      args[0] = function () {
        if (again) entry.due = now() + delay;
        else pending.delete(id);
        return run(entry.began, callback, this, arguments);
      };
    } else if (again) {
      // Source text that runs again and again: its end is known only by the clock.
      entry.text = true;
    }
    id = apply(native, self, args);
    pending.set(id, entry);
    // Timers of one delay run in the order in which they were set: this one runs right after the source text, however late.
    if (typeof callback !== 'function' && !again) apply(native, self, [() => pending.delete(id), args[1]]);
    return id;
  };

  wrap(window, 'setTimeout', (native, self, args) =>
    args[1] === secret ? args[0](account) : track(native, self, args, timers, +args[1] || 0));
  wrap(window, 'setInterval', (native, self, args) => track(native, self, args, timers, +args[1] || 0, true));
  wrap(window, 'requestAnimationFrame', (native, self, args) => track(native, self, args, frames, 8));
  const clears = { clearTimeout: timers, clearInterval: timers, cancelAnimationFrame: frames };
  for (const [name, pending] of Object.entries(clears)) {
    wrap(window, name, (native, self, args) => {
      pending.delete(+args[0]);
      return apply(native, self, args);
    });
  }

  // The engine learns of a window some time after this call.
  wrap(window, 'open', (native, self, args) => {
    if (!HERE.test(args[1])) account.opened = { at: now() };
    return apply(native, self, args);
  });
  const elsewhere = (event) => {
    const link = event.composedPath()[0].closest?.('a[href], area[href], form, [formtarget]');
    if (!link) return;
    const named = link.getAttribute('formtarget') || link.getAttribute('target');
    const target = named || document.querySelector('base')?.target;
    const pressed = link.href && (event.button === 1 || event.ctrlKey || event.metaKey || event.shiftKey);
    if (pressed || (target && !HERE.test(target))) account.opened = { at: now(), event };
  };
  for (const name of ['click', 'auxclick', 'submit']) window.addEventListener(name, elsewhere, true);

  navigation?.addEventListener('navigate', (event) => {
    const { hashChange, destination, downloadRequest } = event;
    if (!hashChange && !destination.sameDocument && downloadRequest === null) account.going = { at: now(), event };
  });
  for (const name of ['navigatesuccess', 'navigateerror']) {
    navigation?.addEventListener(name, () => (account.going = {}));
  }

  // For the browser, a response whose body the page does not read never finishes. Only this script can see that.
  const { prototype } = Response;
  const read = (native, self, args) => {
    reads.push({ url: self.url, at: now() });
    if (reads.length > READS_MAX) reads.shift();
    return apply(native, self, args);
  };
  for (const name of ['text', 'json', 'blob', 'bytes', 'formData', 'arrayBuffer']) wrap(prototype, name, read);
  const body = Object.getOwnPropertyDescriptor(prototype, 'body');
  wrap(body, 'get', read);
  Object.defineProperty(prototype, 'body', body);
}
