// Runs in every document before the document's own scripts, in their world. What they write to the clipboard goes to
// `document.js` by an event, and from there to greenroom. They cannot read a clipboard: no page is granted that.
(told) => {
  if (!window.Clipboard) return;
  // Taken before the page can replace them.
  const { CustomEvent, JSON, String } = window;
  const dispatch = window.dispatchEvent.bind(window);
  const write = (data) => void dispatch(new CustomEvent(told, { detail: JSON.stringify(data) }));
  const wrap = (name, handler) => {
    const { prototype } = Clipboard;
    prototype[name] = new Proxy(prototype[name], { apply: (_, self, args) => handler(...args) });
  };
  wrap('writeText', async (text) => write({ 'text/plain': String(text) }));
  wrap('write', async (items) => {
    const data = {};
    for (const item of items) {
      for (const kind of item.types) if (/^text\/(plain|html)$/.test(kind)) data[kind] = await (await item.getType(kind)).text();
    }
    write(data);
  });
}
