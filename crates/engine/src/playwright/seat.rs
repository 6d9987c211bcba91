//! One context of the instance's Chromium, driven through one MCP session with Node.

use std::{sync::Arc, time::Duration};

use greenroom_core::{
    Agent, Artifact, ArtifactKind, BoxFuture, Call, Fields, Lost, Raw, Reply, Seat, StartError, View,
    raw::encode,
};
use serde_json::json;
use tokio::{
    sync::{oneshot, watch},
    task::JoinSet,
    time::timeout,
};

use super::{
    STOP_GRACE,
    files::{self, Outgoing, Place},
    instance::Shared,
    text,
};
use crate::{
    loss::settle,
    observer::Watched,
    process::Process,
    run_folder::{Scratch, unwritable},
    upstream::Upstream,
};

/// How long the engine may take to end one MCP session: usual are milliseconds. One that needs longer may hang.
const GOODBYE: Duration = Duration::from_secs(3);

/// A call may ask for a longer wait than the deadline, but not for one that would hold its slot for ever.
const OWN_WAIT_MAX: Duration = Duration::from_secs(3600);

/// The tool that closes the context and leaves the session empty.
const CLOSE: &str = "browser_close";

pub(super) struct PlaywrightSeat {
    instance: Arc<Shared>,
    upstream: Arc<Upstream>,
    /// The seat's own Node, in an instance with one slot.
    process: Option<Process>,
    folder: Scratch,
    /// `None` while the session is empty: before its first page, and after `browser_close`.
    context: Option<String>,
    view: watch::Sender<View>,
    lost: watch::Sender<Option<Lost>>,
    /// Follows the instance, the seat's process and its context.
    watchers: JoinSet<()>,
}

impl PlaywrightSeat {
    pub(super) async fn open(instance: Arc<Shared>, agent: Arc<dyn Agent>) -> Result<Self, StartError> {
        let run = &instance.engine.run;
        let folder = run.fresh("seats").map_err(|error| unwritable(run, &error))?;
        let (upstream, process) = instance.connect(folder.path(), agent.clone()).await?;
        let mut seat = Self {
            instance,
            upstream: Arc::new(upstream),
            process,
            folder,
            context: None,
            view: watch::Sender::new(View::default()),
            lost: watch::Sender::new(None),
            watchers: JoinSet::new(),
        };
        seat.follow_processes();
        if let Err(error) = seat.make_context(agent).await {
            Box::new(seat).close().await;
            return Err(error);
        }
        Ok(seat)
    }

    fn follow_processes(&mut self) {
        let (lost, mut instance) = (self.lost.clone(), self.instance.lost.subscribe());
        let mut process = self.process.as_ref().map(crate::loss::lost_with);
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

    /// Has the engine make a context, to the end, whether or not anybody still waits for it: a context that comes
    /// up late would be taken for the next seat's.
    async fn make_context(&mut self, agent: Arc<dyn Agent>) -> Result<(), StartError> {
        let (deliver, made) = oneshot::channel();
        let (instance, upstream) = (self.instance.clone(), self.upstream.clone());
        self.instance.tasks.spawn(async move {
            let made = instance.new_context(&upstream, agent).await;
            if let Err(Ok((unwanted, _))) = deliver.send(made) {
                instance.observer.dispose(&unwanted).await;
            }
        });
        let panicked = |_| StartError::new("the engine's adapter panicked");
        let (context, watched) = made.await.map_err(panicked)??;
        self.follow_context(watched);
        self.context = Some(context);
        Ok(())
    }

    fn follow_context(&mut self, watched: Watched) {
        let (view, lost) = (self.view.clone(), self.lost.clone());
        let Watched { view: mut theirs, mut crashed } = watched;
        self.watchers.spawn(async move {
            loop {
                view.send_replace(theirs.borrow_and_update().clone());
                tokio::select! {
                    changed = theirs.changed() => if changed.is_err() { return },
                    why = crashed.wait_for(Option::is_some) => {
                        if let Ok(why) = why {
                            lost.send_replace(why.clone());
                        }
                        return;
                    }
                }
            }
        });
    }

    async fn run(&mut self, mut call: Call, agent: Arc<dyn Agent>) -> Result<Reply, Lost> {
        let place = Place { folder: self.folder.path(), data: &self.instance.engine.options.data_folder };
        let outgoing = match files::bring_in(&mut call, &place, agent.as_ref()).await {
            Ok(outgoing) => outgoing,
            Err(refused) => return Ok(failed("file_refused", &refused.to_string())),
        };
        if self.context.is_none()
            && &*call.tool != CLOSE
            && let Err(error) = self.make_context(agent.clone()).await
        {
            return match self.instance.gone().await {
                Some(lost) => Err(lost),
                None => Ok(failed("start_failed", &error.to_string())),
            };
        }
        let mut lost = self.lost.subscribe();
        let body = tokio::select! {
            biased;
            Ok(why) = lost.wait_for(Option::is_some) => return Err(why.clone().unwrap_or(Lost::Shutdown)),
            answer = self.upstream.call(&call.params, agent) => answer,
        };
        let body = match body {
            Ok(body) => body,
            Err(gone) => return Err(settle(&mut lost, gone).await),
        };
        if failure(&body).is_err() {
            // The engine reports a dead browser or page as an ordinary failure. Ask the browser whether it was.
            if let Some(lost) = self.instance.gone().await {
                return Err(lost);
            }
            if let Some(lost) = self.crash_seen().await {
                return Err(lost);
            }
        } else if &*call.tool == CLOSE
            && let Some(context) = self.context.take()
        {
            self.instance.observer.dispose(&context).await;
            self.view.send_replace(View::default());
        } else {
            self.instance.observer.refresh().await;
        }
        Ok(self.shape(body, outgoing).await)
    }

    /// Gives everything back. On an instance that is lost there is nobody to say goodbye to.
    async fn give_back(self: Box<Self>) {
        let Self { instance, upstream, process, folder, context, mut watchers, .. } = *self;
        watchers.shutdown().await;
        let goodbye = async {
            if timeout(GOODBYE, upstream.close()).await.is_err() {
                instance.check_engine().await;
            }
            if let Some(context) = &context {
                instance.observer.dispose(context).await;
            }
        };
        tokio::select! {
            biased;
            _ = instance.until_lost() => {}
            () = goodbye => {}
        }
        drop(upstream);
        if let Some(process) = process {
            process.stop(STOP_GRACE).await;
        }
        folder.clear().await;
    }

    /// A crash that the observer has seen but that has not reached this seat's own watch yet.
    async fn crash_seen(&self) -> Option<Lost> {
        let context = self.context.as_deref()?;
        let watched = self.instance.observer.watch(context).await?;
        watched.crashed.borrow().clone()
    }

    /// Reads what the answer links to, and hands out the file that the agent asked for.
    async fn shape(&self, body: Result<Raw, Raw>, outgoing: Option<Outgoing>) -> Reply {
        let Ok(result) = &body else { return Reply { body, artifacts: Vec::new() } };
        let keep = outgoing.as_ref().map(|outgoing| outgoing.agent_name.as_str());
        let mut artifacts = text::artifacts(result.get(), self.folder.path(), keep).await;
        if let Some(outgoing) = outgoing {
            if let Err(error) = files::take_out(&outgoing, self.folder.path()).await {
                let name = outgoing.agent_name;
                return failed(
                    "file_refused",
                    &format!("the result was made but cannot be written: {error}: `{name}`"),
                );
            }
            if outgoing.engine_name != outgoing.agent_name {
                for (at, _) in result.get().match_indices(&outgoing.engine_name) {
                    let link = at..at + outgoing.engine_name.len();
                    artifacts.push(Artifact {
                        kind: ArtifactKind::Path,
                        link,
                        text: outgoing.agent_name.clone(),
                    });
                }
                artifacts.sort_by_key(|artifact| artifact.link.start);
            }
        }
        Reply { body, artifacts }
    }
}

/// The text of a failed answer.
pub(super) fn failure(body: &Result<Raw, Raw>) -> Result<(), String> {
    let result = body.as_ref().map_err(|error| error.get().to_owned())?;
    let is_error = Fields::open(result).ok().and_then(|fields| fields.read::<bool>("isError").ok().flatten());
    if is_error == Some(true) { Err(result.get().to_owned()) } else { Ok(()) }
}

/// A failed tool of our own making, with a code that stays the same.
fn failed(code: &str, message: &str) -> Reply {
    let body = encode(&json!({
        "content": [{ "type": "text", "text": format!("### Error\n{message}") }],
        "isError": true,
        "_meta": { "greenroom/error": { "code": code, "retryable": false } },
    }));
    Reply { body: Ok(body), artifacts: Vec::new() }
}

impl Seat for PlaywrightSeat {
    fn call<'a>(&'a mut self, call: Call, agent: Arc<dyn Agent>) -> BoxFuture<'a, Result<Reply, Lost>> {
        Box::pin(self.run(call, agent))
    }

    /// `browser_wait_for` says itself how long it takes, in seconds.
    fn own_wait(&self, call: &Call) -> Duration {
        if &*call.tool != "browser_wait_for" {
            return Duration::ZERO;
        }
        let arguments =
            Fields::open(&call.params).ok().and_then(|params| params.read::<Fields>("arguments").ok()?);
        let seconds = arguments.and_then(|arguments| arguments.read::<f64>("time").ok()?).unwrap_or_default();
        Duration::try_from_secs_f64(seconds).unwrap_or_default().min(OWN_WAIT_MAX)
    }

    fn lost(&self) -> watch::Receiver<Option<Lost>> {
        self.lost.subscribe()
    }

    fn view(&self) -> watch::Receiver<View> {
        self.view.subscribe()
    }

    /// Closing goes on when nobody waits for it any more.
    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        let tasks = self.instance.tasks.clone();
        let closing = tasks.spawn(self.give_back());
        Box::pin(async move {
            let _ = closing.await;
        })
    }
}
