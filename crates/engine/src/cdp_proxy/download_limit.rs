//! Watches the downloads of an engine's connection, and makes the browser stop those of a session that has too many.
//!
//! The event of a download names its frame, but no context. The page's own session sends the same event first, and the
//! context of that session is known. A page that closes itself ends its session; the browser's own events go on.

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use greenroom_cdp::message_stream::Text;
use serde::Deserialize;

use super::{
    ProxyMessage,
    message::{AttachedTarget, Envelope, OwnIds, call, read},
};
use crate::downloads::{BrowserCall, ContextId, Downloads};

pub(super) struct DownloadLimit {
    downloads: Arc<Downloads>,
    /// Whether the connection has contexts of its own, each with an account; otherwise the whole browser has one.
    by_context: bool,
    /// The targets of this connection and their contexts, by their sessions.
    sessions: HashMap<String, (String, ContextId)>,
}

/// `Browser.setDownloadBehavior`
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SetDownloadBehavior {
    browser_context_id: Option<String>,
    download_path: Option<PathBuf>,
}

impl DownloadLimit {
    pub(super) fn new(downloads: Arc<Downloads>, by_context: bool) -> Self {
        Self { downloads, by_context, sessions: HashMap::new() }
    }

    /// Notes the folder into which the engine makes the browser write downloads.
    pub(super) fn on_engine_call(&self, call: &Envelope<'_>) {
        if call.method.as_deref() == Some("Browser.setDownloadBehavior")
            && let Some(SetDownloadBehavior { browser_context_id, download_path: Some(folder) }) =
                read(call.params)
        {
            self.downloads.set_folder(browser_context_id, &folder);
        }
    }

    /// The engine has made a context.
    pub(super) fn context_made(&self, context: &str) {
        self.downloads.open_account(context.to_owned());
    }

    /// A context is gone.
    pub(super) fn forget(&self, context: &str) {
        self.downloads.forget(&Some(context.to_owned()));
    }

    /// The connection is attached to a target of its engine.
    pub(super) fn attached(&mut self, attached: &AttachedTarget) {
        if self.by_context {
            let info = &attached.target_info;
            let target = (info.target_id.clone(), info.browser_context_id.clone());
            self.sessions.insert(attached.session_id.clone(), target);
        }
    }

    pub(super) fn detached(&mut self, session: &str) {
        self.sessions.remove(session);
    }

    /// The calls that the browser gets after this event.
    pub(super) fn event(&self, name: &str, text: &Text, ids: &mut OwnIds) -> Vec<ProxyMessage> {
        if !Downloads::is_event(name) {
            return Vec::new();
        }
        let Ok(Envelope { session, params: Some(params), .. }) = serde_json::from_str(text) else {
            tracing::warn!(event = name, "cannot read the event of a download, so it is not counted");
            return Vec::new();
        };
        let context_of = |frame: &str| self.context(session.as_deref(), frame);
        let orders = self.downloads.event(name, params.get(), context_of);
        let to_browser = |BrowserCall { method, params }: BrowserCall| {
            ProxyMessage::ToBrowser(call(ids.next(), None, method, &params))
        };
        orders.into_iter().map(to_browser).collect()
    }

    /// The account of a download. `None` if the download belongs to another connection.
    fn context(&self, session: Option<&str>, frame: &str) -> Option<ContextId> {
        if !self.by_context {
            return Some(None);
        }
        let (_, context) = match session {
            Some(session) => self.sessions.get(session)?,
            // The main frame of a page has the page's id.
            None => self.sessions.values().find(|(target, _)| target == frame)?,
        };
        context.clone().map(Some)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    /// If several engine processes make the browser write downloads, each into a folder of its own, all of these folders are
    /// known.
    #[test]
    fn folders_of_all_engines_are_known() {
        let downloads = Arc::new(Downloads::new(1 << 20));
        for (context, folder) in [("A", "/a"), ("B", "/b")] {
            let params = json!({
                "behavior": "allowAndName", "browserContextId": context, "downloadPath": folder, "eventsEnabled": true,
            });
            let text =
                json!({ "id": 1, "method": "Browser.setDownloadBehavior", "params": params }).to_string();
            let engine = DownloadLimit::new(downloads.clone(), true);
            engine.on_engine_call(&serde_json::from_str(&text).unwrap());
        }
        assert_eq!(downloads.folders(), BTreeSet::from(["/a", "/b"].map(PathBuf::from)));
        DownloadLimit::new(downloads.clone(), true).forget("B");
        assert_eq!(downloads.folders(), BTreeSet::from([PathBuf::from("/a")]));
    }
}
