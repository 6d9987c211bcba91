//! The ports that no browser may reach: those of greenroom, its engines and its debuggers, and the debuggers of attached
//! browsers.
//!
//! Each process keeps its list in memory and in its run folder, so that the browsers of one greenroom cannot reach the
//! debuggers of another greenroom on the same machine either.

use std::{collections::BTreeMap, fs, io, path::PathBuf, sync::Arc};

use greenroom_core::network::OwnPorts;
use parking_lot::{Mutex, MutexGuard};

use crate::run_folder::{self, RunFolder};

/// The ports of this process, and through the run folders those of other greenrooms on this machine.
#[derive(Clone)]
pub struct Ports(Arc<PortList>);

struct PortList {
    /// Ports with the number of guards that hold each.
    held: Mutex<BTreeMap<(u16, PortOwner), usize>>,
    file: PathBuf,
    all_runs: PathBuf,
}

/// Who listens at a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PortOwner {
    /// greenroom, or a process that it started.
    Greenroom,
    /// An attached browser.
    AttachedBrowser,
}

/// A list of all possible ports, each of both kinds, has 1.3 MiB.
const LIST_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// The suffix of an attached browser's port.
const ATTACHED_SUFFIX: &str = " attached";

/// Keeps a port closed to browsers until dropped.
pub struct PortGuard {
    ports: Ports,
    port: (u16, PortOwner),
}

impl Ports {
    pub fn new(run: &RunFolder) -> Self {
        let all_runs = run.path().parent().map(PathBuf::from).unwrap_or_default();
        Self(Arc::new(PortList {
            held: Mutex::default(),
            file: run.path().join(run_folder::PORTS),
            all_runs,
        }))
    }

    /// Closes a port to all browsers. Call it before anything listens there, or before any page can know the port.
    pub fn hold(&self, port: u16) -> io::Result<PortGuard> {
        self.close_port((port, PortOwner::Greenroom))
    }

    /// Closes the debugger's port of an attached browser.
    pub fn hold_attached(&self, port: u16) -> io::Result<PortGuard> {
        self.close_port((port, PortOwner::AttachedBrowser))
    }

    /// Whether any greenroom on this machine, or a process that it started, listens at this port.
    pub fn is_greenroom_port(&self, port: u16) -> bool {
        self.held().contains_key(&(port, PortOwner::Greenroom))
            || self.listed_by_other_process(port, &[PortOwner::Greenroom])
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<(u16, PortOwner), usize>> {
        self.0.held.lock()
    }

    fn close_port(&self, port: (u16, PortOwner)) -> io::Result<PortGuard> {
        let mut held = self.held();
        *held.entry(port).or_default() += 1;
        let written = self.write(&held);
        drop(held);
        // The guard exists even if writing fails: dropping it then removes the port from the list again.
        let guard = PortGuard { ports: self.clone(), port };
        written.map(|()| guard)
    }

    fn write(&self, held: &BTreeMap<(u16, PortOwner), usize>) -> io::Result<()> {
        let line = |(port, owner): &(u16, PortOwner)| match owner {
            PortOwner::Greenroom => format!("{port}\n"),
            PortOwner::AttachedBrowser => format!("{port}{ATTACHED_SUFFIX}\n"),
        };
        let text: String = held.keys().map(line).collect();
        run_folder::write_atomically(&self.0.file, text.as_bytes())
    }

    fn listed_by_other_process(&self, port: u16, owner: &[PortOwner]) -> bool {
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
                    text.lines().map(parse_line).any(|(held, by)| held == Some(port) && owner.contains(&by))
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
fn parse_line(line: &str) -> (Option<u16>, PortOwner) {
    match line.strip_suffix(ATTACHED_SUFFIX) {
        Some(port) => (port.parse().ok(), PortOwner::AttachedBrowser),
        None => (line.parse().ok(), PortOwner::Greenroom),
    }
}

impl OwnPorts for Ports {
    fn contains(&self, port: u16) -> bool {
        const ALL: [PortOwner; 2] = [PortOwner::Greenroom, PortOwner::AttachedBrowser];
        let held = self.held();
        let is_held_by_this_process = ALL.iter().any(|owner| held.contains_key(&(port, *owner)));
        drop(held);
        is_held_by_this_process || self.listed_by_other_process(port, &ALL)
    }
}

/// The ports of greenroom and of the processes that it started, without those of attached browsers.
pub struct GreenroomPorts(pub Ports);

impl OwnPorts for GreenroomPorts {
    fn contains(&self, port: u16) -> bool {
        self.0.is_greenroom_port(port)
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
        // At exit the folder may be gone. A stale entry keeps only its own port closed.
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
        let ports = Ports::new(&run);
        let neighbour = data.path().join("run/neighbour");
        fs::create_dir_all(&neighbour).unwrap();
        fs::write(neighbour.join(run_folder::PORTS), "4000\n").unwrap();
        assert!(ports.contains(4000) && !ports.contains(400));

        let unreadable = data.path().join("run/unreadable");
        fs::create_dir_all(unreadable.join(run_folder::PORTS)).unwrap();
        assert!(ports.contains(400), "an unreadable list might contain it");
        fs::remove_dir_all(&unreadable).unwrap();
        assert!(!ports.contains(400));

        // Opening a FIFO without a writer would block for ever.
        fs::create_dir_all(&unreadable).unwrap();
        let fifo = unreadable.join(run_folder::PORTS);
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(ports.contains(400), "a FIFO is no list");
        fs::remove_dir_all(&unreadable).unwrap();

        let first_guard = ports.hold(5000).unwrap();
        let second_guard = ports.hold(5000).unwrap();
        assert_eq!(fs::read_to_string(run.path().join(run_folder::PORTS)).unwrap(), "5000\n");
        drop(first_guard);
        assert!(ports.contains(5000), "the second guard still holds it");
        drop(second_guard);
        assert!(!ports.contains(5000));
    }

    /// The debugger of an attached browser is closed to browsers, but is not greenroom's own.
    #[test]
    fn attached_ports_are_closed_but_not_greenrooms() {
        let data = tempfile::tempdir().unwrap();
        let run = RunFolder::claim(data.path()).unwrap();
        let ports = Ports::new(&run);
        let file = run.path().join(run_folder::PORTS);
        let neighbour = data.path().join("run/neighbour");
        fs::create_dir_all(&neighbour).unwrap();
        fs::write(neighbour.join(run_folder::PORTS), "4000\n4001 attached\n").unwrap();
        let guards = (ports.hold(5000).unwrap(), ports.hold_attached(5001).unwrap());
        assert_eq!(fs::read_to_string(&file).unwrap(), "5000\n5001 attached\n");
        for port in [4000, 4001, 5000, 5001] {
            assert!(ports.contains(port), "{port}");
        }
        assert_eq!(
            [4000, 4001, 5000, 5001].map(|port| ports.is_greenroom_port(port)),
            [true, false, true, false]
        );
        drop(guards);
        assert_eq!(fs::read_to_string(&file).unwrap(), "");
    }
}
