//! Counts the bytes of each browser context's downloads, and makes the CDP calls that stop downloads over the quota.
//!
//! A page can start downloads in a loop, or one that never ends. Each browser context has an account of its downloads and of
//! the other files of its session. Over the quota greenroom makes the browser cancel running downloads, which removes the
//! partial files, and deny all further downloads of that context before they write anything.
//!
//! This module does no I/O: it gets events, and returns calls for the browser. [`crate::cdp_proxy`] feeds it
//! if each session is a context, [`crate::observer`] if a browser has one session only.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    path::{Path, PathBuf},
};

use greenroom_core::port::StoppedDownloads;
use parking_lot::{Mutex, MutexGuard};
use serde::Deserialize;
use serde_json::{Value, json};

/// The least that a file counts for: a page could also fill the disk with empty files.
const FILE_BYTES_MIN: u64 = 4096;

/// How many stopped downloads an account remembers. The page's session and the browser's session both announce each
/// download, and others may begin in between.
const STOPPED_MAX: usize = 64;

/// The context of a download by its id, or `None` for the browser's default context.
pub(crate) type ContextId = Option<String>;

/// A call to send to the browser.
#[derive(Debug, PartialEq)]
pub(crate) struct BrowserCall {
    pub(crate) method: &'static str,
    pub(crate) params: Value,
}

/// `Browser.downloadWillBegin`, and that of a page.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DownloadWillBegin {
    guid: String,
    frame_id: String,
}

/// `Browser.downloadProgress`, and that of a page.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DownloadProgress {
    guid: String,
    /// 0 if the server does not say.
    total_bytes: f64,
    received_bytes: f64,
    state: DownloadState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum DownloadState {
    InProgress,
    Completed,
    Canceled,
}

/// The downloads of one browser. Those of a context are forgotten with it.
pub(crate) struct Downloads {
    bytes_max: u64,
    state: Mutex<AccountState>,
}

#[derive(Default)]
struct AccountState {
    /// The existing contexts.
    accounts: HashMap<ContextId, DownloadAccount>,
    /// By GUID. Finished ones stay, since their files do.
    downloads: HashMap<String, Download>,
    /// The folders into which the browser writes them, each file named by its GUID. Each engine process has a folder of its
    /// own.
    folders: HashMap<ContextId, PathBuf>,
}

#[derive(Default)]
struct DownloadAccount {
    /// The size of downloads; for unfinished ones, their final size.
    bytes: u64,
    /// The size of the session's other files.
    other_bytes: u64,
    is_denied: bool,
    /// The number of stopped downloads that were not reported yet.
    stopped: u64,
    /// The last downloads that were stopped as they began.
    stopped_at_once: VecDeque<String>,
}

struct Download {
    context: ContextId,
    bytes: u64,
    is_running: bool,
}

impl Downloads {
    /// The accounts of a browser that has only its default context.
    pub(crate) fn new(bytes_max: u64) -> Self {
        let accounts = HashMap::from([(None, DownloadAccount::default())]);
        Self { bytes_max, state: Mutex::new(AccountState { accounts, ..AccountState::default() }) }
    }

    /// Opens the account of a new context.
    pub(crate) fn open_account(&self, context: String) {
        self.state().accounts.insert(Some(context), DownloadAccount::default());
    }

    /// How much the files of one session may take.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    fn state(&self) -> MutexGuard<'_, AccountState> {
        self.state.lock()
    }

    /// Whether this is the name of a download event.
    pub(crate) fn is_event(name: &str) -> bool {
        matches!(
            name,
            "Page.downloadWillBegin"
                | "Browser.downloadWillBegin"
                | "Page.downloadProgress"
                | "Browser.downloadProgress"
        )
    }

    /// The calls to send to the browser after an event. `context_of` gives the context of a download by its frame, or
    /// nothing if it is unknown.
    pub(crate) fn event(
        &self,
        name: &str,
        params: &str,
        context_of: impl FnOnce(&str) -> Option<ContextId>,
    ) -> Vec<BrowserCall> {
        let orders = match name {
            "Page.downloadWillBegin" | "Browser.downloadWillBegin" => {
                serde_json::from_str::<DownloadWillBegin>(params).map(|begun| {
                    match context_of(&begun.frame_id) {
                        Some(context) => self.on_begin(&begun.guid, &context),
                        None => Vec::new(),
                    }
                })
            }
            "Page.downloadProgress" | "Browser.downloadProgress" => {
                serde_json::from_str(params).map(|progress| self.on_progress(&progress))
            }
            _ => return Vec::new(),
        };
        orders.unwrap_or_else(|error| {
            tracing::warn!(event = name, %error, "cannot read the event of a download, so it is not counted");
            Vec::new()
        })
    }

    /// A download begins. It may be announced several times. A download in a closed context ends with that context.
    pub(crate) fn on_begin(&self, guid: &str, context: &ContextId) -> Vec<BrowserCall> {
        let mut state = self.state();
        if state.downloads.contains_key(guid) {
            return Vec::new();
        }
        let Some(account) = state.accounts.get_mut(context) else { return Vec::new() };
        if account.is_denied {
            if account.stopped_at_once.iter().any(|stopped| stopped == guid) {
                return Vec::new();
            }
            account.stopped_at_once.truncate(STOPPED_MAX - 1);
            account.stopped_at_once.push_front(guid.to_owned());
            account.stopped += 1;
            // The browser cancels it by itself, unless it began before the browser got the order to deny.
            return vec![cancel(guid, context)];
        }
        account.bytes += FILE_BYTES_MIN;
        let download = Download { context: context.clone(), bytes: FILE_BYTES_MIN, is_running: true };
        state.downloads.insert(guid.to_owned(), download);
        self.stop_if_over(&mut state, context)
    }

    /// The browser reports that a download goes on or has ended. A download without an account is left alone.
    fn on_progress(&self, progress: &DownloadProgress) -> Vec<BrowserCall> {
        let mut state = self.state();
        let AccountState { accounts, downloads, .. } = &mut *state;
        let Some(download) = downloads.get_mut(&progress.guid) else { return Vec::new() };
        let Some(account) = accounts.get_mut(&download.context) else { return Vec::new() };
        let context = download.context.clone();
        account.bytes = account.bytes.saturating_sub(download.bytes);
        if progress.state == DownloadState::Canceled {
            downloads.remove(&progress.guid);
            return Vec::new();
        }
        download.is_running = progress.state == DownloadState::InProgress;
        let whole = if download.is_running { progress.total_bytes } else { 0.0 };
        // The browser counts in floating point numbers.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
        let bytes = progress.received_bytes.max(whole) as u64;
        // More than the quota counts as one byte more, so that sums cannot overflow.
        download.bytes = bytes.min(self.bytes_max.saturating_add(1)).max(FILE_BYTES_MIN);
        account.bytes = account.bytes.saturating_add(download.bytes);
        self.stop_if_over(&mut state, &context)
    }

    /// Stops all downloads of a context if it is over the quota.
    fn stop_if_over(&self, state: &mut AccountState, context: &ContextId) -> Vec<BrowserCall> {
        let Some(account) = state.accounts.get_mut(context) else { return Vec::new() };
        if account.is_denied || account.bytes.saturating_add(account.other_bytes) <= self.bytes_max {
            return Vec::new();
        }
        account.is_denied = true;
        let mut params = json!({ "behavior": "deny", "eventsEnabled": true });
        add_context(&mut params, context);
        let mut orders = vec![BrowserCall { method: "Browser.setDownloadBehavior", params }];
        let running = state
            .downloads
            .iter()
            .filter(|(_, download)| download.is_running && download.context == *context);
        orders.extend(running.map(|(guid, _)| cancel(guid, context)));
        account.stopped += orders.len() as u64 - 1;
        orders
    }

    /// Notes the size of a session's other files. Returns their size including its downloads.
    pub(crate) fn note_other_files(&self, context: &ContextId, bytes: u64) -> u64 {
        let mut state = self.state();
        let Some(account) = state.accounts.get_mut(context) else { return bytes };
        account.other_bytes = bytes;
        account.bytes.saturating_add(bytes)
    }

    /// The same if `bytes` already includes the downloads.
    pub(crate) fn note_all_files(&self, context: &ContextId, bytes: u64) -> u64 {
        let mut state = self.state();
        let Some(account) = state.accounts.get_mut(context) else { return bytes };
        account.other_bytes = bytes.saturating_sub(account.bytes);
        account.bytes.saturating_add(account.other_bytes)
    }

    /// The downloads of a context that were stopped since the last call of this function.
    pub(crate) fn take_stopped(&self, context: &ContextId) -> Option<StoppedDownloads> {
        let count = std::mem::take(&mut self.state().accounts.get_mut(context)?.stopped);
        (count > 0).then_some(StoppedDownloads { count, bytes_max: self.bytes_max })
    }

    /// Closes the account of a context that is gone. The default context goes on with another session: it gets an empty
    /// account, and the same folder until the engine names another.
    pub(crate) fn forget(&self, context: &ContextId) {
        let mut state = self.state();
        state.downloads.retain(|_, download| download.context != *context);
        state.accounts.remove(context);
        match context {
            Some(_) => drop(state.folders.remove(context)),
            None => drop(state.accounts.insert(None, DownloadAccount::default())),
        }
    }

    /// Notes where the browser writes a context's downloads.
    pub(crate) fn set_folder(&self, context: ContextId, folder: &Path) {
        self.state().folders.insert(context, folder.to_owned());
    }

    /// All folders into which the browser writes downloads.
    pub(crate) fn folders(&self) -> BTreeSet<PathBuf> {
        self.state().folders.values().cloned().collect()
    }

    /// Whether the browser has announced this download.
    pub(crate) fn is_announced(&self, guid: &str) -> bool {
        self.state().downloads.contains_key(guid)
    }
}

/// The call that cancels a download and removes its partial file.
pub(crate) fn cancel(guid: &str, context: &ContextId) -> BrowserCall {
    let mut params = json!({ "guid": guid });
    add_context(&mut params, context);
    BrowserCall { method: "Browser.cancelDownload", params }
}

fn add_context(params: &mut Value, context: &ContextId) {
    if let Some(context) = context {
        params["browserContextId"] = context.as_str().into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = 1 << 20;

    fn context(name: &str) -> ContextId {
        Some(name.to_owned())
    }

    /// Downloads of a browser with the contexts `a` and `b`.
    fn downloads() -> Downloads {
        let downloads = Downloads::new(MAX);
        for name in ["a", "b"] {
            downloads.open_account(name.to_owned());
        }
        downloads
    }

    fn progress(guid: &str, received: u32, total: u32, state: DownloadState) -> DownloadProgress {
        DownloadProgress {
            guid: guid.to_owned(),
            total_bytes: total.into(),
            received_bytes: received.into(),
            state,
        }
    }

    fn deny(context: &str) -> BrowserCall {
        let params = json!({ "behavior": "deny", "eventsEnabled": true, "browserContextId": context });
        BrowserCall { method: "Browser.setDownloadBehavior", params }
    }

    /// Many small downloads are stopped when they exceed the quota together, those of another context are not, and downloads
    /// below the quota are not reported.
    #[test]
    fn downloads_over_the_quota_are_stopped() {
        let downloads = downloads();
        let a = context("a");
        let b = context("b");
        for n in 0..4 {
            let guid = n.to_string();
            assert_eq!(downloads.on_begin(&guid, &a), []);
            // The page's session announces it, and the browser's does.
            assert_eq!(downloads.on_begin(&guid, &a), []);
            assert_eq!(downloads.on_progress(&progress(&guid, 0, 200_000, DownloadState::InProgress)), []);
            assert_eq!(
                downloads.on_progress(&progress(&guid, 200_000, 200_000, DownloadState::Completed)),
                []
            );
        }
        assert_eq!(downloads.take_stopped(&a), None);
        assert_eq!(downloads.on_begin("4", &a), []);
        assert_eq!(downloads.on_progress(&progress("4", 200_000, 200_000, DownloadState::InProgress)), []);
        assert_eq!(downloads.on_begin("5", &a), []);
        let orders = downloads.on_progress(&progress("5", 0, 200_000, DownloadState::InProgress));
        assert_eq!(orders.len(), 3, "{orders:?}");
        assert_eq!(orders[0], deny("a"));
        assert!(orders.contains(&cancel("4", &a)) && orders.contains(&cancel("5", &a)), "{orders:?}");
        // Downloads that began before the browser denied them.
        for guid in ["6", "7"] {
            assert_eq!(downloads.on_begin(guid, &a), [cancel(guid, &a)]);
        }
        for guid in ["6", "7"] {
            assert_eq!(downloads.on_begin(guid, &a), [], "it was told by the page already");
        }
        assert_eq!(downloads.take_stopped(&a), Some(StoppedDownloads { count: 4, bytes_max: MAX }));
        assert_eq!(downloads.take_stopped(&a), None, "it is reported once");

        assert_eq!(downloads.on_begin("b", &b), []);
        assert_eq!(downloads.on_progress(&progress("b", 1_000_000, 0, DownloadState::Completed)), []);
        assert_eq!(downloads.take_stopped(&b), None);
    }

    /// Events of a context that is gone change nothing and leave nothing behind. The default context begins anew.
    #[test]
    fn events_of_closed_contexts_change_nothing() {
        let downloads = downloads();
        let a = context("a");
        let b = context("b");
        for (guid, whose) in [("0", &a), ("1", &b), ("2", &None)] {
            assert_eq!(downloads.on_begin(guid, whose), []);
        }
        downloads.forget(&a);
        assert!(!downloads.is_announced("0") && downloads.is_announced("1"));
        assert_eq!(downloads.on_begin("3", &a), []);
        assert_eq!(downloads.on_progress(&progress("3", u32::MAX, 0, DownloadState::InProgress)), []);
        assert_eq!((downloads.note_other_files(&a, 5), downloads.note_all_files(&a, 5)), (5, 5));
        assert!(!downloads.is_announced("3") && !downloads.state().accounts.contains_key(&a));

        assert_eq!(downloads.note_other_files(&None, 5), FILE_BYTES_MIN + 5);
        downloads.forget(&None);
        assert_eq!(downloads.note_other_files(&None, 5), 5);
        assert!(!downloads.is_announced("2") && downloads.is_announced("1"));
    }

    /// An event is recognised by its name, whatever else it contains. An unreadable event has no effect.
    #[test]
    fn events_are_recognised_by_name() {
        let downloads = downloads();
        let whole = json!({
            "guid": "x", "frameId": "F", "totalBytes": u32::MAX, "receivedBytes": 0, "state": "inProgress",
        });
        let calls_after = |name: &str, params: &Value| {
            assert!(Downloads::is_event(name));
            downloads.event(name, &params.to_string(), |frame| (frame == "F").then(|| context("a")))
        };
        assert_eq!(calls_after("Browser.downloadWillBegin", &json!({ "guid": "y", "frameId": "G" })), []);
        assert!(!downloads.is_announced("y"), "its context is unknown");
        assert_eq!(calls_after("Browser.downloadWillBegin", &whole), []);
        assert!(downloads.is_announced("x"));
        assert_eq!(calls_after("Browser.downloadProgress", &json!({ "guid": "x" })), []);
        assert_eq!(calls_after("Page.downloadProgress", &whole), [deny("a"), cancel("x", &context("a"))]);
        assert!(!Downloads::is_event("Page.frameNavigated"));
    }

    /// An endless download is stopped by its received bytes, one with a known size before it has received any, and empty
    /// ones by their number; a cancelled one counts for nothing.
    #[test]
    fn large_endless_and_many_downloads_are_stopped() {
        let a = context("a");
        let endless = downloads();
        endless.on_begin("x", &a);
        assert_eq!(endless.on_progress(&progress("x", 1_000_000, 0, DownloadState::InProgress)), []);
        assert_eq!(
            endless.on_progress(&progress("x", 1_100_000, 0, DownloadState::InProgress)),
            [deny("a"), cancel("x", &a)]
        );

        let large = downloads();
        large.on_begin("x", &a);
        assert_eq!(large.on_progress(&progress("x", 0, u32::MAX, DownloadState::InProgress)).len(), 2);

        let empty = downloads();
        let begun = (0..1000).find(|n: &u32| !empty.on_begin(&n.to_string(), &a).is_empty());
        assert_eq!(begun, Some(256));

        let cancelled = downloads();
        for n in 0..1000 {
            let guid = n.to_string();
            assert_eq!(cancelled.on_begin(&guid, &a), []);
            cancelled.on_progress(&progress(&guid, 500_000, 500_000, DownloadState::InProgress));
            cancelled.on_progress(&progress(&guid, 500_000, 500_000, DownloadState::Canceled));
        }
        assert_eq!(cancelled.note_other_files(&a, 0), 0);
    }

    /// Servers may claim any size. A cancelled download counts for nothing, whatever size its server claimed.
    #[test]
    fn cancelled_downloads_count_for_nothing() {
        let a = context("a");
        let downloads = downloads();
        let claims = |guid: &str, state| DownloadProgress {
            guid: guid.to_owned(),
            total_bytes: 9_223_372_036_854_775_807.0,
            received_bytes: 0.0,
            state,
        };
        for guid in ["x", "y", "z"] {
            assert_eq!(downloads.on_begin(guid, &a), []);
        }
        for guid in ["x", "y"] {
            downloads.on_progress(&claims(guid, DownloadState::InProgress));
        }
        for guid in ["x", "y"] {
            assert_eq!(downloads.on_progress(&claims(guid, DownloadState::Canceled)), []);
        }
        assert_eq!(downloads.note_other_files(&a, 0), FILE_BYTES_MIN, "one is left");
    }

    /// Each context has a folder, which others may share. It is forgotten with its context.
    #[test]
    fn folders_are_forgotten_with_their_contexts() {
        let downloads = downloads();
        let folders = |names: &[&str]| names.iter().map(PathBuf::from).collect::<BTreeSet<_>>();
        assert_eq!(downloads.folders(), folders(&[]));
        for (name, folder) in [("a", "/1"), ("b", "/2"), ("c", "/2")] {
            downloads.set_folder(context(name), Path::new(folder));
        }
        downloads.set_folder(None, Path::new("/3"));
        assert_eq!(downloads.folders(), folders(&["/1", "/2", "/3"]));
        downloads.forget(&context("a"));
        downloads.forget(&context("b"));
        assert_eq!(downloads.folders(), folders(&["/2", "/3"]), "another context has its downloads there");
        downloads.forget(&None);
        assert_eq!(downloads.folders(), folders(&["/2", "/3"]), "the default context stays");
        downloads.set_folder(None, Path::new("/4"));
        assert_eq!(downloads.folders(), folders(&["/2", "/4"]));
    }

    /// The other files of a session count as well; downloads whose context is unknown do not.
    #[test]
    fn other_files_of_the_session_count() {
        let downloads = downloads();
        let a = context("a");
        assert_eq!(downloads.note_other_files(&a, MAX), MAX);
        assert_eq!(downloads.on_begin("x", &a), [deny("a"), cancel("x", &a)]);
        assert_eq!(downloads.on_progress(&progress("y", u32::MAX, 0, DownloadState::InProgress)), []);
        assert_eq!(downloads.on_begin("z", &None), []);
        let orders = downloads.on_progress(&progress("z", u32::MAX, 0, DownloadState::InProgress));
        assert_eq!(orders[0].params.get("browserContextId"), None, "the default context has no name");

        let all = Downloads::new(MAX);
        all.on_begin("x", &None);
        all.on_progress(&progress("x", 1000, 500_000, DownloadState::InProgress));
        assert_eq!(all.note_all_files(&None, 100_000), 500_000, "it will take so much");
        assert_eq!(all.note_all_files(&None, 700_000), 700_000);
    }
}
