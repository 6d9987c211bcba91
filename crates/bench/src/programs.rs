//! The programs under measurement: greenroom with the fake engine, greenroom with the real one, and either engine alone.
//! Each is a command with only `PATH` of this machine's environment.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use greenroom_testkit::{Launch, Site, fake_engine_path, workspace_binary};
use tempfile::TempDir;

/// The path in Debian of the browser that greenroom takes for headless pools. The engine alone gets the very same.
pub const BROWSER: &str = "/usr/lib/chromium/chromium-headless-shell";

/// The path in Debian of the whole Chromium: the engine takes this where no headless shell is installed, as on most
/// machines.
pub const FULL_BROWSER: &str = "/usr/lib/chromium/chromium";

pub struct Programs {
    greenroom: PathBuf,
    /// Another greenroom, if `--against` names one.
    against: Option<PathBuf>,
    fake_engine: PathBuf,
    /// The engines' programs, for Node.
    engine: PathBuf,
    devtools: PathBuf,
    /// Where the engine is installed.
    data: PathBuf,
    /// The native program of `agent-browser`, if it is installed.
    agent_browser: Option<PathBuf>,
    /// Home, working folder, and the data folder of greenroom with the fake engine.
    home: TempDir,
}

impl Programs {
    pub fn find(data: &Path, peers: &Path, against: Option<PathBuf>) -> Self {
        let data = fs::canonicalize(data).unwrap_or_else(|error| {
            panic!(
                "no data folder: `{}`: {error}\n\nhint: run scripts/bench, which sets it up",
                data.display()
            )
        });
        Self {
            greenroom: workspace_binary("greenroom", "greenroom"),
            against,
            fake_engine: fake_engine_path(),
            engine: installed(&data, "playwright", "@playwright/mcp/cli.js"),
            devtools: installed(
                &data,
                "devtools",
                "chrome-devtools-mcp/build/src/bin/chrome-devtools-mcp.js",
            ),
            data,
            agent_browser: agent_browser(peers),
            home: TempDir::new().expect("the temporary folder is writable"),
        }
    }

    /// `greenroom mcp` in front of fake engines, one process per session.
    pub fn greenroom_fake(&self, slots: usize) -> Command {
        self.fake(&["mcp", "--standalone"], slots)
    }

    /// `greenroom serve` in front of fake engines, one process per session.
    pub fn serve_fake(&self, slots: usize) -> Command {
        self.fake(&["serve", "--listen", "127.0.0.1:0"], slots)
    }

    /// `greenroom mcp` that joins the server of [`Self::serve_fake`], which must run.
    pub fn joined_fake(&self) -> Command {
        let mut command = self.command(&self.greenroom);
        command.args(["mcp", "--data-dir"]).arg(self.home.path().join("data"));
        command
    }

    /// A command line of greenroom that uses the server of [`Self::serve_fake`], which must run.
    pub fn command_fake(&self, arguments: &[&str]) -> Command {
        self.command_line(&self.home.path().join("data"), arguments)
    }

    /// A command line of greenroom that uses the server of [`Self::serve_real`], which must run.
    pub fn command_real(&self, arguments: &[&str]) -> Command {
        self.command_line(&self.data, arguments)
    }

    fn command_line(&self, data: &Path, arguments: &[&str]) -> Command {
        let mut command = self.command(&self.greenroom);
        command.env("GREENROOM_DATA_DIR", data).args(arguments);
        command
    }

    /// `greenroom mcp` in front of fake engines, with a data folder of its own.
    pub fn greenroom_fake_in(&self, data: &Path, slots: usize) -> Command {
        self.fake_in(data, &["mcp", "--standalone"], slots)
    }

    fn fake(&self, verb: &[&str], slots: usize) -> Command {
        self.fake_in(&self.home.path().join("data"), verb, slots)
    }

    fn fake_in(&self, data: &Path, verb: &[&str], slots: usize) -> Command {
        let mut command = self.command(&self.greenroom);
        command.args(verb).args(["--pool-engine", "custom", "--pool-slots", &slots.to_string()]);
        // A spare would be one more process that starts while others are timed.
        command.args(["--pool-warm", "0"]);
        command.arg("--data-dir").arg(data);
        // The fake engine's path has no quotes in it, but may have blanks.
        command.arg(format!("--pool-command=\"{}\"", self.fake_engine.display()));
        command
    }

    pub fn fake_alone(&self) -> Command {
        self.command(&self.fake_engine)
    }

    /// `greenroom mcp` without any configuration except for the data folder and the browser, independent of a running
    /// server.
    pub fn greenroom_real(&self) -> Command {
        self.real(&self.greenroom)
    }

    /// The same with the greenroom that `--against` names.
    pub fn other_greenroom_real(&self) -> Command {
        self.real(self.against.as_ref().expect("the options ask for it"))
    }

    fn real(&self, greenroom: &Path) -> Command {
        let mut command = self.command(greenroom);
        command
            .args(["mcp", "--standalone", "--pool-executable-path", BROWSER, "--data-dir"])
            .arg(&self.data);
        command
    }

    /// `greenroom serve` without any configuration except for its port, the data folder and the browser.
    pub fn serve_real(&self) -> Command {
        let mut command = self.command(&self.greenroom);
        command.args(["serve", "--listen", "127.0.0.1:0", "--pool-executable-path", BROWSER, "--data-dir"]);
        command.arg(&self.data);
        command
    }

    /// `greenroom serve` with its port and the data folder alone, for pools that variables declare.
    pub fn serve_declared(&self) -> Command {
        let mut command = self.command(&self.greenroom);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(&self.data);
        command
    }

    /// The playwright engine with a process of this browser of its own.
    pub fn real_alone(&self, browser: &str) -> Command {
        let mut command = self.command(Path::new("node"));
        command.arg(&self.engine).args(["--headless", "--isolated", "--executable-path", browser]);
        if rustix::process::geteuid().is_root() {
            // Chromium refuses to run as root otherwise; greenroom adds the flag by itself.
            command.arg("--no-sandbox");
        }
        command
    }

    /// The devtools engine with these flags. It starts its browser with the first call.
    pub fn devtools_alone(&self, flags: &[&str]) -> Command {
        let mut command = self.command(Path::new("node"));
        command
            .arg(&self.devtools)
            .args(["--headless", "--isolated", "--executablePath", BROWSER])
            .args(flags);
        command
    }

    /// The same as [`Self::real_alone`], for clients that start it themselves.
    pub fn launch_engine(&self) -> Launch {
        let sandbox = rustix::process::geteuid().is_root().then_some("--no-sandbox");
        Launch::new("node")
            .arg(&self.engine)
            .args(["--headless", "--isolated", "--executable-path", BROWSER])
            .args(sandbox)
    }

    /// The same as [`Self::greenroom_real`], for clients that start it themselves.
    pub fn launch_real(&self) -> Launch {
        Launch::new(&self.greenroom)
            .args(["mcp", "--standalone", "--pool-executable-path", BROWSER, "--data-dir"])
            .arg(&self.data)
    }

    pub fn agent_browser(&self) -> Option<PathBuf> {
        self.agent_browser.clone()
    }

    /// Home and working folder of everything that is measured.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The name and version of each part.
    pub fn versions(&self) -> Vec<String> {
        let says = |program: &Path, args: &[&str]| {
            let output = self.command(program).args(args).output().expect("the program runs");
            String::from_utf8_lossy(&output.stdout).trim().trim_start_matches("Version ").to_owned()
        };
        vec![
            says(&self.greenroom, &["--version"]),
            format!(
                "@playwright/mcp {}",
                says(Path::new("node"), &[&self.engine.to_string_lossy(), "--version"])
            ),
            format!("Node {}", says(Path::new("node"), &["--version"])),
            says(Path::new(BROWSER), &["--version"]),
        ]
    }

    /// A program with only `PATH` of this machine's environment.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("HOME", self.home.path()).current_dir(self.home.path());
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command
    }
}

/// The program of an engine in the data folder.
fn installed(data: &Path, engine: &str, program: &str) -> PathBuf {
    let versions = data.join("engines").join(engine);
    let folders = fs::read_dir(&versions).into_iter().flatten().flatten();
    folders
        .map(|version| version.path().join("node_modules").join(program))
        .find(|program| program.is_file())
        .unwrap_or_else(|| panic!("no engine in `{}`\n\nhint: run scripts/bench", versions.display()))
}

/// The same greenroom without records.
pub fn unrecorded(mut greenroom: Command) -> Command {
    greenroom.arg("--records-enabled=false");
    greenroom
}

/// The native program. npm's launcher would start Node only to start this program, and a global install skips that too.
fn agent_browser(peers: &Path) -> Option<PathBuf> {
    let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let program = format!("node_modules/agent-browser/bin/agent-browser-linux-{machine}");
    fs::canonicalize(peers.join(program)).ok()
}

/// The test site, on a thread of its own.
pub fn site() -> Site {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime starts");
    runtime.block_on(Site::start())
}
