//! A seat of the devtools engine: its files are those of its session, and its answers are looked into.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsString,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use greenroom_core::{Agent, BoxFuture, Call, Crash, Lost, Reply, Seat, View, port::StoppedDownloads};
use tokio::sync::watch;

use super::{
    DevtoolsOptions,
    files::{self, Outgoing},
    shape::{self, Answer},
    text,
};
use crate::{
    answer::{OWN_WAIT_MAX, failed},
    size_limits::{self, SIZE_REFUSED},
    stdio::ProcessSeat,
    workspace::Place,
};

/// The tool that hands over files, which its browser reads.
const UPLOAD: &str = "upload_file";

/// The tool that ends what [`shape::BEGINS`] began.
const ENDS: &str = "screencast_stop";

/// The tool that takes longer than others by itself, and by how much: it loads the page anew, for up to 30 s, and then
/// looks at all of it.
const AUDIT: (&str, Duration) = ("lighthouse_audit", Duration::from_secs(60));

pub(super) struct DevtoolsSeat {
    seat: Box<ProcessSeat>,
    options: Arc<DevtoolsOptions>,
    /// How many calls there were.
    serial: u64,
    /// Recordings that run, by the page that each is of.
    recordings: HashMap<String, Vec<Outgoing>>,
    /// Downloads that were told of.
    downloaded: HashSet<OsString>,
    /// Whether the browser is on this machine, and can be handed files of it.
    is_here: bool,
}

impl DevtoolsSeat {
    pub(super) fn new(seat: ProcessSeat, options: Arc<DevtoolsOptions>) -> Self {
        let (recordings, downloaded) = (HashMap::new(), HashSet::new());
        Self { seat: Box::new(seat), options, serial: 0, recordings, downloaded, is_here: true }
    }

    /// The same in somebody else's browser.
    pub(super) fn attached(self, is_here: bool) -> Self {
        Self { is_here, ..self }
    }

    /// The seat's folder by its real path, which is how the engine names what is in it.
    async fn folder(&self) -> PathBuf {
        let folder = self.seat.folder();
        tokio::fs::canonicalize(folder).await.unwrap_or_else(|_| folder.to_owned())
    }

    async fn run(&mut self, mut call: Call, agent: Arc<dyn Agent>) -> Result<Reply, Lost> {
        self.serial += 1;
        if &*call.tool == UPLOAD && !self.is_here {
            let why = "files of this machine cannot be handed to a browser on another one";
            return Ok(failed("file_refused", why));
        }
        if let Err(refused) = size_limits::check(&call) {
            return Ok(failed(SIZE_REFUSED, &refused.to_string()));
        }
        if files::writes(&call)
            && let Err(refused) = self.seat.disk_used().await.check(self.options.disk_bytes_max)
        {
            return Ok(failed(refused.code(), &refused.to_string()));
        }
        let folder = self.folder().await;
        let place = Place { folder: &folder, data: &self.options.data_folder };
        let mut outgoing = match files::bring_in(&mut call, &place, self.serial, agent.as_ref()).await {
            Ok(outgoing) => outgoing,
            Err(refused) => return Ok(failed(refused.code(), &refused.to_string())),
        };
        let tool = call.tool.clone();
        let arguments = files::arguments_of(&call);
        let asked = arguments.read::<bool>(text::SHOW_PAGE).ok().flatten() == Some(true);
        let page = arguments.get("pageId").map(|page| page.get().to_owned()).unwrap_or_default();
        if &*tool == ENDS {
            // One of the two calls may have named the page, and the other not.
            let only = self.recordings.keys().next().filter(|_| self.recordings.len() == 1).cloned();
            let begun = if self.recordings.contains_key(&page) { Some(page.clone()) } else { only };
            outgoing = begun.and_then(|page| self.recordings.remove(&page)).unwrap_or_default();
        }
        let reply = self.seat.call(call, agent).await?;
        let downloads = files::downloads(&folder, &mut self.downloaded).await;
        let answer = Answer {
            tool: &tool,
            body: reply.body,
            shows_page: text::has_snapshot(&tool, asked),
            folder: &folder,
            downloads: &downloads,
        };
        let reply = shape::shape(answer, &outgoing).await;
        if &*tool == shape::BEGINS && !reply.is_failure() && !outgoing.is_empty() {
            self.recordings.insert(page, outgoing);
        }
        Ok(reply)
    }
}

impl Seat for DevtoolsSeat {
    fn call<'a>(&'a mut self, call: Call, agent: Arc<dyn Agent>) -> BoxFuture<'a, Result<Reply, Lost>> {
        Box::pin(self.run(call, agent))
    }

    fn own_wait(&self, call: &Call) -> Duration {
        own_wait(call)
    }

    fn lost(&self) -> watch::Receiver<Option<Lost>> {
        self.seat.lost()
    }

    fn take_crashes(&mut self) -> Vec<Crash> {
        self.seat.take_crashes()
    }

    fn take_stopped_downloads(&mut self) -> Option<StoppedDownloads> {
        self.seat.take_stopped_downloads()
    }

    fn view(&self) -> watch::Receiver<View> {
        self.seat.view()
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        self.seat.close()
    }
}

/// Navigations and waits may say themselves how long they take, in milliseconds.
fn own_wait(call: &Call) -> Duration {
    let (audit, longer) = AUDIT;
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

    /// A call that asks for a longer wait gets it, up to an hour; nonsense gets none.
    #[test]
    fn waits() {
        assert_eq!(wait("wait_for", &json!({ "timeout": 45_000 })), Duration::from_secs(45));
        assert_eq!(wait("navigate_page", &json!({ "timeout": 1e15 })), OWN_WAIT_MAX);
        for none in [json!({}), json!({ "timeout": -1 }), json!({ "timeout": "long" })] {
            assert_eq!(wait("wait_for", &none), Duration::ZERO);
        }
        assert_eq!(wait("lighthouse_audit", &json!({})), AUDIT.1);
    }
}
