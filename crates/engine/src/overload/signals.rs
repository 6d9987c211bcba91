//! Ends, stops and continues the renderers of a browser. A signal goes to a process descriptor, so it never reaches a later
//! process of the same number.

use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::usage::{ProcessId, RENDERER, Stat};
use crate::process_tree::{Descendant, helpers};

/// Ends a renderer of a browser. Returns whether it still existed.
pub(super) fn end(browser: u32, process: ProcessId) -> std::io::Result<bool> {
    let Some(descriptor) = open(process.pid)? else { return Ok(false) };
    // From here on the descriptor stays with this process, even if a later process gets its number.
    let is_same =
        Stat::of(&format!("/proc/{}/stat", process.pid)).is_some_and(|stat| stat.started == process.started);
    let is_renderer = |helper: &Descendant| helper.pid == process.pid && helper.has(RENDERER);
    if !is_same || !helpers(browser).iter().any(is_renderer) {
        return Ok(false);
    }
    pidfd_send_signal(descriptor, Signal::KILL)?;
    Ok(true)
}

/// A descriptor of a process. `None` once it has ended.
fn open(pid: u32) -> std::io::Result<Option<OwnedFd>> {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(descriptor) => Ok(Some(descriptor)),
        Err(rustix::io::Errno::SRCH) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Stopped renderers. They continue when this is dropped.
pub(super) struct Stopped(Vec<OwnedFd>);

impl Stopped {
    /// Stops all renderers of a browser.
    pub(super) fn renderers(browser: u32) -> std::io::Result<Self> {
        let mut renderers = Vec::new();
        for helper in helpers(browser).into_iter().filter(|helper| helper.has(RENDERER)) {
            renderers.extend(open(helper.pid)?.map(|descriptor| (helper, descriptor)));
        }
        // Another process may have got the number before it was opened.
        let still = helpers(browser);
        let mut stopped = Self(Vec::new());
        for (_, descriptor) in renderers.into_iter().filter(|(helper, _)| still.contains(helper)) {
            match pidfd_send_signal(&descriptor, Signal::STOP) {
                Ok(()) => stopped.0.push(descriptor),
                Err(rustix::io::Errno::SRCH) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(stopped)
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for descriptor in &self.0 {
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
    async fn only_renderers_end() {
        let launcher = crate::launcher::Launcher::start("overload-test").unwrap();
        let spec = crate::launcher::Spec::new("/bin/sleep").args(["600"]);
        let (child, _, _) =
            crate::process::Process::start(&launcher, "sleep", spec, crate::process::Listen::PLAIN)
                .await
                .unwrap();
        let pid = child.pid();
        let started = Stat::of(&format!("/proc/{pid}/stat")).unwrap().started;
        assert!(!end(std::process::id(), ProcessId { pid, started }).unwrap());
        assert!(child.exit().borrow().is_none());
    }

    /// The renderers of a browser are stopped until the handle is dropped; its other processes are not.
    #[tokio::test]
    #[expect(
        clippy::disallowed_methods,
        reason = "the children must be this process's own, as a browser's renderers are"
    )]
    async fn renderers_stop_and_go_on() {
        let start = |argument: &str| {
            let mut command = std::process::Command::new("/bin/sh");
            command.args(["-c", "read line", "sh", argument]).stdin(std::process::Stdio::piped());
            command.spawn().unwrap()
        };
        let (mut renderer, mut other) = (start(RENDERER), start("--type=utility"));
        let state = |child: &std::process::Child| {
            let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
            stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
        };
        eventually("both read", || (state(&renderer) == 'S' && state(&other) == 'S').then_some(())).await;
        let stopped = Stopped::renderers(std::process::id()).unwrap();
        assert_eq!(stopped.count(), 1);
        eventually("it is stopped", || (state(&renderer) == 'T').then_some(())).await;
        assert_eq!(state(&other), 'S');
        drop(stopped);
        for child in [&mut renderer, &mut other] {
            drop(child.stdin.take());
            assert_eq!(child.wait().unwrap().code(), Some(1), "it went on, and read the end of its input");
        }
    }
}
