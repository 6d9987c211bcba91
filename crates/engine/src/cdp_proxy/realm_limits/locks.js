// Runs in every document and every worker before their own scripts, in their world. A request for a Web Lock waits here
// while its realm has `inTab` locks and open requests (`elsewhere` in a frame or a worker), and a query waits while another
// is open: the browser copies the names of all locks for each. Long names are refused.
//
// The page must not reach the browser's own methods, nor call what frees a place. So nothing here calls a method that a
// page can replace later, and a lock manager of another realm is refused: a page could use up realm after realm for it.
(inTab, elsewhere, nameLength) => {
  const own = navigator.locks;
  if (!own) return;
  const { Promise, Proxy, String, TypeError } = globalThis;
  const { apply } = Reflect;
  const { then } = Promise.prototype;
  const { reject } = Promise;
  // A worker has no `LockManager` by name yet.
  const prototype = Object.getPrototypeOf(own);

  // Lets `limit` calls of a method be open at a time. `prepare` may replace arguments, or throw.
  const bound = (method, limit, prepare) => {
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
    prototype[method] = new Proxy(prototype[method], {
      __proto__: null,
      apply: (native, manager, args) => {
        try {
          if (manager !== own) throw new TypeError('Illegal invocation');
          prepare(args);
        } catch (error) {
          return apply(reject, Promise, [error]);
        }
        const run = () => {
          open++;
          const closed = (value) => (close(), value);
          const failed = (error) => {
            close();
            throw error;
          };
          return apply(then, apply(native, own, args), [closed, failed]);
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
  };
  bound('request', globalThis.window && window === window.top ? inTab : elsewhere, (args) => {
    if (!args.length || typeof args[0] === 'symbol') return;
    // Read once: an object could have another name the second time.
    const name = (args[0] = String(args[0]));
    if (name.length > nameLength) throw new TypeError('the name of the lock is too long');
  });
  bound('query', 1, () => {});
}
