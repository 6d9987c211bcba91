//! What Chromium writes to stderr, and which of its lines may be shown to others.
//!
//! A headless Chromium prints the consoles of all sessions' pages, line breaks included. Its log and its
//! errors reach people and agents of other sessions. So only lines that Chromium's own sources wrote are used
//! at all, and only its errors explain its end. A line looks like `[1117/093806.1:ERROR:dbus/bus.cc:405] …`,
//! with `pid:tid:` in front in builds that can open windows.

use crate::process::StderrUse;

const SEVERITIES: [&str; 4] = ["INFO", "WARNING", "ERROR", "FATAL"];

/// The source that Chromium names in lines of pages' consoles.
const CONSOLE: &str = "CONSOLE";

/// Chromium complains about every desktop service that a server does not have. None of it ever ended a browser.
const NOISE: [&str; 4] = ["dbus/", "gpu/", "vaapi", "google_apis/gcm"];

/// The parsed beginning of a line: which source wrote it, and its severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Header<'a> {
    severity: &'a str,
    source: &'a str,
}

/// How a line of one of greenroom's Chromiums may be used. Before Chromium is ready it has no page, so every line may be
/// shown, and the reason why it does not start often comes from the system's loader.
pub(crate) fn classify(line: &str, is_ready: bool) -> StderrUse {
    match header(line) {
        Some(header) if header.is_console() => StderrUse::Discard,
        Some(Header { severity: "FATAL", .. }) => StderrUse::ExplainsExit,
        Some(header) if NOISE.iter().any(|noise| header.source.contains(noise)) => StderrUse::LogOnly,
        Some(Header { severity: "ERROR", .. }) => StderrUse::ExplainsExit,
        Some(_) => StderrUse::LogOnly,
        None if is_ready => StderrUse::Discard,
        None => StderrUse::ExplainsExit,
    }
}

/// Whether a Chromium that ended at its start reported that there is no screen for its windows. It does so in two lines,
/// neither of which says what to do.
pub(crate) fn reports_missing_screen(stderr_tail: &str) -> bool {
    ["Missing X server", "Failed to connect to Wayland display", "The platform failed to initialize"]
        .iter()
        .any(|message| stderr_tail.contains(message))
}

/// The output of an attached browser without its pages' text: without console lines, and without what follows each up to
/// Chromium's own next line.
pub(crate) fn without_page_output(output: &str) -> String {
    let mut is_page_output = false;
    let mut kept = String::with_capacity(output.len());
    for line in output.lines() {
        if let Some(header) = header(line) {
            is_page_output = header.is_console();
        }
        if !is_page_output {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

impl Header<'_> {
    fn is_console(&self) -> bool {
        self.source.starts_with(CONSOLE)
    }
}

fn header(line: &str) -> Option<Header<'_>> {
    let (head, _) = line.strip_prefix('[')?.split_once("] ")?;
    let mut fields = head.split(':').skip_while(|field| !is_time(field)).skip(1);
    let severity = fields.next()?;
    let known = SEVERITIES.contains(&severity) || severity.starts_with("VERBOSE");
    Some(Header { severity, source: fields.next()? }).filter(|_| known)
}

/// `1117/093806.063901`: month and day, time of day.
fn is_time(field: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts = field.split_once('/').and_then(|(day, time)| Some((day, time.split_once('.')?)));
    parts.is_some_and(|(day, (time, fraction))| digits(day) && digits(time) && digits(fraction))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chromium's own errors explain an end, its other lines go to the log, and pages' text is dropped.
    #[test]
    fn lines_are_classified_by_severity() {
        for (line, expected) in [
            (
                "[1117/093806.2:FATAL:content/browser/gpu/gpu_data_manager_impl_private.cc:415] GPU process isn't usable.",
                StderrUse::ExplainsExit,
            ),
            (
                "[1117/093806.8:FATAL:zygote_host_impl_linux.cc(128)] No usable sandbox!",
                StderrUse::ExplainsExit,
            ),
            (
                "[87:88:1117/093824.5:ERROR:ui/ozone/x11.cc:250] Missing X server or $DISPLAY",
                StderrUse::ExplainsExit,
            ),
            ("[1117/203506.8:ERROR:dbus/bus.cc:405] Failed to connect to the bus", StderrUse::LogOnly),
            ("[1117/203506.8:WARNING:sandbox/linux.cc:405] InitializeSandbox()", StderrUse::LogOnly),
            ("[1117/203506.8:VERBOSE1:a.cc:4] x", StderrUse::LogOnly),
            ("[1117/203506.8:INFO:CONSOLE:1] \"secret\", source: http://a/ (1)", StderrUse::Discard),
            ("[9:9:1117/203506.8:INFO:CONSOLE(12)] \"secret\", source: http://a/ (12)", StderrUse::Discard),
            ("[1117/203506.8:ERROR:CONSOLE:1] \"secret\"", StderrUse::Discard),
            ("the second line of a secret", StderrUse::Discard),
            ("[secret] in brackets", StderrUse::Discard),
            ("[a:ERROR:b.cc] no time", StderrUse::Discard),
            ("", StderrUse::Discard),
        ] {
            assert_eq!(classify(line, true), expected, "{line}");
        }
        assert_eq!(
            classify("chromium: error while loading shared libraries: libnss3.so", false),
            StderrUse::ExplainsExit
        );
    }

    /// Chromium's message about a missing screen is recognised, for X and Wayland.
    #[test]
    fn missing_screen_is_recognised() {
        let x11 = "[7:7:1117/160359.3:ERROR:ui/ozone/platform/x11/ozone_platform_x11.cc:257] Missing X server or $DISPLAY";
        let wayland = "[7:7:1117/160359.3:ERROR:ui/ozone/platform/wayland/x.cc:1] Failed to connect to Wayland display: No such file";
        let both =
            "[7:7:1117/160359.3:ERROR:ui/aura/env.cc:253] The platform failed to initialize.  Exiting.";
        assert!([x11, wayland, both].into_iter().all(reports_missing_screen));
        assert!(!reports_missing_screen(
            "[7:7:1117/160359.3:ERROR:dbus/bus.cc:405] Failed to connect to the bus"
        ));
    }

    /// A console line is removed with everything that follows it, up to Chromium's own next line.
    #[test]
    fn console_lines_are_removed() {
        let output = "cannot open display\n[1117/1.1:INFO:CONSOLE:1] \"secret\nin two lines\", source: x (1)\n\
                      [1117/1.2:ERROR:a.cc:1] why\nand more\n";
        let kept = "cannot open display\n[1117/1.2:ERROR:a.cc:1] why\nand more\n";
        assert_eq!(without_page_output(output), kept);
    }
}
