//! The engine's command lines. What an option is called there, and where it has no effect, is known here only.
//!
//! The engine sets user agent, viewport and the like on contexts that it makes. In a browser's default context it
//! leaves all as it is, so these are the browser's own flags there (see [`crate::chromium`]), and are not given to the
//! engine.

use std::{
    ffi::OsString,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use greenroom_core::StartError;

use super::{PlaywrightBrowser, PlaywrightOptions};
use crate::{
    browser::{Kind, Wanted},
    driven::Driven,
    install,
    launcher::Spec,
    node,
};

/// The engine would take the address on its command line too, but refuses to emulate a device there.
const CDP_ENDPOINT: &str = "PLAYWRIGHT_MCP_CDP_ENDPOINT";

/// What starts Windows programs from the Linux in it.
const CMD: &str = "cmd.exe";

/// Where the drive of Windows usually is. Started elsewhere, `cmd.exe` complains on stdout, which is the protocol's.
const WINDOWS_DRIVE: &str = "/mnt/c";

/// What `cmd.exe` does not pass on as it is.
const CMD_SPECIAL: [char; 9] = ['&', '|', '<', '>', '^', '%', '"', '\n', '\r'];

/// The engine for a Chromium that greenroom starts; [`attach`] tells it which.
pub(super) fn attached(options: &PlaywrightOptions) -> Result<Spec, StartError> {
    let mut spec = node(options)?.args(["--idle-timeout", "0"]);
    if options.isolated {
        spec = context(spec.arg("--isolated"), options);
    }
    Ok(shared(spec, options))
}

/// Has the engine attach to a browser.
pub(super) fn attach(spec: Spec, browser: &Driven) -> Spec {
    spec.env(CDP_ENDPOINT, browser.address())
}

/// The engine that starts its browser itself, with everything that goes out through `proxy`.
pub(super) fn starting(options: &PlaywrightOptions, proxy: SocketAddr) -> Result<Spec, StartError> {
    let mut spec = if options.wsl_windows { windows(options)? } else { node(options)? };
    spec = spec.args(["--idle-timeout", "0"]);
    if let Some(name) = browser_name(options.browser) {
        spec = spec.args(["--browser", name]);
    }
    if options.extension {
        // The user's own browser: it has its windows, its profile and its way to the network already.
        spec = spec.arg("--extension");
        if let Some(folder) = &options.user_data_dir {
            spec = spec.arg("--user-data-dir").arg(folder);
        }
    } else {
        if options.headless {
            spec = spec.arg("--headless");
        }
        if options.no_sandbox == Some(true) {
            spec = spec.arg("--no-sandbox");
        }
        if options.isolated {
            spec = spec.arg("--isolated");
        } else if let Some(folder) = &options.user_data_dir {
            spec = spec.arg("--user-data-dir").arg(folder);
        }
        // The engine sends loopback through the proxy as well, unless told otherwise.
        spec = context(spec.arg("--proxy-server").arg(format!("http://{proxy}")), options);
    }
    if let Some(path) = &options.executable_path {
        spec = spec.arg("--executable-path").arg(path);
    }
    let spec = shared(spec, options);
    if options.wsl_windows { for_cmd(spec) } else { Ok(spec) }
}

/// `node cli.js`.
fn node(options: &PlaywrightOptions) -> Result<Spec, StartError> {
    let cli = install::PLAYWRIGHT.locate(&options.data_folder)?.cli;
    let node = node::locate(options.node.as_deref(), &options.places.search_path)?;
    Ok(node::run(node, cli))
}

/// The same version from npm, on Windows.
fn windows(options: &PlaywrightOptions) -> Result<Spec, StartError> {
    let cmd = node::on_path(CMD, &options.places.search_path).ok_or_else(|| {
        StartError::new(format!("Windows cannot be reached: no `{CMD}` on the search path"))
            .hint("`wsl_windows` works in the Windows Subsystem for Linux only, with `appendWindowsPath` and interop on")
    })?;
    let package = format!("@playwright/mcp@{}", install::PLAYWRIGHT.version());
    let spec = Spec::new(cmd).few_variables().args(["/c", "npx", "-y"]).arg(package);
    let drive = Path::new(WINDOWS_DRIVE);
    Ok(if drive.is_dir() { spec.folder(drive) } else { spec })
}

fn for_cmd(spec: Spec) -> Result<Spec, StartError> {
    let special = |arg: &OsString| arg.to_string_lossy().contains(CMD_SPECIAL);
    match spec.args.iter().find(|arg| special(arg)) {
        Some(arg) => Err(StartError::new(format!("`{CMD}` cannot pass this on: `{}`", arg.display()))
            .hint("with `wsl_windows` no value may have one of & | < > ^ % \"")),
        None => Ok(spec),
    }
}

fn browser_name(browser: PlaywrightBrowser) -> Option<&'static str> {
    match browser {
        PlaywrightBrowser::Firefox => Some("firefox"),
        PlaywrightBrowser::Webkit => Some("webkit"),
        PlaywrightBrowser::Chromium(Wanted::Any) => None,
        PlaywrightBrowser::Chromium(Wanted::Only(kind)) => Some(match kind {
            Kind::HeadlessShell | Kind::Chromium => "chromium",
            Kind::Chrome => "chrome",
            Kind::Edge => "msedge",
        }),
    }
}

/// What the engine sets on a context that it makes.
fn context(mut spec: Spec, options: &PlaywrightOptions) -> Spec {
    let (width, height) = options.viewport;
    match &options.device {
        Some(device) => spec = spec.arg("--device").arg(device),
        None => spec = spec.arg("--viewport-size").arg(format!("{width}x{height}")),
    }
    if let Some(user_agent) = &options.user_agent {
        spec = spec.arg("--user-agent").arg(user_agent);
    }
    if options.ignore_https_errors {
        spec = spec.arg("--ignore-https-errors");
    }
    if let Some(path) = options.storage_state.as_ref().filter(|_| options.isolated) {
        spec = spec.arg("--storage-state").arg(absolute(path, options));
    }
    spec
}

/// The engine's working directory is another than greenroom's.
fn absolute(path: &Path, options: &PlaywrightOptions) -> PathBuf {
    if options.wsl_windows {
        return path.to_owned();
    }
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// What is the same wherever the browser comes from.
fn shared(mut spec: Spec, options: &PlaywrightOptions) -> Spec {
    for (flag, value) in
        [("--timeout-action", options.timeout_action), ("--timeout-navigation", options.timeout_navigation)]
    {
        if let Some(value) = value {
            spec = spec.arg(flag).arg(value.as_millis().to_string());
        }
    }
    for (flag, values, between) in [
        ("--caps", &options.caps, ","),
        ("--allowed-origins", &options.allowed_origins, ";"),
        ("--blocked-origins", &options.blocked_origins, ";"),
    ] {
        if !values.is_empty() {
            spec = spec.arg(flag).arg(values.join(between));
        }
    }
    for script in &options.init_scripts {
        spec = spec.arg("--init-script").arg(absolute(script, options));
    }
    if let Some(mode) = &options.image_responses {
        spec = spec.arg("--image-responses").arg(mode);
    }
    if options.save_session {
        spec = spec.arg("--save-session");
    }
    if let Some(name) = &options.test_id_attribute {
        spec = spec.arg("--test-id-attribute").arg(name);
    }
    if options.snapshot_boxes {
        spec = spec.arg("--snapshot-boxes");
    }
    if let Some(language) = &options.codegen {
        spec = spec.arg("--codegen").arg(language);
    }
    if let Some(path) = &options.secrets_file {
        spec = spec.arg("--secrets").arg(absolute(path, options));
    }
    if !options.webmcp {
        spec = spec.arg("--no-webmcp");
    }
    // All levels are written down and kept; of these, agents are shown what the engine would show by itself.
    spec.args(["--console-level", "debug"])
}

#[cfg(test)]
mod tests;
