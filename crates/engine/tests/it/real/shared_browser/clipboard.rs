//! Sessions of one browser have a clipboard each.

use serde_json::json;

use super::{BrowserKind, SharedBrowser, SharedSeat};

/// A page with elements to copy from and to paste into, frames included.
const PAGE: &str = r#"() => {
    document.body.innerHTML = `
        <textarea id=field></textarea>
        <div id=rich contenteditable>Hello <b onclick="window.ran = 1">bold</b> world</div>
        <div id=target contenteditable></div>
        <input id=password type=password value=hunter2>
        <button id=exec onclick="getSelection().selectAllChildren(rich); document.execCommand('copy')">exec</button>
        <button id=own onclick="document.execCommand('copy')">own</button>
        <button id=api onclick="navigator.clipboard.writeText('by script')">api</button>
        <iframe id=same srcdoc="<textarea id=inner></textarea>"></iframe>
        <iframe id=sandboxed sandbox srcdoc="<textarea id=inner></textarea>"></iframe>`;
    const loaded = (frame) => new Promise((done) => frame.addEventListener('load', () => done()));
    return Promise.all([...document.querySelectorAll('iframe')].map(loaded)).then(() => 0);
}"#;

async fn show(browser: &SharedBrowser, seat: &mut SharedSeat) {
    // A host name, as `navigator.clipboard` requires a secure address.
    let url = format!("http://localhost:{}/title?t=clipboard", browser.site.port());
    seat.call("browser_navigate", json!({ "url": url })).await;
    seat.evaluate(PAGE).await;
}

impl SharedSeat {
    async fn press(&mut self, key: &str) {
        self.call("browser_press_key", json!({ "key": key })).await;
    }

    async fn click(&mut self, target: &str) {
        self.call("browser_click", json!({ "target": target })).await;
    }

    /// Writes a text into a field and copies it.
    async fn copy(&mut self, target: &str, text: &str, key: &str) {
        self.call("browser_type", json!({ "target": target, "text": text })).await;
        self.click(target).await;
        self.press("ControlOrMeta+a").await;
        self.press(key).await;
    }

    /// The text that this key pastes.
    async fn pasted(&mut self, key: &str) -> String {
        self.call("browser_type", json!({ "target": "#field", "text": "" })).await;
        self.click("#field").await;
        self.press(key).await;
        self.evaluate("() => document.querySelector('#field').value").await.as_str().unwrap().to_owned()
    }
}

/// A session cannot paste what another has copied, neither while both are open nor after the other has closed; each
/// pastes its own.
pub async fn sessions_cannot_paste_what_others_copied(kind: BrowserKind, browser: &SharedBrowser) {
    let mut one = browser.seat().await;
    let mut other = browser.seat().await;
    show(browser, &mut one).await;
    show(browser, &mut other).await;
    one.copy("#field", "of the first", "ControlOrMeta+c").await;
    for key in ["Control+v", "Control+Shift+v", "Shift+Insert"] {
        assert_eq!(other.pasted(key).await, "", "{kind:?} {key}");
        assert_eq!(one.pasted(key).await, "of the first", "{kind:?} {key}");
    }
    other.copy("#field", "of the second", "Control+x").await;
    assert_eq!(other.evaluate("() => document.querySelector('#field').value").await, "", "{kind:?}");
    assert_eq!(other.pasted("Control+v").await, "of the second", "{kind:?}");
    assert_eq!(one.pasted("Control+v").await, "of the first", "{kind:?}");

    // A selection is one more clipboard, which a click of the middle button pastes.
    one.call("browser_click", json!({ "target": "#rich", "doubleClick": true })).await;
    other.call("browser_type", json!({ "target": "#field", "text": "" })).await;
    other.call("browser_click", json!({ "target": "#field", "button": "middle" })).await;
    let middle = other.evaluate("() => document.querySelector('#field').value").await;
    assert!(["", "of the second"].contains(&middle.as_str().unwrap()), "{kind:?}: {middle}");

    one.seat.close().await;
    let mut third = browser.seat().await;
    show(browser, &mut third).await;
    assert_eq!(third.pasted("Control+v").await, "", "{kind:?}");
    for seat in [other, third] {
        seat.seat.close().await;
    }
}

/// Within a session everything that copies and pastes goes on working: scripts, handlers of the page, frames, formatted
/// text. What is pasted runs nothing, and passwords are not copied.
pub async fn copy_and_paste_work_within_a_session(kind: BrowserKind, browser: &SharedBrowser) {
    let mut seat = browser.seat().await;
    show(browser, &mut seat).await;
    seat.click("#api").await;
    assert_eq!(seat.pasted("Control+v").await, "by script", "{kind:?}");
    seat.click("#exec").await;
    assert_eq!(seat.pasted("Control+v").await, "Hello bold world", "{kind:?}");
    seat.click("#target").await;
    seat.press("Control+v").await;
    let rich = seat.evaluate("() => document.querySelector('#target').innerHTML").await;
    assert_eq!(rich, "Hello <b>bold</b> world", "{kind:?}");

    // The page's own handlers decide what is copied and what is pasted.
    seat.evaluate(
        "() => {
            document.addEventListener('copy', (event) => {
                event.clipboardData.setData('text/plain', 'the page says');
                event.preventDefault();
                event.stopPropagation();
            }, { once: true });
            document.addEventListener('paste', (event) => {
                window.seen = event.clipboardData.getData('text/plain');
            }, { once: true });
        }",
    )
    .await;
    seat.click("#own").await;
    assert_eq!(seat.pasted("Control+v").await, "the page says", "{kind:?}");
    assert_eq!(seat.evaluate("() => window.seen").await, "the page says", "{kind:?}");

    seat.click("#password").await;
    seat.press("Control+a").await;
    seat.press("Control+c").await;
    assert_eq!(seat.pasted("Control+v").await, "the page says", "{kind:?}");

    for frame in ["#same", "#sandboxed"] {
        let inner = format!("{frame} >> internal:control=enter-frame >> #inner");
        seat.copy(&inner, frame, "Control+c").await;
        assert_eq!(seat.pasted("Control+v").await, frame, "{kind:?}");
        seat.copy("#field", "into the frame", "Control+c").await;
        seat.call("browser_type", json!({ "target": inner, "text": "" })).await;
        seat.click(&inner).await;
        seat.press("Control+v").await;
        seat.press("Control+a").await;
        seat.press("Control+x").await;
        assert_eq!(seat.pasted("Control+v").await, "into the frame", "{kind:?} {frame}");
    }
    seat.seat.close().await;
}

/// Whatever a page does to the listeners in its documents, it is shown nothing of what another session copied: documents
/// opened anew with listeners of their own in front, windows and frames whose first document is replaced, also after the
/// session that copied is gone.
pub async fn hostile_documents_read_nothing(kind: BrowserKind, browser: &SharedBrowser) {
    const OPENED: &str = "() => {
        document.open();
        window.addEventListener('paste', (event) => {
            window.seen = event.isTrusted + event.clipboardData.getData('text/plain');
            event.stopImmediatePropagation();
        }, true);
        document.write('<textarea id=field></textarea>');
        document.close();
    }";
    const POPUP: &str = "() => { window.open(location.href) }";
    const FRAME: &str = "() => {
        const frame = Object.assign(document.createElement('iframe'), { src: location.href, id: 'touched' });
        document.body.append(frame);
        frame.contentWindow.touched = true;
        return new Promise((done) => frame.onload = () => done());
    }";
    let mut victim = browser.seat().await;
    let mut thief = browser.seat().await;
    for seat in [&mut victim, &mut thief] {
        show(browser, seat).await;
        seat.evaluate(POPUP).await;
        seat.select_popup().await;
        seat.evaluate(PAGE).await;
    }
    // A copy in a popup stays in its session, too.
    victim.copy("#field", "of the popup", "Control+c").await;
    victim
        .evaluate("() => { document.querySelector('#field').select(); document.execCommand('copy') }")
        .await;
    assert_eq!(thief.pasted("Control+v").await, "", "{kind:?}");
    assert_eq!(victim.pasted("Control+v").await, "of the popup", "{kind:?}");

    victim.evaluate(FRAME).await;
    victim.evaluate("() => { document.querySelector('#touched').contentDocument.body.innerHTML = '<textarea id=inner>' }").await;
    victim.copy("#touched >> internal:control=enter-frame >> #inner", "of the frame", "Control+c").await;
    assert_eq!(thief.pasted("Control+v").await, "", "{kind:?}");

    victim.evaluate(OPENED).await;
    victim.copy("#field", "of the victim", "Control+c").await;
    thief.evaluate(OPENED).await;
    victim.seat.close().await;
    assert_eq!(thief.pasted("Control+v").await, "", "{kind:?}");
    let seen = thief.evaluate("() => String(window.seen)").await;
    assert!(["undefined", "false"].contains(&seen.as_str().unwrap()), "{kind:?}: {seen}");
    thief.seat.close().await;
}
