//! Starts children from one long-lived thread.
//!
//! A child must die with greenroom, also when greenroom is killed with SIGKILL and cannot clean up. On Linux the kernel does
//! that (`PR_SET_PDEATHSIG`), but it sends the signal when the *thread* that forked ends, not the process. Worker threads of
//! an async runtime come and go, so every fork happens here, on a thread that ends with the process.
//!
//! Between `fork` and `prctl` greenroom may already be gone; the child then has another parent and would wait for a signal
//! that never comes, so it checks its parent once more and exits.
//!
//! Each child leads a process group of its own and has greenroom's tag in its environment, by which a later greenroom finds
//! the children of a dead one.
//!
//! Two kinds of children outlive greenroom: a browser that its operator's command starts, and the server that a command such
//! as `greenroom open` starts. They are detached: a session of their own, no signal, no tag, no pipe that must have a reader.
//! Only the task that notes their end waits for them.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, mpsc},
    thread,
};

use tokio::{
    process::{Child, ChildStdout},
    runtime::Handle,
    sync::{oneshot, watch},
};
use tokio_util::task::TaskTracker;

use crate::{cgroup::CgroupTree, debugging_pipe::BrowserEnds, exit::Exit};

/// The environment variable that marks every process greenroom starts, with the run folder's name as value.
pub const TAG: &str = "GREENROOM_RUN";

/// The program to start, and how.
#[derive(Debug, Clone)]
pub struct ProcessSpec {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub env: Vec<(OsString, OsString)>,
    pub folder: Option<PathBuf>,
    /// Whether stdin and stdout are pipes to greenroom; otherwise they are closed.
    pub pipes: bool,
    /// Whether the child gets only [`INHERITED_VARIABLES`] of greenroom's environment.
    minimal_env: bool,
    /// Whether the child may not raise its own priority.
    no_priority_raise: bool,
    /// The ends of a browser's debugging pipes.
    debugging_pipe: Option<BrowserEnds>,
    /// How many files the child, and each process that it starts, may have open.
    open_files_max: Option<u64>,
    /// The file by which the child enters its cgroup.
    cgroup: Option<Arc<File>>,
}

impl ProcessSpec {
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            folder: None,
            pipes: false,
            minimal_env: false,
            no_priority_raise: false,
            debugging_pipe: None,
            open_files_max: None,
            cgroup: None,
        }
    }

    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    pub fn folder(mut self, folder: impl AsRef<Path>) -> Self {
        self.folder = Some(folder.as_ref().to_owned());
        self
    }

    /// For a browser and its engine: they run code from pages and agents, and need neither the secrets in a shell's
    /// environment nor variables that change how Node or the engine work.
    pub fn minimal_env(mut self) -> Self {
        self.minimal_env = true;
        self
    }

    /// For a browser: it may lower the priority of its processes, but not raise it again.
    pub fn no_priority_raise(mut self) -> Self {
        self.no_priority_raise = true;
        self
    }

    /// For a browser: greenroom debugs it over these pipes.
    pub(crate) fn debugging_pipe(mut self, ends: BrowserEnds) -> Self {
        self.debugging_pipe = Some(ends);
        self
    }

    /// Limits the open files of the child, and of each process that it starts.
    pub fn open_files_max(mut self, max: u64) -> Self {
        self.open_files_max = Some(max);
        self
    }

    /// Puts the child into a cgroup, by its file for that, before its program runs.
    pub fn cgroup(mut self, entrance: &Arc<File>) -> Self {
        self.cgroup = Some(entrance.clone());
        self
    }

    pub fn pipes(mut self) -> Self {
        self.pipes = true;
        self
    }
}

/// What a browser needs to find its programs, fonts, screen and certificates, and to speak the user's language.
const INHERITED_VARIABLES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "DISPLAY",
    "XAUTHORITY",
    "WAYLAND_DISPLAY",
    "DBUS_SESSION_BUS_ADDRESS",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    // With these a Linux on Windows finds Windows programs.
    "WSL_INTEROP",
    "WSL_DISTRO_NAME",
];
const INHERITED_PREFIXES: &[&str] = &["LC_", "XDG_", "FONTCONFIG_"];

fn is_inherited(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    INHERITED_VARIABLES.contains(&name) || INHERITED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// The prefix of variables that configure greenroom. A program that outlives greenroom does not get them.
const OWN_PREFIX: &str = "GREENROOM_";

/// A detached child.
#[derive(Debug, Clone)]
pub struct DetachedChild {
    pub pid: u32,
    /// Becomes `Some` when the child has ended, as long as greenroom runs. Until then no other process has its number.
    pub end: watch::Receiver<Option<Exit>>,
}

struct LaunchJob {
    start: StartChild,
    runtime: Handle,
    reply: oneshot::Sender<io::Result<Child>>,
}

/// Starts one child; the argument is the tag, for children that carry it.
type StartChild = Box<dyn FnOnce(&str) -> io::Result<Child> + Send>;

/// The launcher. Its thread ends when the last clone is dropped, so a clone must live as long as any child.
#[derive(Clone, Debug)]
pub struct Launcher {
    jobs: mpsc::Sender<LaunchJob>,
    /// One task per child, which ends when the child has been reaped.
    pub(crate) supervisors: TaskTracker,
    /// Where browsers get cgroups of their own, if this process may make them.
    cgroups: Option<Arc<CgroupTree>>,
}

impl Launcher {
    /// `tag` marks every child; see [`TAG`].
    pub fn start(tag: &str) -> io::Result<Self> {
        let (jobs, queue) = mpsc::channel::<LaunchJob>();
        let tag = tag.to_owned();
        thread::Builder::new().name("launcher".into()).spawn(move || {
            for job in queue {
                // The runtime that asked for the child watches for its exit.
                let _runtime = job.runtime.enter();
                let _ = job.reply.send((job.start)(&tag));
            }
        })?;
        Ok(Self { jobs, supervisors: TaskTracker::new(), cgroups: None })
    }

    /// Gives each browser a cgroup of its own in this tree.
    pub fn with_cgroups(self, tree: CgroupTree) -> Self {
        Self { cgroups: Some(Arc::new(tree)), ..self }
    }

    pub(crate) fn cgroups(&self) -> Option<&CgroupTree> {
        self.cgroups.as_deref()
    }

    /// Returns when every child has ended, including those that were just killed: until then they may still write into their
    /// folders.
    pub async fn all_ended(&self) {
        self.supervisors.close();
        self.supervisors.wait().await;
    }

    /// Starts a child with a piped stderr. It is killed when the returned handle is dropped.
    pub async fn spawn(&self, spec: ProcessSpec) -> io::Result<Child> {
        self.run_on_launcher_thread(Box::new(|tag| launch(spec, tag))).await
    }

    /// Starts a child that outlives greenroom and that greenroom never ends. Its stderr goes into `stderr`, if given.
    pub async fn spawn_detached(&self, spec: ProcessSpec, stderr: Option<File>) -> io::Result<DetachedChild> {
        let child = self
            .run_on_launcher_thread(Box::new(|_| detach(spec, Stdio::null(), Stdio::null(), stderr)))
            .await?;
        watch_detached(child)
    }

    /// Starts a greenroom server that outlives this process. Its stderr goes into `log`. Its stdout is a pipe, on which it
    /// says that it is ready; it says nothing more there, so the reader may go away.
    pub async fn spawn_server(
        &self,
        spec: ProcessSpec,
        log: File,
        stdin: File,
    ) -> io::Result<(DetachedChild, ChildStdout)> {
        let start: StartChild = Box::new(|_| detach(spec, stdin.into(), Stdio::piped(), Some(log)));
        let mut child = self.run_on_launcher_thread(start).await?;
        let stdout = child.stdout.take().ok_or_else(|| io::Error::other("the child has no stdout"))?;
        Ok((watch_detached(child)?, stdout))
    }

    async fn run_on_launcher_thread(&self, start: StartChild) -> io::Result<Child> {
        let (reply, child) = oneshot::channel();
        let job = LaunchJob { start, runtime: Handle::current(), reply };
        self.jobs.send(job).map_err(|_| io::Error::other("the launcher thread has ended"))?;
        child.await.map_err(|_| io::Error::other("the launcher thread has ended"))?
    }
}

/// Notes the end of a detached child, for as long as greenroom runs.
fn watch_detached(mut child: Child) -> io::Result<DetachedChild> {
    let pid = child.id().ok_or_else(|| io::Error::other("the child ended at once"))?;
    let (ended, end) = watch::channel(None);
    // This task has no owner, like the child; it reaps the child, which would otherwise stay as a zombie.
    tokio::spawn(async move {
        ended.send_replace(Some(Exit::from(child.wait().await)));
    });
    Ok(DetachedChild { pid, end })
}

#[allow(clippy::disallowed_methods, reason = "this is the launcher thread")]
fn launch(spec: ProcessSpec, tag: &str) -> io::Result<Child> {
    let mut command = std::process::Command::new(&spec.program);
    command.args(&spec.args);
    if spec.minimal_env {
        command.env_clear().envs(std::env::vars_os().filter(|(name, _)| is_inherited(name)));
    }
    command.env(TAG, tag).envs(spec.env);
    if let Some(folder) = &spec.folder {
        command.current_dir(folder);
    }
    let pipe = || if spec.pipes { Stdio::piped() } else { Stdio::null() };
    command.stdin(pipe()).stdout(pipe()).stderr(Stdio::piped());
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    die_with_parent(&mut command);
    if spec.no_priority_raise {
        forbid_priority_raise(&mut command);
    }
    // The child enters its cgroup first: the descriptor for that could be one of those that the pipes get.
    if let Some(entrance) = spec.cgroup {
        enter_cgroup(&mut command, entrance);
    }
    if let Some(ends) = spec.debugging_pipe {
        ends.pass_to(&mut command);
    }
    if let Some(max) = spec.open_files_max {
        limit_open_files(&mut command, max);
    }
    let mut command = tokio::process::Command::from(command);
    command.kill_on_drop(true).spawn()
}

/// Starts a child that outlives greenroom.
#[allow(clippy::disallowed_methods, reason = "this is the launcher thread")]
#[allow(unsafe_code, reason = "pre_exec is unsafe; the closure makes one system call and allocates nothing")]
fn detach(spec: ProcessSpec, stdin: Stdio, stdout: Stdio, stderr: Option<File>) -> io::Result<Child> {
    let mut command = std::process::Command::new(&spec.program);
    let is_own = |name: &OsStr| name.to_string_lossy().starts_with(OWN_PREFIX);
    command.args(&spec.args).env_clear().envs(std::env::vars_os().filter(|(name, _)| !is_own(name)));
    command.envs(spec.env);
    if let Some(folder) = &spec.folder {
        command.current_dir(folder);
    }
    let stderr = stderr.map_or_else(Stdio::null, Stdio::from);
    command.stdin(stdin).stdout(stdout).stderr(stderr);
    // SAFETY: between fork and exec only async-signal-safe calls are allowed; setsid is.
    unsafe {
        // In a session of its own, no signal of greenroom's terminal can end it.
        std::os::unix::process::CommandExt::pre_exec(&mut command, || {
            rustix::process::setsid()?;
            Ok(())
        });
    }
    tokio::process::Command::from(command).kill_on_drop(false).spawn()
}

/// The child enters a cgroup: `0` means the process that writes it.
#[allow(unsafe_code, reason = "pre_exec is unsafe; the closure makes one system call and allocates nothing")]
fn enter_cgroup(command: &mut std::process::Command, entrance: Arc<File>) {
    // SAFETY: between fork and exec only async-signal-safe calls are allowed; write is.
    unsafe {
        std::os::unix::process::CommandExt::pre_exec(command, move || {
            rustix::io::write(&entrance, b"0")?;
            Ok(())
        });
    }
}

/// Lowers the limit of open files to `max`. A limit that is lower already stays.
#[allow(unsafe_code, reason = "pre_exec is unsafe; the closure makes two system calls and allocates nothing")]
fn limit_open_files(command: &mut std::process::Command, max: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    // SAFETY: between fork and exec only async-signal-safe calls are allowed; getrlimit and setrlimit are.
    unsafe {
        std::os::unix::process::CommandExt::pre_exec(command, move || {
            let now = getrlimit(Resource::Nofile);
            let lower = |limit: Option<u64>| Some(limit.map_or(max, |limit| limit.min(max)));
            setrlimit(Resource::Nofile, Rlimit { current: lower(now.current), maximum: lower(now.maximum) })?;
            Ok(())
        });
    }
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "pre_exec is unsafe; the closure makes two system calls and allocates nothing")]
fn die_with_parent(command: &mut std::process::Command) {
    use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
    use std::os::unix::process::CommandExt;

    let parent = getpid();
    // SAFETY: between fork and exec only async-signal-safe calls are allowed; prctl and getppid are.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            if getppid() == Some(parent) { Ok(()) } else { Err(io::Error::other("greenroom is gone")) }
        });
    }
}

/// Takes the right to raise priorities from a child: root has it as a capability, other users by a limit, which is 0 by
/// default.
#[cfg(target_os = "linux")]
#[allow(
    unsafe_code,
    reason = "pre_exec is unsafe; the closure makes three system calls and allocates nothing"
)]
fn forbid_priority_raise(command: &mut std::process::Command) {
    use rustix::{
        process::{Resource, Rlimit, geteuid, setrlimit},
        thread::{CapabilitySet, remove_capability_from_bounding_set},
    };
    use std::os::unix::process::CommandExt;

    // SAFETY: between fork and exec only async-signal-safe calls are allowed; geteuid, setrlimit and prctl are.
    unsafe {
        command.pre_exec(|| {
            setrlimit(Resource::Nice, Rlimit { current: Some(0), maximum: Some(0) })?;
            if geteuid().is_root() {
                // In a container root may lack the right to change this set, and then it lacks this capability too.
                let _ = remove_capability_from_bounding_set(CapabilitySet::SYS_NICE);
            }
            Ok(())
        });
    }
}

#[cfg(not(target_os = "linux"))]
fn forbid_priority_raise(_: &mut std::process::Command) {}

#[cfg(not(target_os = "linux"))]
fn die_with_parent(_: &mut std::process::Command) {}
