//! Scripts that the proxy puts into pages, and when it does so.

use std::collections::HashSet;

use super::message::{Attached, Envelope};

/// The sessions of pages and frames that do not have the proxy's scripts yet.
#[derive(Default)]
pub(super) struct Unscripted(HashSet<String>);

impl Unscripted {
    /// The browser attaches the engine to a target.
    pub(super) fn attached(&mut self, attached: &Attached) {
        if matches!(&*attached.target_info.r#type, "page" | "iframe") {
            self.0.insert(attached.session_id.clone());
        }
    }

    pub(super) fn detached(&mut self, session: &str) {
        self.0.remove(session);
    }

    /// The engine calls a target. Returns the session that gets its scripts now, after that call: the browser runs scripts
    /// in new documents only once the engine has enabled the page, which it does before it enables the runtime.
    pub(super) fn enabled<'a>(&mut self, said: &'a Envelope<'_>) -> Option<&'a str> {
        let session = said.session.as_deref().filter(|_| said.method.as_deref() == Some("Runtime.enable"))?;
        self.0.remove(session).then_some(session)
    }
}

/// A script in the form that is sent. A document's script of more than 4 KB costs nearly a megabyte a page in Chromium.
pub(super) fn without_comments(script: &str) -> String {
    let lines = script.lines().map(str::trim_start);
    lines.filter(|line| !line.is_empty() && !line.starts_with("//")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A page or frame gets its scripts once, with the call that enables its runtime; other targets get none.
    #[test]
    fn scripts_are_put_in_once() {
        let mut unscripted = Unscripted::default();
        for kind in ["page", "iframe", "worker", "tab", "gone"] {
            let info = json!({ "targetId": "T", "type": if kind == "gone" { "page" } else { kind } });
            let attached = json!({ "sessionId": kind, "targetInfo": info });
            unscripted.attached(&serde_json::from_value(attached).unwrap());
        }
        unscripted.detached("gone");
        let mut enables = |session: &str, method: &str| {
            let text = json!({ "id": 1, "sessionId": session, "method": method }).to_string();
            unscripted.enabled(&serde_json::from_str(&text).unwrap()).map(ToOwned::to_owned)
        };
        assert_eq!(enables("page", "Page.enable"), None);
        for session in ["page", "iframe"] {
            assert_eq!(enables(session, "Runtime.enable").as_deref(), Some(session));
            assert_eq!(enables(session, "Runtime.enable"), None);
        }
        for other in ["worker", "tab", "gone", "unknown"] {
            assert_eq!(enables(other, "Runtime.enable"), None, "{other}");
        }
    }
}
