//! The ports no browser may reach: greenroom's own, its engines' and its debuggers'.
//!
//! Each process keeps its list in memory and in its run folder, so that the browsers of one greenroom cannot
//! reach the debuggers of another on the same machine either.

use std::{
    collections::BTreeMap,
    fs, io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use greenroom_core::net::OwnPorts;

use crate::run_folder::{self, RunFolder};

/// The ports of this process, and through the run folders those of its neighbours.
#[derive(Clone)]
pub struct Ports(Arc<Inner>);

struct Inner {
    /// Ports with the number of guards that hold each.
    held: Mutex<BTreeMap<u16, usize>>,
    file: PathBuf,
    all_runs: PathBuf,
}

/// Keeps a port closed to browsers until dropped.
pub struct PortGuard {
    ports: Ports,
    port: u16,
}

impl Ports {
    pub fn new(run: &RunFolder) -> Self {
        let all_runs = run.path().parent().map(PathBuf::from).unwrap_or_default();
        Self(Arc::new(Inner { held: Mutex::default(), file: run.path().join(run_folder::PORTS), all_runs }))
    }

    /// Closes a port to all browsers. Call it before anything listens there, or before any page can know.
    pub fn hold(&self, port: u16) -> io::Result<PortGuard> {
        let mut held = self.0.held.lock().unwrap_or_else(PoisonError::into_inner);
        *held.entry(port).or_default() += 1;
        let written = self.write(&held);
        drop(held);
        // Made also on failure: dropping it takes the port off the list again.
        let guard = PortGuard { ports: self.clone(), port };
        written.map(|()| guard)
    }

    fn write(&self, held: &BTreeMap<u16, usize>) -> io::Result<()> {
        let text: String = held.keys().map(|port| format!("{port}\n")).collect();
        run_folder::write_whole(&self.0.file, text.as_bytes())
    }

    fn neighbours_hold(&self, port: u16) -> bool {
        // What cannot be read might hold the port: then it is closed. What is not there holds none.
        let missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let runs = match fs::read_dir(&self.0.all_runs) {
            Ok(runs) => runs,
            Err(error) => return !missing(&error),
        };
        runs.into_iter().any(|run| {
            let text = run.and_then(|run| match fs::read_to_string(run.path().join(run_folder::PORTS)) {
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(String::new()),
                other => other,
            });
            match text {
                Ok(text) => text.lines().any(|line| line.parse() == Ok(port)),
                Err(error) => !missing(&error),
            }
        })
    }
}

impl OwnPorts for Ports {
    fn contains(&self, port: u16) -> bool {
        let ours = self.0.held.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&port);
        ours || self.neighbours_hold(port)
    }
}

impl Drop for PortGuard {
    fn drop(&mut self) {
        let mut held = self.ports.0.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = held.get_mut(&self.port) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.port);
            }
        }
        // On the way out the folder may be gone; a port listed too long closes nothing but itself.
        if let Err(error) = self.ports.write(&held) {
            tracing::debug!(%error, "cannot update the list of ports");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A port is closed while anyone holds it, for this process and for its neighbours, and open afterwards.
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
        assert!(ours.contains(400), "what cannot be read might hold it");
        fs::remove_dir_all(&unreadable).unwrap();
        assert!(!ours.contains(400));

        let (one, two) = (ours.hold(5000).unwrap(), ours.hold(5000).unwrap());
        assert_eq!(fs::read_to_string(run.path().join(run_folder::PORTS)).unwrap(), "5000\n");
        drop(one);
        assert!(ours.contains(5000), "the second guard still holds it");
        drop(two);
        assert!(!ours.contains(5000));
    }
}
