//! Ends, stops and continues processes of a browser. A signal goes to a process descriptor, so it never reaches a later
//! process of the same number.

use std::{
    collections::HashMap,
    io,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::usage::{ProcessId, RENDERER, Stat};
use crate::process_tree::{Descendant, helpers};

/// Ends a helper process of a browser that was started with this argument. Returns whether it still existed.
pub(super) fn kill_helper(browser: u32, process: ProcessId, argument: &str) -> io::Result<bool> {
    let Some(descriptor) = open_pidfd(process)? else { return Ok(false) };
    let is_it = |helper: &Descendant| helper.pid == process.pid && helper.has_argument(argument);
    if !helpers(browser).iter().any(is_it) {
        return Ok(false);
    }
    pidfd_send_signal(descriptor, Signal::KILL)?;
    Ok(true)
}

/// A descriptor of a process. `None` once it has ended.
fn open_pidfd(process: ProcessId) -> io::Result<Option<OwnedFd>> {
    let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
    let descriptor = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(descriptor) => descriptor,
        Err(rustix::io::Errno::SRCH) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    // From here on the descriptor stays with this process, even if a later process gets its number.
    Ok((process_id(process.pid) == Some(process)).then_some(descriptor))
}

fn process_id(pid: u32) -> Option<ProcessId> {
    Some(ProcessId { pid, started: Stat::read(&format!("/proc/{pid}/stat"))?.started })
}

/// Which renderers of a browser are stopped. Several owners may stop the same renderer; it continues when the last of them
/// lets go of it.
pub(super) struct StoppedRenderers {
    browser: u32,
    /// How many owners each stopped renderer has.
    owners: Mutex<HashMap<ProcessId, u32>>,
    /// How often all renderers were stopped.
    stop_all_count: AtomicU64,
}

impl StoppedRenderers {
    pub(super) fn new(browser: u32) -> Arc<Self> {
        Arc::new(Self { browser, owners: Mutex::default(), stop_all_count: AtomicU64::new(0) })
    }

    /// Stops all renderers.
    pub(super) fn stop_all(self: &Arc<Self>) -> io::Result<StopGuard> {
        self.stop_all_count.fetch_add(1, Ordering::Relaxed);
        let renderers = helpers(self.browser).into_iter().filter(|helper| helper.has_argument(RENDERER));
        let renderers: Vec<_> = renderers.filter_map(|helper| process_id(helper.pid)).collect();
        self.stop(&renderers)
    }

    /// Stops these processes, as far as they are renderers of the browser.
    pub(super) fn stop(self: &Arc<Self>, processes: &[ProcessId]) -> io::Result<StopGuard> {
        let mut opened = Vec::new();
        for process in processes {
            opened.extend(open_pidfd(*process)?.map(|descriptor| (*process, descriptor)));
        }
        let current_helpers = helpers(self.browser);
        let is_renderer = |process: &ProcessId| {
            current_helpers.iter().any(|helper| helper.pid == process.pid && helper.has_argument(RENDERER))
        };
        let mut stopped = StopGuard { registry: self.clone(), renderers: Vec::new() };
        for (process, descriptor) in opened.into_iter().filter(|(process, _)| is_renderer(process)) {
            let mut owners = self.owners.lock();
            match pidfd_send_signal(&descriptor, Signal::STOP) {
                Ok(()) => {
                    *owners.entry(process).or_default() += 1;
                    stopped.renderers.push((process, descriptor));
                }
                Err(rustix::io::Errno::SRCH) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(stopped)
    }

    /// Changes whenever all renderers are stopped.
    pub(super) fn stop_all_count(&self) -> u64 {
        self.stop_all_count.load(Ordering::Relaxed)
    }

    /// Whether one of these renderers, which the caller has stopped, has another owner, too.
    pub(super) fn has_other_owner(&self, processes: &[ProcessId]) -> bool {
        let owners = self.owners.lock();
        processes.iter().any(|process| owners.get(process).is_some_and(|count| *count > 1))
    }
}

/// Keeps renderers stopped. They continue when this is dropped, unless another owner keeps them stopped.
pub(super) struct StopGuard {
    registry: Arc<StoppedRenderers>,
    renderers: Vec<(ProcessId, OwnedFd)>,
}

impl StopGuard {
    pub(super) fn count(&self) -> usize {
        self.renderers.len()
    }

    /// Continues these of the renderers.
    pub(super) fn release(&mut self, processes: &[ProcessId]) {
        let (released, rest) = self.renderers.drain(..).partition(|(process, _)| processes.contains(process));
        self.renderers = rest;
        drop(Self { registry: self.registry.clone(), renderers: released });
    }

    /// Keeps the renderers of another handle stopped, too.
    pub(super) fn add(&mut self, mut other: Self) {
        self.renderers.append(&mut other.renderers);
    }
}

impl Drop for StopGuard {
    fn drop(&mut self) {
        for (process, descriptor) in &self.renderers {
            let mut owners = self.registry.owners.lock();
            if let Some(count) = owners.get_mut(process).filter(|count| **count > 1) {
                *count -= 1;
                continue;
            }
            owners.remove(process);
            if let Err(error) = pidfd_send_signal(descriptor, Signal::CONT)
                && error != rustix::io::Errno::SRCH
            {
                tracing::error!(%error, "cannot continue a stopped page");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use greenroom_testkit::eventually;

    use super::*;

    /// A process that is not a renderer of the browser is not ended, even if the browser started it.
    #[tokio::test]
    async fn only_renderers_are_killed() {
        let launcher = crate::launcher::Launcher::start("overload-test").unwrap();
        let spec = crate::launcher::ProcessSpec::new("/bin/sleep").args(["600"]);
        let (child, _, _) =
            crate::process::Process::start(&launcher, "sleep", spec, crate::process::StderrParser::DEFAULT)
                .await
                .unwrap();
        let pid = child.pid();
        let started = Stat::read(&format!("/proc/{pid}/stat")).unwrap().started;
        assert!(!kill_helper(std::process::id(), ProcessId { pid, started }, RENDERER).unwrap());
        assert!(child.exit().borrow().is_none());
    }

    /// The renderers of a browser are stopped until the last handle is dropped; its other processes are not.
    #[tokio::test]
    #[expect(
        clippy::disallowed_methods,
        reason = "the children must be this process's own, as a browser's renderers are"
    )]
    async fn stopped_renderers_continue_when_the_last_guard_is_dropped() {
        let start = |argument: &str| {
            let mut command = std::process::Command::new("/bin/sh");
            command.args(["-c", "read line", "sh", argument]).stdin(std::process::Stdio::piped());
            command.spawn().unwrap()
        };
        let mut renderer = start(RENDERER);
        let mut other = start("--type=utility");
        let state = |child: &std::process::Child| {
            let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
            stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
        };
        eventually("both read", || (state(&renderer) == 'S' && state(&other) == 'S').then_some(())).await;
        let stopped_renderers = StoppedRenderers::new(std::process::id());
        let mut stopped = stopped_renderers.stop_all().unwrap();
        let twice =
            stopped_renderers.stop(&[renderer.id(), other.id()].map(|pid| process_id(pid).unwrap())).unwrap();
        assert_eq!((stopped.count(), twice.count(), stopped_renderers.stop_all_count()), (1, 1, 1));
        eventually("it is stopped", || (state(&renderer) == 'T').then_some(())).await;
        assert_eq!(state(&other), 'S');
        let id = process_id(renderer.id()).unwrap();
        assert!(stopped_renderers.has_other_owner(&[id]));
        stopped.release(&[id]);
        assert!(!stopped_renderers.has_other_owner(&[id]));
        assert_eq!((stopped.count(), state(&renderer)), (0, 'T'), "the other handle keeps it stopped");
        drop(twice);
        for child in [&mut renderer, &mut other] {
            drop(child.stdin.take());
            assert_eq!(child.wait().unwrap().code(), Some(1), "it went on, and read the end of its input");
        }
    }
}
