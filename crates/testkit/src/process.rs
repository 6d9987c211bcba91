//! Looks at processes from outside, through `/proc`: which ones run, what they hold, when they end.
//!
//! Tests use it to prove that nothing stays behind. Sizes are bytes. A process that vanishes while it is looked
//! at is simply not counted: that is the normal case here, not an error.

use std::{
    fs,
    net::{IpAddr, SocketAddr},
};

use rustix::process::{Pid, kill_process};

use crate::deadline::eventually;

pub use rustix::process::Signal;

/// All running processes that were started with `key=value` in their environment.
pub fn processes_with_env(key: &str, value: &str) -> Vec<u32> {
    let wanted = format!("{key}={value}");
    let has = |pid: &u32| {
        fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes()))
    };
    all().into_iter().filter(has).collect()
}

/// All running processes with this argument, each with its whole command line.
pub fn with_argument(wanted: &str) -> Vec<(u32, Vec<String>)> {
    let line = |pid: u32| -> Vec<String> {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).map(|part| String::from_utf8_lossy(part).into_owned()).collect()
    };
    let all = all().into_iter().filter(|pid| alive(*pid)).map(|pid| (pid, line(pid)));
    all.filter(|(_, line)| line.iter().any(|argument| argument == wanted)).collect()
}

/// Every descendant of `pid`, parents before their children; `pid` itself is not among them.
pub fn children(pid: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> =
        all().into_iter().filter_map(|pid| status(pid).map(|(_, parent)| (pid, parent))).collect();
    let mut found = Vec::new();
    let mut current = vec![pid];
    while !current.is_empty() {
        let next: Vec<u32> =
            parents.iter().filter(|(_, parent)| current.contains(parent)).map(|(pid, _)| *pid).collect();
        found.extend(&next);
        current = next;
    }
    found
}

/// Whether the process runs. A zombie, ended but not yet awaited by its parent, does not.
pub fn alive(pid: u32) -> bool {
    status(pid).is_some_and(|(state, _)| state != 'Z' && state != 'X')
}

/// Whether the process has ended and its parent has not yet awaited it.
pub fn zombie(pid: u32) -> bool {
    status(pid).is_some_and(|(state, _)| state == 'Z')
}

/// How many file descriptors the process holds open.
pub fn open_fds(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// How many connections a process on this machine has accepted at this IPv4 address and holds open. Unlike the number of
/// all descriptors, only clients change it: a program may open a file of its own at any moment.
pub fn connections(listening: SocketAddr) -> usize {
    let IpAddr::V4(address) = listening.ip() else { panic!("no IPv4 address: {listening}") };
    // The kernel shows an address as its number in memory.
    let local = format!("{:08X}:{:04X}", u32::from_ne_bytes(address.octets()), listening.port());
    let table = fs::read_to_string("/proc/net/tcp").expect("this system has /proc");
    let rows = table.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
    // A listening socket has the state `0A`; a connection that is not accepted yet, or no longer held, has no inode.
    rows.filter(|row| row.get(1) == Some(&&*local) && row[3] != "0A" && row[9] != "0").count()
}

/// Resident memory of one process, in bytes; shared pages count in full.
pub fn rss(pid: u32) -> u64 {
    kilobytes(&format!("/proc/{pid}/status"), "VmRSS:")
}

/// Memory of the process and all its descendants, in bytes; a shared page counts once over those that share it.
pub fn pss_tree(pid: u32) -> u64 {
    let pss = |pid: u32| kilobytes(&format!("/proc/{pid}/smaps_rollup"), "Pss:");
    pss(pid) + children(pid).into_iter().map(pss).sum::<u64>()
}

/// Sends a signal; a process that has already ended is no error.
pub fn signal(pid: u32, signal: Signal) {
    let _ = kill_process(id(pid), signal);
}

/// Returns when the process has ended. Its parent may not have awaited it yet.
pub async fn wait_gone(pid: u32) {
    // Polls `/proc`, since registering a pidfd with the runtime takes unsafe code.
    eventually(&format!("the end of process {pid}"), || (!alive(pid)).then_some(())).await;
}

fn id(pid: u32) -> Pid {
    i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id is a positive number")
}

fn all() -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("this system has /proc").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// State letter and parent of a process. The command name may hold spaces and brackets, so the fields are
/// counted from the last closing bracket.
fn status(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn kilobytes(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).map_or(0, |kb| kb * 1_024)
}
