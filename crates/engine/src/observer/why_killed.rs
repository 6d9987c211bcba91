//! Why a page's renderer was killed. The browser reports only that it was.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::cgroup::BrowserCgroup;

const KERNEL_ENDED: &str = "the kernel ended it: the browser took too much memory (pool.memory_bytes_max)";

/// For how long after the kernel has ended a process crashes count as that: several tabs may share a process.
const CRASH_ANNOUNCED_WITHIN: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(super) struct WhyKilled {
    /// Why greenroom is ending a renderer at the moment, if it is.
    told: Mutex<Option<Arc<str>>>,
    kernel: Mutex<Option<KernelKills>>,
}

/// What the kernel has done to the processes of a browser.
struct KernelKills {
    cgroup: Arc<BrowserCgroup>,
    seen: u64,
    last: Option<Instant>,
}

impl WhyKilled {
    pub(super) fn tell(&self, why: Option<Arc<str>>) {
        *self.told.lock() = why;
    }

    /// The kernel may end processes in this group.
    pub(super) fn ask_cgroup(&self, cgroup: Arc<BrowserCgroup>) {
        *self.kernel.lock() = Some(KernelKills { cgroup, seen: 0, last: None });
    }

    /// The reason for a renderer that was killed just now, and whether greenroom ended it.
    pub(super) fn reason(&self, now: Instant) -> Option<(Arc<str>, bool)> {
        if let Some(told) = self.told.lock().clone() {
            return Some((told, true));
        }
        let mut kernel = self.kernel.lock();
        let kernel = kernel.as_mut()?;
        let kills = kernel.cgroup.events().oom_kills;
        if kills > kernel.seen {
            kernel.seen = kills;
            kernel.last = Some(now);
        }
        let last = kernel.last?;
        (now.duration_since(last) <= CRASH_ANNOUNCED_WITHIN).then(|| (KERNEL_ENDED.into(), false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page that the kernel has ended for its memory has that reason, and so have pages of the same process; pages that
    /// are killed later have not. What greenroom says comes first.
    #[test]
    fn kernel_is_the_reason_for_a_while() {
        let why = WhyKilled::default();
        let now = Instant::now();
        assert_eq!(why.reason(now), None);
        let folder = tempfile::tempdir().unwrap();
        why.ask_cgroup(Arc::new(BrowserCgroup::at(folder.path())));
        assert_eq!(why.reason(now), None);
        std::fs::write(folder.path().join("memory.events"), "oom_kill 1\n").unwrap();
        let kernel = Some((Arc::from(KERNEL_ENDED), false));
        assert_eq!(why.reason(now), kernel);
        assert_eq!(why.reason(now + CRASH_ANNOUNCED_WITHIN), kernel);
        assert_eq!(why.reason(now + CRASH_ANNOUNCED_WITHIN * 2), None);
        why.tell(Some("greenroom".into()));
        assert_eq!(why.reason(now), Some(("greenroom".into(), true)));
    }
}
