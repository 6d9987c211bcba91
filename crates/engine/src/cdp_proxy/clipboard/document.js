// Runs in every document, in a world of its own that the document's scripts cannot reach. It keeps copy, cut and paste away
// from the clipboard that all sessions of the browser share: copies go to greenroom, and pastes come from there.
//
// This script stops the user's copy event before the document sees it, and dispatches a similar event with a clipboard of
// its own. If the document does not fill that clipboard, this script copies what the browser would have copied. Pastes come
// from greenroom alone: the browser gets no key that pastes.
//
// `copied` names the function that gives a copy to greenroom. `told` is the event by which `page.js` sends what scripts
// copy. `paste` is the name by which greenroom makes this script paste.
//
// It is small on purpose, and sent without its comments: a document's script of more than 4 KB costs nearly a megabyte
// a page in Chromium.
(copied, told, paste) => {
  const TEXT = 'text/plain';
  const HTML = 'text/html';
  const FORMATTING =
    /^(A|B|BLOCKQUOTE|BR|CODE|DEL|DIV|EM|H[1-6]|HR|I|IMG|LI|OL|P|PRE|S|SPAN|STRONG|SUB|SUP|TABLE|TBODY|TD|TH|THEAD|TR|U|UL)$/;
  let pressed;
  const send = (data) => globalThis[copied]?.(data);

  const focused = () => {
    let element = document.activeElement;
    while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
    return element;
  };

  // What a copy takes, if the document fills no clipboard itself. Browsers copy no passwords.
  const selected = () => {
    const field = focused();
    if (/^(INPUT|TEXTAREA)$/.test(field?.tagName)) {
      const { type, value, selectionStart, selectionEnd } = field;
      return type === 'password' ? {} : { [TEXT]: value.slice(selectionStart ?? 0, selectionEnd ?? 0) };
    }
    const selection = getSelection();
    const { body } = document.implementation.createHTMLDocument('');
    for (let i = 0; i < selection.rangeCount; i++) body.append(selection.getRangeAt(i).cloneContents());
    return { [TEXT]: String(selection), [HTML]: body.innerHTML };
  };

  // Markup that another page copied must not run in this one, as with the browser's own clipboard.
  const formatted = (html) => {
    const { body } = new DOMParser().parseFromString(html, HTML);
    for (const element of body.querySelectorAll('*')) {
      if (!FORMATTING.test(element.tagName)) element.remove();
      for (const { name, value } of [...element.attributes]) {
        const link = /^(href|src)$/.test(name) && /^(https?:|mailto:|data:image\/)/i.test(value);
        if (!link && !/^(alt|title|colspan|rowspan)$/.test(name)) element.removeAttribute(name);
      }
    }
    return body.innerHTML;
  };

  // Dispatches a copy or paste to the document. Returns whether the document leaves the default action to the browser.
  const tell = (type, target, clipboardData) =>
    target.dispatchEvent(new ClipboardEvent(type, { clipboardData, bubbles: true, cancelable: true, composed: true }));

  const copy = (event) => {
    if (!event.isTrusted) return;
    event.stopImmediatePropagation();
    event.preventDefault();
    const data = new DataTransfer();
    const ours = tell(event.type, event.composedPath()[0], data);
    const taken = ours ? selected() : { [TEXT]: data.getData(TEXT), [HTML]: data.getData(HTML) };
    if (!taken[TEXT] && !taken[HTML]) return;
    send(JSON.stringify(taken));
    if (ours && event.type === 'cut') document.execCommand('delete');
  };

  const pasteInto = (field, content) => {
    const data = new DataTransfer();
    for (const kind in content) data.setData(kind, content[kind]);
    if (!tell('paste', field, data)) return;
    const rich = content[HTML] && field.isContentEditable && !/^plaintext/.test(field.contentEditable);
    if (rich) document.execCommand('insertHTML', false, formatted(content[HTML]));
    else if (content[TEXT]) document.execCommand('insertText', false, content[TEXT]);
  };

  // A document that is opened anew loses its listeners. Adding an existing listener again has no effect.
  const listeners = { copy, cut: copy, keydown: (event) => (pressed = event), [told]: (event) => send(event.detail) };
  const listen = () => {
    for (const type in listeners) window.addEventListener(type, listeners[type], true);
  };
  listen();
  new MutationObserver(listen).observe(document, { childList: true });

  // Says whether this document has the focus; if `content` is given, pastes it, unless the document has handled the key
  // itself.
  globalThis[paste] = (content) => {
    listen();
    const field = focused() ?? document.documentElement;
    const here = document.hasFocus() && !/^I?FRAME$/.test(field.tagName);
    if (content && here && !pressed?.defaultPrevented) pasteInto(field, content);
    if (content) pressed = undefined;
    return here;
  };
}
