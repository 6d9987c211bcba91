//! The journal: small operations are on disk with one write, before the database has them.
//!
//! A commit takes a thread's attention and a dozen writes; a call would wait for two of them. So what is small is noted
//! here first, a line of JSON each, and acknowledged; the writer commits it soon, with many others. What it has
//! committed is removed from here. A process that ends without warning leaves its files behind, and the next start
//! writes what is in them: operations that the database has already change nothing.
//! A file is locked by whoever writes it, so nobody takes it for a leftover. Called by the queue, under its mutex.

mod line;

use std::{
    collections::HashSet,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use greenroom_core::RefId;

use self::line::Line;
use crate::op::Op;

/// What is bigger waits for its commit: writing it twice would cost more than it saves, and whoever asks for big answers
/// waits for a browser anyway.
const OP_BYTES_MAX: usize = 16 << 10;

/// A file of this size is followed by the next one, and goes when all in it is committed. As much as half a second of
/// the busiest load.
const FILE_BYTES: u64 = 4 << 20;

/// How many calls may be under way whose beginnings are noted. Those beyond wait for commits.
const BEGUN_MAX: usize = 1 << 16;

/// How long another process waits for what is noted to be committed. A busy greenroom has always something noted; what
/// came since is not waited for.
const SETTLE_WITHIN: Duration = Duration::from_millis(100);

/// The kernel tells nobody when a file becomes empty.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A file is followed by the next one when it has [`FILE_BYTES`], so it has at most one operation more than that, with the
/// escapes of JSON.
const LEFT_BYTES_MAX: u64 = 2 * FILE_BYTES;

const FOLDER: &str = "journal";

pub(crate) struct Journal {
    folder: PathBuf,
    active: Option<Segment>,
    /// Files that are full, each with how many operations must be done before it can go.
    full: Vec<(Segment, u64)>,
    /// Calls whose beginnings are noted: only those may be ended here, since an end alone is nothing.
    begun: HashSet<RefId>,
    line: Vec<u8>,
    made: u64,
}

/// A file of the journal. It is locked as long as this is held.
pub(crate) struct Segment {
    file: File,
    path: PathBuf,
    bytes: u64,
}

impl Journal {
    pub(crate) fn new(data: &Path) -> Self {
        let folder = data.join(FOLDER);
        Self { folder, active: None, full: Vec::new(), begun: HashSet::new(), line: Vec::new(), made: 0 }
    }

    /// Whether this is the end of a call whose beginning is noted. The call is forgotten with that: asked of every end,
    /// whatever becomes of it, nothing is kept of calls that are over.
    pub(crate) fn ends(&mut self, op: &Op) -> bool {
        matches!(op, Op::End(response, _) if self.begun.remove(&response.ref_id))
    }

    /// The database is another one: beginnings may have gone with the old one. The ends of these calls wait for their
    /// commits, and hear if there is nothing to write them to.
    pub(crate) fn forget_begun(&mut self) {
        self.begun.clear();
    }

    /// Notes an operation, if it is one for the journal. `ends` is what [`Journal::ends`] said of it, and `pushed` how
    /// many there were before it.
    pub(crate) fn note(&mut self, op: &Op, ends: bool, pushed: u64) -> bool {
        let line = match op {
            Op::Begin(request, _) if self.begun.len() < BEGUN_MAX => Line::begin(request),
            Op::End(response, _) if ends => Line::end(response),
            _ => None,
        };
        let Some(line) = line.filter(|_| op.bytes() <= OP_BYTES_MAX) else { return false };
        let noted = self.write(&line, pushed);
        if let (true, Op::Begin(request, _)) = (noted, op) {
            self.begun.insert(request.ref_id.clone());
        }
        noted
    }

    fn write(&mut self, line: &Line<'_>, pushed: u64) -> bool {
        self.line.clear();
        if serde_json::to_writer(&mut self.line, line).is_err() {
            return false;
        }
        self.line.push(b'\n');
        if self.active.as_ref().is_some_and(|segment| segment.bytes >= FILE_BYTES) {
            self.full.extend(self.active.take().map(|segment| (segment, pushed)));
        }
        let segment = match &mut self.active {
            Some(segment) => segment,
            none => match Segment::make(&self.folder, &mut self.made) {
                Ok(segment) => none.insert(segment),
                Err(_) => return false,
            },
        };
        match segment.file.write_all(&self.line) {
            Ok(()) => {
                segment.bytes += self.line.len() as u64;
                true
            }
            Err(_) => {
                // What was written of it must not stand before the next line. Whoever asked waits for the commit, and
                // hears from that what is wrong with the disk.
                if segment.file.set_len(segment.bytes).is_err() {
                    segment.bytes = FILE_BYTES;
                }
                false
            }
        }
    }

    /// How many calls are under way whose beginnings are noted.
    #[cfg(test)]
    pub(crate) fn begun(&self) -> usize {
        self.begun.len()
    }

    /// So many operations are done, of all that were ever pushed. The files that are returned are to be removed, by
    /// whoever holds up nobody with that.
    pub(crate) fn settle(&mut self, done: u64, pushed: u64) -> Vec<Segment> {
        let gone =
            self.full.extract_if(.., |(_, until)| *until <= done).map(|(segment, _)| segment).collect();
        if done == pushed
            && let Some(segment) = self.active.as_mut().filter(|segment| segment.bytes > 0)
            && segment.file.set_len(0).is_ok()
        {
            segment.bytes = 0;
        }
        gone
    }

    /// No more is noted. A file with something in it stays for the next start.
    pub(crate) fn end(&mut self) {
        if let Some(segment) = self.active.take().filter(|segment| segment.bytes == 0) {
            // An empty file is harmless.
            let _ = segment.remove();
        }
    }
}

impl Segment {
    fn make(folder: &Path, made: &mut u64) -> io::Result<Self> {
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        *made += 1;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let path = folder.join(format!("{now:x}-{}-{made}", std::process::id()));
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path)?;
        // Whoever looks for leftovers may hold it for a moment. That is not waited for: callers wait for this.
        file.try_lock()?;
        // Whoever looked for leftovers in between has removed it as an empty one, and will not do so again.
        fs::metadata(&path)?;
        Ok(Self { file, path, bytes: 0 })
    }

    /// All in it is in the database. If it cannot be removed, the next start does so.
    pub(crate) fn discard(self) {
        if let Err(error) = self.remove() {
            let path = self.path.display();
            tracing::warn!(%error, %path, "a journal that is in the database cannot be removed");
        }
        drop(self.file);
    }

    fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Gives other processes the time to commit what they have noted, for whoever reads their database from outside.
pub(crate) fn let_settle(data: &Path) {
    let is_noted = || {
        let entries = fs::read_dir(data.join(FOLDER)).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.metadata().ok()).any(|file| file.len() > 0)
    };
    let begun = Instant::now();
    while is_noted() && begun.elapsed() < SETTLE_WITHIN {
        thread::park_timeout(LOOK_AGAIN);
    }
}

/// A file that a process left behind that is gone. It is locked as long as this is held.
pub(crate) struct Leftover {
    segment: Segment,
    pub(crate) ops: Vec<Op>,
}

impl Leftover {
    /// All there are in a data folder.
    pub(crate) fn all(data: &Path) -> Vec<Self> {
        let Ok(entries) = fs::read_dir(data.join(FOLDER)) else { return Vec::new() };
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        // Names begin with the time.
        paths.sort();
        paths.into_iter().filter_map(Self::open).collect()
    }

    fn open(path: PathBuf) -> Option<Self> {
        let unreadable = |error: &io::Error| {
            tracing::warn!(%error, path = %path.display(), "cannot read a journal that was left behind");
        };
        let mut file = greenroom_files::open(&path).inspect_err(unreadable).ok()?;
        file.try_lock().ok()?;
        let text = greenroom_files::read_opened(&mut file, LEFT_BYTES_MAX).inspect_err(unreadable).ok()?;
        // The last line may be half one, and a disk that lost power may have others: they were never acknowledged, or
        // cannot be helped.
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let ops = lines.filter_map(|line| serde_json::from_slice::<Line<'_>>(line).ok()?.into_op()).collect();
        Some(Self { segment: Segment { file, path, bytes: text.len() as u64 }, ops })
    }

    /// It is in the database.
    pub(crate) fn remove(self) {
        self.segment.discard();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A full file goes when all in it is done, and not before; whoever settles removes it.
    #[test]
    fn full_files_go_when_they_are_done() {
        let data = tempfile::tempdir().unwrap();
        let mut journal = Journal::new(data.path());
        let folder = data.path().join(FOLDER);
        let segment = Segment::make(&folder, &mut journal.made).unwrap();
        let path = segment.path.clone();
        journal.full.push((segment, 5));
        assert_eq!(journal.settle(4, 9).len(), 0);
        let mut gone = journal.settle(5, 9);
        assert_eq!(gone.len(), 1);
        assert!(path.exists() && Leftover::open(path.clone()).is_none(), "it is there, and locked");
        gone.pop().unwrap().discard();
        assert!(!path.exists());
        assert_eq!(journal.settle(6, 9).len(), 0);
    }
}
