//! Adapts the calls of a seat of the devtools engine: rewrites file arguments so that the engine touches its
//! session's folder only, and parses its answers.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsString,
    path::Path,
    sync::Arc,
    time::Duration,
};

use greenroom_core::{Agent, BoxFuture, Call, Lost, Reply};

use super::{
    files::{self, DevtoolsOutput},
    reply::{self, DevtoolsAnswer},
    text,
};
use crate::{
    EngineOptions,
    call_refusal::{self, CallRefusal},
    per_seat::{CallAdapter, SeatProcess},
    tool_answer::{OWN_WAIT_MAX, failed_reply},
    workspace::SessionFolders,
};

/// The tool that uploads files, which its browser reads.
const UPLOAD: &str = "upload_file";

/// The tool that ends what [`reply::START_RECORDING`] began.
const STOP_RECORDING: &str = "screencast_stop";

/// The tool that takes longer than others, and by how much: it loads the page anew, for up to 30 s, and then examines all of
/// it.
const SLOW_TOOL: (&str, Duration) = ("lighthouse_audit", Duration::from_secs(60));

pub(super) struct DevtoolsCalls {
    options: Arc<EngineOptions>,
    /// The number of calls so far.
    serial: u64,
    /// Running recordings, by page.
    recordings: HashMap<String, Vec<DevtoolsOutput>>,
    /// Downloads that an answer has named.
    downloaded: HashSet<OsString>,
    /// Whether the browser runs on this machine, and can read its files.
    is_local_browser: bool,
}

impl DevtoolsCalls {
    pub(super) fn new(options: Arc<EngineOptions>, is_local_browser: bool) -> Self {
        Self { options, serial: 0, recordings: HashMap::new(), downloaded: HashSet::new(), is_local_browser }
    }

    /// Checks a call, and copies the files that it names into the session's folder.
    async fn rewrite_files(
        &self,
        process: &SeatProcess,
        folder: &Path,
        call: &mut Call,
        agent: &dyn Agent,
    ) -> Result<Vec<DevtoolsOutput>, CallRefusal> {
        let writes = files::writes(call);
        let bytes_max = self.options.disk_bytes_max();
        call_refusal::check(call, writes, process.disk_used(), bytes_max).await?;
        let folders = SessionFolders { folder, data: &self.options.settings.data_dir };
        Ok(files::rewrite_files(call, &folders, self.serial, agent).await?)
    }

    async fn run(
        &mut self,
        process: &SeatProcess,
        mut call: Call,
        agent: Arc<dyn Agent>,
    ) -> Result<Reply, Lost> {
        self.serial += 1;
        if &*call.tool == UPLOAD && !self.is_local_browser {
            let why = "files of this machine cannot be handed to a browser on another one";
            return Ok(failed_reply("file_refused", why));
        }
        if call.annotate {
            let why = "`annotate` needs the positions of elements, which the snapshots of the devtools engine do not have; take_snapshot lists the elements with their uids";
            return Ok(failed_reply("annotate_refused", why));
        }
        // The real path: the engine names files by their real paths.
        let folder = process.folder();
        let folder = tokio::fs::canonicalize(folder).await.unwrap_or_else(|_| folder.to_owned());
        let mut outgoing = match self.rewrite_files(process, &folder, &mut call, agent.as_ref()).await {
            Ok(outgoing) => outgoing,
            Err(refused) => return Ok(refused.into()),
        };
        let tool = call.tool.clone();
        let arguments = files::arguments_of(&call);
        let wants_snapshot = arguments.read::<bool>(text::SHOW_PAGE).ok().flatten() == Some(true);
        let page = arguments.get("pageId").map(|page| page.get().to_owned()).unwrap_or_default();
        if &*tool == STOP_RECORDING {
            // An agent may name the page in only one of the two calls.
            let only_page = self.recordings.keys().next().filter(|_| self.recordings.len() == 1).cloned();
            let recorded_page =
                if self.recordings.contains_key(&page) { Some(page.clone()) } else { only_page };
            outgoing = recorded_page.and_then(|page| self.recordings.remove(&page)).unwrap_or_default();
        }
        let reply = process.forward_call(call, agent).await?;
        let downloads = files::new_downloads(&folder, &mut self.downloaded).await;
        let answer = DevtoolsAnswer {
            tool: &tool,
            body: reply.body,
            shows_page: text::has_snapshot(&tool, wants_snapshot),
            folder: &folder,
            downloads: &downloads,
        };
        let reply = reply::to_reply(answer, &outgoing).await;
        if &*tool == reply::START_RECORDING && !reply.is_failure() && !outgoing.is_empty() {
            self.recordings.insert(page, outgoing);
        }
        Ok(reply)
    }
}

impl CallAdapter for DevtoolsCalls {
    fn run<'a>(
        &'a mut self,
        process: &'a SeatProcess,
        call: Call,
        agent: Arc<dyn Agent>,
    ) -> BoxFuture<'a, Result<Reply, Lost>> {
        Box::pin(self.run(process, call, agent))
    }

    fn own_wait(&self, call: &Call) -> Duration {
        own_wait(call)
    }
}

/// Navigations and waits may set their own timeout, in milliseconds.
fn own_wait(call: &Call) -> Duration {
    let (audit, longer) = SLOW_TOOL;
    if &*call.tool == audit {
        return longer;
    }
    let ms = files::arguments_of(call).read::<f64>("timeout").ok().flatten().unwrap_or_default();
    Duration::try_from_secs_f64(ms / 1_000.0).unwrap_or_default().min(OWN_WAIT_MAX)
}

#[cfg(test)]
mod tests {
    use greenroom_core::raw::encode;
    use serde_json::{Value, json};

    use super::*;

    fn wait(tool: &str, arguments: &Value) -> Duration {
        own_wait(&Call::new(tool, encode(&json!({ "name": tool, "arguments": arguments }))))
    }

    /// A call that asks for a longer wait gets it, up to an hour; an invalid value gets none.
    #[test]
    fn calls_may_ask_for_longer_waits() {
        assert_eq!(wait("wait_for", &json!({ "timeout": 45_000 })), Duration::from_secs(45));
        assert_eq!(wait("navigate_page", &json!({ "timeout": 1e15 })), OWN_WAIT_MAX);
        for none in [json!({}), json!({ "timeout": -1 }), json!({ "timeout": "long" })] {
            assert_eq!(wait("wait_for", &none), Duration::ZERO);
        }
        assert_eq!(wait("lighthouse_audit", &json!({})), SLOW_TOOL.1);
    }
}
