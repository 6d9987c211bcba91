//! A seat that is a process: passes its calls on through its engine's adapter; closing it ends the process, and the browser
//! that was started for it.

use std::{path::Path, pin::pin, sync::Arc, time::Duration};

use greenroom_core::{
    Agent, BoxFuture, Call, Crash, Lost, Reply, Seat, View,
    port::{PortUser, Refusals, StoppedDownloads},
};
use tokio::{sync::watch, time::timeout};

use super::{SeatBrowser, SeatProcess, seat_process::disk_used};
use crate::{disk_use::DiskUse, loss::wait_for_loss, tool_answer::ensure_success};

/// How long reading a process's output from before its end may take. It is in a local pipe.
const ANSWER_DRAIN_WITHIN: Duration = Duration::from_secs(1);

/// Changes the calls to the process of a seat, and its answers.
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
pub(crate) struct PassUnchanged;

impl CallAdapter for PassUnchanged {
    fn run<'a>(
        &'a mut self,
        process: &'a SeatProcess,
        call: Call,
        agent: Arc<dyn Agent>,
    ) -> BoxFuture<'a, Result<Reply, Lost>> {
        Box::pin(process.forward_call(call, agent))
    }

    fn own_wait(&self, _: &Call) -> Duration {
        Duration::ZERO
    }
}

pub(super) struct ProcessSeat {
    process: Arc<SeatProcess>,
    adapter: Box<dyn CallAdapter>,
    /// Always empty if greenroom does not observe the browser.
    view: watch::Receiver<View>,
    /// How many crashes of its tabs were reported.
    crashes_reported: u64,
}

/// Marks the end of a call when dropped, also when the call is cancelled.
struct BusyGuard<'a>(&'a watch::Sender<bool>);

impl Drop for BusyGuard<'_> {
    fn drop(&mut self) {
        self.0.send_replace(false);
    }
}

impl ProcessSeat {
    pub(super) fn new(process: Arc<SeatProcess>, adapter: Box<dyn CallAdapter>) -> Self {
        let view = process.browser.as_ref().map(SeatBrowser::view);
        let view = view.unwrap_or_else(|| watch::Sender::new(View::default()).subscribe());
        Self { process, adapter, view, crashes_reported: 0 }
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
    pub(crate) async fn forward_call(&self, call: Call, agent: Arc<dyn Agent>) -> Result<Reply, Lost> {
        if let Some(browser) = &self.browser {
            browser.wait_for_resets().await;
        }
        self.busy.send_replace(true);
        let _busy = BusyGuard(&self.busy);
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
            Err(lost) => match timeout(ANSWER_DRAIN_WITHIN, answer).await {
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
                Some(browser) if ensure_success(&body).is_ok() => {
                    browser.refresh().await;
                    return Ok(body.into());
                }
                // An engine reports a dead browser or page as an ordinary failure. Ask the browser whether it died.
                Some(browser) => return browser.gone().await.map_or_else(|| Ok(body.into()), Err),
            },
            Err(gone) => gone,
        };
        self.connection_broke(&gone);
        Err(wait_for_loss(&mut lost, gone).await)
    }
}

impl Seat for ProcessSeat {
    fn call<'a>(&'a mut self, call: Call, agent: Arc<dyn Agent>) -> BoxFuture<'a, Result<Reply, Lost>> {
        self.adapter.run(&self.process, call, agent)
    }

    fn own_wait(&self, call: &Call) -> Duration {
        self.adapter.own_wait(call)
    }

    fn lost(&self) -> watch::Receiver<Option<Lost>> {
        self.process.lost()
    }

    fn take_crashes(&mut self) -> Vec<Crash> {
        let Some(browser) = &self.process.browser else { return Vec::new() };
        let (crashes, count) = browser.crashes_since(self.crashes_reported);
        self.crashes_reported = count;
        crashes
    }

    fn take_stopped_downloads(&mut self) -> Option<StoppedDownloads> {
        self.process.browser.as_ref()?.downloads()?.take_stopped(&None)
    }

    fn assign(&mut self, user: PortUser) {
        if let Some(port) = self.process.browser.as_ref().and_then(SeatBrowser::egress_port) {
            port.assign(user);
        }
    }

    fn take_refusals(&mut self) -> Refusals {
        let port = self.process.browser.as_ref().and_then(SeatBrowser::egress_port);
        port.map(|port| port.take_refusals()).unwrap_or_default()
    }

    fn view(&self) -> watch::Receiver<View> {
        self.view.clone()
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move { self.process.close_and_stop().await })
    }
}
