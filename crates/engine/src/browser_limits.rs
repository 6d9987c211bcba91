//! The limits of a Chromium that greenroom starts, as its pool sets them. See `docs/decisions/031-limits-of-a-browser.md`.
//!
//! The kernel holds the number of open files, and all of them where greenroom may make cgroups (`cgroup.rs`). `overload/` and
//! `profile_limit.rs` watch what the browser uses; they know which page to blame, and the kernel does not.

use greenroom_core::{
    StartError,
    settings::{Cores, Pool},
};

/// The memory of a browser whose limit is `auto`, on a machine that has enough of it.
pub(crate) const MEMORY_BYTES_DEFAULT: u64 = 2 << 30;

/// The least that `pool.memory_bytes_max` can be: an empty browser takes up to half of it.
pub(crate) const MEMORY_BYTES_MIN: u64 = 1 << 28;

/// Below this number of open files per process a browser may be unable to start: Debian's Chromium 148 needs between 64 and
/// 96 without any page.
const OPEN_FILES_TO_START: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrowserLimits {
    /// How much memory all its processes may take. `None` for 2 GiB, or less on a machine with little memory.
    pub memory_bytes_max: Option<u64>,
    /// How many cores its processes may keep busy in the long run.
    pub cpu_cores_max: Option<Cores>,
    pub processes_max: usize,
    /// How many files each process may have open.
    pub open_files_max: usize,
    pub profile_bytes_max: Option<u64>,
}

impl BrowserLimits {
    pub fn of(pool: &Pool) -> Self {
        Self {
            memory_bytes_max: pool.memory_bytes_max,
            cpu_cores_max: pool.cpu_cores_max,
            processes_max: pool.processes_max,
            open_files_max: pool.open_files_max,
            profile_bytes_max: pool.profile_bytes_max,
        }
    }

    /// Refuses limits that a browser exceeds before it has a page. Otherwise its first page would be ended, and the next one.
    pub(crate) fn check_started(&self, memory: u64, processes: usize) -> Result<(), StartError> {
        if let Some(max) = self.memory_bytes_max.filter(|max| memory > *max) {
            return Err(too_low("pool.memory_bytes_max", &mebibytes(max), &mebibytes(memory)));
        }
        if processes > self.processes_max {
            return Err(too_low(
                "pool.processes_max",
                &self.processes_max.to_string(),
                &processes.to_string(),
            ));
        }
        Ok(())
    }

    /// For a browser that ended, or hung, at its start: the limit that may be the reason.
    pub(crate) fn start_hint(&self) -> Option<String> {
        (self.open_files_max < OPEN_FILES_TO_START).then(|| {
            format!(
                "raise `pool.open_files_max`: it is {}, and a browser may need {OPEN_FILES_TO_START} to start",
                self.open_files_max
            )
        })
    }
}

fn too_low(setting: &str, limit: &str, used: &str) -> StartError {
    StartError::new(format!("`{setting}` is {limit}, and the browser takes {used} before it has a page"))
        .hint(format!("raise `{setting}`"))
}

/// A size for messages, rounded up.
pub(crate) fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A limit that an empty browser exceeds is refused with the setting, the limit and what the browser takes.
    #[test]
    fn limits_below_an_empty_browser_are_refused() {
        let limits = BrowserLimits {
            memory_bytes_max: Some(300 << 20),
            cpu_cores_max: None,
            processes_max: 8,
            open_files_max: 100,
            profile_bytes_max: None,
        };
        assert!(limits.check_started(300 << 20, 8).is_ok());
        let error = limits.check_started((300 << 20) + 1, 8).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`pool.memory_bytes_max` is 300 MiB, and the browser takes 301 MiB before it has a page"
        );
        assert_eq!(error.hint.as_deref(), Some("raise `pool.memory_bytes_max`"));
        let error = limits.check_started(1, 9).unwrap_err();
        assert!(
            error.to_string().starts_with("`pool.processes_max` is 8, and the browser takes 9 "),
            "{error}"
        );
        assert!(limits.start_hint().unwrap().contains("`pool.open_files_max`: it is 100"));
        assert_eq!(BrowserLimits { open_files_max: 256, ..limits }.start_hint(), None);
    }
}
