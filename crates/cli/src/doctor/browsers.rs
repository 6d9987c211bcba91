//! Whether each browser that is to be attached to can be reached now, and how to start those that cannot. None is started
//! by this, and one that is away is only doubtful: greenroom goes on trying.

use greenroom_core::{StartError, settings::AttachedBrowser};
use greenroom_engine::Endpoint;
use tokio::task::JoinSet;

use super::{Patient, Verdict};

pub(super) async fn check(patient: &Patient) -> Verdict {
    let browsers = &patient.resolved.settings.browsers;
    if browsers.is_empty() {
        return Verdict::skipped("none are configured");
    }
    // All at once: one that is slow would cost the others their time.
    let mut asked = JoinSet::new();
    for (at, browser) in browsers.iter().enumerate() {
        let headers = browser.headers.iter().map(|header| (header.name.clone(), header.value.clone()));
        let (url, headers) = (browser.url.clone(), headers.collect());
        let endpoint = Endpoint { url, headers, start_command: Vec::new() };
        asked.spawn(async move { (at, endpoint.check().await) });
    }
    let mut answers = asked.join_all().await;
    answers.sort_by_key(|(at, _)| *at);
    let answers =
        browsers.iter().zip(answers).map(|(browser, (at, answer))| (name(at, browser), browser, answer));
    judge(answers.collect())
}

fn judge(answers: Vec<(String, &AttachedBrowser, Result<(), StartError>)>) -> Verdict {
    let (mut there, mut away, mut fixes) = (Vec::new(), Vec::new(), Vec::new());
    for (name, browser, answer) in answers {
        match answer {
            Ok(()) => there.push(name),
            Err(error) => {
                fixes.push(format!("{name}: {}", fix(browser, &error)));
                away.push(format!("{name}: {error}"));
            }
        }
    }
    if away.is_empty() {
        return Verdict::ok(format!("reached: {}", there.join(", ")));
    }
    Verdict::warning(away.join("; ")).fix(fixes.join("; "))
}

/// How people know it: by its index, and by its label or its address.
fn name(at: usize, browser: &AttachedBrowser) -> String {
    let known = browser.label.clone().unwrap_or_else(|| browser.shown_url());
    format!("browser {} ({known})", at + 1)
}

/// What to do about one that is away.
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
    use crate::doctor::Status;

    fn browser(url: &str) -> AttachedBrowser {
        AttachedBrowser::at(url.to_owned(), Pool::declared_defaults())
    }

    /// Each browser that is away is named with why and with what to do: its start command, or a hint.
    #[test]
    fn what_is_away_is_named() {
        let (one, mut two) = (browser("http://a:1"), browser("http://b:1?key=hunter2"));
        let gone = || Err(StartError::new("connection refused").hint("is it running?"));
        let all = |one_is: Result<(), StartError>, two: &AttachedBrowser| {
            let answers = vec![(name(0, &one), &one, one_is), (name(1, two), two, gone())];
            let Verdict { status, message, fix } = judge(answers);
            (status, message, fix.unwrap_or_default())
        };
        let (status, message, fix) = all(Ok(()), &two);
        assert_eq!(status, Status::Warning);
        assert_eq!(message, "browser 2 (http://b:1?***): connection refused");
        assert_eq!(fix, "browser 2 (http://b:1?***): is it running?");

        (two.label, two.start_command) = (Some("work".to_owned()), vec!["start".into(), "{url}".into()]);
        let (_, message, fix) = all(gone(), &two);
        assert_eq!(
            message,
            "browser 1 (http://a:1): connection refused; browser 2 (work): connection refused"
        );
        assert!(fix.contains("browser 2 (work): start it with `start http://b:1?***`, or let"), "{fix}");
        assert_eq!(judge(vec![(name(0, &one), &one, Ok(()))]).message, "reached: browser 1 (http://a:1)");
    }
}
