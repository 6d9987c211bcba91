//! The ports that no browser may reach: those of greenroom, its engines and its debuggers, and the debuggers of attached
//! browsers.
//!
//! Each process keeps its list in memory and in its run folder, so that the browsers of one greenroom cannot reach the
//! debuggers of another greenroom on the same machine either.

use std::{collections::BTreeMap, fs, io, path::PathBuf, sync::Arc};

use greenroom_core::net::OwnPorts;
use parking_lot::{Mutex, MutexGuard};

use crate::run_folder::{self, RunFolder};

/// The ports of this process, and through the run folders those of other greenrooms on this machine.
#[derive(Clone)]
pub struct Ports(Arc<Inner>);

struct Inner {
    /// Ports with the number of guards that hold each.
    held: Mutex<BTreeMap<(u16, PortOwner), usize>>,
    file: PathBuf,
    all_runs: PathBuf,
}

/// Who listens at a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PortOwner {
    /// greenroom, or a process that it started.
    Ours,
    /// An attached browser.
    Theirs,
}

/// A list of all possible ports, each of both kinds, has 1.3 MiB.
const LIST_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// The suffix of an attached browser's port.
const THEIRS: &str = " attached";

/// Keeps a port closed to browsers until dropped.
pub struct PortGuard {
    ports: Ports,
    port: (u16, PortOwner),
}

impl Ports {
    pub fn new(run: &RunFolder) -> Self {
        let all_runs = run.path().parent().map(PathBuf::from).unwrap_or_default();
        Self(Arc::new(Inner { held: Mutex::default(), file: run.path().join(run_folder::PORTS), all_runs }))
    }

    /// Closes a port to all browsers. Call it before anything listens there, or before any page can know the port.
    pub fn hold(&self, port: u16) -> io::Result<PortGuard> {
        self.close((port, PortOwner::Ours))
    }

    /// Closes the debugger's port of an attached browser.
    pub fn hold_attached(&self, port: u16) -> io::Result<PortGuard> {
        self.close((port, PortOwner::Theirs))
    }

    /// Whether any greenroom on this machine, or a process that it started, listens at this port.
    pub fn is_ours(&self, port: u16) -> bool {
        self.held().contains_key(&(port, PortOwner::Ours)) || self.neighbours_hold(port, &[PortOwner::Ours])
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<(u16, PortOwner), usize>> {
        self.0.held.lock()
    }

    fn close(&self, port: (u16, PortOwner)) -> io::Result<PortGuard> {
        let mut held = self.held();
        *held.entry(port).or_default() += 1;
        let written = self.write(&held);
        drop(held);
        // Made even on failure: dropping it removes the port from the list again.
        let guard = PortGuard { ports: self.clone(), port };
        written.map(|()| guard)
    }

    fn write(&self, held: &BTreeMap<(u16, PortOwner), usize>) -> io::Result<()> {
        let line = |(port, whose): &(u16, PortOwner)| match whose {
            PortOwner::Ours => format!("{port}\n"),
            PortOwner::Theirs => format!("{port}{THEIRS}\n"),
        };
        let text: String = held.keys().map(line).collect();
        run_folder::write_whole(&self.0.file, text.as_bytes())
    }

    fn neighbours_hold(&self, port: u16, whose: &[PortOwner]) -> bool {
        // An unreadable list might contain the port: then it counts as closed. A missing list contains none.
        let missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let runs = match fs::read_dir(&self.0.all_runs) {
            Ok(runs) => runs,
            Err(error) => return !missing(&error),
        };
        runs.into_iter().any(|run| {
            let text = run.and_then(|run| {
                match greenroom_files::read_text(&run.path().join(run_folder::PORTS), LIST_BYTES_MAX) {
                    Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(String::new()),
                    other => other,
                }
            });
            match text {
                Ok(text) => {
                    text.lines().map(read).any(|(held, by)| held == Some(port) && whose.contains(&by))
                }
                Err(error) if missing(&error) => false,
                Err(error) => {
                    tracing::debug!(%error, "cannot read another greenroom's list of ports, so every port counts as its own");
                    true
                }
            }
        })
    }
}

/// A line of a list of ports.
fn read(line: &str) -> (Option<u16>, PortOwner) {
    match line.strip_suffix(THEIRS) {
        Some(port) => (port.parse().ok(), PortOwner::Theirs),
        None => (line.parse().ok(), PortOwner::Ours),
    }
}

impl OwnPorts for Ports {
    fn contains(&self, port: u16) -> bool {
        const ALL: [PortOwner; 2] = [PortOwner::Ours, PortOwner::Theirs];
        let held = self.held();
        let here = ALL.iter().any(|whose| held.contains_key(&(port, *whose)));
        drop(held);
        here || self.neighbours_hold(port, &ALL)
    }
}

/// The ports of greenroom and of the processes that it started, without those of attached browsers.
pub struct Ours(pub Ports);

impl OwnPorts for Ours {
    fn contains(&self, port: u16) -> bool {
        self.0.is_ours(port)
    }
}

impl Drop for PortGuard {
    fn drop(&mut self) {
        let mut held = self.ports.held();
        if let Some(count) = held.get_mut(&self.port) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.port);
            }
        }
        // At exit the folder may be gone; a stale entry closes only its own port.
        if let Err(error) = self.ports.write(&held) {
            tracing::debug!(%error, "cannot update the list of ports");
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    /// A port is closed while any guard holds it, for this process and for other greenrooms, and open afterwards.
    #[test]
    fn ports_are_held_across_processes() {
        let data = tempfile::tempdir().unwrap();
        let run = RunFolder::claim(data.path()).unwrap();
        let ours = Ports::new(&run);
        let neighbour = data.path().join("run/neighbour");
        fs::create_dir_all(&neighbour).unwrap();
        fs::write(neighbour.join(run_folder::PORTS), "4000\n").unwrap();
        assert!(ours.contains(4000) && !ours.contains(400));

        let unreadable = data.path().join("run/unreadable");
        fs::create_dir_all(unreadable.join(run_folder::PORTS)).unwrap();
        assert!(ours.contains(400), "an unreadable list might contain it");
        fs::remove_dir_all(&unreadable).unwrap();
        assert!(!ours.contains(400));

        // Opening a FIFO without a writer would block for ever.
        fs::create_dir_all(&unreadable).unwrap();
        let fifo = unreadable.join(run_folder::PORTS);
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(ours.contains(400), "a FIFO is no list");
        fs::remove_dir_all(&unreadable).unwrap();

        let (one, two) = (ours.hold(5000).unwrap(), ours.hold(5000).unwrap());
        assert_eq!(fs::read_to_string(run.path().join(run_folder::PORTS)).unwrap(), "5000\n");
        drop(one);
        assert!(ours.contains(5000), "the second guard still holds it");
        drop(two);
        assert!(!ours.contains(5000));
    }

    /// The debugger of an attached browser is closed to browsers, but is not greenroom's own.
    #[test]
    fn theirs_are_closed_and_not_ours() {
        let data = tempfile::tempdir().unwrap();
        let run = RunFolder::claim(data.path()).unwrap();
        let here = Ports::new(&run);
        let file = run.path().join(run_folder::PORTS);
        let neighbour = data.path().join("run/neighbour");
        fs::create_dir_all(&neighbour).unwrap();
        fs::write(neighbour.join(run_folder::PORTS), "4000\n4001 attached\n").unwrap();
        let guards = (here.hold(5000).unwrap(), here.hold_attached(5001).unwrap());
        assert_eq!(fs::read_to_string(&file).unwrap(), "5000\n5001 attached\n");
        for port in [4000, 4001, 5000, 5001] {
            assert!(here.contains(port), "{port}");
        }
        assert_eq!([4000, 4001, 5000, 5001].map(|port| here.is_ours(port)), [true, false, true, false]);
        drop(guards);
        assert_eq!(fs::read_to_string(&file).unwrap(), "");
    }
}
