// Runs in every document, in a world of its own that the document's scripts cannot reach. It keeps copy, cut and paste from
// the clipboard that all sessions of the browser share: what is copied goes to greenroom, and what is pasted comes from
// there.
//
// A copy or paste of the user is stopped before the document hears of it, and the document hears of one like it, which has
// a clipboard of its own. If the document leaves that one alone, this does what the browser would have done.
//
// `copied` names the function that gives what was copied to greenroom. `told` is the event by which `page.js` tells of what scripts copy. `hold` is the
// name by which greenroom calls the function that takes what is to be pasted.
//
// It is small on purpose, and sent without its comments: a document's script of more than 4 KB costs nearly a megabyte
// a page in Chromium.
(copied, told, hold) => {
  const TEXT = 'text/plain';
  const HTML = 'text/html';
  const FORMATTING =
    /^(A|B|BLOCKQUOTE|BR|CODE|DEL|DIV|EM|H[1-6]|HR|I|IMG|LI|OL|P|PRE|S|SPAN|STRONG|SUB|SUP|TABLE|TBODY|TD|TH|THEAD|TR|U|UL)$/;
  let held = {};
  const send = (data) => globalThis[copied]?.(data);

  const focused = () => {
    let element = document.activeElement;
    while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
    return element;
  };

  // What a copy takes, if the document does not say itself. Browsers copy no passwords.
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

  // Nothing that another page copied may run in this one, as with the browser's own clipboard.
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

  // Whether the document leaves the event to the browser.
  const pass = (event, clipboardData) => {
    event.stopImmediatePropagation();
    event.preventDefault();
    const options = { clipboardData, bubbles: true, cancelable: true, composed: true };
    return event.composedPath()[0].dispatchEvent(new ClipboardEvent(event.type, options));
  };

  const copy = (event) => {
    if (!event.isTrusted) return;
    const data = new DataTransfer();
    const ours = pass(event, data);
    const taken = ours ? selected() : { [TEXT]: data.getData(TEXT), [HTML]: data.getData(HTML) };
    if (!taken[TEXT] && !taken[HTML]) return;
    send(JSON.stringify(taken));
    if (ours && event.type === 'cut') document.execCommand('delete');
  };

  const paste = (event) => {
    if (!event.isTrusted) return;
    const data = new DataTransfer();
    for (const kind in held) if (held[kind]) data.setData(kind, held[kind]);
    if (!pass(event, data)) return;
    const field = focused();
    const rich = held[HTML] && field?.isContentEditable && !/^plaintext/.test(field.contentEditable);
    if (rich) document.execCommand('insertHTML', false, formatted(held[HTML]));
    else if (held[TEXT]) document.execCommand('insertText', false, held[TEXT]);
  };

  // A document that is opened anew loses its listeners. One that is there already is not added again.
  const listeners = { copy, cut: copy, paste, [told]: (event) => send(event.detail) };
  const listen = () => {
    for (const type in listeners) window.addEventListener(type, listeners[type], true);
  };
  listen();
  new MutationObserver(listen).observe(document, { childList: true });

  // Whether the user pastes into this document, or with `data` what that brings.
  globalThis[hold] = (data) => {
    held = data ?? held;
    return document.hasFocus() && !/^I?FRAME$/.test(document.activeElement?.tagName);
  };
}
