// Runs in every document and every worker before their own scripts, in their world. Refuses a broadcast message of more than
// `bytes`, which the browser would copy for each receiver on the thread that serves all sessions.
//
// The message is cloned first: a page's own object could be larger when it is read again. A performance mark does that; a
// worker has no `structuredClone` yet. A clone has the browser's own
// prototypes, which a page cannot exchange, so they tell its kind; kinds of unknown size are refused. Nothing here calls a
// method that a page can replace later.
(bytes) => {
  const { ArrayBuffer, Blob, DOMException, File, Map, Object, Reflect, PerformanceMark, Proxy, Set, BroadcastChannel } = globalThis;
  const { apply, getPrototypeOf, ownKeys } = Reflect;
  const { isView } = ArrayBuffer;
  const getter = (owner, name) => Object.getOwnPropertyDescriptor(owner.prototype, name).get;
  const detail = getter(PerformanceMark, 'detail');
  const byteLength = getter(ArrayBuffer, 'byteLength');
  const buffer = getter(getPrototypeOf(Uint8Array), 'buffer');
  const viewed = getter(DataView, 'buffer');
  const dataView = DataView.prototype;
  const text = [getter(Blob, 'type'), getter(File, 'name'), getter(RegExp, 'source')];
  const [blob, file, regexp, map, set, array] = [Blob, File, RegExp, Map, Set, ArrayBuffer].map((kind) => kind.prototype);
  const { forEach: eachOfMap } = map;
  const { forEach: eachOfSet, has, add: mark } = set;
  // Objects that are what their properties say.
  const isPlain = [Object, Array, Date, Boolean, Number, String, Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError].map((kind) => kind.prototype);
  const kinds = isPlain.length;

  const fits = (message) => {
    let left = bytes;
    // A list without methods, of what is still to count; `seen` are objects that were counted.
    let todo = { value: message, next: undefined };
    const seen = new Set();
    const add = (value) => (todo = { __proto__: null, value, next: todo });
    while (todo) {
      const { value } = todo;
      todo = todo.next;
      if ((left -= 9) < 0) return false;
      if (typeof value === 'string') left -= 2 * value.length;
      else if (typeof value === 'bigint') {
        if (value > 0xffffffffffffffffn || value < -0xffffffffffffffffn) return false;
      } else if (typeof value === 'object' && value !== null) {
        if (apply(has, seen, [value])) continue;
        apply(mark, seen, [value]);
        const kind = getPrototypeOf(value);
        if (isView(value)) add(apply(kind === dataView ? viewed : buffer, value, []));
        else if (kind === array) left -= apply(byteLength, value, []);
        else if (kind === blob || kind === file) {
          add(apply(text[0], value, []));
          if (kind === file) add(apply(text[1], value, []));
        } else if (kind === regexp) add(apply(text[2], value, []));
        else if (kind === map) apply(eachOfMap, value, [(item, key) => (add(item), add(key))]);
        else if (kind === set) apply(eachOfSet, value, [add]);
        else {
          let at = 0;
          while (at < kinds && isPlain[at] !== kind) at++;
          if (at === kinds) return false;
          const keys = ownKeys(value);
          for (let i = 0; i < keys.length && left >= 0; i++) {
            left -= 2 * keys[i].length;
            add(value[keys[i]]);
          }
        }
      }
      if (left < 0) return false;
    }
    return true;
  };
  const { prototype } = BroadcastChannel;
  prototype.postMessage = new Proxy(prototype.postMessage, {
    __proto__: null,
    apply: (native, channel, args) => {
      if (!args.length) return apply(native, channel, args);
      // A mark has no detail for `undefined`.
      const own = args[0];
      const message = own === undefined ? own : apply(detail, new PerformanceMark('broadcast', { __proto__: null, detail: own }), []);
      if (fits(message)) return apply(native, channel, [message]);
      throw new DOMException('the broadcast message is too large', 'DataCloneError');
    },
  });
}
