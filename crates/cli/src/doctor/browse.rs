//! Whether a browser really opens a page, from the engine down to Chromium. This is the last check: it needs all that
//! the others have checked.

use std::{collections::BTreeSet, sync::Arc};

use greenroom_core::{Call, Fields, NoAgent, Owner, Policy, SessionId, raw::encode};
use greenroom_engine::{chromium::DOCTOR_HINT, registry};
use greenroom_fleet::{CallTarget, FleetError, SessionKey};
use serde_json::json;

use super::{CheckOutcome, Installation};
use greenroom_gateway::control::ProcessKind;

use crate::app::App;

/// A page that needs no network.
const PAGE: &str = "data:text/html,<title>greenroom</title>ready";

/// `others_passed` says that no other check failed. Otherwise this check is skipped: a page that does not open would
/// only repeat their findings.
pub(super) async fn check(installation: &Installation, others_passed: bool) -> CheckOutcome {
    if !installation.opens_page {
        return CheckOutcome::skipped("not asked for");
    }
    if !others_passed {
        return CheckOutcome::skipped("fix the failed checks first");
    }
    let Some(pool) = installation.resolved.settings.default_pool() else {
        return CheckOutcome::skipped("all browsers are attached; no page is opened in them");
    };
    let Some(tool) = registry::entry(pool.engine).page_tool else {
        return CheckOutcome::skipped(format!("the {} engine's tools are its own", pool.engine));
    };
    let app = match App::build(ProcessKind::Stdio, &installation.resolved.settings, &installation.env).await {
        Ok(app) => app,
        Err(error) => return CheckOutcome::failed(format!("{error:#}")),
    };
    let opened = open_page(&app, tool).await;
    app.shut_down(std::future::ready(())).await;
    match opened {
        Ok(()) => CheckOutcome::ok("a browser opened a page"),
        Err(PageFailure { why, fix }) => CheckOutcome::failed(why)
            .fix(fix.as_deref().unwrap_or("see the checks above, or run again with --log debug")),
    }
}

/// Why no page was opened, and the fix, if one is known.
struct PageFailure {
    why: String,
    fix: Option<String>,
}

impl PageFailure {
    /// A problem without a known fix.
    fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), fix: None }
    }

    fn from_fleet_error(error: &FleetError) -> Self {
        let hint = match error {
            FleetError::Start(start) => start.hint.as_deref().filter(|hint| *hint != DOCTOR_HINT),
            _ => None,
        };
        Self { why: error.to_string(), fix: hint.map(str::to_owned) }
    }
}

/// Opens the page with a tool that takes its `url`.
async fn open_page(app: &App, tool: &'static str) -> Result<(), PageFailure> {
    // The user's policy may deny the tool to agents; doctor is no agent.
    let policy =
        Policy::new(&[], &[], BTreeSet::new(), false).map_err(|error| PageFailure::new(error.to_string()))?;
    let permit = policy.permit(&Owner::local(), tool).map_err(|error| PageFailure::new(error.to_string()))?;
    let session = SessionId::new("doctor").map_err(|error| PageFailure::new(error.to_string()))?;
    let params = encode(&json!({ "name": tool, "arguments": { "url": PAGE } }));
    let call = Call::new(tool, params);
    let (answer, _) = app
        .gateway
        .fleet
        .call(permit, SessionKey::Named(session.clone()), CallTarget::default(), call, Arc::new(NoAgent))
        .await
        .map_err(|error| PageFailure::from_fleet_error(&error))?;
    let result = answer.reply.body.map_err(|error| PageFailure::new(error.get()))?;
    let failed = Fields::open(&result).ok().and_then(|fields| fields.read::<bool>("isError").ok()?);
    if failed == Some(true) {
        return Err(PageFailure::new(format!("the engine answered: {result}")));
    }
    let sessions = app.gateway.fleet.list(&Owner::local());
    match sessions.first() {
        Some(status) if status.view.title == "greenroom" => Ok(()),
        Some(status) => Err(PageFailure::new(format!("the page's title is \"{}\"", status.view.title))),
        None => Err(PageFailure::new("the session is gone")),
    }
}
