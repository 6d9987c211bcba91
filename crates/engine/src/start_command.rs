//! The command that starts an attached browser, and the process that it started last.
//!
//! That process belongs to the browser's user: greenroom does not end it, and it outlives greenroom. greenroom only
//! remembers it: while it runs no second one is started, and its exit can be reported. greenroom does not read its
//! output through a pipe, since a browser that writes to a pipe without a reader dies. Its stderr is a file in the data
//! folder, closed to other users, one for each address, truncated at each start and whenever it has grown too big.
//! [`Endpoint`] runs commands.
//!
//! [`Endpoint`]: crate::Endpoint

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use greenroom_core::StartError;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::{sync::watch, time::sleep};

use crate::{
    chromium_log::without_page_output,
    exit::Exit,
    launcher::{DetachedChild, Launcher, ProcessSpec},
    process::StderrTail,
    run_folder::{RunFolder, make_private, private_file},
};

/// The placeholder for the address in a start command.
const PLACEHOLDER: &str = "{url}";

/// The folder of these files, next to the run folders. Names of run folders begin with a number, so greenroom does not
/// take it for one.
const OUTPUT_FOLDER: &str = "started";

/// How much of an address's digest names its file: enough that no two of a few dozen addresses collide.
const NAME_BYTES: usize = 8;

/// How many bytes a browser may write before its file is truncated: a week of a Chromium's complaints is some hundred
/// kilobytes, and only the last lines of it are ever read.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;

/// How often the size is checked. A program that writes as fast as a terminal scrolls writes a few megabytes meanwhile.
const OUTPUT_CHECK_EVERY: Duration = Duration::from_secs(60);

/// A program and its arguments; empty if there is no command. Clones share the remembered process.
#[derive(Clone, Default)]
pub struct StartCommand {
    argv: Vec<String>,
    last: Arc<Mutex<Option<StartedProcess>>>,
}

/// A process that a command has started.
#[derive(Clone)]
pub(crate) struct StartedProcess {
    process: DetachedChild,
    output: Option<OutputFile>,
}

impl StartCommand {
    pub fn is_empty(&self) -> bool {
        self.argv.is_empty()
    }

    pub(crate) fn program(&self) -> &str {
        self.argv.first().map_or("", String::as_str)
    }

    /// The process that this command started last, if it still runs.
    pub(crate) fn running(&self) -> Option<StartedProcess> {
        let last = self.last.lock();
        last.as_ref().filter(|started| started.ended().is_none()).cloned()
    }

    /// Runs the command.
    pub(crate) async fn start(
        &self,
        launcher: &Launcher,
        run: &RunFolder,
        url: &str,
    ) -> Result<StartedProcess, StartError> {
        let (program, arguments) =
            self.argv.split_first().ok_or_else(|| StartError::new("there is no start command"))?;
        let arguments = arguments.iter().map(|argument| argument.replace(PLACEHOLDER, url));
        // If there is no file for its output, the browser starts without one.
        let output = OutputFile::open(run, url).inspect_err(|error| {
            tracing::warn!(%error, "cannot keep the output of the start command");
        });
        let (output, file) = output.ok().unzip();
        let spec = ProcessSpec::new(program).args(arguments);
        let process = launcher.spawn_detached(spec, file).await.map_err(|error| {
            StartError::new(format!("cannot run the start command: {error}: `{program}`"))
                .hint("give the program's whole path; greenroom runs start commands without a shell")
        })?;
        if let Some(output) = &output {
            // This task has no owner, like the process with which it ends.
            tokio::spawn(output.clone().keep_small(process.end.clone()));
        }
        let started = StartedProcess { process, output };
        *self.last.lock() = Some(started.clone());
        Ok(started)
    }
}

impl From<Vec<String>> for StartCommand {
    fn from(argv: Vec<String>) -> Self {
        Self { argv, last: Arc::default() }
    }
}

impl PartialEq for StartCommand {
    fn eq(&self, other: &Self) -> bool {
        self.argv == other.argv
    }
}

impl Eq for StartCommand {}

impl StartedProcess {
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&self) -> Option<Exit> {
        self.process.end.borrow().clone()
    }

    /// Resolves when it has failed. A process that ends successfully may have started a browser that runs without it.
    pub(crate) async fn failed(&self) -> Exit {
        let mut end = self.process.end.clone();
        let has_failed = |end: &Option<Exit>| end.as_ref().is_some_and(|ended| !ended.is_success());
        let ended = end.wait_for(has_failed).await.ok().and_then(|end| end.clone());
        match ended {
            Some(ended) => ended,
            None => std::future::pending().await,
        }
    }

    /// The last lines of its stderr for messages: `conceal` runs before anything is cut off, or half a secret could remain.
    pub(crate) fn stderr_tail(&self, conceal: impl Fn(&str) -> String) -> String {
        let end = self.output.as_ref().map(OutputFile::read_end).transpose();
        let end =
            end.inspect_err(|error| tracing::debug!(%error, "cannot read the output of a start command"));
        let end = end.ok().flatten().unwrap_or_default();
        // A user's browser prints text of the user's pages, which must not get into messages.
        StderrTail::from_output(conceal(&without_page_output(&end)).as_bytes()).text()
    }
}

/// The file for the output of a start command's process.
#[derive(Clone)]
struct OutputFile(PathBuf);

impl OutputFile {
    /// Truncates the file, or creates it. It is opened for appending, so that truncation leaves no hole.
    fn open(run: &RunFolder, url: &str) -> io::Result<(Self, File)> {
        let runs = run.path().parent().unwrap_or(run.path());
        let folder = runs.join(OUTPUT_FOLDER);
        make_private(&folder)?;
        // An address may contain secrets.
        let digest = Sha256::digest(url.as_bytes());
        let name: String = digest.iter().take(NAME_BYTES).map(|byte| format!("{byte:02x}")).collect();
        let path = folder.join(name);
        let file = private_file().create(true).append(true).open(&path)?;
        file.set_len(0)?;
        Ok((Self(path), file))
    }

    /// The part at its end from which the last lines are taken, in whole lines.
    fn read_end(&self) -> io::Result<String> {
        let mut file = greenroom_files::open(&self.0)?;
        let start = file.metadata()?.len().saturating_sub(StderrTail::BYTES_MAX);
        file.seek(SeekFrom::Start(start))?;
        let mut end = Vec::new();
        file.take(StderrTail::BYTES_MAX).read_to_end(&mut end)?;
        let end = String::from_utf8_lossy(&end);
        let whole = if start == 0 { &*end } else { end.split_once('\n').map_or("", |(_, whole)| whole) };
        Ok(whole.to_owned())
    }

    /// Truncates the file whenever it is too big, until the process has ended. While no greenroom runs, it grows.
    async fn keep_small(self, mut end: watch::Receiver<Option<Exit>>) {
        loop {
            tokio::select! {
                _ = end.wait_for(Option::is_some) => return,
                () = sleep(OUTPUT_CHECK_EVERY) => {}
            }
            if let Err(error) = truncate_if_big(&self.0) {
                tracing::debug!(%error, path = %self.0.display(), "cannot empty a file");
            }
        }
    }
}

fn truncate_if_big(path: &Path) -> io::Result<()> {
    match fs::metadata(path)?.len() {
        ..=OUTPUT_BYTES_MAX => Ok(()),
        _ => private_file().write(true).open(path)?.set_len(0),
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, os::unix::fs::PermissionsExt};

    use super::*;

    /// A file belongs to one address, is for this user only, is truncated at the next start, and messages quote its end.
    #[test]
    fn output_file_is_private_and_its_end_is_quoted() {
        let data = tempfile::tempdir().unwrap();
        let run = RunFolder::claim(data.path()).unwrap();
        let open = |url| OutputFile::open(&run, url).unwrap();
        let (output, mut file) = open("http://a:1?key=s3cret");
        let (other, _) = open("http://b:1");
        assert_eq!(fs::metadata(&output.0).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!output.0.display().to_string().contains("s3cret"));
        for line in 0..10_000 {
            writeln!(file, "line {line}").unwrap();
        }
        let text = output.read_end().unwrap();
        assert!(text.starts_with("line ") && text.ends_with("\nline 9999\n"), "whole lines: {text}");
        assert!(u64::try_from(text.len()).unwrap() <= StderrTail::BYTES_MAX);
        assert_eq!(other.read_end().unwrap(), "");
        let (again, mut next) = open("http://a:1?key=s3cret");
        // A process that opened it before the truncation leaves no hole.
        writeln!(file, "late").unwrap();
        writeln!(next, "new").unwrap();
        assert_eq!(again.read_end().unwrap(), "late\nnew\n");
        // `reap` does not take the folder for a run folder.
        crate::run_folder::reap(data.path());
        assert!(again.0.exists());
    }

    /// A process that writes on and on does not fill the disk while greenroom runs; a short output stays.
    #[tokio::test(start_paused = true)]
    async fn output_file_stays_small() {
        let data = tempfile::tempdir().unwrap();
        let run = RunFolder::claim(data.path()).unwrap();
        let (output, mut file) = OutputFile::open(&run, "http://a:1").unwrap();
        let (ended, end) = watch::channel(None);
        let task = tokio::spawn(output.clone().keep_small(end));
        let length = async || {
            sleep(OUTPUT_CHECK_EVERY + Duration::from_secs(1)).await;
            fs::metadata(&output.0).unwrap().len()
        };
        file.write_all(&vec![b'x'; usize::try_from(OUTPUT_BYTES_MAX).unwrap()]).unwrap();
        assert_eq!(length().await, OUTPUT_BYTES_MAX);
        file.write_all(b"x").unwrap();
        assert_eq!(length().await, 0);
        file.write_all(b"on").unwrap();
        assert_eq!(length().await, 2);
        ended.send_replace(Some(Exit::Unknown("done".into())));
        task.await.unwrap();
    }
}
