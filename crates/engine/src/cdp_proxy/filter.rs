//! Decides what becomes of each message of one engine's connection. It holds no socket and no clock: messages and moments
//! come in, messages go out.
//!
//! Calls of the engine are judged by [`rules`], and keys that copy or paste go through the [`Clipboard`]. What the browser
//! says passes, but for what concerns targets that are not the engine's ([`OwnContexts`]) or that do not answer
//! ([`SilentTabs`]), for console messages and requests without end ([`ConsoleLimit`], [`NetworkLimit`]), and for long texts
//! ([`long_events`]). Pages with too many long addresses are ended ([`AddressLimit`]), and a script bounds their Web Locks
//! ([`LockLimit`]). Downloads are counted, and stopped when they are too much ([`DownloadLimit`]). Stacks are told without
//! greenroom's own functions ([`own_frames`]). Answers to navigations that failed pass behind their error pages
//! ([`FailedNavigations`]). Answers are known by their numbers and most events by their names; only events of `Network`,
//! `Fetch`, `Target` and of downloads are read.

use std::sync::Arc;

use greenroom_cdp::link::Text;
use tokio::time::Instant;

use super::{
    Out, Targets,
    address_limit::AddressLimit,
    clipboard::Clipboard,
    console_limit::ConsoleLimit,
    download_limit::DownloadLimit,
    failed_navigations::{self, FailedNavigations},
    lock_limit::LockLimit,
    long_events,
    message::{
        Attached, Detached, Envelope, Kind, OwnIds, kind, params, refusal, rewritten, session_of, thrown,
    },
    network_limit::{self, NetworkLimit},
    own_contexts::OwnContexts,
    own_frames,
    rules::{self, Verdict},
    silent_tabs::SilentTabs,
};
use crate::downloads::Downloads;

/// The engine sent what is no call. Its connection ends, since nothing that cannot be read may pass.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unreadable;

/// How long a value may be that a page hands to the engine: a title, the text of a snapshot, what a function returns. Node takes
/// about 0.1 s for a megabyte of it, and serves other sessions meanwhile not at all.
const VALUE_BYTES_MAX: usize = 16 << 20;

/// Whether an answer of the browser carries a value of the page, and not a picture or a file.
fn is_value(answer: &str) -> bool {
    let head = answer.get(..64).unwrap_or(answer);
    head.contains(r#""result":{"result":{"#)
}

/// How long a picture or a file may be that an engine asks a page for, in base64. Node takes more than a second for it, in
/// which other sessions wait; of an answer that is much longer greenroom passes nothing on.
const PICTURE_BYTES_MAX: usize = 48 << 20;

/// Whether an answer of the browser carries a picture or a file.
fn is_picture(answer: &str) -> bool {
    let head = answer.get(..64).unwrap_or(answer);
    head.contains(r#""result":{"data":""#)
}

/// One connection of an engine.
pub(super) struct Filter {
    ids: OwnIds,
    /// Whether others have pages in the same browser: other sessions, or its user.
    shares_browser: bool,
    addresses: AddressLimit,
    console: ConsoleLimit,
    network: NetworkLimit,
    downloads: Option<DownloadLimit>,
    navigations: FailedNavigations,
    own_contexts: Option<OwnContexts>,
    clipboard: Option<Clipboard>,
    locks: Option<LockLimit>,
    silent_tabs: Option<SilentTabs>,
}

impl Filter {
    pub(super) fn new(targets: &Targets, downloads: Option<Arc<Downloads>>) -> Self {
        let is_isolated = matches!(targets, Targets::OwnContexts);
        Self {
            ids: OwnIds::default(),
            shares_browser: !matches!(targets, Targets::All),
            addresses: AddressLimit::default(),
            console: ConsoleLimit::default(),
            network: NetworkLimit::default(),
            downloads: downloads.map(|downloads| DownloadLimit::new(downloads, is_isolated)),
            navigations: FailedNavigations::default(),
            own_contexts: is_isolated.then(OwnContexts::default),
            clipboard: is_isolated.then(Clipboard::new),
            locks: is_isolated.then(LockLimit::new),
            silent_tabs: match targets {
                Targets::Responsive(own) => Some(SilentTabs::new(own.clone())),
                Targets::All | Targets::OwnContexts => None,
            },
        }
    }

    /// The engine calls the browser.
    pub(super) fn engine_says(&mut self, text: &Text, now: Instant) -> Result<Vec<Out>, Unreadable> {
        let call: Envelope<'_> = serde_json::from_str(text).map_err(|_| Unreadable)?;
        let (Some(id), Some(method)) = (call.id, call.method.as_deref()) else { return Err(Unreadable) };
        let verdict = self.own_contexts.as_ref().map_or_else(
            || rules::judge(method, call.params, self.shares_browser),
            |contexts| rules::judge_in(method, &call, contexts),
        );
        if let Verdict::Refuse(why) = verdict {
            tracing::debug!(method, why, "an engine's call is refused");
            return Ok(vec![Out::ToEngine(refusal(id, call.session.as_deref(), &why))]);
        }
        if let (Some(contexts), Some(clipboard)) = (&mut self.own_contexts, &mut self.clipboard)
            && let Some(gone) = contexts.engine_says(&call)
        {
            clipboard.forget(&gone);
            self.addresses.forget(&gone);
            if let Some(downloads) = &self.downloads {
                downloads.forget(&gone);
            }
        }
        if let Some(downloads) = &self.downloads {
            downloads.engine_says(&call);
        }
        if let Some(tabs) = &mut self.silent_tabs {
            tabs.engine_says(&call, now);
        }
        if let ("Page.navigate", Some(session)) = (method, call.session.as_deref()) {
            self.network.navigates(session);
            self.addresses.navigates(session);
            self.console.navigates(session);
        }
        let judged = match verdict {
            Verdict::Replace(params) => rewritten(id, call.session.as_deref(), method, params),
            Verdict::Pass | Verdict::Refuse(_) => text.clone(),
        };
        let instead = match &mut self.clipboard {
            Some(clipboard) => clipboard.engine_says(&call, &judged, now, &mut self.ids),
            None => None,
        };
        let mut out = instead.unwrap_or_else(|| vec![Out::ToBrowser(judged)]);
        if let Some(locks) = &mut self.locks {
            out.extend(locks.engine_says(&call, &mut self.ids));
        }
        if let Some(given_up) = self.navigations.engine_says(&call) {
            out.extend(self.pass(given_up, now));
        }
        Ok(out)
    }

    /// The browser says something.
    pub(super) fn browser_says(&mut self, text: Text, now: Instant) -> Vec<Out> {
        match self.navigations.browser_says(&text, now) {
            failed_navigations::Verdict::Pass => self.pass(text, now),
            failed_navigations::Verdict::Hold => Vec::new(),
            failed_navigations::Verdict::PassThen(held) => {
                let mut out = self.pass(text, now);
                out.extend(self.pass(held, now));
                out
            }
        }
    }

    /// An event within the limits of what an engine hears of a page, or what happens instead of it.
    fn limit(&mut self, name: &str, text: Text, now: Instant) -> Result<Text, Vec<Out>> {
        if self.own_contexts.is_some() && long_events::names_long_address(name, &text) {
            let page = self.network.page(session_of(&text).unwrap_or_default());
            let ends = self.addresses.named(page, text.len(), now, &mut self.ids);
            if !ends.is_empty() {
                return Err(ends);
            }
        }
        let text = long_events::shortened(name, text).ok_or_else(Vec::new)?;
        match name {
            "Target.attachedToTarget" => {
                if let Some((parent, attached)) = params::<Attached>(&text) {
                    self.network.attached(parent.as_deref(), &attached, now);
                    self.addresses.attached(parent.as_deref(), &attached);
                }
            }
            "Target.detachedFromTarget" => {
                if let Some((_, Detached { session_id })) = params(&text) {
                    self.console.detached(&session_id);
                    self.network.detached(&session_id);
                    self.addresses.detached(&session_id);
                    if let Some(downloads) = &mut self.downloads {
                        downloads.detached(&session_id);
                    }
                }
            }
            _ => {}
        }
        // Of a browser that names no session, all messages count together.
        let session = session_of(&text).unwrap_or_default().to_owned();
        let text = self.console.judge(self.network.page(&session), name, text, now).ok_or_else(Vec::new)?;
        match self.network.judge(name, text, now, &mut self.ids) {
            network_limit::Verdict::Pass(text) => Ok(text),
            network_limit::Verdict::Instead(out) => Err(out),
        }
    }

    /// What becomes of a message of the browser's that is not held.
    fn pass(&mut self, text: Text, now: Instant) -> Vec<Out> {
        let orders = match (&self.downloads, kind(&text)) {
            (Some(downloads), Kind::Event(name)) => downloads.event(&name, &text, &mut self.ids),
            _ => Vec::new(),
        };
        let mut out = self.judge(text, now);
        out.extend(orders);
        out
    }

    /// Whether the engine hears of a message of the browser's, and as what.
    fn judge(&mut self, text: Text, now: Instant) -> Vec<Out> {
        let text = match kind(&text) {
            Kind::Event(name) if own_frames::may_have(&name) => own_frames::without(text),
            _ => text,
        };
        let text = match kind(&text) {
            Kind::Event(name) => match self.limit(&name, text.clone(), now) {
                Ok(text) => text,
                Err(instead) => return instead,
            },
            Kind::Answer(_) | Kind::Neither => text,
        };
        if let (Some(contexts), Some(clipboard), Some(locks)) =
            (&mut self.own_contexts, &mut self.clipboard, &mut self.locks)
        {
            match kind(&text) {
                Kind::Answer(id) if self.ids.have(id) => return clipboard.answered(id, &text, &mut self.ids),
                Kind::Answer(id) if text.len() > VALUE_BYTES_MAX && is_value(&text) => {
                    let why = format!(
                        "what the page hands over is too long: {} bytes, and {VALUE_BYTES_MAX} are allowed",
                        text.len()
                    );
                    return vec![Out::ToEngine(thrown(id, session_of(&text), &why))];
                }
                Kind::Answer(id) if text.len() > PICTURE_BYTES_MAX && is_picture(&text) => {
                    let why = format!(
                        "the picture or file is too long: {} bytes, and {PICTURE_BYTES_MAX} are allowed. Take a picture as JPEG \
                         (`type: \"jpeg\"`), leave the full page out, or take an element of it",
                        text.len()
                    );
                    return vec![Out::ToEngine(refusal(id, session_of(&text), &why))];
                }
                Kind::Answer(id) => {
                    if let (Some(made), Some(downloads)) = (contexts.answered(id, &text), &self.downloads) {
                        downloads.made(&made);
                    }
                    let then = clipboard.engine_is_answered(id, &mut self.ids);
                    return std::iter::once(Out::ToEngine(text)).chain(then).collect();
                }
                Kind::Event(name) if name == "Target.attachedToTarget" => {
                    if let Some((parent, attached)) = params::<Attached>(&text) {
                        // What is attached to in a page of the engine's is the engine's, too.
                        if parent.is_none()
                            && let Some(out) = contexts.attached(&attached, now, &mut self.ids)
                        {
                            return out;
                        }
                        if let Some(downloads) = &mut self.downloads {
                            downloads.attached(&attached);
                        }
                        clipboard.attached(parent, &attached);
                        let mut out = locks.attached(&attached, &mut self.ids);
                        out.push(Out::ToEngine(text));
                        return out;
                    }
                }
                Kind::Event(name) if name == "Target.detachedFromTarget" => {
                    if let Some((_, Detached { session_id })) = params(&text) {
                        clipboard.detached(&session_id);
                        locks.detached(&session_id);
                        if contexts.detached(&session_id) {
                            return Vec::new();
                        }
                    }
                }
                Kind::Event(name) if contexts.hides(&text) || clipboard.event(&name, &text) => {
                    return Vec::new();
                }
                Kind::Event(_) | Kind::Neither => {}
            }
        }
        match &mut self.silent_tabs {
            // The answer to a call of the proxy's own.
            _ if matches!(kind(&text), Kind::Answer(id) if self.ids.have(id)) => Vec::new(),
            Some(tabs) => tabs.browser_says(text, now),
            None => vec![Out::ToEngine(text)],
        }
    }

    /// When time will have made a difference, if nothing is said before.
    pub(super) fn due(&self) -> Option<Instant> {
        let tabs = self.silent_tabs.as_ref().and_then(SilentTabs::due);
        let keys = self.clipboard.as_ref().and_then(Clipboard::due);
        tabs.into_iter().chain(keys).chain(self.navigations.due()).min()
    }

    pub(super) fn time_passed(&mut self, now: Instant) -> Vec<Out> {
        let tabs = self.silent_tabs.as_mut().map(|tabs| tabs.time_passed(now)).unwrap_or_default();
        let keys = self.clipboard.as_mut().map(|clipboard| clipboard.time_passed(now)).unwrap_or_default();
        let mut out: Vec<Out> = tabs.into_iter().chain(keys).collect();
        for held in self.navigations.time_passed(now) {
            out.extend(self.pass(held, now));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn engine(filter: &mut Filter, call: &Value) -> Vec<Out> {
        filter.engine_says(&call.to_string().into(), Instant::now()).unwrap()
    }

    fn browser(filter: &mut Filter, message: &Value) -> Vec<Out> {
        filter.browser_says(message.to_string().into(), Instant::now())
    }

    /// The methods of what goes to the browser.
    fn asked(out: &[Out]) -> Vec<String> {
        let method = |out: &Out| match out {
            Out::ToEngine(text) => panic!("the engine hears of it: {text}"),
            Out::ToBrowser(text) => {
                serde_json::from_str::<Value>(text).unwrap()["method"].as_str().unwrap().to_owned()
            }
        };
        out.iter().map(method).collect()
    }

    fn attached(session: &str, context: &str) -> Value {
        let info = json!({ "targetId": session, "type": "page", "browserContextId": context });
        json!({
            "method": "Target.attachedToTarget",
            "params": { "sessionId": session, "targetInfo": info, "waitingForDebugger": true },
        })
    }

    /// A call that is refused does not reach the browser, in whatever kind of browser, and the engine has its answer.
    #[test]
    fn refusals_are_answers() {
        for targets in [Targets::All, Targets::OwnContexts, Targets::responsive()] {
            let call = json!({ "id": 3, "sessionId": "S", "method": "Page.navigate", "params": { "url": "file:///x" } });
            let out = engine(&mut Filter::new(&targets, None), &call);
            let [Out::ToEngine(text)] = &out[..] else { panic!("{out:?}") };
            let answer: Value = serde_json::from_str(text).unwrap();
            assert_eq!((&answer["id"], &answer["sessionId"]), (&json!(3), &json!("S")));
            assert!(answer["error"]["message"].as_str().unwrap().contains("`file:`"), "{answer}");
        }
    }

    /// Wherever others have pages in the same browser, no page is granted its clipboard.
    #[test]
    fn clipboard_permissions() {
        for (targets, is_granted) in
            [(Targets::All, true), (Targets::OwnContexts, false), (Targets::responsive(), false)]
        {
            let params = json!({ "permissions": ["clipboardReadWrite"] });
            let call = json!({ "id": 1, "method": "Browser.grantPermissions", "params": params });
            let out = engine(&mut Filter::new(&targets, None), &call);
            let [Out::ToBrowser(text)] = &out[..] else { panic!("{out:?}") };
            assert_eq!(text.contains("clipboard"), is_granted, "{text}");
        }
    }

    /// Sizes are cut on their way; a call without a rule passes letter by letter.
    #[test]
    fn calls_are_changed_or_pass() {
        let mut filter = Filter::new(&Targets::All, None);
        let bounds = json!({ "windowId": 1, "bounds": { "width": 100_000 } });
        let out =
            engine(&mut filter, &json!({ "id": 1, "method": "Browser.setWindowBounds", "params": bounds }));
        let [Out::ToBrowser(text)] = &out[..] else { panic!("{out:?}") };
        assert_eq!(serde_json::from_str::<Value>(text).unwrap()["params"]["bounds"]["width"], 16_384);
        let odd: Text = r#"{"id":1, "method":"Input.insertText","params":{"text":"\ud800"}}"#.into();
        assert_eq!(filter.engine_says(&odd, Instant::now()), Ok(vec![Out::ToBrowser(odd)]));
    }

    /// A picture that is too long is an error with words; the engine does not get to read it. Others pass letter by letter.
    #[test]
    fn long_pictures() {
        let mut filter = Filter::new(&Targets::OwnContexts, None);
        let mut heard = |bytes: usize| {
            let text = format!(r#"{{"id":7,"result":{{"data":"{}"}},"sessionId":"S"}}"#, "a".repeat(bytes));
            let out = filter.browser_says(text.clone().into(), Instant::now());
            let [Out::ToEngine(heard)] = &out[..] else { panic!("{} messages", out.len()) };
            if **heard == text { None } else { Some(serde_json::from_str::<Value>(heard).unwrap()) }
        };
        assert_eq!(heard(PICTURE_BYTES_MAX - 100), None);
        let refused = heard(PICTURE_BYTES_MAX).unwrap();
        assert_eq!((&refused["id"], &refused["sessionId"]), (&json!(7), &json!("S")));
        assert!(
            refused["error"]["message"].as_str().unwrap().contains("Take a picture as JPEG"),
            "{refused}"
        );
    }

    /// Requests without end and long texts are bounded whatever the engine's targets are, from the page's next address on
    /// anew, and the answer to what the proxy says of them is not the engine's.
    #[test]
    fn requests() {
        for targets in [Targets::All, Targets::OwnContexts, Targets::responsive()] {
            let mut filter = Filter::new(&targets, None);
            let sent = |id: u32, url: &str| {
                let params = json!({ "requestId": id.to_string(), "request": { "url": url } });
                json!({ "method": "Network.requestWillBeSent", "params": params, "sessionId": "S" })
            };
            let mut told = 0;
            let out = loop {
                let out = browser(&mut filter, &sent(told, "http://a/"));
                match &out[..] {
                    [Out::ToEngine(text)] if text.contains("requestWillBeSent") => told += 1,
                    _ => break out,
                }
            };
            assert!(told > 1_000 && out.len() == 1, "{out:?}");
            assert_eq!(browser(&mut filter, &sent(told, "http://a/")), []);
            let waits =
                json!({ "requestId": "i", "networkId": told.to_string(), "request": { "url": "http://a/" } });
            let paused = json!({ "method": "Fetch.requestPaused", "params": waits, "sessionId": "S" });
            assert_eq!(asked(&browser(&mut filter, &paused)), ["Fetch.failRequest"]);
            let id = OwnIds::default().next();
            assert_eq!(browser(&mut filter, &json!({ "id": id, "result": {}, "sessionId": "S" })), []);

            let go = json!({ "url": "http://b/" });
            engine(
                &mut filter,
                &json!({ "id": 1, "sessionId": "S", "method": "Page.navigate", "params": go }),
            );
            let out = browser(&mut filter, &sent(told, &"a".repeat(2_000_000)));
            let [Out::ToEngine(text)] = &out[..] else { panic!("{out:?}") };
            assert!(text.len() < 200_000, "{} bytes", text.len());
        }
    }

    /// What is no call ends the connection.
    #[test]
    fn unreadable_calls() {
        for text in [
            "",
            "7",
            "{}",
            r#"{"id":1}"#,
            r#"{"id":1,"method":"a","method":"b"}"#,
            r#"{"id":1,"method":"\ud800"}"#,
        ] {
            let said = Filter::new(&Targets::All, None).engine_says(&text.into(), Instant::now());
            assert_eq!(said, Err(Unreadable), "{text}");
        }
    }

    /// An engine hears of pages in contexts that it made. Those of others are let go on and left, before and after it made
    /// one, and nothing of that reaches the engine.
    #[test]
    fn own_contexts() {
        let mut filter = Filter::new(&Targets::OwnContexts, None);
        let left = ["Runtime.runIfWaitingForDebugger", "Target.detachFromTarget"];
        assert_eq!(asked(&browser(&mut filter, &attached("S1", "C1"))), left);
        engine(&mut filter, &json!({ "id": 5, "method": "Target.createBrowserContext" }));
        let made = json!({ "id": 5, "result": { "browserContextId": "C2" } });
        assert_eq!(browser(&mut filter, &made), [Out::ToEngine(made.to_string().into())]);
        for own in [attached("S2", "C2"), json!({ "method": "Target.targetCreated", "params": {} })] {
            assert_eq!(browser(&mut filter, &own), [Out::ToEngine(own.to_string().into())]);
        }
        assert_eq!(asked(&browser(&mut filter, &attached("S3", "C1"))), left);
        let other = json!({ "method": "Inspector.detached", "params": {}, "sessionId": "S3" });
        assert_eq!(browser(&mut filter, &other), []);
        for (id, session) in [(OwnIds::default().next(), "S1"), (OwnIds::default().next() - 1, "S3")] {
            assert_eq!(browser(&mut filter, &json!({ "id": id, "result": {} })), []);
            let gone = json!({ "method": "Target.detachedFromTarget", "params": { "sessionId": session } });
            assert_eq!(browser(&mut filter, &gone), []);
        }
        let own_gone = json!({ "method": "Target.detachedFromTarget", "params": { "sessionId": "S2" } });
        assert_eq!(browser(&mut filter, &own_gone), [Out::ToEngine(own_gone.to_string().into())]);
        engine(
            &mut filter,
            &json!({ "id": 6, "method": "Target.disposeBrowserContext", "params": { "browserContextId": "C2" } }),
        );
        assert_eq!(asked(&browser(&mut filter, &attached("S4", "C2"))), left, "it is no longer its own");
    }

    /// Pages of a context open a few tabs in ten seconds; the browser closes the others, and the engine does not hear of them.
    /// Tabs that the engine opens do not count, but for the number that a session may have.
    #[test]
    fn tabs_that_pages_open() {
        let mut filter = Filter::new(&Targets::OwnContexts, None);
        engine(&mut filter, &json!({ "id": 1, "method": "Target.createBrowserContext" }));
        browser(&mut filter, &json!({ "id": 1, "result": { "browserContextId": "C" } }));
        let mut now = Instant::now();
        let opens = |filter: &mut Filter, session: &str, now| {
            filter.browser_says(attached(session, "C").to_string().into(), now)
        };
        let own = |id: u32| {
            let params = json!({ "url": "about:blank", "browserContextId": "C" });
            json!({ "id": id, "method": "Target.createTarget", "params": params })
        };
        for id in 2..50 {
            assert!(matches!(engine(&mut filter, &own(id))[..], [Out::ToBrowser(_)]), "{id}");
            assert!(matches!(opens(&mut filter, &format!("own {id}"), now)[..], [Out::ToEngine(_)]), "{id}");
            browser(&mut filter, &json!({ "id": id, "result": { "targetId": "T" } }));
        }
        for round in 0..2 {
            for popup in 0..8 {
                let popup = format!("{round} {popup}");
                assert!(
                    matches!(opens(&mut filter, &format!("popup {popup}"), now)[..], [Out::ToEngine(_)]),
                    "{popup}"
                );
            }
            let closed = ["Runtime.runIfWaitingForDebugger", "Target.closeTarget"];
            assert_eq!(asked(&opens(&mut filter, "one too many", now)), closed);
            now += std::time::Duration::from_secs(10);
        }
        let out = engine(&mut filter, &own(50));
        assert!(matches!(&out[..], [Out::ToEngine(text)] if text.contains("at most 64 tabs")), "{out:?}");
        let gone = json!({ "method": "Target.detachedFromTarget", "params": { "sessionId": "own 2" } });
        browser(&mut filter, &gone);
        assert!(matches!(engine(&mut filter, &own(51))[..], [Out::ToBrowser(_)]), "one was closed");
    }

    /// Downloads in a context that the engine made are counted until it disposes of it, and stopped when they are too much.
    #[test]
    fn downloads_of_own_contexts() {
        let downloads = Arc::new(Downloads::new(1 << 20));
        let mut filter = Filter::new(&Targets::OwnContexts, Some(downloads.clone()));
        engine(&mut filter, &json!({ "id": 5, "method": "Target.createBrowserContext" }));
        browser(&mut filter, &json!({ "id": 5, "result": { "browserContextId": "C" } }));
        browser(&mut filter, &attached("S", "C"));
        let says = |filter: &mut Filter, event: &str, guid: &str| {
            let params = json!({
                "guid": guid, "frameId": "S", "url": "http://a/", "suggestedFilename": "x",
                "totalBytes": 2 << 20, "receivedBytes": 0, "state": "inProgress",
            });
            let message = json!({ "method": format!("Page.{event}"), "params": params, "sessionId": "S" });
            let mut out = browser(filter, &message);
            assert_eq!(
                out.remove(0),
                Out::ToEngine(message.to_string().into()),
                "the engine hears of it first"
            );
            asked(&out)
        };
        assert!(says(&mut filter, "downloadWillBegin", "x").is_empty());
        let stop = ["Browser.setDownloadBehavior", "Browser.cancelDownload"];
        assert_eq!(says(&mut filter, "downloadProgress", "x"), stop);
        let dispose = json!({ "browserContextId": "C" });
        engine(&mut filter, &json!({ "id": 6, "method": "Target.disposeBrowserContext", "params": dispose }));
        assert!(says(&mut filter, "downloadWillBegin", "y").is_empty());
        assert!(!downloads.know("x") && !downloads.know("y"));
    }
}
