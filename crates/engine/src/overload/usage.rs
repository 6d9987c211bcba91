//! The resources that the processes of a browser use, read from `/proc`.

use std::{collections::HashMap, fs, time::Duration};

use super::shared_memory::SharedMemory;
use crate::process_tree::helpers;

pub(super) const RENDERER: &str = "--type=renderer";

/// The thread of a renderer that carries all messages between it and the browser, as the kernel shows its name.
const IO_THREAD: &str = "Chrome_ChildIOT";

/// The thread of a renderer that hands what the page draws to the GPU process.
const COMPOSITOR_THREAD: &str = "Compositor";

pub(super) const GPU_PROCESS: &str = "--type=gpu-process";

/// The thread of the GPU process that draws the pages of all sessions, one after the other, as the kernel shows its name.
const DRAWING_THREAD: &str = "VizCompositorTh";

/// A process, distinct from a later one of the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ProcessId {
    pub(super) pid: u32,
    /// When it was started, in the kernel's clock ticks.
    pub(super) started: u64,
}

impl ProcessId {
    pub(super) fn is_running(self) -> bool {
        Stat::read(&format!("/proc/{}/stat", self.pid)).is_some_and(|stat| stat.started == self.started)
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Renderer {
    pub(super) process: ProcessId,
    /// The processor time of its [`IO_THREAD`]: how much it has sent to the browser, whatever its scripts do.
    pub(super) io_thread_time: Duration,
    pub(super) memory: u64,
    /// How many bytes of memory it has used for the first time since it started, including memory that it returned.
    pub(super) bytes_ever_touched: u64,
    /// The processor time of its [`COMPOSITOR_THREAD`]: how often it has given the browser something to draw.
    pub(super) compositor_time: Duration,
}

/// The resources that a browser's processes use.
#[derive(Debug, Default)]
pub(super) struct Usage {
    pub(super) renderers: Vec<Renderer>,
    /// The GPU process, and its memory. `None` while there is none.
    pub(super) gpu: Option<(ProcessId, u64)>,
    /// The memory of the browser process itself and of its other helpers.
    pub(super) other_memory: u64,
    /// The number of all processes.
    pub(super) processes: usize,
    /// The processor time of each process.
    pub(super) cpu_times: Vec<(ProcessId, Duration)>,
}

impl Usage {
    /// The memory of all processes.
    pub(super) fn memory(&self) -> u64 {
        let of_renderers: u64 = self.renderers.iter().map(|renderer| renderer.memory).sum();
        of_renderers + self.gpu.map_or(0, |(_, memory)| memory) + self.other_memory
    }

    /// What each renderer has given the browser to draw so far.
    pub(super) fn compositor_times(&self) -> HashMap<ProcessId, Duration> {
        self.renderers.iter().map(|renderer| (renderer.process, renderer.compositor_time)).collect()
    }
}

/// Reads the resources that the processes of a browser use.
pub(super) struct Processes {
    browser: u32,
    threads: HashMap<(ProcessId, &'static str), u32>,
    shared: SharedMemory,
}

impl Processes {
    pub(super) fn new(browser: u32) -> Self {
        Self { browser, threads: HashMap::new(), shared: SharedMemory::default() }
    }

    pub(super) fn read(&mut self) -> Usage {
        let helpers = helpers(self.browser);
        self.shared.scan(helpers.iter().map(|helper| helper.pid).chain([self.browser]));
        let memory = |pid: u32| memory(pid, self.shared.share_of(pid));
        let mut usage =
            Usage { other_memory: memory(self.browser), processes: helpers.len() + 1, ..Usage::default() };
        if let Some(stat) = Stat::read(&format!("/proc/{}/stat", self.browser)) {
            usage.cpu_times.push((ProcessId { pid: self.browser, started: stat.started }, stat.cpu_time));
        }
        let memories: Vec<_> = helpers.iter().map(|helper| memory(helper.pid)).collect();
        for (helper, memory) in helpers.into_iter().zip(memories) {
            let stat = Stat::read(&format!("/proc/{}/stat", helper.pid));
            if let Some(stat) = &stat {
                usage.cpu_times.push((ProcessId { pid: helper.pid, started: stat.started }, stat.cpu_time));
            }
            match stat {
                Some(stat) if helper.has_argument(RENDERER) => {
                    let process = ProcessId { pid: helper.pid, started: stat.started };
                    let io_thread_time = self.thread_time(process, IO_THREAD);
                    let compositor_time = self.thread_time(process, COMPOSITOR_THREAD);
                    let bytes_ever_touched = stat.faults * page_size();
                    usage.renderers.push(Renderer {
                        process,
                        io_thread_time,
                        memory,
                        bytes_ever_touched,
                        compositor_time,
                    });
                }
                Some(stat) if helper.has_argument(GPU_PROCESS) => {
                    usage.gpu = Some((ProcessId { pid: helper.pid, started: stat.started }, memory));
                }
                _ => usage.other_memory += memory,
            }
        }
        let is_there = |process: &ProcessId| usage.renderers.iter().any(|there| there.process == *process);
        self.threads.retain(|(process, _), _| is_there(process));
        usage
    }

    /// The processor time of one of a renderer's threads; zero for a renderer that has not started it yet.
    fn thread_time(&mut self, process: ProcessId, name: &'static str) -> Duration {
        let known = self.threads.get(&(process, name)).copied();
        let Some(thread) = known.or_else(|| thread_id(process.pid, name)) else { return Duration::ZERO };
        self.threads.insert((process, name), thread);
        let folder = format!("/proc/{}/task/{thread}", process.pid);
        // In nanoseconds if the kernel counts these, else in hundredths of a second.
        let exact = schedstat(&folder).map(|(cpu_time, _)| cpu_time);
        exact.or_else(|| Some(Stat::read(&format!("{folder}/stat"))?.cpu_time)).unwrap_or_default()
    }
}

/// What the thread that draws all pages of a browser has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DrawingThreadStats {
    /// The GPU process. Chromium starts another one when it ends.
    pub(super) process: ProcessId,
    /// Its processor time.
    pub(super) cpu_time: Duration,
    /// `cpu_time`, and the time for which it waited for a processor: other programs must not make it look idle.
    pub(super) runnable_time: Duration,
    /// Whether it waits for something to draw at the moment.
    pub(super) is_asleep: bool,
}

/// Reads what a browser's drawing thread does.
pub(super) struct DrawingThread {
    browser: u32,
    known_thread: Option<(ProcessId, u32)>,
}

impl DrawingThread {
    pub(super) fn new(browser: u32) -> Self {
        Self { browser, known_thread: None }
    }

    /// `None` if there is no such thread at the moment, or the kernel does not count its time.
    pub(super) fn read(&mut self) -> Option<DrawingThreadStats> {
        if let Some(drawing) =
            self.known_thread.and_then(|(process, thread)| drawing_thread_stats(process, thread))
        {
            return Some(drawing);
        }
        let gpu = helpers(self.browser).into_iter().find(|helper| helper.has_argument(GPU_PROCESS))?;
        let started = Stat::read(&format!("/proc/{}/stat", gpu.pid))?.started;
        let process = ProcessId { pid: gpu.pid, started };
        let thread = thread_id(gpu.pid, DRAWING_THREAD)?;
        self.known_thread = Some((process, thread));
        drawing_thread_stats(process, thread)
    }
}

/// What a drawing thread has done. `None` once its process has ended.
fn drawing_thread_stats(process: ProcessId, thread: u32) -> Option<DrawingThreadStats> {
    let folder = format!("/proc/{}/task/{thread}", process.pid);
    let of_process = Stat::read(&format!("/proc/{}/stat", process.pid))?;
    let of_thread = Stat::read(&format!("{folder}/stat"))?;
    if of_process.has_ended || of_process.started != process.started {
        return None;
    }
    let (cpu_time, run_queue_time) = schedstat(&folder)?;
    Some(DrawingThreadStats {
        process,
        cpu_time,
        runnable_time: cpu_time + run_queue_time,
        is_asleep: of_thread.is_asleep,
    })
}

/// For how long a thread ran, and for how long it waited for a processor.
fn schedstat(folder: &str) -> Option<(Duration, Duration)> {
    let text = fs::read_to_string(format!("{folder}/schedstat")).ok()?;
    let mut nanos = text.split(' ').map(|field| field.trim().parse().ok().map(Duration::from_nanos));
    Some((nanos.next()??, nanos.next()??))
}

/// The processor time that a process has used. `None` once it has ended.
pub(super) fn cpu_time_of(pid: u32) -> Option<Duration> {
    let stat = Stat::read(&format!("/proc/{pid}/stat"))?;
    (!stat.has_ended).then_some(stat.cpu_time)
}

/// The memory of this machine, or of the container around this process. `None` if it is unknown.
pub(super) fn machine_memory() -> Option<u64> {
    const CONTAINER_LIMITS: [&str; 2] =
        ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let number = |path: &&str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let all =
        fs::read_to_string("/proc/meminfo").ok().and_then(|text| Some(kibibytes(&text, "MemTotal:")? * 1024));
    CONTAINER_LIMITS.iter().filter_map(number).chain(all).min()
}

/// The memory of a process, without what it reads from files, and with what the kernel has moved to swap space. A page's streams, its pictures and what it draws are
/// memory that two processes share, so half of it counts for each. `shared_bytes` is its share of the shared memory that it
/// has open, mapped or not; the kernel counts only mapped memory.
fn memory(pid: u32, shared_bytes: u64) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    memory_in_status(&text, shared_bytes)
}

fn memory_in_status(text: &str, shared_bytes: u64) -> u64 {
    let bytes = |name: &str| kibibytes(text, name).unwrap_or(0) * 1024;
    bytes("RssAnon:") + bytes("VmSwap:") + shared_bytes.max(bytes("RssShmem:") / 2)
}

fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

/// A line such as `RssAnon:   120 kB`.
pub(super) fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let number = text.lines().find_map(|line| line.strip_prefix(name)?.strip_suffix("kB"))?;
    number.trim().parse().ok()
}

/// The thread of a process with this name.
fn thread_id(pid: u32, name: &str) -> Option<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let is_it = |thread: &fs::DirEntry| {
        fs::read_to_string(thread.path().join("comm")).is_ok_and(|comm| comm.trim() == name)
    };
    threads.flatten().find(is_it)?.file_name().to_str()?.parse().ok()
}

/// The kernel's figures for a process, or for a thread.
pub(super) struct Stat {
    cpu_time: Duration,
    pub(super) started: u64,
    /// How often it used a page of memory for the first time.
    faults: u64,
    has_ended: bool,
    is_asleep: bool,
}

impl Stat {
    pub(super) fn read(path: &str) -> Option<Self> {
        Self::parse(&fs::read_to_string(path).ok()?, rustix::param::clock_ticks_per_second())
    }

    /// The name is in brackets and may contain brackets and blanks.
    fn parse(text: &str, ticks_per_second: u64) -> Option<Self> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        let ticks = number(11)? + number(12)?;
        let cpu_time = Duration::from_millis(ticks.saturating_mul(1000) / ticks_per_second.max(1));
        let state = *fields.first()?;
        let has_ended = matches!(state, "Z" | "X");
        let is_asleep = state == "S";
        Some(Self { cpu_time, started: number(19)?, faults: number(7)?, has_ended, is_asleep })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Stat` reads times, start and end even if the process's name looks like further fields of the line.
    #[test]
    fn stat_is_parsed_by_the_last_bracket() {
        let line = "7 (a) b (c) S 1 7 7 0 -1 4194560 9 0 0 0 150 50 0 0 20 0 9 0 4242 1 2 3";
        let stat = Stat::parse(line, 100).unwrap();
        assert_eq!((stat.cpu_time, stat.started), (Duration::from_secs(2), 4242));
        assert_eq!((stat.faults, stat.has_ended, stat.is_asleep), (9, false, true));
        assert!(Stat::parse(&line.replace(" S ", " Z "), 100).unwrap().has_ended);
        assert!(Stat::parse("7 (a) S 1", 100).is_none());
        assert!(cpu_time_of(std::process::id()).is_some());
    }

    /// The time of a thread is read by its name, and how long it waited for a processor.
    #[test]
    fn threads_are_found_by_name() {
        let own = fs::read_to_string("/proc/thread-self/comm").unwrap();
        let pid = std::process::id();
        let name = own.trim().to_owned();
        let thread = thread_id(pid, &name).unwrap();
        assert!(schedstat(&format!("/proc/{pid}/task/{thread}")).is_some());
        assert_eq!(super::thread_id(pid, "no such thread"), None);
        assert_eq!(DrawingThread::new(pid).read(), None);
    }

    /// The kinds of memory that count are read, and the memory of this machine is known.
    #[test]
    fn memory_is_read_by_kind() {
        let status =
            "VmRSS:\t  90 kB\nRssAnon:\t      70 kB\nRssFile:\t 9 kB\nRssShmem:\t 20 kB\nVmSwap:\t 5 kB\n";
        assert_eq!(memory_in_status(status, 0), (70 + 5 + 10) * 1024);
        assert_eq!((kibibytes(status, "RssAnon:"), kibibytes(status, "RssShmem:")), (Some(70), Some(20)));
        assert_eq!((kibibytes("", "RssAnon:"), kibibytes("RssAnon: x kB", "RssAnon:")), (None, None));
        assert!(machine_memory().is_some() && memory(std::process::id(), 0) > 0);
        assert!(memory(std::process::id(), 1 << 50) > 1 << 50);
    }
}
