//! Has the page refuse results that are too long, before it sends them.
//!
//! The browser's process turns a result into JSON on the thread that serves all sessions, 400 MB in about 3 s. Its server
//! then drops a message of more than 256 MiB, so the call gets no answer at all. [`super::answer_limit`] sees results too late
//! for both. Playwright calls every function through the same line of script; the proxy replaces it by one that measures
//! the result. In a world of the engine's, where snapshots are taken, no page can change what that script does. A page
//! that does so in its own world is ended for the browser's work ([`crate::overload`]).

use std::sync::LazyLock;

use greenroom_cdp::message_stream::Text;
use serde_json::json;

use super::{
    answer_limit::{RETURN_LESS, VALUE_BYTES_MAX},
    script::without_comments,
};

/// Where Playwright's calls have the line of script, as JSON.
const ENGINE_CALL: &str =
    r#""params":{"functionDeclaration":"(utilityScript, ...args) => utilityScript.evaluate(...args)","#;

/// Number, method and session come before it.
const HEAD_BYTES_MAX: usize = 256;

static BOUNDED_CALL: LazyLock<String> = LazyLock::new(|| {
    let hint = json!(format!(". {RETURN_LESS}"));
    let script = without_comments(include_str!("bounded_calls/call.js"));
    let script = script.replace("BYTES_MAX", &VALUE_BYTES_MAX.to_string()).replace("HINT", &hint.to_string());
    format!(r#""params":{{"functionDeclaration":{},"#, json!(script))
});

/// Playwright's call of a function, with a limit of its result. `None` for any other call.
pub(super) fn bounded(call: &str) -> Option<Text> {
    let head = &call[..call.floor_char_boundary(HEAD_BYTES_MAX)];
    let start = head.find(ENGINE_CALL)?;
    let (before, after) = (&call[..start], &call[start + ENGINE_CALL.len()..]);
    Some(format!("{before}{}{after}", *BOUNDED_CALL).into())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Playwright's calls are replaced, and keep all else; other calls pass.
    #[test]
    fn calls_of_playwright_are_bounded() {
        let engine_call = r#"{"id":26,"method":"Runtime.callFunctionOn","params":{"functionDeclaration":"(utilityScript, ...args) => utilityScript.evaluate(...args)","objectId":"-2.3.1","arguments":[{"value":"ä"}],"returnByValue":true},"sessionId":"S"}"#;
        let bounded_call: Value = serde_json::from_str(&bounded(engine_call).unwrap()).unwrap();
        let mut expected: Value = serde_json::from_str(engine_call).unwrap();
        let script = bounded_call["params"]["functionDeclaration"].as_str().unwrap();
        assert!(
            script.contains("16777216") && !script.contains("HINT") && !script.contains("BYTES_MAX"),
            "{script}"
        );
        // Stacks of errors show where Playwright's line calls its function.
        let before = expected["params"]["functionDeclaration"].as_str().unwrap().find("evaluate");
        assert_eq!(script.find("evaluate"), before);
        assert!(!script[..script.find("evaluate").unwrap()].contains('\n'));
        expected["params"]["functionDeclaration"] = script.into();
        assert_eq!(bounded_call, expected);

        for other in [
            engine_call.replace("args)\"", "args) \""),
            format!(r#"{{"id":1,"params":{{"arguments":["{}"]}}}}"#, engine_call.replace('"', "\\\"")),
            format!("{}{engine_call}", " ".repeat(HEAD_BYTES_MAX)),
            String::new(),
        ] {
            assert_eq!(bounded(&other), None, "{other}");
        }
    }
}
