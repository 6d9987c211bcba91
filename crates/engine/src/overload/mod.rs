//! Ends pages that keep one of greenroom's own browsers from answering, or that exceed the browser's limits. Such a page loses
//! its tab; otherwise all sessions would lose the browser.
//!
//! [`watch`] runs for each browser. [`usage`] reads from `/proc` what the browser's processes use, [`judge`] decides which
//! renderer to end, [`memory_judge`] for memory, with the shares of the browser's own memory in `memory_attribution.rs`.
//! [`drawing`] does the same for the GPU process, which all sessions share too. [`processor_limit`] finds the page that gets a
//! lower priority. A browser that is stopped, or that waits for a processor, uses no processor time while it does not answer,
//! so no page is ended for that. A browser that exceeds a limit without a page to blame is lost.
//!
//! Pages send faster than the browser works, so seconds of work may wait when a page ends. Until a late browser has
//! answered, [`watch`] stops all of its renderers, so that none adds work. The browser could serve none of them
//! meanwhile.
//!
//! An idle browser is not called: only its processor time is read.

mod drawing;
mod judge;
mod memory_attribution;
mod memory_judge;
mod memory_limit;
mod processor_limit;
mod shared_memory;
mod signals;
mod usage;

use std::{pin::Pin, sync::Arc, time::Duration};

use greenroom_core::Lost;
use tokio::{
    sync::mpsc,
    task::spawn_blocking,
    time::{Instant, MissedTickBehavior, interval},
};

use crate::{
    browser_handle::BrowserHandle, browser_limits::BrowserLimits, chromium::Chromium, observer::Observer,
    priority::lower_page,
};
use drawing::CompositorTimes;
use judge::{Decision, Judge, PageVerdict, UsageLimits};
use memory_judge::TOOK_MEMORY;
use memory_limit::MemoryLimit;
use processor_limit::ProcessorLimit;
use signals::{StopGuard, StoppedRenderers, kill_helper};
use usage::{GPU_PROCESS, ProcessId, Processes, RENDERER, cpu_time_of, machine_memory};

/// How often a browser's processor time is read. For some attacks the browser's cleanup time grows with the square of their
/// duration, so a page must end within seconds.
const SAMPLE_EVERY: Duration = Duration::from_millis(500);

/// A browser that used more than this since the last measurement gets a ping, and its processes are
/// measured.
const BUSY_CPU_TIME: Duration = Duration::from_millis(50);

/// An answer that took less work than this came promptly.
const PROMPT_CPU_TIME_MAX: Duration = Duration::from_millis(100);

/// Renderers are stopped when the browser has done this much work and still owes an answer.
const STOP_AFTER_CPU_TIME: Duration = Duration::from_millis(200);

/// How often the work of a browser that owes an answer is checked for that.
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// The longest time for which renderers are stopped. Work that takes longer is hardly caused by them.
const RENDERERS_STOPPED_MAX: Duration = Duration::from_secs(10);

/// An idle browser's processes are measured once in this many samples: their memory can grow without the browser's work.
const IDLE_SAMPLES_PER_MEASUREMENT: u32 = 4;

/// A measurement that comes this late means that greenroom itself was stopped, or the machine slept: the browser may have
/// answered long ago, so measurements meanwhile do not count.
const SAMPLE_GAP_MAX: Duration = Duration::from_secs(2);

/// How long after the browser's first answer a crash still counts as caused by greenroom. Browsers announce it within
/// milliseconds of cleaning up.
const CRASH_ANNOUNCED_WITHIN: Duration = Duration::from_secs(2);

/// Why a session ends whose page was ended for its memory, if the memory is still in use afterwards.
const KEPT_MEMORY: &str =
    "its pages have stored too much, and the browser keeps that in memory (pool.memory_bytes_max)";

/// The memory and the number of processes that a browser takes now.
pub(crate) fn used_now(browser: u32) -> (u64, usize) {
    let usage = Processes::new(browser).read();
    (usage.memory(), usage.processes)
}

/// Ends pages of this browser as long as it runs. Resolves with why the browser is lost, if it exceeds a limit and no page can
/// be blamed; never for an attached browser, and never after the browser has ended.
pub(crate) async fn watch(browser: &BrowserHandle, observer: &Observer) -> Lost {
    let Some(chromium) = browser.started() else { return std::future::pending().await };
    let process = chromium.process();
    let pid = process.pid();
    let stopped_renderers = StoppedRenderers::new(pid);
    // The receiver ends one page at a time.
    let (to_end, mut pages_to_end) = mpsc::channel(1);
    let compositor_times = CompositorTimes::default();
    let drawing = drawing::watch(pid, observer, &stopped_renderers, &compositor_times, &to_end);
    tokio::pin!(drawing);
    let processes = Some(Processes::new(pid));
    let cpu_time = cpu_time_of(pid).unwrap_or_default();
    let mut watch = OverloadWatch {
        pid,
        observer,
        stopped_renderers: &stopped_renderers,
        compositor_times: &compositor_times,
        judge: Judge::default(),
        chromium,
        limits: chromium.limits(),
        memory_limit: MemoryLimit::new(chromium.limits().memory_bytes_max, pid),
        processor_limit: ProcessorLimit::new(chromium.limits().cpu_cores_max),
        processes,
        cpu_time,
        ping: None,
        stopped: None,
        page_end: PageEnd::None,
        samples_since_measured: 0,
        lost: None,
    };
    let mut ticks = interval(SAMPLE_EVERY);
    let mut checks = interval(CHECK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = Instant::now();
    loop {
        tokio::select! {
            biased;
            has_succeeded = ping_answer(&mut watch.ping) => watch.on_answer(has_succeeded),
            _ = ticks.tick() => {
                let now = Instant::now();
                if now.duration_since(last) > SAMPLE_GAP_MAX {
                    watch.ping = None;
                    watch.stopped = None;
                    watch.judge.reset();
                    watch.processor_limit.reset();
                }
                last = now;
                if !watch.measure(now).await && process.exit().borrow().is_some() {
                    return std::future::pending().await;
                }
                if let Some(lost) = watch.lost.take() {
                    return lost;
                }
            }
            // This also runs without an unanswered ping: stopped renderers must not wait for the next ping.
            _ = checks.tick(), if watch.ping.is_some() || watch.stopped.is_some() => {
                watch.stop_or_continue().await;
            }
            Some(drawing::PageToEnd { verdict, stopped }) = pages_to_end.recv() => {
                watch.end_pages(&[verdict.process], verdict.why).await;
                drop(stopped);
            }
            () = &mut drawing => return std::future::pending().await,
        }
    }
}

/// A ping that the browser has not answered so far.
struct PendingPing<'a> {
    /// Resolves with whether the browser answered; `false` if the call failed.
    answer: Pin<Box<dyn Future<Output = bool> + Send + 'a>>,
    /// The browser's processor time when it was asked, or when its work was last counted.
    counted_cpu_time: Duration,
    /// Work during the wait that is not counted yet.
    uncounted_work: Duration,
    /// Whether work was counted before. Then all further work counts.
    is_late: bool,
    /// Whether renderers were stopped for it.
    has_stopped_renderers: bool,
}

/// Whether greenroom has ended a page, and the browser may still announce that as a crash.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PageEnd {
    /// No page was ended lately.
    None,
    /// A page was ended, and the browser has not answered a ping since.
    AwaitingAnswer,
    /// The browser has answered again. Crashes until then count as caused by greenroom.
    AttributeCrashesUntil(Instant),
}

/// The state of one watched browser.
struct OverloadWatch<'a> {
    pid: u32,
    observer: &'a Observer,
    stopped_renderers: &'a Arc<StoppedRenderers>,
    /// For [`drawing`], which does not read all processes itself.
    compositor_times: &'a CompositorTimes,
    judge: Judge,
    chromium: &'a Chromium,
    limits: &'a BrowserLimits,
    memory_limit: MemoryLimit,
    processor_limit: ProcessorLimit,
    /// `None` only while another thread reads them.
    processes: Option<Processes>,
    /// The browser's processor time at the last measurement.
    cpu_time: Duration,
    ping: Option<PendingPing<'a>>,
    /// Since when its renderers are stopped. They continue when this is dropped.
    stopped: Option<(Instant, StopGuard)>,
    /// Whether crashes that the browser announces count as caused by greenroom.
    page_end: PageEnd,
    samples_since_measured: u32,
    /// Set when the browser exceeds a limit and no page can be blamed.
    lost: Option<Lost>,
}

async fn ping_answer(ping: &mut Option<PendingPing<'_>>) -> bool {
    match ping {
        Some(ping) => ping.answer.as_mut().await,
        None => std::future::pending().await,
    }
}

impl OverloadWatch<'_> {
    fn on_answer(&mut self, has_succeeded: bool) {
        let Some(cpu_time) = cpu_time_of(self.pid) else {
            self.ping = None;
            self.stopped = None;
            return;
        };
        let was_late = self.count_work(cpu_time);
        self.ping = None;
        if has_succeeded {
            self.stopped = None;
            if self.page_end == PageEnd::AwaitingAnswer {
                self.page_end = PageEnd::AttributeCrashesUntil(Instant::now() + CRASH_ANNOUNCED_WITHIN);
            }
        }
        if was_late {
            self.send_ping(cpu_time);
        }
    }

    /// Counts the browser's work since it was asked, unless it may still answer promptly. Returns whether it was counted.
    fn count_work(&mut self, cpu_time: Duration) -> bool {
        let Some(ping) = &mut self.ping else { return false };
        ping.uncounted_work += cpu_time.saturating_sub(ping.counted_cpu_time);
        ping.counted_cpu_time = cpu_time;
        let is_late = ping.is_late || ping.uncounted_work >= PROMPT_CPU_TIME_MAX;
        ping.is_late = is_late;
        if is_late {
            self.judge.add_unanswered_work(std::mem::take(&mut ping.uncounted_work));
        }
        is_late
    }

    /// Stops the renderers of a late browser, and continues them when that takes too long.
    async fn stop_or_continue(&mut self) {
        if let Some((since, _)) = &self.stopped {
            if since.elapsed() > RENDERERS_STOPPED_MAX {
                self.stopped = None;
            }
            return;
        }
        let (Some(ping), Some(cpu_time)) = (&self.ping, cpu_time_of(self.pid)) else { return };
        let work = ping.uncounted_work + cpu_time.saturating_sub(ping.counted_cpu_time);
        if ping.has_stopped_renderers || (work < STOP_AFTER_CPU_TIME && !ping.is_late) {
            return;
        }
        let browser = self.pid;
        let stopped_renderers = self.stopped_renderers.clone();
        let stopped = spawn_blocking(move || stopped_renderers.stop_all()).await;
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
        if let Some(ping) = &mut self.ping {
            ping.has_stopped_renderers = true;
        }
    }

    fn send_ping(&mut self, cpu_time: Duration) {
        let observer = self.observer;
        // A browser that refuses, or has not answered for long, is asked again.
        let answer = Box::pin(async move { observer.ping().await.is_ok() });
        self.ping = Some(PendingPing {
            answer,
            counted_cpu_time: cpu_time,
            uncounted_work: Duration::ZERO,
            is_late: false,
            has_stopped_renderers: false,
        });
    }

    /// Measures the browser, and ends a page if necessary. Returns whether the browser could be measured.
    async fn measure(&mut self, now: Instant) -> bool {
        let Some(cpu_time) = cpu_time_of(self.pid) else { return false };
        let is_busy = cpu_time.saturating_sub(self.cpu_time) > BUSY_CPU_TIME;
        self.cpu_time = cpu_time;
        self.count_work(cpu_time);
        self.forget_page_end(now);
        if self.ping.is_none() && (is_busy || self.page_end != PageEnd::None) {
            self.send_ping(cpu_time);
        }
        self.samples_since_measured += 1;
        if is_busy || self.ping.is_some() || self.samples_since_measured >= IDLE_SAMPLES_PER_MEASUREMENT {
            self.samples_since_measured = 0;
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
        *self.compositor_times.lock() = usage.compositor_times();
        let memory = usage.memory();
        let limits = UsageLimits {
            memory_bytes_max: self.memory_limit.bytes_max(memory),
            processes_max: self.limits.processes_max,
        };
        let slower = self.processor_limit.record(now, &usage, self.throttled_time());
        let processes = usage.processes;
        self.judge.record_usage(now, usage, self.stopped.is_some());
        let decision = self.judge.decide(now, limits);
        if decision.is_some() {
            let max = limits.memory_bytes_max;
            tracing::info!(browser = self.pid, memory, max, processes, ?decision, "a browser is overloaded");
        }
        match decision {
            Some(Decision::EndPage(PageVerdict { process, why })) => self.end_pages(&[process], why).await,
            Some(Decision::EndPages { processes, why }) => self.end_pages(&processes, why).await,
            Some(Decision::LoseSessions { ended_since }) => self.lose_sessions(ended_since).await,
            Some(Decision::EndGpuProcess(process)) => self.end_gpu_process(process).await,
            Some(Decision::EndBrowser { why }) => self.lost = Some(Lost::HealthCheckFailed(why.into())),
            None => {}
        }
        if let Some(process) = slower {
            lower(self.pid, process).await;
        }
    }

    /// For how long the kernel has kept the browser from running since the last measurement.
    fn throttled_time(&self) -> Duration {
        let Some((before, now)) = self.chromium.next_events() else { return Duration::ZERO };
        if now.refused_forks > before.refused_forks {
            tracing::warn!(
                browser = self.pid,
                "the kernel refused a browser more threads: it has as many as `pool.processes_max` allows"
            );
        }
        now.throttled.saturating_sub(before.throttled)
    }

    /// Ends the GPU process, whose memory no page can be blamed for. The browser starts another one within tenths of a
    /// second, and pages lose what they keep in it: textures, say.
    async fn end_gpu_process(&mut self, process: ProcessId) {
        let browser = self.pid;
        let pid = process.pid;
        let ended = spawn_blocking(move || kill_helper(browser, process, GPU_PROCESS)).await;
        match ended.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
            Ok(_) => tracing::warn!(browser, pid, "ended a GPU process that took too much memory"),
            Err(error) => tracing::warn!(browser, pid, %error, "cannot end a GPU process"),
        }
    }

    /// Ends the sessions of pages that were ended for their memory: what these pages have stored is in memory until their
    /// contexts are gone.
    async fn lose_sessions(&mut self, ended_since: Instant) {
        tracing::warn!(
            browser = self.pid,
            "a browser keeps too much memory after the end of a page; the page's session ends"
        );
        let lost = Lost::HealthCheckFailed(KEPT_MEMORY.into());
        self.observer.lose_seats_of_ended_pages(TOOK_MEMORY, ended_since, lost).await;
    }

    async fn end_pages(&mut self, processes: &[ProcessId], why: &'static str) {
        let browser = self.pid;
        // The browser may announce a crash before the next line runs.
        self.observer.tell_why_killed(Some(why.into()));
        self.page_end = PageEnd::AwaitingAnswer;
        let mut has_ended = false;
        for process in processes.iter().copied() {
            let pid = process.pid;
            let ended = spawn_blocking(move || kill_helper(browser, process, RENDERER)).await;
            match ended.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
                Ok(true) => {
                    tracing::warn!(browser, pid, why, "ended a page");
                    has_ended = true;
                }
                Ok(false) => tracing::debug!(browser, pid, why, "the page to end is gone already"),
                Err(error) => tracing::warn!(browser, pid, why, %error, "cannot end a page"),
            }
        }
        if has_ended {
            // The next ping shows when the browser has cleaned up.
            self.ping = None;
            return;
        }
        self.page_end = PageEnd::None;
        self.observer.tell_why_killed(None);
    }

    fn forget_page_end(&mut self, now: Instant) {
        if matches!(self.page_end, PageEnd::AttributeCrashesUntil(until) if until <= now) {
            self.page_end = PageEnd::None;
            self.observer.tell_why_killed(None);
        }
    }
}

/// Lowers the priority of a page's renderer.
async fn lower(browser: u32, process: ProcessId) {
    let pid = process.pid;
    let lowered = spawn_blocking(move || if process.is_running() { lower_page(pid) } else { Ok(None) }).await;
    match lowered.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
        Ok(Some(nice)) => {
            tracing::info!(
                browser,
                pid,
                nice,
                "a browser uses more than `pool.cpu_cores_max`: its busiest page runs at a lower priority"
            );
        }
        Ok(None) => {}
        Err(error) => tracing::debug!(browser, pid, %error, "cannot lower the priority of a page"),
    }
}
