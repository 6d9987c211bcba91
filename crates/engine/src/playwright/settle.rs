//! Settling after an action: the engine's fixed wait ends early, as soon as nothing is pending that could still
//! change the page.
//!
//! The engine waits by evaluating a timer in the page. `settle/engine.cjs`, which the engine loads for each of its pages,
//! answers that evaluation instead, with the help of `settle/page.js` in every document, which `wait_until_idle.cjs` asks.
//! This module writes these scripts where the engine finds them. It parses no answer: the engine takes its snapshot after
//! the wait, and its answers stay unchanged. See `docs/decisions/011-settle.md`.

use std::{io, path::Path, time::Duration};

use crate::launcher::ProcessSpec;

/// The longest time that a page may settle after an action: the engine's own default. A document that cannot be observed
/// takes all of it.
pub(super) const SETTLE_TIMEOUT: Duration = Duration::from_millis(500);

const ENGINE: (&str, &str) = ("engine.cjs", include_str!("settle/engine.cjs"));
const WAIT_UNTIL_IDLE: (&str, &str) = ("wait_until_idle.cjs", include_str!("settle/wait_until_idle.cjs"));
const PAGE: (&str, &str) = ("page.js", include_str!("settle/page.js"));

/// Below an instance's folder.
const FOLDER: &str = "settle";

/// Writes the scripts into an instance's folder.
pub(super) fn write(instance: &Path) -> io::Result<()> {
    let folder = instance.join(FOLDER);
    std::fs::create_dir(&folder)?;
    for (name, source) in [ENGINE, WAIT_UNTIL_IDLE, PAGE] {
        std::fs::write(folder.join(name), source)?;
    }
    Ok(())
}

/// Makes the engine wait for the time that the user set, or else until the scripts in the instance's folder find the
/// page at rest.
pub(super) fn configure(spec: ProcessSpec, set: Option<Duration>, instance: &Path) -> ProcessSpec {
    let spec = match set {
        Some(_) => spec,
        None => spec.arg("--init-page").arg(instance.join(FOLDER).join(ENGINE.0)),
    };
    spec.arg("--timeout-settle").arg(set.unwrap_or(SETTLE_TIMEOUT).as_millis().to_string())
}

/// Makes the engine wait for the time that the user set, or for its default.
pub(super) fn configure_fixed_wait(spec: ProcessSpec, set: Option<Duration>) -> ProcessSpec {
    match set {
        Some(set) => spec.arg("--timeout-settle").arg(set.as_millis().to_string()),
        None => spec,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// greenroom gives the engine the same time by which the script recognises the wait.
    #[test]
    fn engine_and_script_have_the_same_time() {
        assert!(ENGINE.1.contains(&format!("const SETTLE_TIMEOUT_MS = {};", SETTLE_TIMEOUT.as_millis())));
    }

    /// The engine's script accepts a document's account only if it has the form of an honest one. With any other the
    /// engine waits its full time: a list that is too long, or not a list, is not iterated, and only the beginning of
    /// an address counts, so that a long one costs no more than a short one.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test of what Node does with the script")]
    fn invalid_page_accounts_do_not_end_the_wait() {
        /// A page whose one document gives the account of the first argument, while the response to a fetch of the second
        /// argument's address has begun. Timers stand still: prints whether the page is found at rest before the time is
        /// over.
        const PAGE: &str = "
            const { EventEmitter } = require('node:events');
            const timers = [];
            globalThis.setTimeout = (run) => timers.push(run);
            globalThis.clearTimeout = () => {};
            const [read, url] = JSON.parse(process.argv[1]);
            const page = new EventEmitter();
            const frame = { evaluate: async () => ({ waited: false, opened: 0, going: 0, read }) };
            const context = { addInitScript: async () => {} };
            Object.assign(page, { isClosed: () => false, mainFrame: () => frame, frames: () => [frame],
                context: () => context, evaluate: async () => { throw new Error('the engine was to rest'); } });
            (async () => {
                await require('./settle/engine.cjs').default({ page });
                page.on('request', () => {});
                if (url) {
                    const request = { url: () => url, resourceType: () => 'fetch' };
                    page.emit('request', request);
                    page.emit('response', { request: () => request, finished: async () => null });
                }
                let rested = false;
                const resting = page.evaluate((ms) => new Promise((f) => setTimeout(f, ms)), 500)
                    .then(() => { rested = true; });
                for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate);
                console.log(rested ? 'at rest' : 'waits');
                timers.forEach((run) => run());
                await resting;
            })();";
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        let found = |read: serde_json::Value, url: &str| {
            let account = serde_json::json!([read, url]).to_string();
            let mut node = std::process::Command::new("node");
            let run = node.args(["-e", PAGE, &account]).current_dir(folder.path()).output().unwrap();
            assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
            String::from_utf8(run.stdout).unwrap().trim().to_owned()
        };
        let urls = |count| serde_json::json!(vec!["http://a.example/"; count]);
        assert_eq!(found(urls(0), ""), "at rest");
        assert_eq!(found(urls(64), ""), "at rest");
        assert_eq!(found(urls(65), ""), "waits");
        for none in
            [serde_json::json!("http://a.example/"), serde_json::json!({"length": 1}), serde_json::json!([7])]
        {
            assert_eq!(found(none.clone(), ""), "waits", "{none}");
        }
        let long = format!("http://a.example/{}", "x".repeat(5_000));
        assert_eq!(found(urls(0), &long), "at rest", "the page does not read the body");
        assert_eq!(found(serde_json::json!([format!("{long}1")]), &format!("{long}2")), "waits");
    }
}
