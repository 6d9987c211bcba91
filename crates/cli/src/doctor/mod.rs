//! The checks of `greenroom doctor`, one file each, and the order they run in.
//!
//! A check changes nothing, except the last one, which starts a browser as an agent's first call would. Each has a
//! deadline: a network drive that hangs or a Node that never answers is itself a finding.

mod browse;
mod browser;
mod browser_age;
mod browser_reach;
mod config;
mod data_folder;
mod display;
mod engine;
mod leftovers;
mod limits;
mod network;
mod node;
mod npm;
mod sandbox;

use std::{future::Future, sync::Arc, thread, time::Duration};

use greenroom_core::{port::human, settings::Resolved};
use greenroom_engine::launcher::Launcher;
use serde::Serialize;
use tokio::{sync::oneshot, time::timeout};

use crate::{config::ProcessEnv, packages, progress};

/// Reading a file takes microseconds and `npm --version` a second; a check that takes longer than this hangs.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);

/// For opening a page. Its steps have deadlines of their own: the start of a browser, the opening of a session, a call,
/// and the shutdown.
const BROWSE_TIMEOUT: Duration = Duration::from_secs(180);

/// The installation that the checks examine.
pub struct Installation {
    pub resolved: Resolved,
    pub env: ProcessEnv,
    pub launcher: Launcher,
    /// Whether a browser may be started.
    pub opens_page: bool,
}

impl Installation {
    /// Whether every engine is the user's own, which needs neither greenroom's engine nor its browser.
    fn is_custom(&self) -> bool {
        packages::required(&self.resolved.settings).is_empty()
    }
}

/// A result of a check. A check of several things may have several results.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub id: &'static str,
    pub status: CheckStatus,
    pub message: String,
    /// How to fix it.
    pub fix: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckStatus {
    Ok,
    /// It works, but not as well or as safely as it could.
    Warning,
    Failed,
    Skipped,
}

impl CheckStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// What a check found; [`run_checks`] adds the check's name.
struct CheckOutcome {
    status: CheckStatus,
    message: String,
    fix: Option<String>,
}

impl CheckOutcome {
    fn new(status: CheckStatus, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), fix: None }
    }

    fn ok(message: impl Into<String>) -> Self {
        Self::new(CheckStatus::Ok, message)
    }

    fn warning(message: impl Into<String>) -> Self {
        Self::new(CheckStatus::Warning, message)
    }

    fn failed(message: impl Into<String>) -> Self {
        Self::new(CheckStatus::Failed, message)
    }

    fn skipped(message: impl Into<String>) -> Self {
        Self::new(CheckStatus::Skipped, message)
    }

    fn timed_out(deadline: Duration) -> Self {
        Self::failed(format!("no result within {}", human(deadline)))
            .fix("see whether the disk, a network drive or the program behind it hangs")
    }

    fn into_finding(self, id: &'static str) -> Finding {
        let Self { status, message, fix } = self;
        Finding { id, status, message, fix }
    }

    fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

/// Runs every check, in order: those that others depend on come first.
pub async fn run_checks(installation: Installation) -> Vec<Finding> {
    let installation = Arc::new(installation);
    let mut findings = vec![
        check("config", check_on_thread(&installation, config::check)).await,
        check("data-folder", check_on_thread(&installation, data_folder::check)).await,
        check("node", node::check(&installation)).await,
        check("npm", npm::check(&installation)).await,
        check("engine", check_on_thread(&installation, engine::check)).await,
        check("browser", check_on_thread(&installation, browser::check)).await,
        check("browser-age", browser_age::check(&installation)).await,
    ];
    findings.extend(check_each("browsers", CHECK_TIMEOUT, browser_reach::check(&installation)).await);
    findings.extend([
        check("display", check_on_thread(&installation, display::check)).await,
        check("sandbox", check_on_thread(&installation, sandbox::check)).await,
        check("network", check_on_thread(&installation, network::check)).await,
        check("leftovers", check_on_thread(&installation, leftovers::check)).await,
    ]);
    findings.extend(check_each("limits", CHECK_TIMEOUT, limits::check(&installation)).await);
    let others_passed = findings.iter().all(|finding| finding.status != CheckStatus::Failed);
    findings.push(check_within("browse", BROWSE_TIMEOUT, browse::check(&installation, others_passed)).await);
    findings
}

/// Runs one check that finds several things, each with a fix of its own.
async fn check_each(
    id: &'static str,
    deadline: Duration,
    check: impl Future<Output = Vec<CheckOutcome>>,
) -> Vec<Finding> {
    let outcomes = progress::step(&format!("checking {id}"), timeout(deadline, check)).await;
    let outcomes = outcomes.unwrap_or_else(|_| vec![CheckOutcome::timed_out(deadline)]);
    outcomes.into_iter().map(|outcome| outcome.into_finding(id)).collect()
}

/// Runs one check within its deadline.
async fn check(id: &'static str, check: impl Future<Output = CheckOutcome>) -> Finding {
    check_within(id, CHECK_TIMEOUT, check).await
}

async fn check_within(
    id: &'static str,
    deadline: Duration,
    check: impl Future<Output = CheckOutcome>,
) -> Finding {
    let outcome = progress::step(&format!("checking {id}"), timeout(deadline, check)).await;
    outcome.unwrap_or_else(|_| CheckOutcome::timed_out(deadline)).into_finding(id)
}

/// Runs a check of files on a thread of its own. Access to a dead network drive cannot be cancelled; such a thread is
/// abandoned, and ends with the process. A thread of the runtime would keep the process from ending.
async fn check_on_thread(
    installation: &Arc<Installation>,
    check: fn(&Installation) -> CheckOutcome,
) -> CheckOutcome {
    let (done, outcome) = oneshot::channel();
    let installation = installation.clone();
    let started = thread::Builder::new().name("check".into()).spawn(move || done.send(check(&installation)));
    match started {
        Ok(_) => outcome.await.unwrap_or_else(|_| CheckOutcome::failed("the check itself broke")),
        Err(error) => CheckOutcome::failed(format!("cannot start a thread: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A check that never ends is a failed check, and the ones after it still run.
    #[tokio::test(start_paused = true)]
    async fn hanging_check_fails() {
        let finding = check("stuck", std::future::pending()).await;
        assert_eq!((finding.status, &*finding.message), (CheckStatus::Failed, "no result within 30 s"));
    }
}
