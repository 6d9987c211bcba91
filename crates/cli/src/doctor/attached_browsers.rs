//! Whether each configured attached browser can be reached now, and how to start those that cannot, a line each. This
//! check starts none, and an unreachable one is only a warning: greenroom goes on trying.

use greenroom_core::{StartError, settings::AttachedBrowser};
use greenroom_engine::{Endpoint, StartCommand};
use tokio::task::JoinSet;

use super::{Patient, Verdict};

pub(super) async fn check(patient: &Patient) -> Vec<Verdict> {
    let browsers = &patient.resolved.settings.browsers;
    if browsers.is_empty() {
        return vec![Verdict::skipped("none are configured")];
    }
    // All at once: a slow one would delay the others.
    let mut asked = JoinSet::new();
    for (at, browser) in browsers.iter().enumerate() {
        let headers = browser.headers.iter().map(|header| (header.name.clone(), header.value.clone()));
        let (url, headers) = (browser.url.clone(), headers.collect());
        let endpoint = Endpoint { url, headers, start_command: StartCommand::default() };
        asked.spawn(async move { (at, endpoint.check().await) });
    }
    let mut answers = asked.join_all().await;
    answers.sort_by_key(|(at, _)| *at);
    let answers =
        browsers.iter().zip(answers).map(|(browser, (at, answer))| (name(at, browser), browser, answer));
    judge(answers.collect())
}

fn judge(answers: Vec<(String, &AttachedBrowser, Result<(), StartError>)>) -> Vec<Verdict> {
    let (mut there, mut away) = (Vec::new(), Vec::new());
    for (name, browser, answer) in answers {
        match answer {
            Ok(()) => there.push(name),
            Err(error) => away.push(Verdict::warning(format!("{name}: {error}")).fix(fix(browser, &error))),
        }
    }
    let reached = (!there.is_empty()).then(|| Verdict::ok(format!("reached: {}", there.join(", "))));
    reached.into_iter().chain(away).collect()
}

/// Its name for people: its index, and its label or its address.
fn name(at: usize, browser: &AttachedBrowser) -> String {
    let known = browser.label.clone().unwrap_or_else(|| browser.shown_url());
    format!("browser {} ({known})", at + 1)
}

/// The fix for an unreachable one.
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
    fn what_is_away_is_named() {
        let (one, mut two, three) =
            (browser("http://a:1"), browser("http://b:1?key=hunter2"), browser("http://c:1"));
        (two.label, two.start_command) = (Some("work".to_owned()), vec!["start".into(), "{url}".into()]);
        let all = |answers: [Result<(), StartError>; 3]| {
            let browsers = [&one, &two, &three].into_iter().zip(answers).enumerate();
            let verdicts = judge(browsers.map(|(at, (of, answer))| (name(at, of), of, answer)).collect());
            let lines = verdicts.into_iter().map(|Verdict { status, message, fix }| (status, message, fix));
            lines.collect::<Vec<_>>()
        };
        let gone = || Err(StartError::new("connection refused").hint("is it running?"));
        let ok = |message: &str| (CheckStatus::Ok, message.to_owned(), None);
        let away =
            |message: &str, fix: &str| (CheckStatus::Warning, message.to_owned(), Some(fix.to_owned()));
        let first = away("browser 1 (http://a:1): connection refused", "is it running?");
        let second = away(
            "browser 2 (work): connection refused",
            "start it with `start http://b:1?***`, or let `reconnect_browser` do so",
        );
        let third = away("browser 3 (http://c:1): connection refused", "is it running?");
        assert_eq!(all([gone(), gone(), gone()]), [first, second.clone(), third]);
        assert_eq!(
            all([Ok(()), gone(), Ok(())]),
            [ok("reached: browser 1 (http://a:1), browser 3 (http://c:1)"), second]
        );
        two.label = None;
        assert_eq!(name(1, &two), "browser 2 (http://b:1?***)");
    }
}
