// Takes as many Web Locks as it can in every kind of realm that a page can make. Returns how many the browser has granted or
// queued for each.
async () => {
  const take = async (locks, name) => {
    for (let i = 0; i < 200; i++) locks.request(name + i, () => new Promise(() => {})).catch?.(() => {});
    const { held, pending } = await locks.query();
    return held.concat(pending).filter((lock) => lock.name.startsWith(name)).length;
  };
  const count = async (name) => (await navigator.locks.query()).held.filter((lock) => lock.name.startsWith(name)).length;
  const url = (code) => URL.createObjectURL(new Blob([code], { type: 'text/javascript' }));
  const message = (port) =>
    new Promise((done) => {
      port.onmessage = (event) => done(event.data);
    });
  const frame = (src) =>
    new Promise((done) => {
      const element = document.createElement('iframe');
      element.onload = () => done(element.contentWindow);
      element.src = src;
      document.body.append(element);
    });
  const blank = () => document.body.appendChild(document.createElement('iframe')).contentWindow;
  // The script of a worker that takes locks under `name`, and sends by `post` how many it got.
  const script = (name, post) => `(${take})(navigator.locks, '${name}').then((count) => ${post}(count))`;

  const taken = {};
  taken.frame = await take((await frame('/title?t=frame')).navigator.locks, 'frame');
  taken.blank = await take(blank().navigator.locks, 'blank');
  taken.popup = await take(open('', 'popup').navigator.locks, 'popup');
  taken.worker = await message(new Worker(url(script('worker', 'postMessage'))));
  const inner = script('nested', 'postMessage');
  const outer = `new Worker(URL.createObjectURL(new Blob([${JSON.stringify(inner)}]))).onmessage = (event) => postMessage(event.data);`;
  taken.nested = await message(new Worker(url(outer)));
  const shared = `onconnect = (event) => { const post = (count) => event.ports[0].postMessage(count); ${script('shared', 'post')}; };`;
  taken.shared = await message(new SharedWorker(url(shared)).port);
  const service = `onmessage = (event) => { const post = (count) => event.ports[0].postMessage(count); ${script('service', 'post')}; };`;
  await navigator.serviceWorker.register('/script?code=' + encodeURIComponent(service));
  const { active } = await navigator.serviceWorker.ready;
  const channel = new MessageChannel();
  const answer = message(channel.port1);
  active.postMessage(0, [channel.port2]);
  taken.service = await answer;

  // The function of a removed frame, called on the locks of the tab.
  for (let i = 0; i < 10; i++) {
    const { navigator: theirs, frameElement } = blank();
    const { request } = theirs.locks;
    for (let j = 0; j < 8; j++) request.call(navigator.locks, `gone${i}${j}`, () => new Promise(() => {})).catch(() => {});
    await navigator.locks.query();
    frameElement.remove();
  }
  taken.gone = await count('gone');

  // Functions on which the limit could rely, replaced by a page.
  const replaced = (await frame('/title?t=replaced')).window;
  const { prototype } = replaced.Promise;
  const callbacks = [];
  const keep = (callback) => typeof callback === 'function' && callbacks.push(callback);
  const { then } = prototype;
  prototype.then = function (...args) {
    args.forEach(keep);
    return then.apply(this, args);
  };
  replaced.Array.prototype.push = function (...args) {
    args.forEach(keep);
  };
  replaced.Reflect.apply = (target, self, args) => (args.forEach(keep), target.apply(self, args));
  Object.defineProperty(prototype, 'constructor', { get: () => ({ [Symbol.species]: function (run) { run(keep, keep); } }) });
  const request = () => replaced.navigator.locks.request('replaced' + callbacks.length + Math.random(), () => new Promise(() => {}));
  request();
  while ((await count('replaced')) < 1);
  for (let i = 0; i < 1000; i++) callbacks.forEach((callback) => callback(() => 0, () => 0));
  for (let i = 0; i < 200; i++) request();
  // Its own queries return nothing of use any more.
  while ((await count('replaced')) < 8);
  taken.replaced = await count('replaced');

  taken.tab = await take(navigator.locks, 'tab');
  return taken;
}
