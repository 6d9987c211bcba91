//! The same commands in every attached browser with a tag: all browsers at once, one lease in each. A browser that is
//! down fails alone; an error in a command is reported before any browser is touched.

use std::sync::Arc;

use futures_util::future::join_all;
use greenroom_core::raw::encode;
use greenroom_fleet::{BrowserStatus, CallTarget, SessionKey};
use parking_lot::Mutex;
use serde::Serialize;

use super::{
    BulkArguments, progress_reporter,
    steps::{self, BulkResult, BulkRun, BulkTarget},
};
use crate::{
    catalog::ToolList,
    error_response::ErrorResponse,
    session_key,
    tools::{ToolContext, ToolOutput},
};

/// The results of the commands in all browsers.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct TaggedResult<'a> {
    success: bool,
    browser_tag: &'a str,
    browsers: Vec<BrowserResult>,
}

/// The result in one browser.
#[derive(Debug, Serialize)]
struct BrowserResult {
    #[serde(rename = "browserIndex")]
    index: u32,
    label: Option<String>,
    #[serde(flatten)]
    came_to: BrowserOutcome,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum BrowserOutcome {
    Outcome(BulkResult),
    /// No command ran there.
    Failed {
        success: bool,
        error: String,
    },
}

pub(super) async fn run(
    context: &ToolContext<'_>,
    listed: &ToolList,
    arguments: &BulkArguments,
    tag: &str,
) -> Result<ToolOutput, ErrorResponse> {
    if let Some(selector) = context.request.selector() {
        return Err(ErrorResponse::tag_and_selector(selector));
    }
    let all = context.gateway.fleet.browsers();
    let several = all.len() > 1;
    let (tagged, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|browser| has(browser, tag));
    if tagged.is_empty() {
        let mut known: Vec<&str> =
            others.iter().flat_map(|browser| &browser.tags).map(String::as_str).collect();
        known.sort_unstable();
        known.dedup();
        return Err(ErrorResponse::no_such_tag(tag, &known));
    }
    // A call must not name the only browser.
    let target = |browser: &BrowserStatus| CallTarget {
        browser: several.then(|| browser.index.to_string()),
        ..CallTarget::default()
    };
    let targets: Vec<_> = tagged.iter().map(target).collect();
    let mut ready = Vec::with_capacity(tagged.len());
    for target in &targets {
        let at = BulkTarget { session_key: &SessionKey::Ephemeral, target };
        ready.push((at, steps::check(context, listed, &arguments.commands, at).await?));
    }
    let tell = progress_reporter(context, arguments.commands.len() * tagged.len());
    let done = Arc::new(Mutex::new(0));
    let run = |(at, steps)| {
        let tell = tell.clone();
        let done = done.clone();
        let progress = Arc::new(move |_| {
            // Count and notify under one lock: progress must increase.
            let mut done = done.lock();
            *done += 1;
            tell(*done);
        });
        steps::run(context, arguments, at, steps, progress)
    };
    let ended = join_all(ready.into_iter().map(run)).await;
    let mut notes = Vec::new();
    let there = |(browser, ended): (BrowserStatus, Result<BulkRun, ErrorResponse>)| {
        let came_to = match ended {
            Ok(done) => {
                let own = session_key::notes(context.caller, &SessionKey::Ephemeral, done.notes, None);
                let own = own.into_iter().chain(done.not_recorded);
                notes.extend(own.map(|note| format!("browser {}: {note}", browser.index)));
                BrowserOutcome::Outcome(done.outcome)
            }
            Err(failure) => BrowserOutcome::Failed { success: false, error: failure.text() },
        };
        BrowserResult { index: browser.index, label: browser.label, came_to }
    };
    let browsers: Vec<_> = tagged.into_iter().zip(ended).map(there).collect();
    let success = browsers.iter().all(BrowserResult::is_success);
    let structured = encode(&TaggedResult { success, browser_tag: tag, browsers });
    Ok(ToolOutput {
        text: structured.get().to_owned(),
        structured: Some(structured),
        notes,
        failed: !success,
    })
}

fn has(browser: &BrowserStatus, tag: &str) -> bool {
    browser.tags.iter().any(|own| own == tag)
}

impl BrowserResult {
    fn is_success(&self) -> bool {
        match &self.came_to {
            BrowserOutcome::Outcome(outcome) => outcome.success,
            BrowserOutcome::Failed { success, .. } => *success,
        }
    }
}
