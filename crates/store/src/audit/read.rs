//! Reads the audit log from its first line to its last, and on as it grows.

use std::{
    collections::VecDeque,
    fs::{self, File, Metadata},
    io::{self, BufRead, BufReader, ErrorKind},
    path::{Path, PathBuf},
};

use greenroom_core::audit::AuditLine;

use super::{
    LINE_BYTES_MAX,
    file::{current_path, is_same, rotated_files},
};

/// A line as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditText {
    pub text: String,
    pub line: AuditLine,
}

/// Reads all files of a log, the oldest first.
pub struct AuditReader {
    folder: PathBuf,
    /// Files that were moved aside and are not read yet.
    rotated: VecDeque<PathBuf>,
    last_rotated: Option<PathBuf>,
    /// The file that is read.
    reading: Option<OpenedFile>,
    /// The file that was read before another process moved it aside: it must not be read again under its new name.
    finished: Option<Metadata>,
    unreadable: u64,
}

struct OpenedFile {
    file: BufReader<File>,
    /// The beginning of a line whose end is not written yet.
    partial: Vec<u8>,
    /// Whether greenrooms append to another file now, so that this one ends where it ends.
    is_rotated: bool,
}

impl AuditReader {
    /// A folder without a log is an empty log.
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            rotated: VecDeque::new(),
            last_rotated: None,
            reading: None,
            finished: None,
            unreadable: 0,
        }
    }

    /// The next line; `None` if there is none now. A later call may find one, also in a new file.
    pub fn next_line(&mut self) -> io::Result<Option<AuditText>> {
        loop {
            if self.reading.is_none() && !self.open_next()? {
                return Ok(None);
            }
            let Some(reading) = &mut self.reading else { return Ok(None) };
            if let Some(line) = reading.next_line()? {
                let text = String::from_utf8_lossy(&line).into_owned();
                // A process that was killed, or a full disk, leaves a part of a line.
                match serde_json::from_str(&text) {
                    Ok(line) => return Ok(Some(AuditText { text, line })),
                    Err(_) if text.trim().is_empty() => {}
                    Err(_) => self.unreadable += 1,
                }
            } else if reading.is_rotated {
                self.unreadable += u64::from(!reading.partial.is_empty());
                self.finished = reading.file.get_ref().metadata().ok();
                self.reading = None;
            } else if self.is_current_rotated() {
                // Lines may have come between the end that was read and the move: read on to the new end.
                if let Some(reading) = &mut self.reading {
                    reading.is_rotated = true;
                }
            } else {
                return Ok(None);
            }
        }
    }

    /// How many lines were left out because they could not be read.
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Opens the next file. Returns whether there is one.
    fn open_next(&mut self) -> io::Result<bool> {
        loop {
            while let Some(path) = self.rotated.pop_front() {
                // A greenroom may have removed the file meanwhile.
                let file = open(&path)?;
                self.last_rotated = Some(path);
                if let Some(file) = file
                    && !is_same(&file.metadata()?, &self.finished)
                {
                    self.reading = Some(OpenedFile::new(file, true));
                    return Ok(true);
                }
            }
            let current = open(&current_path(&self.folder))?;
            // A file that is moved aside before the current one was opened comes first.
            self.rotated = self.newly_rotated()?;
            if self.rotated.is_empty() {
                self.reading = current.map(|file| OpenedFile::new(file, false));
                return Ok(self.reading.is_some());
            }
        }
    }

    fn newly_rotated(&self) -> io::Result<VecDeque<PathBuf>> {
        match rotated_files(&self.folder) {
            Ok(files) => {
                Ok(files.into_iter().filter(|path| Some(path) > self.last_rotated.as_ref()).collect())
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(VecDeque::new()),
            Err(error) => Err(error),
        }
    }

    fn is_current_rotated(&self) -> bool {
        let Some(reading) = &self.reading else { return false };
        let own = reading.file.get_ref().metadata().ok();
        match fs::metadata(current_path(&self.folder)) {
            Ok(there) => !is_same(&there, &own),
            // A greenroom makes the new file with the next line.
            Err(error) => error.kind() == ErrorKind::NotFound,
        }
    }
}

impl OpenedFile {
    fn new(file: File, is_rotated: bool) -> Self {
        Self { file: BufReader::new(file), partial: Vec::new(), is_rotated }
    }

    /// The next complete line without its end. Of a line that is too long it returns the beginning, which is no JSON.
    fn next_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let read = self.file.fill_buf()?;
            if read.is_empty() {
                return Ok(None);
            }
            let end = read.iter().position(|byte| *byte == b'\n');
            let part = &read[..end.unwrap_or(read.len())];
            let room = LINE_BYTES_MAX.saturating_sub(self.partial.len());
            self.partial.extend_from_slice(&part[..part.len().min(room)]);
            let consumed = part.len() + usize::from(end.is_some());
            self.file.consume(consumed);
            if end.is_some() {
                return Ok(Some(std::mem::take(&mut self.partial)));
            }
        }
    }
}

fn open(path: &Path) -> io::Result<Option<File>> {
    match greenroom_files::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
