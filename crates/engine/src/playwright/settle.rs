//! How a page settles after an action: the engine's fixed wait ends as soon as nothing is pending that could still
//! change the page.
//!
//! The engine waits by evaluating a timer in the page. `settle/engine.cjs`, which the engine loads for each of its
//! pages, answers that evaluation in its place, with the help of `settle/page.js` in every document, which `look.cjs`
//! asks. This module puts them where the engine finds them. It looks into no answer: the engine takes its snapshot when it is let go on,
//! and its answers stay its own. See `docs/decisions/011-settle.md`.

use std::{io, path::Path, time::Duration};

use crate::launcher::Spec;

/// The longest that a page is let settle each time: the engine's own default. A document that cannot be observed
/// takes all of it.
pub(super) const LONGEST: Duration = Duration::from_millis(500);

const ENGINE: (&str, &str) = ("engine.cjs", include_str!("settle/engine.cjs"));
const LOOK: (&str, &str) = ("look.cjs", include_str!("settle/look.cjs"));
const PAGE: (&str, &str) = ("page.js", include_str!("settle/page.js"));

/// Below an instance's folder.
const FOLDER: &str = "settle";

/// Writes the scripts into an instance's folder.
pub(super) fn write(instance: &Path) -> io::Result<()> {
    let folder = instance.join(FOLDER);
    std::fs::create_dir(&folder)?;
    for (name, source) in [ENGINE, LOOK, PAGE] {
        std::fs::write(folder.join(name), source)?;
    }
    Ok(())
}

/// Has the engine settle as a user set it, for that long each time; or by observing, with the scripts that were
/// written into the instance's folder.
pub(super) fn configure(spec: Spec, set: Option<Duration>, instance: &Path) -> Spec {
    let spec = match set {
        Some(_) => spec,
        None => spec.arg("--init-page").arg(instance.join(FOLDER).join(ENGINE.0)),
    };
    spec.arg("--timeout-settle").arg(set.unwrap_or(LONGEST).as_millis().to_string())
}

/// Has the engine settle as a user set it, or as it does by itself.
pub(super) fn fixed(spec: Spec, set: Option<Duration>) -> Spec {
    match set {
        Some(set) => spec.arg("--timeout-settle").arg(set.as_millis().to_string()),
        None => spec,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The engine is told the time by which its script knows the wait that it ends.
    #[test]
    fn both_know_the_same_time() {
        assert!(ENGINE.1.contains(&format!("const LONGEST_MS = {};", LONGEST.as_millis())));
    }
}
