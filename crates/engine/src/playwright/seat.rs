//! A seat: one context of the instance's Chromium, driven through one MCP session with Node.

use std::{convert::Infallible, path::PathBuf, pin::pin, sync::Arc, time::Duration};

use greenroom_core::{
    Agent, BoxFuture, Call, Crash, Lost, NoAgent, Raw, Reply, Seat, StartError, View,
    port::{EgressPort, PortUser, Refusals, StoppedDownloads, TOOLS_CALL},
    raw::encode,
};
use greenroom_mcp::error::METHOD_NOT_FOUND;
use serde_json::json;
use tokio::{
    sync::{OwnedSemaphorePermit, oneshot, watch},
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    CLOSE, CONFIG, SEAT_STOP_GRACE, annotate,
    context::{PendingContexts, SeatContext},
    file_links::SnapshotFiles,
    files::{self, SessionFolders},
    format::{EVALUATE, SNAPSHOT},
    instance::{OPEN_WITHIN, PlaywrightState},
    own_tabs,
    reply::{ensure_success, failed_reply, own_wait, to_reply},
    shared_output_folder,
};
use crate::{
    disk_use::{self, DiskUse, MEASURE_EVERY},
    downloads::{ContextId, Downloads},
    loss::{Loss, wait_for_loss},
    observer::{Crashes, WatchedPages},
    process::Process,
    seat_folder::SeatFolder,
    upstream::Upstream,
};

/// How long the engine may take to end one MCP session: it usually takes milliseconds. An engine that needs longer may hang.
const END_SESSION_WITHIN: Duration = Duration::from_secs(2);

/// How long the engine may take to close a context before its session is ended anyway. It usually takes milliseconds. With
/// [`END_SESSION_WITHIN`] this stays below the five seconds that a seat has to close.
const CLOSE_CONTEXT_WITHIN: Duration = Duration::from_millis(2_500);

pub(super) struct PlaywrightSeat {
    instance: Arc<PlaywrightState>,
    upstream: Arc<Upstream>,
    /// The seat's own Node, if each seat has one.
    process: Option<Process>,
    folder: SeatFolder,
    disk_meter: DiskMeter,
    /// The egress port of the context.
    egress_port: Option<Arc<dyn EgressPort>>,
    /// Who uses the seat, for the ports of later contexts.
    user: Option<PortUser>,
    snapshots: SnapshotFiles,
    /// `None` while the session is empty: before its first page, and after `browser_close`.
    context: Option<SeatContext>,
    pending: PendingContexts,
    /// The crashes in this context, and how many of them were reported.
    crashes: Option<watch::Receiver<Crashes>>,
    crashes_reported: u64,
    view: watch::Sender<View>,
    lost: watch::Sender<Option<Lost>>,
    /// The permit for the browser's default context, which one seat uses at a time; the next seat waits for it.
    _turn: Option<OwnedSemaphorePermit>,
    /// Follows the instance, the seat's process and its context.
    watchers: JoinSet<()>,
}

/// Measures the disk space of a seat's files, with its downloads if these are counted.
#[derive(Clone)]
struct DiskMeter {
    folder: PathBuf,
    account: Option<(Arc<Downloads>, ContextId)>,
}

impl DiskMeter {
    /// Measures the seat's folder. Leaves out the engine's folder for all of its seats: `Downloads` counts the
    /// downloads in it.
    async fn measure(&self) -> DiskUse {
        let files = disk_use::measure_folder(&self.folder, Some(shared_output_folder::SHARED_FOLDER)).await;
        match &self.account {
            Some((downloads, account)) => {
                files.counted_in(|bytes| downloads.note_other_files(account, bytes))
            }
            None => files,
        }
    }

    /// Pages go on between calls: they download, and make the engine write logs.
    async fn measure_repeatedly(&self) -> Infallible {
        loop {
            sleep(MEASURE_EVERY).await;
            self.measure().await;
        }
    }
}

impl PlaywrightSeat {
    pub(super) async fn open(
        instance: Arc<PlaywrightState>,
        agent: Arc<dyn Agent>,
    ) -> Result<Self, StartError> {
        let turn = instance.acquire_default_context().await?;
        let engine = &instance.engine;
        let folder = engine.seat_folder()?;
        let (upstream, process) = instance.connect(folder.path(), agent.clone()).await?;
        let mut seat = Self {
            instance,
            upstream,
            process,
            _turn: turn,
            disk_meter: DiskMeter { folder: folder.path().to_owned(), account: None },
            folder,
            egress_port: None,
            user: None,
            snapshots: SnapshotFiles::default(),
            context: None,
            pending: PendingContexts::default(),
            crashes: None,
            crashes_reported: 0,
            view: watch::Sender::new(View::default()),
            lost: watch::Sender::new(None),
            watchers: JoinSet::new(),
        };
        seat.instance.seat_opened();
        seat.follow_processes();
        if let Err(error) = seat.create_context(agent).await {
            Box::new(seat).close().await;
            return Err(error);
        }
        Ok(seat)
    }

    fn follow_processes(&mut self) {
        let lost = self.lost.clone();
        let mut instance = self.instance.base.loss.subscribe();
        let mut process = self.process.as_ref().map(|process| Loss::of_process(process).subscribe());
        self.watchers.spawn(async move {
            let process_lost = async {
                match &mut process {
                    Some(process) => process.wait_for(Option::is_some).await.map(|lost| lost.clone()),
                    None => std::future::pending().await,
                }
            };
            let why = tokio::select! {
                why = instance.wait_for(Option::is_some) => why.map(|lost| lost.clone()),
                why = process_lost => why,
            };
            if let Ok(Some(why)) = why {
                lost.send_replace(Some(why));
            }
        });
    }

    /// Makes the engine create a context. The creation runs to its end even if the caller gives up: otherwise
    /// greenroom would take a context that appears late for the next seat's.
    async fn create_context(&mut self, agent: Arc<dyn Agent>) -> Result<(), StartError> {
        if timeout(OPEN_WITHIN, self.pending.wait_until_made()).await.is_err() {
            return Err(self.instance.open_timeout_error());
        }
        self.close_context_made_late().await;
        let (deliver, made) = oneshot::channel();
        let instance = self.instance.clone();
        let upstream = self.upstream.clone();
        let pending = self.pending.clone();
        self.pending.spawn(&self.instance.base.tasks, async move {
            let made = instance.new_context(&pending, &upstream, agent).await;
            if let Err(Ok((unclaimed, _))) = deliver.send(made) {
                instance.dispose_context(unclaimed).await;
            }
        });
        let panicked = |_| StartError::new("the engine's adapter panicked");
        let (context, watched) = made.await.map_err(panicked)??;
        self.follow_context(watched, &context);
        self.context = Some(context);
        Ok(())
    }

    /// Makes the engine close a context that it made too late; only the engine knows which one that is.
    async fn close_context_made_late(&self) {
        if self.pending.take_timed_out() && !self.instance.handle().is_attached() {
            let close = encode(&json!({ "name": CLOSE, "arguments": {} }));
            let _ = timeout(CLOSE_CONTEXT_WITHIN, self.upstream.call(&close, Arc::new(NoAgent))).await;
        }
    }

    fn follow_context(&mut self, watched: WatchedPages, context: &SeatContext) {
        let disk_meter = DiskMeter {
            folder: self.folder.path().to_owned(),
            account: self.instance.downloads.clone().zip(self.instance.account(context)),
        };
        self.disk_meter = disk_meter.clone();
        let ports = self.instance.context_ports.as_ref().zip(self.instance.account(context));
        self.egress_port = ports.and_then(|(ports, context)| ports.port(&context));
        if let (Some(port), Some(user)) = (&self.egress_port, &self.user) {
            port.assign(user.clone());
        }
        let view = self.view.clone();
        let lost = self.lost.clone();
        let WatchedPages { view: mut observed_view, mut crashes } = watched;
        // The observer forgets a context that greenroom gives up, so these crashes are all of this context. A crash
        // before this line is yet to be reported.
        self.crashes = Some(crashes.clone());
        self.crashes_reported = 0;
        self.watchers.spawn(async move {
            let mut measurements = pin!(disk_meter.measure_repeatedly());
            loop {
                view.send_replace(observed_view.borrow_and_update().clone());
                tokio::select! {
                    changed = observed_view.changed() => if changed.is_err() { return },
                    never = &mut measurements => match never {},
                    crashes = crashes.wait_for(|crashes| crashes.lost.is_some()) => {
                        if let Ok(crashes) = crashes {
                            lost.send_replace(crashes.lost.clone());
                        }
                        return;
                    }
                }
            }
        });
    }

    async fn run(&mut self, mut call: Call, agent: Arc<dyn Agent>) -> Result<Reply, Lost> {
        // Only calls of tools may pass.
        if call.method != TOOLS_CALL {
            let message = format!("method not found: `{}`", call.method);
            return Ok(Err(encode(&json!({ "code": METHOD_NOT_FOUND, "message": message }))).into());
        }
        let full_page = match call.annotate.then(|| annotate::check(&call)).transpose() {
            Ok(full_page) => full_page.unwrap_or_default(),
            Err(refused) => return Ok(failed_reply("annotate_refused", &refused.to_string())),
        };
        let options = &self.instance.engine.options;
        let folders = SessionFolders { folder: self.folder.path(), data: &options.settings.data_dir };
        let used = self.disk_meter.measure();
        let bytes_max = options.disk_bytes_max();
        let outgoing = match files::check_and_rewrite_files(
            &mut call,
            &folders,
            used,
            bytes_max,
            agent.as_ref(),
        )
        .await
        {
            Ok(outgoing) => outgoing,
            Err(refused) => return Ok(refused.into()),
        };
        if self.context.is_none()
            && &*call.tool != CLOSE
            && let Err(error) = self.create_context(agent.clone()).await
        {
            return match self.instance.gone().await {
                Some(lost) => Err(lost),
                None => Ok(failed_reply("start_failed", &error.to_string())),
            };
        }
        if let Some(reply) = self.answer_without_engine(&call).await {
            return Ok(reply);
        }
        let body = self.call_engine(&call.params, agent.clone()).await?;
        if let Some(SeatContext::Tabs(own)) = &mut self.context {
            own.note_new_tabs(self.instance.observer()).await;
        }
        if ensure_success(&body).is_err() {
            // The engine reports a dead browser as an ordinary failure. Ask the browser whether it died; after that all
            // earlier crashes of pages have been seen, too.
            if let Some(lost) = self.instance.gone().await {
                return Err(lost);
            }
        } else if &*call.tool == CLOSE
            && let Some(context) = self.context.take()
        {
            self.instance.dispose_context(context).await;
            self.disk_meter.account = None;
            self.egress_port = None;
            self.view.send_replace(View::default());
        } else {
            self.instance.observer().refresh().await;
        }
        let reply = to_reply(&call.tool, body, outgoing, self.folder.path(), &mut self.snapshots).await;
        if call.annotate && !reply.is_failure() {
            return self.annotate(reply, full_page, agent).await;
        }
        Ok(reply)
    }

    /// Passes a call on to the engine.
    async fn call_engine(&self, params: &Raw, agent: Arc<dyn Agent>) -> Result<Result<Raw, Raw>, Lost> {
        let mut lost = self.lost.subscribe();
        let body = tokio::select! {
            biased;
            Ok(why) = lost.wait_for(Option::is_some) => return Err(why.clone().unwrap_or(Lost::Shutdown)),
            answer = self.upstream.call(params, agent) => answer,
        };
        match body {
            Ok(body) => Ok(self.instance.handle().cdp_proxy.answer_without_secret(body)),
            Err(gone) => Err(wait_for_loss(&mut lost, gone).await),
        }
    }

    /// Draws refs on the picture in a reply. The engine takes the snapshot after the picture, so that the console lines and
    /// files since the last call are in the picture's answer.
    async fn annotate(
        &mut self,
        picture: Reply,
        full_page: bool,
        agent: Arc<dyn Agent>,
    ) -> Result<Reply, Lost> {
        let snapshot = self.ask(SNAPSHOT, json!({ "boxes": true }), agent.clone()).await?;
        let view = self.ask(EVALUATE, json!({ "function": annotate::PAGE_VIEW }), agent).await?;
        Ok(annotate::annotated(picture, full_page, snapshot, view).await)
    }

    /// Makes a call for greenroom itself, not for the agent.
    async fn ask(
        &mut self,
        tool: &str,
        arguments: serde_json::Value,
        agent: Arc<dyn Agent>,
    ) -> Result<Reply, Lost> {
        let params = encode(&json!({ "name": tool, "arguments": arguments }));
        let body = self.call_engine(&params, agent).await?;
        Ok(to_reply(tool, body, None, self.folder.path(), &mut self.snapshots).await)
    }

    /// Answers calls that must not reach the engine of an attached browser: one would make it disconnect from the browser,
    /// the other shows the browser's address.
    async fn answer_without_engine(&mut self, call: &Call) -> Option<Reply> {
        if !self.instance.handle().is_attached() {
            return None;
        }
        if &*call.tool == CONFIG {
            return Some(failed_reply(
                "refused",
                "the address of this browser is greenroom's own and is not shown",
            ));
        }
        match &mut self.context {
            Some(SeatContext::Tabs(own)) if &*call.tool == CLOSE => {
                self.instance.close_tabs(own.close(self.instance.observer())).await;
                Some(Ok(own_tabs::close_answer()).into())
            }
            _ => None,
        }
    }

    /// Releases the context, the MCP session and the process. If the instance is lost, there is no engine that could
    /// end the session.
    async fn release(self: Box<Self>) {
        let Self { instance, upstream, process, folder, context, pending, mut watchers, _turn, .. } = *self;
        watchers.shutdown().await;
        let close_session = async {
            // A context that the engine is still making belongs to this session, and must exist before it can be
            // closed.
            pending.wait_until_made().await;
            // The seat's own tabs close first, because the browser's user sees them.
            let mut context = context;
            if matches!(context, Some(SeatContext::Tabs(_)))
                && let Some(tabs) = context.take()
            {
                instance.dispose_context(tabs).await;
            }
            let is_attached = instance.handle().is_attached();
            if context.is_some() || (pending.take_timed_out() && !is_attached) {
                let close = encode(&json!({ "name": CLOSE, "arguments": {} }));
                // If the engine does not close the context in time, `dispose_context` below makes the browser
                // close it.
                let _ = timeout(CLOSE_CONTEXT_WITHIN, upstream.call(&close, Arc::new(NoAgent))).await;
            }
            if timeout(END_SESSION_WITHIN, upstream.close()).await.is_err() {
                tracing::debug!("the engine does not end a session in time");
            }
            if let Some(context) = context {
                instance.dispose_context(context).await;
            }
        };
        tokio::select! {
            biased;
            _ = instance.base.loss.wait_until_declared() => {}
            () = close_session => {}
        }
        drop(upstream);
        if let Some(process) = process {
            end_node(&process).await;
        }
        instance.seat_closed(folder).await;
    }
}

/// Ends a seat's own Node, which may have a recording or a trace to write.
async fn end_node(process: &Process) {
    process.stop(SEAT_STOP_GRACE).await;
}

impl Seat for PlaywrightSeat {
    fn call<'a>(&'a mut self, call: Call, agent: Arc<dyn Agent>) -> BoxFuture<'a, Result<Reply, Lost>> {
        Box::pin(self.run(call, agent))
    }

    fn own_wait(&self, call: &Call) -> Duration {
        own_wait(call)
    }

    fn lost(&self) -> watch::Receiver<Option<Lost>> {
        self.lost.subscribe()
    }

    fn take_crashes(&mut self) -> Vec<Crash> {
        let Some(crashes) = &self.crashes else { return Vec::new() };
        let crashes = crashes.borrow();
        let new = crashes.since(self.crashes_reported).map(|(_, crash)| crash.clone()).collect();
        self.crashes_reported = crashes.count;
        new
    }

    fn take_stopped_downloads(&mut self) -> Option<StoppedDownloads> {
        let (downloads, account) = self.disk_meter.account.as_ref()?;
        downloads.take_stopped(account)
    }

    fn assign(&mut self, user: PortUser) {
        if let Some(port) = &self.egress_port {
            port.assign(user.clone());
        }
        self.user = Some(user);
    }

    fn take_refusals(&mut self) -> Refusals {
        self.egress_port.as_ref().map(|port| port.take_refusals()).unwrap_or_default()
    }

    fn view(&self) -> watch::Receiver<View> {
        self.view.subscribe()
    }

    /// Closing goes on even if the caller stops waiting.
    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        let tasks = self.instance.base.tasks.clone();
        let closing = tasks.spawn(self.release());
        Box::pin(async move {
            let _ = closing.await;
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::{
        launcher::{Launcher, ProcessSpec},
        process::StderrParser,
    };

    /// A Node process that does not exit when asked is killed, but not before two seconds are over. The clock advances only
    /// in waits.
    #[tokio::test(start_paused = true)]
    async fn node_gets_two_seconds_to_exit() {
        const IGNORES_SIGTERM: &str = "trap '' TERM; echo ready >&2; read line";
        let launcher = Launcher::start("test").unwrap();
        let parser =
            StderrParser { ready: |line| (line == "ready").then(String::new), ..StderrParser::DEFAULT };
        let spec = ProcessSpec::new("/bin/sh").args(["-c", IGNORES_SIGTERM]).pipes();
        let (process, pipes, ready) = Process::start(&launcher, "node", spec, parser).await.unwrap();
        ready.await.unwrap();
        let began = Instant::now();
        end_node(&process).await;
        assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
        let exit = process.wait().await.to_string();
        assert!(exit.contains("signal: 9"), "{exit}");
        // Node's stdin was open until now, so Node did not exit by itself.
        drop(pipes);
    }
}
