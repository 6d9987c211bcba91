//! Whether greenroom can reach each configured attached browser now, and how to start the others, a line each. This
//! check starts no browser, and an unreachable browser is only a warning: greenroom goes on trying.

use greenroom_core::{StartError, settings::AttachedBrowser};
use greenroom_engine::{Endpoint, StartCommand};
use tokio::task::JoinSet;

use super::{CheckOutcome, Installation};

pub(super) async fn check(installation: &Installation) -> Vec<CheckOutcome> {
    let browsers = &installation.resolved.settings.browsers;
    if browsers.is_empty() {
        return vec![CheckOutcome::skipped("none are configured")];
    }
    // All at once: a slow browser would delay the others.
    let mut checks = JoinSet::new();
    for (index, browser) in browsers.iter().enumerate() {
        let headers = browser.headers.iter().map(|header| (header.name.clone(), header.value.clone()));
        let url = browser.url.clone();
        let headers = headers.collect();
        let endpoint = Endpoint { url, headers, start_command: StartCommand::default() };
        checks.spawn(async move { (index, endpoint.check().await) });
    }
    let mut answers = checks.join_all().await;
    answers.sort_by_key(|(index, _)| *index);
    let answers = browsers
        .iter()
        .zip(answers)
        .map(|(browser, (index, answer))| (name(index, browser), browser, answer));
    outcomes_of(answers.collect())
}

fn outcomes_of(answers: Vec<(String, &AttachedBrowser, Result<(), StartError>)>) -> Vec<CheckOutcome> {
    let mut reachable = Vec::new();
    let mut unreachable = Vec::new();
    for (name, browser, answer) in answers {
        match answer {
            Ok(()) => reachable.push(name),
            Err(error) => {
                unreachable.push(CheckOutcome::warning(format!("{name}: {error}")).fix(fix(browser, &error)));
            }
        }
    }
    let reached =
        (!reachable.is_empty()).then(|| CheckOutcome::ok(format!("reached: {}", reachable.join(", "))));
    reached.into_iter().chain(unreachable).collect()
}

/// A browser's name for people: its index, and its label or its address.
fn name(index: usize, browser: &AttachedBrowser) -> String {
    let known = browser.label.clone().unwrap_or_else(|| browser.shown_url());
    format!("browser {} ({known})", index + 1)
}

/// The fix for an unreachable browser.
fn fix(browser: &AttachedBrowser, error: &StartError) -> String {
    if browser.start_command.is_empty() {
        return error.hint.clone().unwrap_or_else(|| "start it".to_owned());
    }
    let command = browser.start_command.join(" ").replace("{url}", &browser.shown_url());
    format!("start it with `{command}`, or let `reconnect_browser` do so")
}

#[cfg(test)]
mod tests {
    use greenroom_core::settings::Pool;

    use super::*;
    use crate::doctor::CheckStatus;

    fn browser(url: &str) -> AttachedBrowser {
        AttachedBrowser::at(url.to_owned(), Pool::declared_defaults())
    }

    /// Each unreachable browser has a line of its own, with the reason and the fix: its start command, or a hint. Reachable
    /// ones share a line.
    #[test]
    fn each_unreachable_browser_has_a_line() {
        let one = browser("http://a:1");
        let mut two = browser("http://b:1?key=hunter2");
        let three = browser("http://c:1");
        two.label = Some("work".to_owned());
        two.start_command = vec!["start".into(), "{url}".into()];
        let all = |answers: [Result<(), StartError>; 3]| {
            let browsers = [&one, &two, &three].into_iter().zip(answers).enumerate();
            let outcomes = outcomes_of(
                browsers.map(|(index, (browser, answer))| (name(index, browser), browser, answer)).collect(),
            );
            let lines =
                outcomes.into_iter().map(|CheckOutcome { status, message, fix }| (status, message, fix));
            lines.collect::<Vec<_>>()
        };
        let refused = || Err(StartError::new("connection refused").hint("is it running?"));
        let ok = |message: &str| (CheckStatus::Ok, message.to_owned(), None);
        let unreachable =
            |message: &str, fix: &str| (CheckStatus::Warning, message.to_owned(), Some(fix.to_owned()));
        let first = unreachable("browser 1 (http://a:1): connection refused", "is it running?");
        let second = unreachable(
            "browser 2 (work): connection refused",
            "start it with `start http://b:1?***`, or let `reconnect_browser` do so",
        );
        let third = unreachable("browser 3 (http://c:1): connection refused", "is it running?");
        assert_eq!(all([refused(), refused(), refused()]), [first, second.clone(), third]);
        assert_eq!(
            all([Ok(()), refused(), Ok(())]),
            [ok("reached: browser 1 (http://a:1), browser 3 (http://c:1)"), second]
        );
        two.label = None;
        assert_eq!(name(1, &two), "browser 2 (http://b:1?***)");
    }
}
