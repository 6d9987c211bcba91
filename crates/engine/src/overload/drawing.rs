//! Shares the GPU process of a browser fairly between its sessions.
//!
//! One thread of that process draws the pages of all sessions, one after the other. While a page with heavy effects keeps it
//! busy, clicks and screenshots of the other sessions wait: each needs a frame. Processor times do not show whose frames
//! these are, since a page describes seconds of drawing in a few bytes. So [`watch`] finds out by an experiment: it stops
//! all renderers until the thread rests, lets them go on in groups, and sees with which of them the thread is busy again.
//!
//! The page that it finds is stopped most of the time from then on, until it draws less: a page that is heavy but honest goes
//! on slowly. If a single frame takes too long, stopping the page does not help. Then the GPU process is ended, which the
//! browser starts again within tenths of a second, and the page with it.
//!
//! WebGL does not need this: its threads are others, so it delays other pages no more than any busy program does.

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
    CHECK_EVERY, LOOK_EVERY,
    judge::{KEPT_DRAWING, Verdict},
    signals::{Stopped, Stops, end},
    usage::{Drawing, DrawingThread, GPU_PROCESS, ProcessId, Processes},
};
use crate::observer::Observer;
use search::Search;
use throttle::{Step, Throttle};

/// A thread that wants the processor for this part of the time, in percent, is busy. One that draws an ordinary animation
/// without a graphics card is at 20 to 50.
const BUSY_PERCENT: u32 = 85;

/// For how long the thread must be busy without a rest until greenroom looks for the reason. Clicks and screenshots fail
/// after 5 s; a page that loads is drawn within one.
const BUSY_FOR: Duration = Duration::from_millis(1_500);

/// How much of that it must have run. A thread that only waits for a processor is kept busy by other programs, not by a page.
const RAN_MIN: Duration = Duration::from_millis(300);

/// With all renderers stopped, how much processor time the thread may take until it rests. It has a frame or two of each page
/// to draw. A browser that draws 60 frames a second spends some milliseconds on each.
const FRAME_MAX: Duration = Duration::from_secs(1);

/// The longest time for which all renderers are stopped until the thread rests. If it takes longer without
/// [`FRAME_MAX`], the machine is too busy to learn anything.
const REST_WITHIN: Duration = Duration::from_secs(6);

/// How long renderers run until it shows whether they keep the thread busy: some frames.
const STEP: Duration = Duration::from_millis(400);

/// How long the renderers that the search has cleared run without a busy thread until the page that it found is ended. The
/// others stay stopped: one of them may be such a page, too, and is found by the next search.
const CONFIRM: Duration = Duration::from_secs(1);

/// The browser starts another GPU process within tenths of a second, on a busy machine within a second or two.
const GPU_START: Duration = Duration::from_secs(5);

/// How long after a search without a result there is no other one.
const PAUSE: Duration = Duration::from_secs(3);

/// What each renderer had given the browser to draw at the last measurement.
pub(super) type Drawn = Mutex<HashMap<ProcessId, Duration>>;

/// A page to end. It stays stopped until then.
pub(super) struct Ending {
    pub(super) verdict: Verdict,
    pub(super) stopped: Stopped,
}

/// Watches the drawing thread of this browser. Never returns.
pub(super) async fn watch(
    browser: u32,
    observer: &Observer,
    stops: &Arc<Stops>,
    drawn: &Drawn,
    endings: &mpsc::Sender<Ending>,
) {
    let mut watch = Watch {
        browser,
        observer,
        stops,
        drawn,
        endings,
        thread: Some(DrawingThread::new(browser)),
        processes: Some(Processes::new(browser)),
        last: None,
        busy: None,
        drawn_before: HashMap::new(),
        throttle: None,
        pause_until: None,
    };
    loop {
        sleep(if watch.throttle.is_some() { CHECK_EVERY } else { LOOK_EVERY }).await;
        if let Err(error) = watch.look().await {
            tracing::warn!(browser, %error, "cannot share a browser's GPU process between its pages");
            watch.pause_until = Some(Instant::now() + PAUSE);
        }
    }
}

/// A look at the drawing thread.
type Look = (Instant, Drawing);

struct Watch<'a> {
    browser: u32,
    observer: &'a Observer,
    stops: &'a Arc<Stops>,
    drawn: &'a Drawn,
    endings: &'a mpsc::Sender<Ending>,
    /// `None` only while another thread reads it; so is the next one.
    thread: Option<DrawingThread>,
    processes: Option<Processes>,
    last: Option<Look>,
    /// Since when the thread is busy.
    busy: Option<Look>,
    /// What each renderer had given the browser to draw before the thread was busy.
    drawn_before: HashMap<ProcessId, Duration>,
    /// The pages that are stopped most of the time.
    throttle: Option<Throttled>,
    pause_until: Option<Instant>,
}

struct Throttled {
    pages: Vec<ProcessId>,
    stopped: Option<Stopped>,
    throttle: Throttle,
    /// When the pages last went on.
    ran: Look,
}

/// How the drawing thread came to rest.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// It drew what it had.
    Drawn,
    /// It did not within [`FRAME_MAX`], so its process was ended.
    Restarted,
    /// Unknown: the machine is too busy.
    Unknown,
}

impl Watch<'_> {
    async fn look(&mut self) -> io::Result<()> {
        let Some(drawing) = self.read().await else {
            self.last = None;
            self.busy = None;
            self.throttle = None;
            return Ok(());
        };
        let now = (Instant::now(), drawing);
        let before = self.last.replace(now).filter(|(_, before)| before.process == drawing.process);
        let Some(before) = before else {
            self.busy = None;
            if let Some(throttled) = &mut self.throttle {
                throttled.ran = now;
            }
            return Ok(());
        };
        if is_busy(before, now, BUSY_PERCENT) {
            self.busy.get_or_insert(before);
        } else if drawing.is_asleep {
            // Otherwise it may wait for a processor; the kernel counts such a wait when it ends.
            self.busy = None;
        }
        self.throttle(before, now).await?;
        let Some((since, at_first)) = self.busy else {
            self.drawn_before.clone_from(&self.drawn.lock());
            return Ok(());
        };
        let is_long = since.elapsed() >= BUSY_FOR
            && is_busy((since, at_first), now, BUSY_PERCENT)
            && drawing.ran.saturating_sub(at_first.ran) >= RAN_MIN;
        if is_long && self.pause_until.is_none_or(|until| until <= now.0) {
            self.pause_until = None;
            self.search().await?;
            self.last = None;
            self.busy = None;
        }
        Ok(())
    }

    /// Stops and continues the pages that keep the thread busy.
    async fn throttle(&mut self, before: Look, now: Look) -> io::Result<()> {
        let Some(throttled) = &mut self.throttle else { return Ok(()) };
        let is_resting = now.1.is_asleep && !is_busy(before, now, BUSY_PERCENT / 2);
        match throttled.throttle.step(now.0, is_resting, is_busy(throttled.ran, now, BUSY_PERCENT / 2)) {
            Step::Stay => {}
            Step::Stop => {
                let pages = throttled.pages.clone();
                throttled.stopped = Some(stop(self.stops, pages).await?);
            }
            Step::Continue => {
                throttled.ran = now;
                throttled.stopped = None;
            }
            Step::Release => {
                tracing::debug!(browser = self.browser, "pages that drew too much draw less now");
                self.throttle = None;
            }
        }
        Ok(())
    }

    /// Finds the page that keeps the thread busy, and slows it down or ends it.
    async fn search(&mut self) -> io::Result<()> {
        // A browser of one session harms nobody else.
        let is_shared = self.observer.sync().await.is_some_and(|contexts| contexts.made.len() > 1);
        let now = self.drawn_so_far().await?;
        if !is_shared || now.len() < 2 {
            self.pause(PAUSE);
            return Ok(());
        }
        let given = |process: &ProcessId| {
            now[process].saturating_sub(self.drawn_before.get(process).copied().unwrap_or_default())
        };
        let mut suspects: Vec<_> = now.keys().copied().collect();
        suspects.sort_by_key(given);
        let rounds = self.stops.all_count();
        let mut stopped = stop(self.stops, suspects.clone()).await?;
        if let Some(throttled) = &mut self.throttle {
            throttled.stopped = None;
        }
        if self.stops.has_other_owner(&suspects) {
            // The browser catches up with its own work first.
            self.pause(PAUSE);
            return Ok(());
        }
        let mut rest = self.rest().await?;
        let mut search = Search::new(suspects);
        while let Some(group) = search.group().filter(|_| rest != Rest::Unknown) {
            stopped.release(&group);
            let is_busy = self.is_busy_within(STEP).await;
            if is_busy {
                stopped.add(stop(self.stops, group).await?);
                rest = self.rest().await?;
            }
            search.saw(is_busy);
        }
        let Some(found) =
            search.found().filter(|_| rest != Rest::Unknown && rounds == self.stops.all_count())
        else {
            tracing::debug!(browser = self.browser, "it is unknown which page keeps the GPU process busy");
            self.pause(PAUSE);
            return Ok(());
        };
        if rest == Rest::Drawn {
            self.slow_down(found).await?;
        } else if !self.is_busy_within(CONFIRM).await {
            let others: Vec<_> = now.into_keys().filter(|process| *process != found).collect();
            stopped.release(&others);
            let verdict = Verdict { process: found, why: KEPT_DRAWING };
            // The receiver lives as long as this.
            let _ = self.endings.send(Ending { verdict, stopped }).await;
        }
        Ok(())
    }

    async fn slow_down(&mut self, found: ProcessId) -> io::Result<()> {
        tracing::info!(browser = self.browser, pid = found.pid, "slowed down a page that draws too much");
        let Some(drawing) = self.read().await else { return Ok(()) };
        let before = self.throttle.take().into_iter().flat_map(|throttled| throttled.pages);
        let pages: Vec<_> = before.filter(|page| *page != found).chain([found]).collect();
        let stopped = Some(stop(self.stops, pages.clone()).await?);
        let now = Instant::now();
        self.throttle = Some(Throttled { pages, stopped, throttle: Throttle::new(now), ran: (now, drawing) });
        Ok(())
    }

    fn pause(&mut self, time: Duration) {
        self.pause_until = Some(Instant::now() + time);
    }

    /// Waits until the thread has drawn what it has; all renderers are stopped.
    async fn rest(&mut self) -> io::Result<Rest> {
        let Some(first) = self.read().await else { return Ok(Rest::Drawn) };
        let start = Instant::now();
        let mut before = (start, first);
        loop {
            sleep(CHECK_EVERY).await;
            let now = match self.read().await {
                Some(now) if now.process == first.process => (Instant::now(), now),
                // It ended by itself.
                _ => return Ok(Rest::Unknown),
            };
            if now.1.is_asleep && !is_busy(before, now, BUSY_PERCENT / 2) {
                return Ok(Rest::Drawn);
            }
            before = now;
            if now.1.ran.saturating_sub(first.ran) >= FRAME_MAX {
                return self.restart(first.process).await;
            }
            if start.elapsed() > REST_WITHIN {
                return Ok(Rest::Unknown);
            }
        }
    }

    /// Ends the GPU process, and waits for the next one.
    async fn restart(&mut self, gpu: ProcessId) -> io::Result<Rest> {
        let browser = self.browser;
        tracing::warn!(browser, pid = gpu.pid, "ended a GPU process that draws one frame for too long");
        spawn_blocking(move || end(browser, gpu, GPU_PROCESS)).await.map_err(io::Error::other)??;
        let start = Instant::now();
        while start.elapsed() < GPU_START {
            sleep(CHECK_EVERY).await;
            if self.read().await.is_some_and(|drawing| drawing.process != gpu) {
                return Ok(Rest::Restarted);
            }
        }
        Ok(Rest::Unknown)
    }

    /// Whether the thread is busy for most of this time.
    async fn is_busy_within(&mut self, time: Duration) -> bool {
        let before = self.read().await.map(|drawing| (Instant::now(), drawing));
        sleep(time).await;
        let now = self.read().await.map(|drawing| (Instant::now(), drawing));
        before.zip(now).is_some_and(|(before, now)| is_busy(before, now, BUSY_PERCENT / 2))
    }

    async fn read(&mut self) -> Option<Drawing> {
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
    async fn drawn_so_far(&mut self) -> io::Result<HashMap<ProcessId, Duration>> {
        let browser = self.browser;
        let mut processes = self.processes.take().unwrap_or_else(|| Processes::new(browser));
        let read = spawn_blocking(move || {
            let usage = processes.read();
            (processes, usage)
        });
        let (processes, usage) = read.await.map_err(io::Error::other)?;
        self.processes = Some(processes);
        Ok(usage.drawn())
    }
}

async fn stop(stops: &Arc<Stops>, pages: Vec<ProcessId>) -> io::Result<Stopped> {
    let stops = stops.clone();
    spawn_blocking(move || stops.stop(&pages)).await.map_err(io::Error::other)?
}

/// Whether the thread wanted the processor for this part of the time between two looks. A thread of another process did not.
fn is_busy((then, before): Look, (at, now): Look, percent: u32) -> bool {
    let wanted = now.wanted.saturating_sub(before.wanted);
    before.process == now.process && wanted * 100 >= at.duration_since(then) * percent
}
