//! A Chromium that greenroom started: own profile folder, a debugger that only greenroom reaches, own flags, and every
//! connection through the egress proxy, loopback included.

use std::{
    fs::File,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Once},
    time::Duration,
};

use greenroom_cdp::BrowserPipe;
use greenroom_core::{Lost, StartError, port::human};
use parking_lot::Mutex;
use serde_json::json;
use tokio::{task::spawn_blocking, time::timeout};

use crate::{
    browser::{Browser, BrowserKind, version},
    browser_limits::BrowserLimits,
    cgroup::{BrowserCgroup, CgroupEvents},
    chromium_log, debugging_pipe,
    launcher::{Launcher, ProcessSpec},
    overload,
    priority::lower_pages,
    process::{Process, StderrParser},
    profile::Profile,
    profile_limit,
    run_folder::{RunFolder, unwritable_error},
};

/// The hint for a browser with windows on a machine without a screen.
pub const SCREEN_HINT: &str =
    "set `pool.headless` to true, or run greenroom in a desktop session or under `xvfb-run`";

/// The hint for a browser that ends at its start for an unknown reason.
pub const DOCTOR_HINT: &str = "run `greenroom doctor`, which starts a browser and says what is missing";

/// How long Chromium may take until its debugger answers. It usually takes half a second, on a busy machine a few seconds; a
/// browser that needs longer hangs on its display or its disk.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// Flags of every Chromium. What is switched off here either contacts its vendor, draws what is never seen, or makes a page
/// in the background behave unlike one in front. What pages can notice is as in the Chromium that the playwright engine
/// would start itself; `tests/it/real/flags.rs` compares the two command lines. `--disable-ipc-flooding-protection` is left
/// out: with it a page that changes its address in a loop keeps the whole browser busy, and every other session waits for
/// 10 s and more. Without it Chromium lets a frame do so 200 times in 10 s, as in a user's browser.
const FLAGS: &[&str] = &[
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--disable-breakpad",
    "--disable-crash-reporter",
    "--disable-domain-reliability",
    "--disable-client-side-phishing-detection",
    "--disable-default-apps",
    "--disable-search-engine-choice-screen",
    "--disable-back-forward-cache",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--disable-hang-monitor",
    // A page can crash the GPU process. Chromium starts it again, but would exit itself after six crashes.
    "--disable-gpu-process-crash-limit",
    "--disable-popup-blocking",
    "--disable-prompt-on-repost",
    "--disable-component-extensions-with-background-pages",
    "--disable-infobars",
    // Field trials of a build would make pages behave unlike in other builds of the same version.
    "--disable-field-trial-config",
    // Input that comes before a page's first frame is not lost.
    "--allow-pre-commit-input",
    // A screenshot of a part that is not visible does not resize the page.
    "--enable-features=CDPScreenshotNewSurface",
    "--export-tagged-pdf",
    "--enable-unsafe-swiftshader",
    // With this `navigator.webdriver` is false, as in a browser that a person uses.
    "--disable-blink-features=AutomationControlled",
    // Containers give /dev/shm 64 MB, which a few large pages fill.
    "--disable-dev-shm-usage",
    // The last one makes WebRTC announce and resolve `.local` names by multicast on the local network.
    "--disable-features=AvoidUnnecessaryBeforeUnloadCheckSync,DestroyProfileOnBrowserClose,DialMediaRouteProvider,\
     GlobalMediaControls,HttpsUpgrades,LensOverlay,MediaRouter,PaintHolding,ThirdPartyStoragePartitioning,\
     BlockOriginHeaderModificationOnRedirect,Translate,OptimizationHints,NetworkTimeServiceQuerying,AimEnabled,\
     AutofillServerCommunication,WebRtcHideLocalIpsWithMdns",
    // Pages' consoles are not printed: Chromium logs them as INFO. The headless shell obeys the level only with the former
    // flag.
    "--enable-logging=stderr",
    "--log-level=2",
    "--force-color-profile=srgb",
    "--metrics-recording-only",
    "--no-service-autorun",
    "--password-store=basic",
    "--use-mock-keychain",
    // WebRTC would send datagrams past the proxy. Full Chromium reads the first flag, the headless shell the second
    // one, and only with its value.
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    // Loopback goes through the proxy too; by default Chromium bypasses the proxy for it.
    "--proxy-bypass-list=<-loopback>",
];

/// Otherwise a click of the middle button would paste in one session what is selected in another.
const BLINK_SETTINGS: &str = "--blink-settings=selectionClipboardBufferAvailable=false";

/// Without a display there is no mouse, and pages would take the browser for a phone's: `(hover: hover)` and
/// `(pointer: fine)` would be false. Chromium reads only the last flag of a name, so these are appended to [`BLINK_SETTINGS`].
const MOUSE: &str = ",primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4";

/// How to start a Chromium.
#[derive(Debug, Clone)]
pub struct ChromiumSpec {
    pub browser: Browser,
    pub headless: bool,
    /// Whether to switch off Chromium's own sandbox; `None` does so for root only, where it cannot work.
    pub no_sandbox: Option<bool>,
    pub window: (u32, u32),
    pub proxy: SocketAddr,
    /// Further flags, which the settings have checked.
    pub args: Vec<String>,
    /// How much pages may store in the profile. By default a browser lets them have 80 % of the disk, and one site 60 %.
    pub storage_bytes_max: u64,
    pub limits: BrowserLimits,
    /// Options of the browser's default context, which engines set only for contexts that they make.
    pub default_context: Option<DefaultContextOptions>,
}

/// Options of the default context, for a browser whose sessions use that context.
#[derive(Debug, Clone)]
pub struct DefaultContextOptions {
    /// The persistent profile; `None` for one that is removed with the browser.
    pub profile: Option<PathBuf>,
    pub user_agent: Option<String>,
    pub ignore_certificate_errors: bool,
}

/// A running Chromium.
pub struct Chromium {
    process: Process,
    /// Its debugger. The browser exits when the last handle to it is dropped.
    debugger: BrowserPipe,
    profile: Profile,
    limits: BrowserLimits,
    /// Its cgroup, where greenroom may make one.
    cgroup: Option<Arc<BrowserCgroup>>,
    /// What the kernel had done to the cgroup when that was last read.
    seen_events: Mutex<CgroupEvents>,
}

impl Chromium {
    pub async fn start(
        launcher: &Launcher,
        run: &RunFolder,
        spec: &ChromiumSpec,
    ) -> Result<Self, StartError> {
        let profile = match spec.default_context.as_ref().and_then(|context| context.profile.as_ref()) {
            Some(profile) => Profile::open_persistent(profile)?,
            None => {
                Profile::Temporary(run.new_folder("profiles").map_err(|error| unwritable_error(run, &error))?)
            }
        };
        profile_limit::check(&profile, spec.limits.profile_bytes_max).await?;
        let path = spec.browser.path.display();
        let hint = || spec.limits.start_hint().unwrap_or_else(|| DOCTOR_HINT.to_owned());
        let not_started = |error| StartError::new(format!("cannot start the browser: {error}: `{path}`"));
        let (own_ends, browser_ends) = debugging_pipe::new_pipes().map_err(not_started)?;
        let debugger = own_ends.open().map_err(not_started)?;
        let (cgroup, entrance) = new_cgroup(launcher, &spec.limits).unzip();
        let mut command = command(spec, profile.path()).debugging_pipe(browser_ends);
        if let Some(entrance) = &entrance {
            command = command.cgroup(entrance);
        }
        let (process, _, _) =
            Process::start(launcher, "chromium", command, STDERR_PARSER).await.map_err(not_started)?;
        // A wrapper may start a browser without the pipes and wait for it. Then the pipes end, and the process does not.
        let answered = async {
            match debugger.call("Browser.getVersion", &json!({})).await {
                Ok(version) => Ok(version),
                Err(_) => Err(process.wait().await),
            }
        };
        let version = match timeout(READY_WITHIN, answered).await {
            Ok(Ok(version)) => version,
            Ok(Err(status)) => {
                let stderr_tail = process.stderr_tail();
                if chromium_log::reports_missing_screen(&stderr_tail) {
                    tracing::debug!(%status, %stderr_tail, "the browser found no screen");
                    let message =
                        format!("there is no screen that the browser can open its window on: `{path}`");
                    return Err(StartError::new(message).hint(SCREEN_HINT));
                }
                let lost = Lost::Browser { status: status.into(), stderr_tail };
                let lost = match &cgroup {
                    Some(cgroup) => explain_by_cgroup(lost, &CgroupEvents::default(), &cgroup.events()),
                    None => lost,
                };
                return Err(StartError::new(format!("{lost}: `{path}`")).hint(hint()));
            }
            Err(_) => {
                process.stop(Duration::ZERO).await;
                return Err(StartError::new(format!(
                    "the browser was not ready within {}: `{path}`",
                    human(READY_WITHIN)
                ))
                .hint(hint()));
            }
        };
        // The browser has no page yet.
        process.declare_ready();
        lower_pages(process.pid());
        version::warn_if_old(&version, &spec.browser.path);
        let limits = spec.limits.clone();
        Ok(Self { process, debugger, profile, limits, cgroup, seen_events: Mutex::default() })
    }

    /// Its debugger, which only greenroom reaches.
    pub(crate) fn debugger(&self) -> &BrowserPipe {
        &self.debugger
    }

    pub fn process(&self) -> &Process {
        &self.process
    }

    pub(crate) fn limits(&self) -> &BrowserLimits {
        &self.limits
    }

    pub(crate) fn cgroup(&self) -> Option<&Arc<BrowserCgroup>> {
        self.cgroup.as_ref()
    }

    /// Refuses limits that the browser exceeds already, now that all of its own processes run.
    pub(crate) async fn check_limits(&self) -> Result<(), StartError> {
        let pid = self.process.pid();
        match spawn_blocking(move || overload::used_now(pid)).await {
            Ok((memory, processes)) => {
                tracing::debug!(browser = pid, memory, processes, "a browser without a page");
                self.limits.check_started(memory, processes)
            }
            Err(_) => Ok(()),
        }
    }

    /// What the kernel has done to its cgroup: until the last call of this, and until now. `None` without a cgroup.
    pub(crate) fn next_events(&self) -> Option<(CgroupEvents, CgroupEvents)> {
        let now = self.cgroup.as_ref()?.events();
        Some((std::mem::replace(&mut *self.seen_events.lock(), now), now))
    }

    /// Its loss, with the kernel's reason, if the kernel has ended it.
    pub(crate) fn explain(&self, lost: Lost) -> Lost {
        match self.next_events() {
            Some((before, now)) => explain_by_cgroup(lost, &before, &now),
            None => lost,
        }
    }

    pub(crate) fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Ends the browser and removes its profile, unless the profile is kept.
    pub async fn stop(&self, grace: Duration) {
        self.process.stop_leader(grace).await;
        if let Some(cgroup) = &self.cgroup {
            cgroup.remove();
        }
        self.profile.clear().await;
    }
}

/// A cgroup for a browser that is about to start, and the file by which the browser enters it. Without one greenroom watches
/// the browser itself.
fn new_cgroup(launcher: &Launcher, limits: &BrowserLimits) -> Option<(Arc<BrowserCgroup>, Arc<File>)> {
    let made = launcher.cgroups()?.new_group(limits).and_then(|group| {
        let entrance = group.entrance()?;
        Ok((Arc::new(group), entrance))
    });
    made.inspect_err(|error| tracing::warn!(%error, "cannot make a cgroup for a browser")).ok()
}

/// The loss of a browser, with the reason that only the kernel knows: `before` and `now` are the events of its cgroup.
fn explain_by_cgroup(lost: Lost, before: &CgroupEvents, now: &CgroupEvents) -> Lost {
    let Lost::Browser { status, stderr_tail } = lost else { return lost };
    let why = if now.oom_kills > before.oom_kills {
        "; the kernel ended processes of it: it took more memory than `pool.memory_bytes_max` allows"
    } else if now.refused_forks > before.refused_forks {
        "; the kernel refused it more threads: it has as many as `pool.processes_max` allows"
    } else {
        ""
    };
    Lost::Browser { status: format!("{status}{why}").into(), stderr_tail }
}

fn command(spec: &ChromiumSpec, profile: &Path) -> ProcessSpec {
    let mut crashes = std::ffi::OsString::from("--crash-dumps-dir=");
    crashes.push(profile);
    let mut command = ProcessSpec::new(&spec.browser.path)
        .minimal_env()
        .no_priority_raise()
        .open_files_max(spec.limits.open_files_max as u64)
        .args(FLAGS);
    let mut user_data = std::ffi::OsString::from("--user-data-dir=");
    user_data.push(profile);
    // Without its own folder Chromium's crash reporter would make one in the user's home, even if it is switched off.
    command = command.arg(crashes).arg(user_data).arg(format!("--proxy-server=http://{}", spec.proxy));
    // The proxy resolves every name. Names that the browser resolves itself would bypass the proxy's policy: a page could
    // name a WebRTC peer, and so send a DNS query for that name to the machine's resolver.
    command = command.arg(format!("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE {}", spec.proxy.ip()));
    command = command.arg(format!("{BLINK_SETTINGS}{}", if spec.headless { MOUSE } else { "" }));
    let (width, height) = spec.window;
    if spec.headless {
        if spec.default_context.is_some() {
            command = command.arg(format!("--window-size={width},{height}"));
        }
        // Chromium opens no first page: no session would use it, and an engine that attaches would wait for
        // it if it had crashed.
        command = command.args(["--hide-scrollbars", "--mute-audio", "--no-startup-window"]);
        if spec.browser.kind != BrowserKind::HeadlessShell {
            command = command.arg("--headless=new");
        }
    } else {
        // A browser with windows exits with its last window, so it keeps one of its own.
        command = command.arg(format!("--window-size={width},{height}")).arg("about:blank");
    }
    if let Some(context) = &spec.default_context {
        // After a crash the browser would ask its user whether to restore the old tabs, and wait.
        command = command.arg("--hide-crash-restore-bubble");
        if let Some(user_agent) = &context.user_agent {
            command = command.arg(format!("--user-agent={user_agent}"));
        }
        if context.ignore_certificate_errors {
            command = command.arg("--ignore-certificate-errors");
        }
    } else {
        command = command.arg("--disable-extensions");
    }
    if spec.no_sandbox.unwrap_or_else(is_root) {
        warn_no_sandbox();
        command = command.arg("--no-sandbox");
    }
    // This bounds what is stored on disk. Contexts that an engine makes store in memory, which `overload/` bounds. A user's
    // persistent profile gets no limit: the browser would remove what its sites have stored beyond it.
    if spec.default_context.as_ref().is_none_or(|context| context.profile.is_none()) {
        let max = spec.storage_bytes_max;
        add_flag(&mut command, &format!("--enable-features=StorageQuotaSettings:PoolSizeBytes/{max}"));
    }
    for arg in &spec.args {
        add_flag(&mut command, arg);
    }
    command
}

/// Adds a flag. Of several flags of one name Chromium reads the last; flags that are lists are joined, so that greenroom's
/// entries stay.
fn add_flag(command: &mut ProcessSpec, arg: &str) {
    const LISTS: [&str; 3] = ["--disable-features=", "--enable-features=", "--disable-blink-features="];
    let list = LISTS.into_iter().find(|list| arg.starts_with(*list));
    let is_same =
        |flag: &&mut std::ffi::OsString| list.is_some_and(|list| flag.to_string_lossy().starts_with(list));
    match (list, command.args.iter_mut().find(is_same)) {
        (Some(list), Some(flag)) => {
            flag.push(",");
            flag.push(&arg[list.len()..]);
        }
        _ => command.args.push(arg.into()),
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Prints the warning once, on stderr, whatever the log level: it is about security, so the operator must see
/// it.
#[allow(clippy::print_stderr, reason = "must be seen at every log level")]
fn warn_no_sandbox() {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        let why = if is_root() { "running as root" } else { "`pool.no_sandbox` is set" };
        eprintln!("warning: browsers run without their sandbox: {why}");
    });
}

const STDERR_PARSER: StderrParser =
    StderrParser { classify: chromium_log::classify, ..StderrParser::DEFAULT };

#[cfg(test)]
mod tests {
    use greenroom_core::settings::Settings;

    use super::*;

    /// The kernel's reason for the end of a browser is named, if it had one since the browser was last seen; other losses
    /// stay as they are.
    #[test]
    fn kernel_reason_of_a_loss_is_named() {
        let before = CgroupEvents { oom_kills: 1, refused_forks: 1, ..CgroupEvents::default() };
        let killed = || Lost::Browser { status: "signal 9".into(), stderr_tail: "".into() };
        let explained = |now: CgroupEvents| explain_by_cgroup(killed(), &before, &now).to_string();
        assert_eq!(explained(before), killed().to_string());
        assert!(explained(CgroupEvents { oom_kills: 2, ..before }).contains("`pool.memory_bytes_max`"));
        assert!(explained(CgroupEvents { refused_forks: 2, ..before }).contains("`pool.processes_max`"));
        let now = CgroupEvents { oom_kills: 2, ..before };
        assert_eq!(explain_by_cgroup(Lost::Shutdown, &before, &now), Lost::Shutdown);
    }

    /// Further flags come after greenroom's own, and entries of lists are added to greenroom's.
    #[test]
    fn further_flags_extend_lists() {
        let mut command = ProcessSpec::new("x").args(["--disable-features=A,B", "--mute-audio"]);
        for arg in ["--disable-features=C", "--enable-features=D", "--lang=de"] {
            add_flag(&mut command, arg);
        }
        assert_eq!(
            command.args,
            ["--disable-features=A,B,C", "--mute-audio", "--enable-features=D", "--lang=de"]
        );
    }

    /// Pages' storage is limited in profiles that are removed with their browser. A kept profile belongs to its user, who
    /// would lose data beyond the limit.
    #[test]
    fn storage_is_limited_in_temporary_profiles() {
        let is_bounded = |default_context: Option<DefaultContextOptions>| {
            let spec = ChromiumSpec {
                browser: Browser { path: "/b".into(), kind: BrowserKind::Chromium },
                headless: true,
                no_sandbox: Some(false),
                window: (800, 600),
                proxy: SocketAddr::from(([127, 0, 0, 1], 1)),
                args: Vec::new(),
                storage_bytes_max: 7,
                limits: BrowserLimits::of(&Settings::defaults("/d".into()).pool),
                default_context,
            };
            let args = command(&spec, Path::new("/p")).args;
            args.iter().any(|arg| arg.to_string_lossy().contains("StorageQuotaSettings:PoolSizeBytes/7"))
        };
        let default_context =
            |profile| DefaultContextOptions { profile, user_agent: None, ignore_certificate_errors: false };
        assert!(is_bounded(None) && is_bounded(Some(default_context(None))));
        assert!(!is_bounded(Some(default_context(Some("/home/me/profile".into())))));
    }
}
