//! Ends pages that keep one of greenroom's own browsers from answering, or that fill the memory. Such a page loses its tab;
//! otherwise all sessions would lose the browser.
//!
//! [`watch`] runs for each browser. [`usage`] reads from `/proc` what the browser's processes use, [`judge`] decides which
//! renderer to end, with the shares of the browser's own memory in `kept_memory.rs`. [`drawing`] does the same for the GPU process, which all sessions share too. A browser that is stopped, or that waits for a processor, uses no processor time while it does not
//! answer, and no page is ended for that.
//!
//! Pages send faster than the browser works, so seconds of work may wait when a page ends. Until a late browser has
//! answered, all of its renderers are stopped: it could serve none of them meanwhile, and none can add work.
//!
//! An idle browser is not called: only its processor time is read.

mod drawing;
mod judge;
mod kept_memory;
mod shared_memory;
mod signals;
mod usage;

use std::{pin::Pin, sync::Arc, time::Duration};

use tokio::{
    sync::mpsc,
    task::spawn_blocking,
    time::{Instant, MissedTickBehavior, interval},
};

use crate::{browser_handle::BrowserHandle, observer::Observer};
use drawing::Drawn;
use judge::{Decision, Judge, Verdict};
use signals::{Stopped, Stops, end};
use usage::{GPU_PROCESS, ProcessId, Processes, RENDERER, processor_time};

pub(crate) use usage::machine_memory;

/// How often a browser's processor time is read. For some attacks the browser's cleanup time grows with the square of their
/// duration, so a page must end within seconds.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A browser that used more than this since the last measurement is asked for a sign of life, and its processes are
/// measured.
const BUSY: Duration = Duration::from_millis(50);

/// An answer that took less work than this came promptly.
const PROMPT: Duration = Duration::from_millis(100);

/// Renderers are stopped when the browser has done this much work and still owes an answer.
const STOP_AFTER: Duration = Duration::from_millis(200);

/// How often the work of a browser that owes an answer is checked for that.
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// The longest time for which renderers are stopped. Work that takes longer is hardly for them.
const STOPPED_MAX: Duration = Duration::from_secs(10);

/// An idle browser's processes are measured once in this many looks: their memory can grow without the browser's work.
const IDLE_LOOKS: u32 = 4;

/// A measurement that comes this late means that greenroom itself was stopped, or the machine slept: the browser may have
/// answered long ago, so measurements meanwhile do not count.
const LATE: Duration = Duration::from_secs(2);

/// How long after the browser's first answer a crash still counts as caused by greenroom. Browsers announce it within
/// milliseconds of cleaning up.
const ANNOUNCED_WITHIN: Duration = Duration::from_secs(2);

/// Ends pages of this browser as long as it runs. Never returns for an attached browser.
pub(crate) async fn watch(browser: &BrowserHandle, observer: &Observer) {
    let Some(process) = browser.process() else { return std::future::pending().await };
    let pid = process.pid();
    let stops = Stops::new(pid);
    // The receiver ends one page at a time.
    let (endings, mut pages_to_end) = mpsc::channel(1);
    let drawn = Drawn::default();
    let drawing = drawing::watch(pid, observer, &stops, &drawn, &endings);
    tokio::pin!(drawing);
    let judge = Judge::new(browser.memory_bytes_max());
    let processes = Some(Processes::new(pid));
    let used = processor_time(pid).unwrap_or_default();
    let mut watch = Watch {
        pid,
        observer,
        stops: &stops,
        drawn: &drawn,
        judge,
        processes,
        used,
        question: None,
        stopped: None,
        ended: None,
        looks: 0,
    };
    let mut ticks = interval(LOOK_EVERY);
    let mut checks = interval(CHECK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = Instant::now();
    loop {
        tokio::select! {
            biased;
            is_well = answered(&mut watch.question) => watch.answered(is_well),
            _ = ticks.tick() => {
                let now = Instant::now();
                if now.duration_since(last) > LATE {
                    watch.question = None;
                    watch.stopped = None;
                    watch.judge.forget();
                }
                last = now;
                if !watch.look(now).await && process.exit().borrow().is_some() {
                    return;
                }
            }
            // Also without a question: stopped renderers must not wait for the next one.
            _ = checks.tick(), if watch.question.is_some() || watch.stopped.is_some() => {
                watch.stop_or_continue().await;
            }
            Some(drawing::Ending { verdict, stopped }) = pages_to_end.recv() => {
                watch.end(verdict).await;
                drop(stopped);
            }
            () = &mut drawing => return,
        }
    }
}

/// A question to the browser without an answer so far.
struct Question<'a> {
    /// Resolves with whether it was answered, and not given up.
    answer: Pin<Box<dyn Future<Output = bool> + Send + 'a>>,
    /// The browser's processor time when it was asked, or when its work was last counted.
    counted: Duration,
    /// Work during the wait that is not counted yet.
    uncounted: Duration,
    /// Whether work was counted before: then all further work is.
    is_late: bool,
    /// Whether renderers were stopped for it.
    has_stopped: bool,
}

/// The state of one watched browser.
struct Watch<'a> {
    pid: u32,
    observer: &'a Observer,
    stops: &'a Arc<Stops>,
    /// For [`drawing`], which does not read all processes itself.
    drawn: &'a Drawn,
    judge: Judge,
    /// `None` only while another thread reads them.
    processes: Option<Processes>,
    /// The browser's processor time at the last measurement.
    used: Duration,
    question: Option<Question<'a>>,
    /// Since when its renderers are stopped. They continue when this is dropped.
    stopped: Option<(Instant, Stopped)>,
    /// Whether a page was ended; once the browser has answered again, until when crashes count as caused by that.
    ended: Option<Option<Instant>>,
    looks: u32,
}

async fn answered(question: &mut Option<Question<'_>>) -> bool {
    match question {
        Some(question) => question.answer.as_mut().await,
        None => std::future::pending().await,
    }
}

impl Watch<'_> {
    fn answered(&mut self, is_well: bool) {
        let Some(used) = processor_time(self.pid) else {
            self.question = None;
            self.stopped = None;
            return;
        };
        let was_late = self.count(used);
        self.question = None;
        if is_well {
            self.stopped = None;
            if let Some(until @ None) = &mut self.ended {
                *until = Some(Instant::now() + ANNOUNCED_WITHIN);
            }
        }
        if was_late {
            self.ask(used);
        }
    }

    /// Counts the browser's work since it was asked, unless it may still answer promptly. Returns whether it was counted.
    fn count(&mut self, used: Duration) -> bool {
        let Some(question) = &mut self.question else { return false };
        question.uncounted += used.saturating_sub(question.counted);
        question.counted = used;
        let is_late = question.is_late || question.uncounted >= PROMPT;
        question.is_late = is_late;
        if is_late {
            self.judge.waited(std::mem::take(&mut question.uncounted));
        }
        is_late
    }

    /// Stops the renderers of a late browser, and continues them when that takes too long.
    async fn stop_or_continue(&mut self) {
        if let Some((since, _)) = &self.stopped {
            if since.elapsed() > STOPPED_MAX {
                self.stopped = None;
            }
            return;
        }
        let (Some(question), Some(used)) = (&self.question, processor_time(self.pid)) else { return };
        let work = question.uncounted + used.saturating_sub(question.counted);
        if question.has_stopped || (work < STOP_AFTER && !question.is_late) {
            return;
        }
        let browser = self.pid;
        let stops = self.stops.clone();
        let stopped = spawn_blocking(move || stops.stop_all()).await;
        match stopped.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
            Ok(stopped) => {
                tracing::debug!(
                    browser,
                    renderers = stopped.count(),
                    "stopped the renderers of a browser that is late with its answer"
                );
                self.stopped = Some((Instant::now(), stopped));
            }
            Err(error) => tracing::warn!(browser, %error, "cannot stop renderers"),
        }
        if let Some(question) = &mut self.question {
            question.has_stopped = true;
        }
    }

    fn ask(&mut self, used: Duration) {
        let observer = self.observer;
        // A browser that refuses, or has not answered for long, is asked again.
        let answer = Box::pin(async move { observer.ping().await.is_ok() });
        self.question = Some(Question {
            answer,
            counted: used,
            uncounted: Duration::ZERO,
            is_late: false,
            has_stopped: false,
        });
    }

    /// Measures the browser, and ends a page if necessary. Returns whether the browser could be measured.
    async fn look(&mut self, now: Instant) -> bool {
        let Some(used) = processor_time(self.pid) else { return false };
        let is_busy = used.saturating_sub(self.used) > BUSY;
        self.used = used;
        self.count(used);
        self.forget_ended(now);
        if self.question.is_none() && (is_busy || self.ended.is_some()) {
            self.ask(used);
        }
        self.looks += 1;
        if is_busy || self.question.is_some() || self.looks >= IDLE_LOOKS {
            self.looks = 0;
            self.judge_pages().await;
        }
        true
    }

    async fn judge_pages(&mut self) {
        let Some(mut processes) = self.processes.take() else { return };
        let read = spawn_blocking(move || {
            let usage = processes.read();
            (processes, usage)
        });
        let (processes, usage) = match read.await {
            Ok(read) => read,
            Err(error) => {
                tracing::warn!(browser = self.pid, %error, "cannot read the resources that a browser uses");
                return self.processes = Some(Processes::new(self.pid));
            }
        };
        self.processes = Some(processes);
        let now = Instant::now();
        *self.drawn.lock() = usage.drawn();
        self.judge.saw(now, usage, self.stopped.is_some());
        match self.judge.decide(now) {
            Some(Decision::EndPage(verdict)) => self.end(verdict).await,
            Some(Decision::EndGpuProcess(process)) => self.end_gpu_process(process).await,
            None => {}
        }
    }

    /// Ends the GPU process, whose memory no page can be blamed for. The browser starts another one within tenths of a
    /// second, and pages lose what they keep in it: textures, say.
    async fn end_gpu_process(&mut self, process: ProcessId) {
        let (browser, pid) = (self.pid, process.pid);
        let ended = spawn_blocking(move || end(browser, process, GPU_PROCESS)).await;
        match ended.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
            Ok(_) => tracing::warn!(browser, pid, "ended a GPU process that took too much memory"),
            Err(error) => tracing::warn!(browser, pid, %error, "cannot end a GPU process"),
        }
    }

    async fn end(&mut self, Verdict { process, why }: Verdict) {
        let browser = self.pid;
        let pid = process.pid;
        // The browser may announce the crash before the next line runs.
        self.observer.tell_why_killed(Some(why.into()));
        self.ended = Some(None);
        let ended = spawn_blocking(move || end(browser, process, RENDERER)).await;
        match ended.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
            Ok(true) => {
                tracing::warn!(browser, pid, why, "ended a page");
                // The next question shows when the browser has cleaned up.
                self.question = None;
                return;
            }
            Ok(false) => tracing::debug!(browser, pid, why, "the page to end is gone already"),
            Err(error) => tracing::warn!(browser, pid, why, %error, "cannot end a page"),
        }
        self.ended = None;
        self.observer.tell_why_killed(None);
    }

    fn forget_ended(&mut self, now: Instant) {
        if matches!(self.ended, Some(Some(until)) if until <= now) {
            self.ended = None;
            self.observer.tell_why_killed(None);
        }
    }
}
