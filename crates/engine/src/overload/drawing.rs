//! Shares the GPU process of a browser fairly between its sessions.
//!
//! One thread of that process draws the pages of all sessions, one after the other. While a page with heavy effects
//! keeps it busy, clicks and screenshots of the other sessions wait: each needs a frame. Processor times do not show
//! which page causes the work, since a page describes seconds of drawing in a few bytes. So [`watch`] finds out by an
//! experiment: it stops all renderers until the thread is idle, lets them go on in groups, and sees with which of them
//! the thread is busy again.
//!
//! From then on [`throttle`] stops the page that it found most of the time, until the page draws less: a heavy page
//! that means no harm goes on slowly. If a single frame takes too long, stopping the page does not help. Then
//! greenroom ends the GPU process, which the browser starts again within tenths of a second, and the page.
//!
//! WebGL does not need this: it runs on other threads, so it delays other pages no more than any busy program does.

mod search;
mod throttle;

use std::{collections::HashMap, io, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::mpsc,
    task::spawn_blocking,
    time::{Instant, sleep},
};

use super::{
    CHECK_EVERY, SAMPLE_EVERY,
    judge::{KEPT_DRAWING, PageVerdict},
    signals::{StopGuard, StoppedRenderers, kill_helper},
    usage::{DrawingThread, DrawingThreadStats, GPU_PROCESS, ProcessId, Processes},
};
use crate::observer::Observer;
use search::Search;
use throttle::{Throttle, ThrottleStep};

/// A thread that wants the processor for this part of the time, in percent, is busy. One that draws an ordinary animation
/// without a graphics card is at 20 to 50.
const BUSY_PERCENT: u32 = 85;

/// For how long the thread must be busy without a pause until greenroom looks for the reason. Clicks and screenshots fail
/// after 5 s; a page that loads is drawn within one.
const BUSY_FOR: Duration = Duration::from_millis(1_500);

/// For how much of [`BUSY_FOR`] the thread must have run. A thread that only waits for a processor is kept busy by
/// other programs, not by a page.
const BUSY_CPU_TIME_MIN: Duration = Duration::from_millis(300);

/// With all renderers stopped, how much processor time the thread may take until it is idle. It has a frame or two of each
/// page to draw. A browser that draws 60 frames a second spends some milliseconds on each.
const FRAME_CPU_TIME_MAX: Duration = Duration::from_secs(1);

/// The longest time for which all renderers are stopped until the thread is idle. If it takes longer without
/// [`FRAME_CPU_TIME_MAX`], the machine is too busy to learn anything.
const IDLE_WITHIN: Duration = Duration::from_secs(6);

/// How long renderers run until it shows whether they keep the thread busy: some frames.
const GROUP_RUNS_FOR: Duration = Duration::from_millis(400);

/// How long the renderers that the search has cleared run without a busy thread until the page that it found is ended. The
/// others stay stopped: one of them may be such a page, too, and is found by the next search.
const CONFIRM_FOR: Duration = Duration::from_secs(1);

/// The browser starts another GPU process within tenths of a second, on a busy machine within a second or two.
const GPU_START_WITHIN: Duration = Duration::from_secs(5);

/// How long after a search without a result there is no other one.
const PAUSE_AFTER_SEARCH: Duration = Duration::from_secs(3);

/// What each renderer had given the browser to draw at the last measurement.
pub(super) type CompositorTimes = Mutex<HashMap<ProcessId, Duration>>;

/// A page to end. It stays stopped until then.
pub(super) struct PageToEnd {
    pub(super) verdict: PageVerdict,
    pub(super) stopped: StopGuard,
}

/// Watches the drawing thread of this browser. Never returns.
pub(super) async fn watch(
    browser: u32,
    observer: &Observer,
    stopped_renderers: &Arc<StoppedRenderers>,
    compositor_times: &CompositorTimes,
    pages_to_end: &mpsc::Sender<PageToEnd>,
) {
    let mut watch = GpuWatch {
        browser,
        observer,
        stopped_renderers,
        compositor_times,
        pages_to_end,
        thread: Some(DrawingThread::new(browser)),
        processes: Some(Processes::new(browser)),
        last_sample: None,
        busy_since: None,
        compositor_times_before: HashMap::new(),
        throttle: None,
        pause_until: None,
    };
    loop {
        sleep(if watch.throttle.is_some() { CHECK_EVERY } else { SAMPLE_EVERY }).await;
        if let Err(error) = watch.measure().await {
            tracing::warn!(browser, %error, "cannot share a browser's GPU process between its pages");
            watch.pause_until = Some(Instant::now() + PAUSE_AFTER_SEARCH);
        }
    }
}

/// A measurement of the drawing thread, and its time.
type TimedSample = (Instant, DrawingThreadStats);

struct GpuWatch<'a> {
    browser: u32,
    observer: &'a Observer,
    stopped_renderers: &'a Arc<StoppedRenderers>,
    compositor_times: &'a CompositorTimes,
    pages_to_end: &'a mpsc::Sender<PageToEnd>,
    /// This and `processes` are `None` only while a blocking thread reads with them.
    thread: Option<DrawingThread>,
    processes: Option<Processes>,
    last_sample: Option<TimedSample>,
    /// Since when the thread is busy.
    busy_since: Option<TimedSample>,
    /// What each renderer had given the browser to draw before the thread was busy.
    compositor_times_before: HashMap<ProcessId, Duration>,
    /// The pages that are stopped most of the time.
    throttle: Option<ThrottledPages>,
    pause_until: Option<Instant>,
}

struct ThrottledPages {
    pages: Vec<ProcessId>,
    stopped: Option<StopGuard>,
    throttle: Throttle,
    /// When the pages last went on.
    resumed: TimedSample,
}

/// The result of waiting until the drawing thread is idle.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DrainOutcome {
    /// The thread drew all that it was given.
    Idle,
    /// The thread did not finish within [`FRAME_CPU_TIME_MAX`], so greenroom ended its process.
    GpuRestarted,
    /// Unknown: the machine is too busy.
    Unknown,
}

impl GpuWatch<'_> {
    async fn measure(&mut self) -> io::Result<()> {
        let Some(drawing) = self.read_thread().await else {
            self.last_sample = None;
            self.busy_since = None;
            self.throttle = None;
            return Ok(());
        };
        let now = (Instant::now(), drawing);
        let before = self.last_sample.replace(now).filter(|(_, before)| before.process == drawing.process);
        let Some(before) = before else {
            self.busy_since = None;
            if let Some(throttled) = &mut self.throttle {
                throttled.resumed = now;
            }
            return Ok(());
        };
        if is_busy(before, now, BUSY_PERCENT) {
            self.busy_since.get_or_insert(before);
        } else if drawing.is_asleep {
            // A thread that is not asleep may wait for a processor; the kernel counts such a wait only when it ends.
            self.busy_since = None;
        }
        self.throttle(before, now).await?;
        let Some((since, at_first)) = self.busy_since else {
            self.compositor_times_before.clone_from(&self.compositor_times.lock());
            return Ok(());
        };
        let is_long = since.elapsed() >= BUSY_FOR
            && is_busy((since, at_first), now, BUSY_PERCENT)
            && drawing.cpu_time.saturating_sub(at_first.cpu_time) >= BUSY_CPU_TIME_MIN;
        if is_long && self.pause_until.is_none_or(|until| until <= now.0) {
            self.pause_until = None;
            self.search().await?;
            self.last_sample = None;
            self.busy_since = None;
        }
        Ok(())
    }

    /// Stops and continues the pages that keep the thread busy.
    async fn throttle(&mut self, before: TimedSample, now: TimedSample) -> io::Result<()> {
        let Some(throttled) = &mut self.throttle else { return Ok(()) };
        let is_idle = now.1.is_asleep && !is_busy(before, now, BUSY_PERCENT / 2);
        match throttled.throttle.step(now.0, is_idle, is_busy(throttled.resumed, now, BUSY_PERCENT / 2)) {
            ThrottleStep::Stay => {}
            ThrottleStep::Stop => {
                let pages = throttled.pages.clone();
                throttled.stopped = Some(stop(self.stopped_renderers, pages).await?);
            }
            ThrottleStep::Continue => {
                throttled.resumed = now;
                throttled.stopped = None;
            }
            ThrottleStep::Release => {
                tracing::debug!(browser = self.browser, "pages that drew too much draw less now");
                self.throttle = None;
            }
        }
        Ok(())
    }

    /// Finds the page that keeps the thread busy, and slows it down or ends it.
    async fn search(&mut self) -> io::Result<()> {
        // In a browser with one session no other session waits.
        let is_shared = self.observer.sync().await.is_some_and(|contexts| contexts.created.len() > 1);
        let now = self.compositor_times_now().await?;
        if !is_shared || now.len() < 2 {
            self.pause(PAUSE_AFTER_SEARCH);
            return Ok(());
        }
        let compositor_time = |process: &ProcessId| {
            now[process]
                .saturating_sub(self.compositor_times_before.get(process).copied().unwrap_or_default())
        };
        let mut suspects: Vec<_> = now.keys().copied().collect();
        suspects.sort_by_key(compositor_time);
        let stop_all_count = self.stopped_renderers.stop_all_count();
        let mut stopped = stop(self.stopped_renderers, suspects.clone()).await?;
        if let Some(throttled) = &mut self.throttle {
            throttled.stopped = None;
        }
        if self.stopped_renderers.has_other_owner(&suspects) {
            // `overload` has stopped the renderers too: the browser has to catch up with its own work first.
            self.pause(PAUSE_AFTER_SEARCH);
            return Ok(());
        }
        let mut drained = self.wait_until_idle().await?;
        let mut search = Search::new(suspects);
        while let Some(group) = search.next_group().filter(|_| drained != DrainOutcome::Unknown) {
            stopped.release(&group);
            let is_busy = self.is_busy_within(GROUP_RUNS_FOR).await;
            if is_busy {
                stopped.add(stop(self.stopped_renderers, group).await?);
                drained = self.wait_until_idle().await?;
            }
            search.record_result(is_busy);
        }
        let Some(found) = search.found().filter(|_| {
            drained != DrainOutcome::Unknown && stop_all_count == self.stopped_renderers.stop_all_count()
        }) else {
            tracing::debug!(browser = self.browser, "it is unknown which page keeps the GPU process busy");
            self.pause(PAUSE_AFTER_SEARCH);
            return Ok(());
        };
        if drained == DrainOutcome::Idle {
            self.slow_down(found).await?;
        } else if !self.is_busy_within(CONFIRM_FOR).await {
            let others: Vec<_> = now.into_keys().filter(|process| *process != found).collect();
            stopped.release(&others);
            let verdict = PageVerdict { process: found, why: KEPT_DRAWING };
            // The receiver lives as long as this task.
            let _ = self.pages_to_end.send(PageToEnd { verdict, stopped }).await;
        }
        Ok(())
    }

    async fn slow_down(&mut self, found: ProcessId) -> io::Result<()> {
        tracing::info!(browser = self.browser, pid = found.pid, "slowed down a page that draws too much");
        let Some(drawing) = self.read_thread().await else { return Ok(()) };
        let before = self.throttle.take().into_iter().flat_map(|throttled| throttled.pages);
        let pages: Vec<_> = before.filter(|page| *page != found).chain([found]).collect();
        let stopped = Some(stop(self.stopped_renderers, pages.clone()).await?);
        let now = Instant::now();
        self.throttle =
            Some(ThrottledPages { pages, stopped, throttle: Throttle::new(now), resumed: (now, drawing) });
        Ok(())
    }

    fn pause(&mut self, time: Duration) {
        self.pause_until = Some(Instant::now() + time);
    }

    /// Waits until the thread has drawn all that it was given. The caller has stopped all renderers.
    async fn wait_until_idle(&mut self) -> io::Result<DrainOutcome> {
        let Some(first) = self.read_thread().await else { return Ok(DrainOutcome::Idle) };
        let start = Instant::now();
        let mut before = (start, first);
        loop {
            sleep(CHECK_EVERY).await;
            let now = match self.read_thread().await {
                Some(now) if now.process == first.process => (Instant::now(), now),
                // The GPU process ended by itself.
                _ => return Ok(DrainOutcome::Unknown),
            };
            if now.1.is_asleep && !is_busy(before, now, BUSY_PERCENT / 2) {
                return Ok(DrainOutcome::Idle);
            }
            before = now;
            if now.1.cpu_time.saturating_sub(first.cpu_time) >= FRAME_CPU_TIME_MAX {
                return self.restart_gpu_process(first.process).await;
            }
            if start.elapsed() > IDLE_WITHIN {
                return Ok(DrainOutcome::Unknown);
            }
        }
    }

    /// Ends the GPU process, and waits for the next one.
    async fn restart_gpu_process(&mut self, gpu: ProcessId) -> io::Result<DrainOutcome> {
        let browser = self.browser;
        tracing::warn!(browser, pid = gpu.pid, "ended a GPU process that draws one frame for too long");
        spawn_blocking(move || kill_helper(browser, gpu, GPU_PROCESS)).await.map_err(io::Error::other)??;
        let start = Instant::now();
        while start.elapsed() < GPU_START_WITHIN {
            sleep(CHECK_EVERY).await;
            if self.read_thread().await.is_some_and(|drawing| drawing.process != gpu) {
                return Ok(DrainOutcome::GpuRestarted);
            }
        }
        Ok(DrainOutcome::Unknown)
    }

    /// Whether the thread is busy for most of this time.
    async fn is_busy_within(&mut self, time: Duration) -> bool {
        let before = self.read_thread().await.map(|drawing| (Instant::now(), drawing));
        sleep(time).await;
        let now = self.read_thread().await.map(|drawing| (Instant::now(), drawing));
        before.zip(now).is_some_and(|(before, now)| is_busy(before, now, BUSY_PERCENT / 2))
    }

    async fn read_thread(&mut self) -> Option<DrawingThreadStats> {
        let browser = self.browser;
        let mut thread = self.thread.take().unwrap_or_else(|| DrawingThread::new(browser));
        let read = spawn_blocking(move || {
            let drawing = thread.read();
            (thread, drawing)
        });
        let (thread, drawing) = read.await.ok()?;
        self.thread = Some(thread);
        drawing
    }

    /// What each renderer has given the browser to draw so far.
    async fn compositor_times_now(&mut self) -> io::Result<HashMap<ProcessId, Duration>> {
        let browser = self.browser;
        let mut processes = self.processes.take().unwrap_or_else(|| Processes::new(browser));
        let read = spawn_blocking(move || {
            let usage = processes.read();
            (processes, usage)
        });
        let (processes, usage) = read.await.map_err(io::Error::other)?;
        self.processes = Some(processes);
        Ok(usage.compositor_times())
    }
}

async fn stop(stopped_renderers: &Arc<StoppedRenderers>, pages: Vec<ProcessId>) -> io::Result<StopGuard> {
    let stopped_renderers = stopped_renderers.clone();
    spawn_blocking(move || stopped_renderers.stop(&pages)).await.map_err(io::Error::other)?
}

/// Whether the thread wanted the processor for this part of the time between two measurements. `false` if they are of
/// different processes.
fn is_busy((then, before): TimedSample, (at, now): TimedSample, percent: u32) -> bool {
    let runnable_time = now.runnable_time.saturating_sub(before.runnable_time);
    before.process == now.process && runnable_time * 100 >= at.duration_since(then) * percent
}
