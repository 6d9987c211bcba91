//! The resources that the processes of a browser use, read from `/proc`.

use std::{collections::HashMap, fs, time::Duration};

use crate::process_tree::helpers;

pub(super) const RENDERER: &str = "--type=renderer";

/// The thread of a renderer that carries all messages between it and the browser, as the kernel shows its name.
const IO_THREAD: &str = "Chrome_ChildIOT";

/// A process, distinct from a later one of the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ProcessId {
    pub(super) pid: u32,
    /// When it was started, in the kernel's clock ticks.
    pub(super) started: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Renderer {
    pub(super) process: ProcessId,
    /// The processor time of its [`IO_THREAD`]: how much it has sent to the browser, whatever its scripts do.
    pub(super) messages: Duration,
    pub(super) memory: u64,
    /// How many bytes of memory it has used for the first time since it started, including memory that it returned.
    pub(super) touched: u64,
}

/// The resources that a browser's processes use.
#[derive(Debug, Default)]
pub(super) struct Usage {
    pub(super) renderers: Vec<Renderer>,
    /// The memory of the browser process itself and of its other helpers.
    pub(super) other_memory: u64,
}

/// Reads the resources that the processes of a browser use.
pub(super) struct Processes {
    browser: u32,
    io_threads: HashMap<ProcessId, u32>,
}

impl Processes {
    pub(super) fn new(browser: u32) -> Self {
        Self { browser, io_threads: HashMap::new() }
    }

    pub(super) fn read(&mut self) -> Usage {
        let mut usage = Usage { renderers: Vec::new(), other_memory: memory(self.browser) };
        for helper in helpers(self.browser) {
            let memory = memory(helper.pid);
            match Stat::of(&format!("/proc/{}/stat", helper.pid)) {
                Some(stat) if helper.has(RENDERER) => {
                    let process = ProcessId { pid: helper.pid, started: stat.started };
                    let messages = self.messages(process);
                    let touched = stat.faults * page_size();
                    usage.renderers.push(Renderer { process, messages, memory, touched });
                }
                _ => usage.other_memory += memory,
            }
        }
        let is_there = |process: &ProcessId| usage.renderers.iter().any(|there| there.process == *process);
        self.io_threads.retain(|process, _| is_there(process));
        usage
    }

    /// The processor time of a renderer's IO thread; zero for a renderer that has not started it yet.
    fn messages(&mut self, process: ProcessId) -> Duration {
        let thread = self.io_threads.get(&process).copied().or_else(|| io_thread(process.pid));
        let Some(thread) = thread else { return Duration::ZERO };
        self.io_threads.insert(process, thread);
        let folder = format!("/proc/{}/task/{thread}", process.pid);
        // In nanoseconds if the kernel counts these, else in hundredths of a second.
        let exact = fs::read_to_string(format!("{folder}/schedstat")).ok();
        let exact = exact.and_then(|text| text.split(' ').next()?.parse().ok().map(Duration::from_nanos));
        exact.or_else(|| Some(Stat::of(&format!("{folder}/stat"))?.used)).unwrap_or_default()
    }
}

/// The processor time that a process has used. `None` once it has ended.
pub(super) fn processor_time(pid: u32) -> Option<Duration> {
    let stat = Stat::of(&format!("/proc/{pid}/stat"))?;
    (!stat.has_ended).then_some(stat.used)
}

/// The memory of this machine, or of the container around this process. `None` if it is unknown.
pub(crate) fn machine_memory() -> Option<u64> {
    const CONTAINER_LIMITS: [&str; 2] =
        ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let number = |path: &&str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let all =
        fs::read_to_string("/proc/meminfo").ok().and_then(|text| Some(kibibytes(&text, "MemTotal:")? * 1024));
    CONTAINER_LIMITS.iter().filter_map(number).chain(all).min()
}

/// The memory of a process, without what it reads from files. A page's streams, its pictures and what it draws are memory that
/// two processes share, so half of it is each one's.
fn memory(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let bytes = |name: &str| kibibytes(&text, name).unwrap_or(0) * 1024;
    bytes("RssAnon:") + bytes("RssShmem:") / 2
}

fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

/// A line such as `RssAnon:   120 kB`.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let number = text.lines().find_map(|line| line.strip_prefix(name)?.strip_suffix("kB"))?;
    number.trim().parse().ok()
}

fn io_thread(pid: u32) -> Option<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let is_it = |thread: &fs::DirEntry| {
        fs::read_to_string(thread.path().join("comm")).is_ok_and(|name| name.trim() == IO_THREAD)
    };
    threads.flatten().find(is_it)?.file_name().to_str()?.parse().ok()
}

/// The kernel's figures for a process, or for a thread.
pub(super) struct Stat {
    used: Duration,
    pub(super) started: u64,
    /// How often it used a page of memory for the first time.
    faults: u64,
    has_ended: bool,
}

impl Stat {
    pub(super) fn of(path: &str) -> Option<Self> {
        Self::parse(&fs::read_to_string(path).ok()?, rustix::param::clock_ticks_per_second())
    }

    /// The name is in brackets and may contain brackets and blanks.
    fn parse(text: &str, ticks_per_second: u64) -> Option<Self> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        let ticks = number(11)? + number(12)?;
        let used = Duration::from_millis(ticks.saturating_mul(1000) / ticks_per_second.max(1));
        let has_ended = matches!(*fields.first()?, "Z" | "X");
        Some(Self { used, started: number(19)?, faults: number(7)?, has_ended })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times, start and end are read after a name that looks like more of the line.
    #[test]
    fn stat() {
        let line = "7 (a) b (c) S 1 7 7 0 -1 4194560 9 0 0 0 150 50 0 0 20 0 9 0 4242 1 2 3";
        let stat = Stat::parse(line, 100).unwrap();
        assert_eq!((stat.used, stat.started), (Duration::from_secs(2), 4242));
        assert_eq!((stat.faults, stat.has_ended), (9, false));
        assert!(Stat::parse(&line.replace(" S ", " Z "), 100).unwrap().has_ended);
        assert!(Stat::parse("7 (a) S 1", 100).is_none());
        assert!(processor_time(std::process::id()).is_some());
    }

    /// The kinds of memory that count are read, and the memory of this machine is known.
    #[test]
    fn memories() {
        let status = "VmRSS:\t  90 kB\nRssAnon:\t      70 kB\nRssFile:\t 9 kB\nRssShmem:\t 20 kB\n";
        assert_eq!((kibibytes(status, "RssAnon:"), kibibytes(status, "RssShmem:")), (Some(70), Some(20)));
        assert_eq!((kibibytes("", "RssAnon:"), kibibytes("RssAnon: x kB", "RssAnon:")), (None, None));
        assert!(machine_memory().is_some() && memory(std::process::id()) > 0);
    }
}
