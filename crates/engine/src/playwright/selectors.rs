//! Refuses selectors that would make all sessions of an engine lose their browser. The engine parses a selector in the
//! process that serves all sessions; for each level of `and(…)`, `or(…)` and `has: …` it writes the inner selector as a
//! string within a string, which doubles its backslashes: 25 levels of 20 letters are a message of 100 MB.

use greenroom_core::Fields;

use crate::workspace::WorkspaceRefusal;

/// Arguments of tools that are selectors.
const SELECTORS: [&str; 3] = ["target", "startTarget", "endTarget"];
/// The argument that is a list of objects with a `target` each.
const FIELDS: &str = "fields";

/// The longest selector. Agents write selectors of some hundred letters.
const BYTES_MAX: usize = 16 * 1024;

/// How deeply parentheses of a selector may be nested: the longest one then becomes at most 4 MB. Those in quotes are
/// counted too, which is simpler than finding where quotes end, and safe.
const DEPTH_MAX: usize = 8;

/// Judges every selector among a call's arguments.
pub(super) fn judge(arguments: &Fields) -> Result<(), WorkspaceRefusal> {
    for name in SELECTORS {
        if let Some(selector) = arguments.guarded::<String>(name)? {
            judge_selector(name, &selector)?;
        }
    }
    for field in arguments.guarded::<Vec<Fields>>(FIELDS)?.iter().flatten() {
        if let Some(selector) = field.guarded::<String>("target")? {
            judge_selector("target", &selector)?;
        }
    }
    Ok(())
}

fn judge_selector(name: &str, selector: &str) -> Result<(), WorkspaceRefusal> {
    if selector.len() > BYTES_MAX {
        let bytes = selector.len();
        return Err(WorkspaceRefusal::Arguments(format!(
            "`{name}` has {bytes} bytes, and {BYTES_MAX} are allowed"
        )));
    }
    let mut depth = 0_usize;
    let mut deepest = 0;
    for byte in selector.bytes() {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    if deepest > DEPTH_MAX {
        let why = format!("`{name}` nests {deepest} parentheses, and {DEPTH_MAX} are allowed");
        return Err(WorkspaceRefusal::Arguments(why));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn judge_arguments(arguments: &serde_json::Value) -> Result<(), String> {
        let fields = Fields::open(&greenroom_core::raw::encode(arguments)).unwrap();
        judge(&fields).map_err(|refused| refused.to_string())
    }

    /// Ordinary selectors pass; a selector that is too long, too deep, or not a selector at all is refused by name, in every
    /// argument.
    #[test]
    fn long_and_deep_selectors_are_refused() {
        let nested = |levels: usize| {
            format!("{}locator('a'){}", "locator('a').and(".repeat(levels), ")".repeat(levels))
        };
        assert_eq!(judge_arguments(&json!({ "target": "e7", "text": "(".repeat(99) })), Ok(()));
        assert_eq!(judge_arguments(&json!({ "target": nested(7), "startTarget": null })), Ok(()));
        assert_eq!(judge_arguments(&json!({ "target": "a:has(b:not(c))".repeat(100) })), Ok(()));
        assert_eq!(judge_arguments(&json!({ "fields": [{ "target": "e1", "value": "x" }] })), Ok(()));
        for (arguments, says) in [
            (json!({ "target": nested(8) }), "`target` nests 9 parentheses"),
            (json!({ "endTarget": nested(25) }), "`endTarget` nests"),
            (json!({ "target": "a".repeat(BYTES_MAX + 1) }), "`target` has 16385 bytes"),
            (json!({ "target": ["a"] }), "target"),
            (json!({ "fields": [{ "target": nested(9) }] }), "`target` nests"),
            (json!({ "fields": ["e1"] }), "`fields` must be a list of objects"),
            (json!({ "fields": { "0": { "target": "e1" } } }), "fields"),
        ] {
            let refused = judge_arguments(&arguments).unwrap_err();
            assert!(refused.contains(says), "{arguments}: {refused}");
        }
    }
}
