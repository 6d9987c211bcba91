// The question that `engine.cjs` asks a document after an action: whether anything of it is still pending. The function is
// sent to the document and runs there, so it contains everything that it uses. It answers when the document is at rest or
// the time is over, with what only the engine can see the end of; or with a number, if `page.js` keeps no account.
'use strict';

exports.waitUntilIdle = ([secret, since, within, inner]) => new Promise((answer) => {
  // How long to wait for a page that changes all the time for an unknown reason: a clock, a ticker.
  const CHANGING_MAX_MS = 100;
  // The duration of a frame. Asking for a real one would make every page paint.
  const FRAME_MS = 16;
  // How often to check something that does not announce its end.
  const POLL_MS = 8;
  // After everything that the page itself has to do.
  const BACKGROUND = { priority: 'background' };
  // Transitions that change nothing in a snapshot: the effect of the mouse on a button.
  const PAINT = /color|shadow|outline|filter|background|decoration|^fill|^stroke/;

  const settle = (account) => {
    const { timers, frames, reads, setTimeout, clearTimeout, now } = account;
    const end = now() + within;

    /** How long nothing can change: until the next thing is due that began since the action. Zero: nothing is. */
    const timeUntilDue = () => {
      const at = now();
      let wait = Infinity;
      for (const pending of [timers, frames]) {
        for (const [id, { began, due, text }] of pending) {
          if (text && due < at) pending.delete(id);
          else if (began >= since && due <= end) wait = Math.min(wait, Math.max(due - at, 1));
        }
      }
      for (const animation of document.getAnimations()) {
        const { currentTime: played, playState, transitionProperty, effect } = animation;
        if (playState !== 'running' || typeof played !== 'number' || PAINT.test(transitionProperty)) continue;
        const left = effect.getComputedTiming().endTime - played;
        if (at - played >= since - POLL_MS && at + left <= end) wait = Math.min(wait, Math.max(left, POLL_MS));
      }
      return wait === Infinity ? 0 : wait;
    };

    /** Goes on after the duration of a frame, when the page is idle; or when the time is over. */
    const afterFrame = (next) => {
      const last = setTimeout(next, end - now());
      const first = () => {
        clearTimeout(last);
        next();
      };
      // An idle callback would wait for a frame, and a page at rest draws none.
      setTimeout(() => (window.scheduler ? scheduler.postTask(first, BACKGROUND) : first()), FRAME_MS);
    };

    let [waited, wasIdle, changed, changingSince] = [false, false, false, 0];
    const observer = new MutationObserver(() => (changed = true));
    const finish = () => {
      observer.disconnect();
      const after = ({ at, event }) => (at >= since && !event?.defaultPrevented ? at : 0);
      const { opened, going } = account;
      answer({
        waited,
        opened: after(opened),
        going: going.event?.signal.aborted ? 0 : after(going),
        read: reads.filter(({ at }) => at >= since).map(({ url }) => url),
      });
    };
    const check = () => {
      const at = now();
      const wait = at < end ? timeUntilDue() : 0;
      if (wait) {
        [waited, wasIdle] = [true, false];
        setTimeout(check, Math.min(wait, end - at));
        return;
      }
      if (changed && !changingSince) changingSince = at;
      const enough = wasIdle && (!changed || at - changingSince >= CHANGING_MAX_MS);
      // A document within another answers at once if nothing was pending in it.
      if (at >= end || enough || (inner && !waited)) {
        finish();
        return;
      }
      [wasIdle, changed] = [true, false];
      afterFrame(check);
    };
    observer.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
    check();
  };

  setTimeout((account) => (account?.timers ? settle(account) : answer(0)), secret);
});
