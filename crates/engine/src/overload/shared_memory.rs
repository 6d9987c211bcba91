//! Shared memory that processes of a browser have open but not mapped, which the kernel counts for none of them. A page
//! fills it by large messages that no process reads: messages to a busy service worker, say, wait as open files of the
//! worker's renderer.

use std::{collections::HashMap, fs, os::unix::fs::MetadataExt};

use super::usage::kibibytes;

/// Open files are read again when the machine's shared memory has changed by this much: there may be thousands of files.
const RESCAN_CHANGE_BYTES: u64 = 32 << 20;

/// How many open files of one process are read. Chromium allows a process 8,192 by default.
const FILES_MAX: usize = 16_384;

/// How the kernel names shared memory of the only kind that Chromium makes.
const MEMFD_PREFIX: &str = "/memfd:";

/// A file, distinct from all others of the machine: its device and number.
type FileId = (u64, u64);

#[derive(Debug, Default)]
pub(super) struct SharedMemory {
    /// The machine's shared memory at the last scan.
    machine_bytes: Option<u64>,
    shares: HashMap<u32, u64>,
}

impl SharedMemory {
    /// Reads what these processes have open, unless that cannot have changed much.
    pub(super) fn scan(&mut self, processes: impl Iterator<Item = u32>) {
        let machine_bytes = fs::read_to_string("/proc/meminfo").ok();
        let machine_bytes = machine_bytes.and_then(|text| Some(kibibytes(&text, "Shmem:")? * 1024));
        if let Some((before, now)) = self.machine_bytes.zip(machine_bytes)
            && before.abs_diff(now) < RESCAN_CHANGE_BYTES
        {
            return;
        }
        self.machine_bytes = machine_bytes;
        self.shares = shares_of_open_memory(processes.map(|pid| (pid, open_files(pid))).collect());
    }

    /// This process's share of the shared memory that it has open: several processes may have the same memory open.
    pub(super) fn share_of(&self, pid: u32) -> u64 {
        self.shares.get(&pid).copied().unwrap_or_default()
    }
}

/// The shared memory that a process has open, with its size in memory.
fn open_files(pid: u32) -> HashMap<FileId, u64> {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return HashMap::new() };
    let is_shared = |file: &fs::DirEntry| {
        fs::read_link(file.path())
            .is_ok_and(|link| link.as_os_str().as_encoded_bytes().starts_with(MEMFD_PREFIX.as_bytes()))
    };
    let shared = files.flatten().take(FILES_MAX).filter(is_shared);
    let metadata = shared.filter_map(|file| fs::metadata(file.path()).ok());
    // The kernel counts blocks of 512 bytes.
    metadata.map(|file| ((file.dev(), file.ino()), file.blocks() * 512)).collect()
}

/// Each process's share of the memory that it has open.
fn shares_of_open_memory(open: HashMap<u32, HashMap<FileId, u64>>) -> HashMap<u32, u64> {
    let mut holders: HashMap<FileId, u64> = HashMap::new();
    for file in open.values().flat_map(HashMap::keys) {
        *holders.entry(*file).or_default() += 1;
    }
    let share = |(file, size): (FileId, u64)| size / holders.get(&file).copied().unwrap_or(1).max(1);
    open.into_iter().map(|(pid, files)| (pid, files.into_iter().map(share).sum())).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Shared memory that this process has open counts, though nothing maps it, and no longer once it is closed.
    #[test]
    fn open_memory_counts() {
        const SIZE: usize = 1 << 20;
        let own = std::process::id();
        let open = || shares_of_open_memory(HashMap::from([(own, open_files(own))]))[&own];
        let before = open();
        let memory = rustix::fs::memfd_create("greenroom-test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let mut memory = fs::File::from(memory);
        memory.write_all(&[1; SIZE]).unwrap();
        assert_eq!(open() - before, SIZE as u64);
        drop(memory);
        assert_eq!(open(), before);
    }

    /// Memory that two processes have open counts half for each.
    #[test]
    fn memory_open_in_two_processes_counts_half_for_each() {
        let both = (1, 1);
        let one = (1, 2);
        let open =
            HashMap::from([(7, HashMap::from([(both, 10), (one, 3)])), (8, HashMap::from([(both, 10)]))]);
        assert_eq!(shares_of_open_memory(open), HashMap::from([(7, 8), (8, 5)]));
    }
}
