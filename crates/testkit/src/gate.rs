//! A gate holds calls of the fake engine until the test opens it: the test's side of the tool `wait`.
//!
//! It is a file, because the test, the program under test and the engine are three processes. The engine adds
//! a line to `<file>.waiting` when a call arrives at the gate, and goes on when `<file>` exists.

use std::path::{Path, PathBuf};

use crate::deadline::eventually;

/// A point in time that the test decides. Pass [`Gate::path`] as the argument `file` of `wait`.
#[derive(Debug, Clone)]
pub struct Gate {
    file: PathBuf,
}

impl Gate {
    /// A closed gate in `folder`, which must exist.
    pub fn new(folder: &Path, name: &str) -> Self {
        Self { file: folder.join(name) }
    }

    /// The argument `file` of the tool `wait`.
    pub fn path(&self) -> &str {
        self.file.to_str().expect("test folders have UTF-8 names")
    }

    /// How many calls have arrived, including those that have gone on.
    pub fn arrivals(&self) -> usize {
        let waiting = waiting_file(&self.file);
        std::fs::read(waiting).map_or(0, |bytes| bytes.iter().filter(|byte| **byte == b'\n').count())
    }

    /// Returns when `count` calls have arrived.
    pub async fn arrived(&self, count: usize) {
        let what = format!("{count} calls at the gate `{}`", self.file.display());
        eventually(&what, || (self.arrivals() >= count).then_some(())).await;
    }

    /// Lets every waiting call go on, and all later ones pass.
    pub fn open(&self) {
        std::fs::write(&self.file, "").expect("the gate's folder exists");
    }
}

/// The file that counts arrivals at the gate `file`.
pub(crate) fn waiting_file(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".waiting");
    PathBuf::from(name)
}
