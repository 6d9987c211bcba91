//! One supervised child: its exit is noticed at once, the last lines of its stderr are kept, and it is ended as a group.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use greenroom_mcp::lines::{LineSplitter, StreamLine};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{ChildStdin, ChildStdout},
    sync::{oneshot, watch},
    task::JoinHandle,
};

use crate::{
    exit::Exit,
    launcher::{Launcher, ProcessSpec},
};

/// How many last lines of stderr go into an error: a Node stack trace fits, a page of noise does not.
const TAIL_LINES: usize = 12;

/// How many bytes of these lines are kept: they go into answers that models read, and the last ones say most.
const TAIL_BYTES_MAX: usize = 2 * 1024;

/// Of a longer line of stderr only the length is kept, so that a child that prints an endless one costs no memory.
const LINE_BYTES_MAX: usize = 4 * 1024;

/// How long the readers of a dead child's pipes may take to see their end. The pipe ends with its last writer; a grandchild
/// that left the group could hold it open for ever.
const DRAIN_WITHIN: Duration = Duration::from_millis(500);

/// A running or ended child. Dropping it kills its group.
pub struct Process {
    name: String,
    pid: u32,
    exit: watch::Receiver<Option<Exit>>,
    tail: Arc<StderrTail>,
    is_ready: Arc<AtomicBool>,
    /// Waits for the child and reaps it.
    _supervisor: JoinHandle<()>,
}

/// The pipes of a child started with [`ProcessSpec::pipes`].
pub struct Pipes {
    pub stdin: ChildStdin,
    pub stdout: ChildStdout,
}

/// How to read a child's stderr.
#[derive(Clone, Copy)]
pub struct StderrParser {
    /// Recognises the line that means readiness; the caller of [`Process::start`] receives the returned text.
    pub ready: fn(&str) -> Option<String>,
    /// How a line may be used, by whether the child was ready before it.
    pub classify: fn(&str, bool) -> StderrUse,
}

/// How a line of a child's stderr may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StderrUse {
    /// It is logged, and may explain the child's end.
    ExplainsExit,
    /// It is logged, but never explains the child's end.
    LogOnly,
    /// It is neither logged nor shown: a page may have written it.
    Discard,
}

impl StderrParser {
    /// For a child that signals readiness in another way, and whose lines may all explain its end.
    pub const DEFAULT: Self = Self { ready: |_| None, classify: |_, _| StderrUse::ExplainsExit };
}

impl Process {
    /// Starts a child. `name` is its name in messages and logs. The receiver resolves with the text that `parser` found in
    /// stderr, and fails when the child ends first.
    pub async fn start(
        launcher: &Launcher,
        name: &str,
        spec: ProcessSpec,
        parser: StderrParser,
    ) -> io::Result<(Self, Option<Pipes>, oneshot::Receiver<String>)> {
        let mut child = launcher.spawn(spec).await?;
        let pid = child.id().ok_or_else(|| io::Error::other("the child ended at once"))?;
        let pipes =
            child.stdin.take().zip(child.stdout.take()).map(|(stdin, stdout)| Pipes { stdin, stdout });
        let tail = Arc::new(StderrTail::default());
        let is_ready = Arc::new(AtomicBool::new(false));
        let (found, line) = oneshot::channel();
        let reader = child.stderr.take().map(|stderr| {
            let stderr_reader = StderrReader { name: name.to_owned(), pid, tail: tail.clone(), parser };
            tokio::spawn(stderr_reader.read(stderr, is_ready.clone(), found))
        });
        let (exited, exit) = watch::channel(None);
        let label = name.to_owned();
        let supervisor = launcher.supervisors.spawn(async move {
            let exit = Exit::from(child.wait().await);
            // greenroom also ends the processes that the leader left in its group.
            signal_group(pid, Signal::KILL);
            if let Some(reader) = reader {
                let _ = tokio::time::timeout(DRAIN_WITHIN, reader).await;
            }
            tracing::debug!(process = label, pid, %exit, "ended");
            exited.send_replace(Some(exit));
        });
        Ok((Self { name: name.to_owned(), pid, exit, tail, is_ready, _supervisor: supervisor }, pipes, line))
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Declares a child ready that does not say so on stderr. Its later lines are classified accordingly.
    pub(crate) fn declare_ready(&self) {
        self.is_ready.store(true, Ordering::Relaxed);
    }

    /// Becomes `Some` when the child has ended and been reaped.
    pub fn exit(&self) -> watch::Receiver<Option<Exit>> {
        self.exit.clone()
    }

    /// Waits for the end of the child.
    pub async fn wait(&self) -> Exit {
        let mut exit = self.exit.clone();
        let exit = exit.wait_for(Option::is_some).await.ok().and_then(|exit| exit.clone());
        exit.unwrap_or_else(|| Exit::Unknown("lost".into()))
    }

    /// The last lines of stderr; usable after this process is gone.
    pub(crate) fn tail(&self) -> Arc<StderrTail> {
        self.tail.clone()
    }

    /// The last lines of stderr, joined.
    pub fn stderr_tail(&self) -> Arc<str> {
        self.tail.text().into()
    }

    /// Ends the group: SIGTERM, `grace`, SIGKILL. Returns when the child has been reaped.
    pub async fn stop(&self, grace: Duration) {
        self.end(grace, signal_group).await;
    }

    /// Ends the group as [`Process::stop`] does, but only its leader gets SIGTERM. For a browser: it ends its helpers
    /// itself, after its network process has written the cookies to disk.
    pub async fn stop_leader(&self, grace: Duration) {
        self.end(grace, signal_leader).await;
    }

    async fn end(&self, grace: Duration, signal: fn(u32, Signal)) {
        if self.exit.borrow().is_some() {
            return;
        }
        signal(self.pid, Signal::TERM);
        if tokio::time::timeout(grace, self.wait()).await.is_err() {
            tracing::debug!(process = self.name, pid = self.pid, "did not end when asked, killed");
            signal_group(self.pid, Signal::KILL);
            self.wait().await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // After the exit another process may have this pid.
        if self.exit.borrow().is_none() {
            signal_group(self.pid, Signal::KILL);
        }
    }
}

// The process or the group may be gone already; then there is nothing to do.

fn signal_group(pid: u32, signal: Signal) {
    if let Some(group) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, signal);
    }
}

fn signal_leader(pid: u32, signal: Signal) {
    if let Some(leader) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(leader, signal);
    }
}

/// Reads a child's stderr.
struct StderrReader {
    name: String,
    pid: u32,
    tail: Arc<StderrTail>,
    parser: StderrParser,
}

impl StderrReader {
    async fn read(
        self,
        mut stderr: impl AsyncRead + Unpin,
        is_ready: Arc<AtomicBool>,
        found: oneshot::Sender<String>,
    ) {
        let mut found = Some(found);
        let mut lines = LineSplitter::new(LINE_BYTES_MAX);
        let mut chunk = vec![0; LINE_BYTES_MAX];
        let mut take_line = |line: StreamLine| {
            let text = line_text(line);
            let stderr_use = (self.parser.classify)(&text, is_ready.load(Ordering::Relaxed));
            if let Some(value) = (self.parser.ready)(&text)
                && let Some(found) = found.take()
            {
                is_ready.store(true, Ordering::Relaxed);
                let _ = found.send(value);
            }
            if stderr_use != StderrUse::Discard {
                tracing::debug!(process = self.name, pid = self.pid, "{text}");
            }
            if stderr_use == StderrUse::ExplainsExit {
                self.tail.push(&text);
            }
        };
        while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
            lines.feed(chunk.get(..count).unwrap_or_default(), &mut take_line);
        }
        lines.finish().map(take_line);
    }
}

fn line_text(line: StreamLine) -> String {
    match line {
        StreamLine::Whole(line) => String::from_utf8_lossy(&line).trim_end().to_owned(),
        StreamLine::TooLong { bytes } => format!("(a line of {bytes} bytes)"),
    }
}

/// The last lines that a child wrote to stderr.
#[derive(Default)]
pub(crate) struct StderrTail(Mutex<VecDeque<String>>);

impl StderrTail {
    /// How much of an output it can hold: earlier output is ignored.
    pub(crate) const BYTES_MAX: u64 = (TAIL_LINES * LINE_BYTES_MAX) as u64;

    /// The tail of an output that was written to a file.
    pub(crate) fn from_output(output: &[u8]) -> Self {
        let tail = Self::default();
        let mut lines = LineSplitter::new(LINE_BYTES_MAX);
        lines.feed(output, |line| tail.push(&line_text(line)));
        if let Some(line) = lines.finish() {
            tail.push(&line_text(line));
        }
        tail
    }

    fn push(&self, line: &str) {
        let mut lines = self.0.lock();
        if lines.len() == TAIL_LINES {
            lines.pop_front();
        }
        lines.push_back(line.to_owned());
    }

    pub(crate) fn text(&self) -> String {
        let lines = self.0.lock();
        let text = lines.iter().map(String::as_str).collect::<Vec<_>>().join(" | ");
        let start = text.len().saturating_sub(TAIL_BYTES_MAX);
        text.get(text.ceil_char_boundary(start)..).unwrap_or_default().to_owned()
    }
}
