// Runs in every document and every worker before their own scripts, in their world. A request for a Web Lock waits here
// while its realm has `inTab` locks and open requests (`elsewhere` in a frame or a worker).
//
// The page must not reach the browser's own `request`, nor call what frees a place. So nothing here calls a method that a
// page can replace later, and a lock manager of another realm is refused: a page could use up realm after realm for it.
(inTab, elsewhere) => {
  const own = navigator.locks;
  if (!own) return;
  const { Promise, TypeError } = globalThis;
  const { apply } = Reflect;
  const { then } = Promise.prototype;
  const { reject } = Promise;
  const limit = globalThis.window && window === window.top ? inTab : elsewhere;
  let open = 0;
  let first, last;

  const close = () => {
    open--;
    while (first && open < limit) {
      const { resume } = first;
      first = first.next;
      resume();
    }
  };
  // A worker has no `LockManager` by name yet.
  const prototype = Object.getPrototypeOf(own);
  prototype.request = new Proxy(prototype.request, {
    __proto__: null,
    apply: (request, manager, args) => {
      if (manager !== own) return apply(reject, Promise, [new TypeError('Illegal invocation')]);
      const run = () => {
        open++;
        const closed = (value) => (close(), value);
        const failed = (error) => {
          close();
          throw error;
        };
        return apply(then, apply(request, own, args), [closed, failed]);
      };
      if (open < limit) return run();
      return new Promise((resolve) => {
        const waiting = { __proto__: null, resume: () => resolve(run()), next: undefined };
        if (first) last.next = waiting;
        else first = waiting;
        last = waiting;
      });
    },
  });
}
