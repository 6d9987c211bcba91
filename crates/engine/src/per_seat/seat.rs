//! A seat that is a process: passes its calls on through its engine's adapter; closing it ends the process, and the browser
//! that was started for it.

use std::{path::Path, pin::pin, sync::Arc, time::Duration};

use greenroom_core::{Agent, BoxFuture, Call, Crash, Lost, Reply, Seat, View, port::StoppedDownloads};
use tokio::{sync::watch, time::timeout};

use super::{SeatBrowser, SeatProcess, seat_process::disk_used};
use crate::{disk_use::DiskUse, exit_reason::settle, tool_answer::failure};

/// How long reading a process's output from before its end may take. It is in a local pipe.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How an engine's calls are passed on to the process of a seat, and its answers returned.
pub(crate) trait CallAdapter: Send {
    fn run<'a>(
        &'a mut self,
        process: &'a SeatProcess,
        call: Call,
        agent: Arc<dyn Agent>,
    ) -> BoxFuture<'a, Result<Reply, Lost>>;
    /// How much longer than the usual deadline this call asks to wait, by its own arguments.
    fn own_wait(&self, call: &Call) -> Duration;
}

/// Passes calls and answers on unchanged.
pub(crate) struct Unchanged;

impl CallAdapter for Unchanged {
    fn run<'a>(
        &'a mut self,
        process: &'a SeatProcess,
        call: Call,
        agent: Arc<dyn Agent>,
    ) -> BoxFuture<'a, Result<Reply, Lost>> {
        Box::pin(process.pass_on(call, agent))
    }

    fn own_wait(&self, _: &Call) -> Duration {
        Duration::ZERO
    }
}

pub(super) struct ProcessSeat {
    living: Arc<SeatProcess>,
    adapter: Box<dyn CallAdapter>,
    /// Always empty if there is nothing to observe.
    view: watch::Receiver<View>,
    /// How many crashes of its tabs were reported.
    crashes_told: u64,
}

/// Marks the end of a call when dropped, also when the call is cancelled.
struct Busy<'a>(&'a watch::Sender<bool>);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.send_replace(false);
    }
}

impl ProcessSeat {
    pub(super) fn new(living: Arc<SeatProcess>, adapter: Box<dyn CallAdapter>) -> Self {
        let view = living.browser.as_ref().map(SeatBrowser::view);
        let view = view.unwrap_or_else(|| watch::Sender::new(View::default()).subscribe());
        Self { living, adapter, view, crashes_told: 0 }
    }
}

impl SeatProcess {
    /// The seat's private folder, which the engine knows as its root.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// How much disk space the files of the seat take, including its browser's downloads.
    pub(crate) async fn disk_used(&self) -> DiskUse {
        disk_used(self.folder(), self.browser.as_ref().and_then(SeatBrowser::downloads)).await
    }

    /// Calls the engine, and asks the browser if that may explain a failure.
    pub(crate) async fn pass_on(&self, call: Call, agent: Arc<dyn Agent>) -> Result<Reply, Lost> {
        if let Some(browser) = &self.browser {
            browser.until_reset().await;
        }
        self.busy.send_replace(true);
        let _busy = Busy(&self.busy);
        let mut lost = self.lost();
        let mut answer = pin!(self.upstream.ask(call.method, &call.params, agent));
        let ended = async { lost.wait_for(Option::is_some).await.ok().and_then(|lost| lost.clone()) };
        let first = tokio::select! {
            biased;
            answer = &mut answer => Ok(answer),
            why = ended => Err(why.unwrap_or(Lost::Shutdown)),
        };
        let answer = match first {
            Ok(answer) => answer,
            // An answer that the process sent before it ended may still be in the pipe.
            Err(lost) => match timeout(LAST_WORDS, answer).await {
                Ok(answer) => answer,
                Err(_) => return Err(lost),
            },
        };
        let browser = self.browser.as_ref();
        let answer = answer.map(|body| match browser {
            Some(browser) => browser.answer_without_secret(body),
            None => body,
        });
        let gone = match answer {
            Ok(body) => match browser {
                None => return Ok(body.into()),
                Some(browser) if failure(&body).is_ok() => {
                    browser.refresh().await;
                    return Ok(body.into());
                }
                // An engine reports a dead browser or page as an ordinary failure. Ask the browser whether it died.
                Some(browser) => return browser.gone().await.map_or_else(|| Ok(body.into()), Err),
            },
            Err(gone) => gone,
        };
        self.connection_broke(&gone);
        Err(settle(&mut lost, gone).await)
    }
}

impl Seat for ProcessSeat {
    fn call<'a>(&'a mut self, call: Call, agent: Arc<dyn Agent>) -> BoxFuture<'a, Result<Reply, Lost>> {
        self.adapter.run(&self.living, call, agent)
    }

    fn own_wait(&self, call: &Call) -> Duration {
        self.adapter.own_wait(call)
    }

    fn lost(&self) -> watch::Receiver<Option<Lost>> {
        self.living.lost()
    }

    fn take_crashes(&mut self) -> Vec<Crash> {
        let Some(browser) = &self.living.browser else { return Vec::new() };
        let (crashes, count) = browser.crashes_since(self.crashes_told);
        self.crashes_told = count;
        crashes
    }

    fn take_stopped_downloads(&mut self) -> Option<StoppedDownloads> {
        self.living.browser.as_ref()?.downloads()?.take_stopped(&None)
    }

    fn view(&self) -> watch::Receiver<View> {
        self.view.clone()
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move { self.living.end().await })
    }
}
