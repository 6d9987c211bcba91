//! Control groups (cgroup v2): the kernel's own limits for a browser, where greenroom may make groups.
//!
//! A process may make groups below its own if its group was delegated to it: by systemd with `Delegate=`, or by a container
//! whose `/sys/fs/cgroup` is writable. The kernel wants processes in the leaves of the tree only, so greenroom first moves
//! itself into a child group. It does so only if it is alone in its group: other programs there are not its own to move.
//!
//! ```text
//! <own group>/            cgroup.subtree_control: memory cpu pids
//!   greenroom/            this process, its engines
//!   browser-<pid>-<n>/    one browser: memory.max, cpu.max, pids.max
//! ```
//!
//! A browser enters its group between `fork` and `exec`, so that no process of it is ever outside. `overload/` ends a page
//! that exceeds a limit before the kernel does, because the kernel does not know which page to blame.

use std::{
    fmt, fs,
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;

use crate::browser_limits::{BrowserLimits, MEMORY_BYTES_DEFAULT};

/// Where the kernel shows its groups.
pub const CGROUP_ROOT: &str = "/sys/fs/cgroup";

/// The file that says in which group this process is.
const OWN_GROUP: &str = "/proc/self/cgroup";

const CONTROLLERS: [&str; 3] = ["memory", "cpu", "pids"];

/// The group of greenroom itself. systemd's own groups have a suffix such as `.service`, so the name is not taken.
const OWN_LEAF: &str = "greenroom";

/// How names of browsers' groups begin.
const BROWSER_PREFIX: &str = "browser-";

/// The period of `cpu.max`, in microseconds: the kernel's default.
const CPU_PERIOD_MICROS: u64 = 100_000;

/// By which part of the limit `memory.max` is above it. At the limit greenroom ends the page that took the memory; the
/// kernel would end the largest process, perhaps that of all sessions. So the kernel only ends what takes memory faster than
/// greenroom looks.
const MEMORY_MARGIN_DIVISOR: u64 = 8;

/// The kernel counts threads. A process of Chromium has 10 to 40, and one more for each worker of its page.
const THREADS_PER_PROCESS: u64 = 64;

/// A group below which this process may make others.
#[derive(Debug)]
pub struct CgroupTree {
    folder: PathBuf,
    next: AtomicU64,
    /// Own groups that could not be removed yet.
    left: Arc<Mutex<Vec<PathBuf>>>,
}

/// Why greenroom makes no groups.
#[derive(Debug, PartialEq, Eq)]
pub enum NotDelegated {
    /// The machine has no cgroup v2, or it does not manage processors and memory.
    NoVersion2,
    MissingControllers(Vec<&'static str>),
    NotWritable,
    /// This many other processes are in greenroom's group.
    Shared(usize),
    Refused(String),
}

impl fmt::Display for NotDelegated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoVersion2 => write!(f, "there is no cgroup v2"),
            Self::MissingControllers(names) => {
                write!(f, "greenroom's cgroup has no controller for {}", names.join(", "))
            }
            Self::NotWritable => write!(f, "greenroom's cgroup is not delegated to this user"),
            Self::Shared(others) => {
                let noun = if *others == 1 { "process is" } else { "processes are" };
                write!(f, "{others} other {noun} in greenroom's cgroup")
            }
            Self::Refused(why) => write!(f, "the kernel refused a cgroup: {why}"),
        }
    }
}

/// The group of this process, if it can make others below it; found without changing anything.
#[derive(Debug, PartialEq, Eq)]
pub struct DelegatedGroup {
    folder: PathBuf,
    /// Whether the process is in its leaf already, and the controllers are switched on.
    is_claimed: bool,
}

impl DelegatedGroup {
    /// Looks below the real root.
    pub fn find() -> Result<Self, NotDelegated> {
        let own = fs::read_to_string(OWN_GROUP).map_err(|_| NotDelegated::NoVersion2)?;
        Self::find_below(Path::new(CGROUP_ROOT), &own, std::process::id())
    }

    /// `own` is the text of `/proc/self/cgroup`.
    fn find_below(root: &Path, own: &str, pid: u32) -> Result<Self, NotDelegated> {
        let own = own.lines().find_map(|line| line.strip_prefix("0::/")).ok_or(NotDelegated::NoVersion2)?;
        let folder = root.join(own.trim_end());
        if !folder.join("cgroup.controllers").is_file() {
            return Err(NotDelegated::NoVersion2);
        }
        // systemd can put a service into such a leaf itself (`DelegateSubgroup=greenroom`).
        let is_leaf = folder.file_name().is_some_and(|name| name == OWN_LEAF);
        if let Some(parent) = folder.parent().filter(|_| is_leaf)
            && missing(&parent.join("cgroup.subtree_control")).is_empty()
            && is_writable(&parent.join("cgroup.procs"))
        {
            return Ok(Self { folder: parent.to_owned(), is_claimed: true });
        }
        let missing = missing(&folder.join("cgroup.controllers"));
        if missing.len() == CONTROLLERS.len() {
            return Err(NotDelegated::NoVersion2);
        }
        if !missing.is_empty() {
            return Err(NotDelegated::MissingControllers(missing));
        }
        if !["cgroup.procs", "cgroup.subtree_control"].iter().all(|file| is_writable(&folder.join(file))) {
            return Err(NotDelegated::NotWritable);
        }
        let processes = fs::read_to_string(folder.join("cgroup.procs")).map_err(|error| refused(&error))?;
        let others = processes.lines().filter(|line| line.trim().parse() != Ok(pid)).count();
        if others > 0 {
            return Err(NotDelegated::Shared(others));
        }
        Ok(Self { folder, is_claimed: false })
    }

    /// Moves this process into its leaf and switches the controllers on. Call it before the first child starts.
    pub fn claim(self) -> Result<CgroupTree, NotDelegated> {
        self.claim_for(std::process::id())
    }

    fn claim_for(self, pid: u32) -> Result<CgroupTree, NotDelegated> {
        let Self { folder, is_claimed } = self;
        if !is_claimed {
            let leaf = folder.join(OWN_LEAF);
            let claim = || {
                make_folder(&leaf)?;
                write(&leaf, "cgroup.procs", &pid.to_string())?;
                write(
                    &folder,
                    "cgroup.subtree_control",
                    &CONTROLLERS.map(|name| format!("+{name}")).join(" "),
                )
            };
            if let Err(error) = claim() {
                // greenroom stays where it was, and watches its browsers itself.
                let _ = write(&folder, "cgroup.procs", &pid.to_string());
                let _ = fs::remove_dir(&leaf);
                return Err(refused(&error));
            }
        }
        Ok(CgroupTree { folder, next: AtomicU64::new(0), left: Arc::default() })
    }
}

impl CgroupTree {
    /// Makes the group of a browser that is about to start. Removes groups of browsers that have ended.
    pub(crate) fn new_group(&self, limits: &BrowserLimits) -> io::Result<BrowserCgroup> {
        self.remove_own_groups();
        self.remove_groups_of_ended_processes();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let folder = self.folder.join(format!("{BROWSER_PREFIX}{}-{number}", std::process::id()));
        fs::create_dir(&folder)?;
        let group = BrowserCgroup { folder, left: self.left.clone() };
        for (file, value) in group_limits(limits) {
            write(&group.folder, file, &value)?;
        }
        Ok(group)
    }

    /// Removes groups of this process whose browsers were still ending when they were to be removed.
    fn remove_own_groups(&self) {
        self.left.lock().retain(|group| match fs::remove_dir(group) {
            Ok(()) => false,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        });
    }

    /// The kernel refuses to remove a group that has processes. A group of a process that runs may be empty because its
    /// browser is just starting.
    fn remove_groups_of_ended_processes(&self) {
        let Ok(groups) = fs::read_dir(&self.folder) else { return };
        let is_left = |group: &fs::DirEntry| {
            let name = group.file_name();
            let pid = name
                .to_str()
                .and_then(|name| name.strip_prefix(BROWSER_PREFIX)?.split_once('-'))
                .map(|(pid, _)| pid);
            pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists())
        };
        for group in groups.flatten().filter(is_left) {
            let _ = fs::remove_dir(group.path());
        }
    }
}

/// The files of a browser's group, and what greenroom writes into them.
fn group_limits(limits: &BrowserLimits) -> [(&'static str, String); 3] {
    let memory = limits.memory_bytes_max.unwrap_or(MEMORY_BYTES_DEFAULT);
    let memory = memory.saturating_add(memory / MEMORY_MARGIN_DIVISOR);
    let quota = limits.cpu_cores_max.map_or_else(
        || "max".to_owned(),
        |cores| cores.time_within(Duration::from_micros(CPU_PERIOD_MICROS)).as_micros().to_string(),
    );
    let threads = limits.processes_max as u64 * THREADS_PER_PROCESS;
    [
        ("memory.max", memory.to_string()),
        ("cpu.max", format!("{quota} {CPU_PERIOD_MICROS}")),
        ("pids.max", threads.to_string()),
    ]
}

/// The group of one browser. Dropping it ends all processes in it.
#[derive(Debug)]
pub(crate) struct BrowserCgroup {
    folder: PathBuf,
    /// The tree's list of groups that could not be removed yet.
    left: Arc<Mutex<Vec<PathBuf>>>,
}

/// What the kernel has done to the processes of a group so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CgroupEvents {
    /// How many processes it has ended because the group took too much memory.
    pub(crate) oom_kills: u64,
    /// How often it has refused a new process or thread.
    pub(crate) refused_forks: u64,
    /// For how long it has kept the group from running.
    pub(crate) throttled: Duration,
}

impl BrowserCgroup {
    /// A group for tests, of which this folder has the files.
    #[cfg(test)]
    pub(crate) fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), left: Arc::default() }
    }

    /// The file by which a process enters the group.
    pub(crate) fn entrance(&self) -> io::Result<Arc<File>> {
        File::options().write(true).open(self.folder.join("cgroup.procs")).map(Arc::new)
    }

    pub(crate) fn events(&self) -> CgroupEvents {
        let number = |file: &str, name: &str| {
            let text = fs::read_to_string(self.folder.join(file)).unwrap_or_default();
            let is_it = |line: &str| line.split_once(' ').filter(|(key, _)| *key == name)?.1.parse().ok();
            text.lines().find_map(is_it).unwrap_or_default()
        };
        CgroupEvents {
            oom_kills: number("memory.events", "oom_kill"),
            refused_forks: number("pids.events", "max"),
            throttled: Duration::from_micros(number("cpu.stat", "throttled_usec")),
        }
    }

    /// Removes the group of a browser that has ended. A process of it that is still ending keeps it; the next browser's
    /// start removes it then.
    pub(crate) fn remove(&self) {
        // Kernels before 5.14 have no such file; the process group has been killed already.
        let _ = write(&self.folder, "cgroup.kill", "1");
        if let Err(error) = fs::remove_dir(&self.folder)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::debug!(%error, group = %self.folder.display(), "cannot remove a cgroup yet");
            let mut left = self.left.lock();
            if !left.contains(&self.folder) {
                left.push(self.folder.clone());
            }
        }
    }
}

impl Drop for BrowserCgroup {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Controllers that a file of controllers lacks.
fn missing(file: &Path) -> Vec<&'static str> {
    let present = fs::read_to_string(file).unwrap_or_default();
    let is_missing = |name: &&str| !present.split_whitespace().any(|other| other == *name);
    CONTROLLERS.into_iter().filter(is_missing).collect()
}

fn is_writable(file: &Path) -> bool {
    File::options().write(true).open(file).is_ok()
}

fn make_folder(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Writes into a file of the kernel's, which reads each write as one command.
fn write(folder: &Path, file: &str, value: &str) -> io::Result<()> {
    let path = folder.join(file);
    fs::write(&path, value)
        .map_err(|error| io::Error::new(error.kind(), format!("{error}: `{value}` to `{}`", path.display())))
}

fn refused(error: &io::Error) -> NotDelegated {
    NotDelegated::Refused(error.to_string())
}

#[cfg(test)]
mod tests {
    use greenroom_core::settings::Cores;

    use super::*;
    use crate::{
        launcher::{Launcher, ProcessSpec},
        process::{Process, StderrParser},
    };

    const OWN: &str = "7:pids:/x\n0::/user/greenroom.service\n";
    const PID: u32 = 4242;

    /// A folder that looks like the kernel's tree, with this process in the group of its service.
    struct FakeTree(tempfile::TempDir);

    impl FakeTree {
        fn new() -> Self {
            let tree = Self(tempfile::tempdir().unwrap());
            fs::create_dir_all(tree.service()).unwrap();
            tree.set("cgroup.controllers", "cpuset cpu io memory pids\n");
            tree.set("cgroup.subtree_control", "\n");
            tree.set("cgroup.procs", &format!("{PID}\n"));
            tree
        }

        fn service(&self) -> PathBuf {
            self.0.path().join("user/greenroom.service")
        }

        fn set(&self, file: &str, text: &str) {
            fs::write(self.service().join(file), text).unwrap();
        }

        fn get(&self, file: &str) -> String {
            fs::read_to_string(self.service().join(file)).unwrap()
        }

        fn find(&self) -> Result<DelegatedGroup, NotDelegated> {
            DelegatedGroup::find_below(self.0.path(), OWN, PID)
        }

        fn claim(&self) -> CgroupTree {
            self.find().unwrap().claim_for(PID).unwrap()
        }
    }

    fn limits() -> BrowserLimits {
        BrowserLimits {
            memory_bytes_max: Some(800 << 20),
            cpu_cores_max: Cores::new(1.5),
            processes_max: 10,
            open_files_max: 256,
            profile_bytes_max: None,
        }
    }

    /// In a delegated group greenroom moves itself into a leaf, switches the controllers on, and gives each browser a group
    /// with its limits.
    #[test]
    fn browsers_get_groups_with_their_limits() {
        let fake = FakeTree::new();
        let tree = fake.claim();
        assert_eq!(fake.get("greenroom/cgroup.procs"), PID.to_string());
        assert_eq!(fake.get("cgroup.subtree_control"), "+memory +cpu +pids");
        let group = tree.new_group(&limits()).unwrap();
        let read = |file: &str| fs::read_to_string(group.folder.join(file)).unwrap();
        assert_eq!(read("memory.max"), (900_u64 << 20).to_string());
        assert_eq!((read("cpu.max").as_str(), read("pids.max").as_str()), ("150000 100000", "640"));
        let auto = BrowserLimits { memory_bytes_max: None, cpu_cores_max: None, ..limits() };
        let other = tree.new_group(&auto).unwrap();
        assert_ne!(group.folder, other.folder);
        let read = |file: &str| fs::read_to_string(other.folder.join(file)).unwrap();
        assert_eq!(
            (read("memory.max"), read("cpu.max")),
            ((9_u64 << 28).to_string(), "max 100000".to_owned())
        );
    }

    /// A process enters its group before its program runs, and all of its children with it.
    #[tokio::test]
    async fn process_enters_its_group_before_it_runs() {
        let fake = FakeTree::new();
        let group = fake.claim().new_group(&limits()).unwrap();
        let entrance = group.folder.join("cgroup.procs");
        fs::write(&entrance, "").unwrap();
        let launcher = Launcher::start("test").unwrap();
        // The program itself sees that it has entered.
        let spec = ProcessSpec::new("/bin/grep").arg("-qx").arg("0").arg(&entrance);
        let spec = spec.cgroup(&group.entrance().unwrap());
        let (process, ..) = Process::start(&launcher, "grep", spec, StderrParser::DEFAULT).await.unwrap();
        assert!(process.wait().await.is_success());
    }

    /// Groups are not made where others would be affected or the kernel would refuse them, and the reason is named.
    #[test]
    fn reasons_against_groups_are_named() {
        let find = |change: &dyn Fn(&FakeTree), own: &str| {
            let fake = FakeTree::new();
            change(&fake);
            DelegatedGroup::find_below(fake.0.path(), own, PID).unwrap_err()
        };
        assert_eq!(find(&|_| {}, "4:memory:/x\n"), NotDelegated::NoVersion2);
        assert_eq!(find(&|_| {}, "0::/elsewhere\n"), NotDelegated::NoVersion2);
        // In a hybrid tree other mounts have the controllers.
        assert_eq!(find(&|fake| fake.set("cgroup.controllers", ""), OWN), NotDelegated::NoVersion2);
        let missing = find(&|fake| fake.set("cgroup.controllers", "memory pids"), OWN);
        assert_eq!(missing, NotDelegated::MissingControllers(vec!["cpu"]));
        let shared = find(&|fake| fake.set("cgroup.procs", &format!("17\n{PID}\n18\n")), OWN);
        assert_eq!(shared.to_string(), "2 other processes are in greenroom's cgroup");
        // Root may write files that are closed to all, but not to a folder.
        let closed = |fake: &FakeTree| {
            fs::remove_file(fake.service().join("cgroup.subtree_control")).unwrap();
            fs::create_dir(fake.service().join("cgroup.subtree_control")).unwrap();
        };
        assert_eq!(find(&closed, OWN), NotDelegated::NotWritable);
    }

    /// If the kernel refuses the leaf, this process goes back and no group is made.
    #[test]
    fn refused_claim_is_undone() {
        let fake = FakeTree::new();
        let found = fake.find().unwrap();
        fs::remove_file(fake.service().join("cgroup.subtree_control")).unwrap();
        fs::create_dir(fake.service().join("cgroup.subtree_control")).unwrap();
        let refused = found.claim_for(PID).unwrap_err();
        assert!(matches!(&refused, NotDelegated::Refused(why) if why.contains("+memory")), "{refused:?}");
        assert_eq!(fake.get("cgroup.procs"), PID.to_string());
    }

    /// A process that is already in a leaf of its own uses the group above.
    #[test]
    fn leaf_of_its_own_is_kept() {
        let fake = FakeTree::new();
        drop(fake.claim());
        fake.set("greenroom/cgroup.controllers", "cpu memory pids");
        fake.set("cgroup.subtree_control", "cpu memory pids");
        let own = "0::/user/greenroom.service/greenroom\n";
        let found = DelegatedGroup::find_below(fake.0.path(), own, PID).unwrap();
        assert_eq!(found, DelegatedGroup { folder: fake.service(), is_claimed: true });
    }

    /// What the kernel did to a group is read from its files; a group without events has none.
    #[test]
    fn events_are_read() {
        let fake = FakeTree::new();
        let group = fake.claim().new_group(&limits()).unwrap();
        assert_eq!(group.events(), CgroupEvents::default());
        let set = |file: &str, text: &str| fs::write(group.folder.join(file), text).unwrap();
        set("memory.events", "low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\noom_group_kill 0\n");
        set("pids.events", "max 7\n");
        set("cpu.stat", "usage_usec 5\nnr_throttled 2\nthrottled_usec 1500\n");
        let expected =
            CgroupEvents { oom_kills: 2, refused_forks: 7, throttled: Duration::from_micros(1_500) };
        assert_eq!(group.events(), expected);
    }

    /// A group is killed and removed with its browser; one whose processes were still ending goes with the next start.
    #[test]
    fn groups_are_removed() {
        let fake = FakeTree::new();
        let tree = fake.claim();
        let folder = tree.new_group(&limits()).unwrap().folder.clone();
        assert_eq!(fs::read_to_string(folder.join("cgroup.kill")).unwrap(), "1");
        // The kernel's groups can be removed with their files; here the files stand for processes.
        assert!(folder.exists());
        for file in fs::read_dir(&folder).unwrap() {
            fs::remove_file(file.unwrap().path()).unwrap();
        }
        let next = tree.new_group(&limits()).unwrap();
        assert!(!folder.exists() && next.folder.exists() && fake.service().join("greenroom").exists());
        // The next browser is just starting: its group is empty, and stays when another browser starts.
        for file in fs::read_dir(&next.folder).unwrap() {
            fs::remove_file(file.unwrap().path()).unwrap();
        }
        let _another = tree.new_group(&limits()).unwrap();
        assert!(next.folder.exists());
    }
}
