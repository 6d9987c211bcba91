//! Holds the answer to a navigation that failed until its error page is there.
//!
//! Chromium answers `Page.navigate` with the error as soon as it knows it, and commits the error page later. An engine that
//! navigates again meanwhile takes that commit for another navigation that interrupts its own: a good address fails after a
//! bad one. So the proxy sends the answer after the event of the error page's commit, which has the same loader.

use std::{collections::HashMap, time::Duration};

use greenroom_cdp::message_stream::Text;
use serde::Deserialize;
use tokio::time::Instant;

use super::message::{DetachedTarget, Envelope, MessageKind, kind, params, read};

const NAVIGATE: &str = "Page.navigate";

/// Chromium's error for a navigation without an error page: a download, an answer without a body, a stopped navigation.
const NO_ERROR_PAGE: &str = "net::ERR_ABORTED";

/// How long an answer is held if the browser sends nothing more about the page. An error page usually commits within 100 ms;
/// an engine that never subscribed to page events waits this long.
const HOLD_MAX: Duration = Duration::from_secs(2);

/// The navigations of one connection, by the session of the page.
#[derive(Default)]
pub(super) struct FailedNavigations(HashMap<String, Navigation>);

struct Navigation {
    id: u32,
    /// The loader of the last document that the page committed since the navigation began.
    committed_loader: Option<String>,
    held: Option<HeldAnswer>,
}

struct HeldAnswer {
    answer: Text,
    loader: String,
    until: Instant,
}

/// What happens to a message of the browser.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NavigationVerdict {
    Pass,
    /// It waits.
    Hold,
    /// It passes, and after it this answer.
    PassThen(Text),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NavigateResult {
    loader_id: String,
    error_text: String,
}

#[derive(Deserialize)]
struct FrameNavigated {
    frame: NavigatedFrame,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NavigatedFrame {
    loader_id: String,
    parent_id: Option<String>,
}

impl FailedNavigations {
    /// The engine calls the browser. Returns the answer to an earlier navigation of the same page, which need not wait any
    /// longer: the engine has given it up.
    pub(super) fn on_engine_call(&mut self, call: &Envelope<'_>) -> Option<Text> {
        let (Some(NAVIGATE), Some(id), Some(session)) = (call.method.as_deref(), call.id, &call.session)
        else {
            return None;
        };
        let navigation = Navigation { id, committed_loader: None, held: None };
        let former = self.0.insert(session.clone().into_owned(), navigation)?;
        former.held.map(|held| held.answer)
    }

    pub(super) fn on_browser_message(&mut self, text: &Text, now: Instant) -> NavigationVerdict {
        // The usual case.
        if self.0.is_empty() {
            return NavigationVerdict::Pass;
        }
        match kind(text) {
            MessageKind::Answer(id) => self.answered(id, text, now),
            MessageKind::Event(name) => match &*name {
                "Page.frameNavigated" => self.navigated(text),
                "Target.detachedFromTarget" => {
                    let session = params::<DetachedTarget>(text).map(|(_, detached)| detached.session_id);
                    session.map_or(NavigationVerdict::Pass, |session| self.release(&session))
                }
                "Inspector.targetCrashed" | "Inspector.detached" => {
                    let session =
                        serde_json::from_str::<Envelope<'_>>(text).ok().and_then(|event| event.session);
                    session.map_or(NavigationVerdict::Pass, |session| self.release(&session))
                }
                _ => NavigationVerdict::Pass,
            },
            MessageKind::Neither => NavigationVerdict::Pass,
        }
    }

    fn answered(&mut self, id: u32, text: &Text, now: Instant) -> NavigationVerdict {
        let is_navigation =
            |(_, navigation): &(&String, &mut Navigation)| navigation.id == id && navigation.held.is_none();
        let Some((session, navigation)) = self.0.iter_mut().find(is_navigation) else {
            return NavigationVerdict::Pass;
        };
        let answer: Option<Envelope<'_>> = serde_json::from_str(text).ok();
        let failure = answer.and_then(|answer| read::<NavigateResult>(answer.result));
        match failure.filter(|failure| failure.error_text != NO_ERROR_PAGE) {
            Some(NavigateResult { loader_id, .. })
                if navigation.committed_loader.as_ref() != Some(&loader_id) =>
            {
                navigation.held =
                    Some(HeldAnswer { answer: text.clone(), loader: loader_id, until: now + HOLD_MAX });
                NavigationVerdict::Hold
            }
            _ => {
                let session = session.clone();
                self.0.remove(&session);
                NavigationVerdict::Pass
            }
        }
    }

    fn navigated(&mut self, text: &Text) -> NavigationVerdict {
        let Some((Some(session), FrameNavigated { frame })) = params(text) else {
            return NavigationVerdict::Pass;
        };
        if frame.parent_id.is_some() {
            return NavigationVerdict::Pass;
        }
        let Some(navigation) = self.0.get_mut(&session) else { return NavigationVerdict::Pass };
        match &navigation.held {
            Some(held) if held.loader == frame.loader_id => self.release(&session),
            _ => {
                navigation.committed_loader = Some(frame.loader_id);
                NavigationVerdict::Pass
            }
        }
    }

    /// No more events of this navigation will come.
    fn release(&mut self, session: &str) -> NavigationVerdict {
        let held = self.0.remove(session).and_then(|navigation| navigation.held);
        held.map_or(NavigationVerdict::Pass, |held| NavigationVerdict::PassThen(held.answer))
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.0.values().filter_map(|navigation| Some(navigation.held.as_ref()?.until)).min()
    }

    /// The answers whose time is over.
    pub(super) fn on_deadline(&mut self, now: Instant) -> Vec<Text> {
        let is_due = |navigation: &Navigation| navigation.held.as_ref().is_some_and(|held| held.until <= now);
        let due = self.0.extract_if(|_, navigation| is_due(navigation));
        due.filter_map(|(_, navigation)| Some(navigation.held?.answer)).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn start_navigation(navigations: &mut FailedNavigations, id: u32) -> Option<Text> {
        let text = json!({ "id": id, "method": NAVIGATE, "sessionId": "S", "params": {} }).to_string();
        navigations.on_engine_call(&serde_json::from_str(&text).unwrap())
    }

    fn send(navigations: &mut FailedNavigations, message: &Value) -> NavigationVerdict {
        navigations.on_browser_message(&message.to_string().into(), Instant::now())
    }

    fn failed(id: u32, error: &str) -> Value {
        let result = json!({ "frameId": "F", "loaderId": "L", "errorText": error });
        json!({ "id": id, "result": result, "sessionId": "S" })
    }

    fn committed(loader: &str, session: &str, parent: Option<&str>) -> Value {
        let frame = json!({ "id": "F", "loaderId": loader, "parentId": parent, "url": "chrome-error://chromewebdata/" });
        json!({ "method": "Page.frameNavigated", "params": { "frame": frame }, "sessionId": session })
    }

    /// The answer to a failed navigation passes behind its error page's commit, and behind no other event.
    #[test]
    fn failed_answer_follows_its_error_page() {
        let navigations = &mut FailedNavigations::default();
        assert_eq!(start_navigation(navigations, 1), None);
        let answer = failed(1, "net::ERR_CONNECTION_REFUSED");
        assert_eq!(send(navigations, &answer), NavigationVerdict::Hold);
        for other in [committed("K", "S", None), committed("L", "T", None), committed("L", "S", Some("P"))] {
            assert_eq!(send(navigations, &other), NavigationVerdict::Pass);
        }
        let answer = NavigationVerdict::PassThen(answer.to_string().into());
        assert_eq!(send(navigations, &committed("L", "S", None)), answer);
        assert!(navigations.0.is_empty() && navigations.due().is_none());
    }

    /// An answer passes at once if the error page is committed already, if there will be none, and if the navigation
    /// succeeded.
    #[test]
    fn answers_without_an_error_page_pass_at_once() {
        let navigations = &mut FailedNavigations::default();
        for (id, before, answer) in [
            (1, Some(committed("L", "S", None)), failed(1, "net::ERR_CONNECTION_REFUSED")),
            (2, None, failed(2, NO_ERROR_PAGE)),
            (3, None, json!({ "id": 3, "result": { "frameId": "F", "loaderId": "L" }, "sessionId": "S" })),
            (4, None, json!({ "id": 4, "error": { "code": -32000, "message": "x" }, "sessionId": "S" })),
        ] {
            assert_eq!(start_navigation(navigations, id), None);
            for message in before.iter().chain([&answer]) {
                assert_eq!(send(navigations, message), NavigationVerdict::Pass);
            }
            assert!(navigations.0.is_empty(), "{id}");
        }
    }

    /// An answer is held no longer than the page lives, the engine waits, or the limit says.
    #[test]
    fn held_answers_are_released() {
        let navigations = &mut FailedNavigations::default();
        let answer = failed(1, "net::ERR_FAILED");
        let text: Text = answer.to_string().into();
        for end in [
            json!({ "method": "Target.detachedFromTarget", "params": { "sessionId": "S" } }),
            json!({ "method": "Inspector.targetCrashed", "params": {}, "sessionId": "S" }),
        ] {
            start_navigation(navigations, 1);
            assert_eq!(send(navigations, &answer), NavigationVerdict::Hold);
            assert_eq!(send(navigations, &end), NavigationVerdict::PassThen(text.clone()));
        }
        start_navigation(navigations, 1);
        assert_eq!(send(navigations, &answer), NavigationVerdict::Hold);
        assert_eq!(start_navigation(navigations, 2), Some(text.clone()));
        assert_eq!(send(navigations, &failed(2, "net::ERR_FAILED")), NavigationVerdict::Hold);
        let due = navigations.due().unwrap();
        assert_eq!(navigations.on_deadline(due - HOLD_MAX / 2), Vec::<Text>::new());
        assert_eq!(navigations.on_deadline(due).len(), 1);
        assert!(navigations.0.is_empty());
    }
}
