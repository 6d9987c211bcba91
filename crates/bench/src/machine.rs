//! Describes this machine in the header of `docs/BENCHMARKS.md`, and pins processes to cores.

use std::{
    fs, thread,
    time::{SystemTime, UNIX_EPOCH},
};

use rustix::{
    process::Pid,
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};

use crate::programs::Programs;

/// The header of `docs/BENCHMARKS.md`: date, machine and versions.
pub fn header(programs: &Programs) -> String {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    format!(
        "Written by `make bench` on {}. Machine: {cores} cores, {}. Versions: {}.\n\n\
         Everything is measured in one run with the engine alone, in turns, with one client for both. The machine \
         is small and shared with other work: absolute times move by tens of percent from run to run, so read the \
         ratios. Memory is in MB of 10^6 bytes.",
        date(),
        model.map_or("unknown", |(_, model)| model.trim()),
        programs.versions().join(", "),
    )
}

/// Today as year-month-day, in UTC (Howard Hinnant's `civil_from_days`).
fn date() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let days = seconds / 86_400 + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

/// The cores this process may use.
pub fn cores() -> Vec<usize> {
    let set = sched_getaffinity(None).expect("a thread may ask where it runs");
    (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
}

/// Keeps a process's first thread, or the calling thread, on these cores. Threads and children that it starts
/// from now on stay there too.
pub fn pin(pid: Option<u32>, cores: &[usize]) {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    let pid = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    sched_setaffinity(pid, &set).expect("a process of ours may be moved");
}

/// The processor time that a process has used so far, in seconds, over all its threads.
pub fn cpu_seconds(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    // User and system time, fields 14 and 15, counted from the state, which is field 3.
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}
