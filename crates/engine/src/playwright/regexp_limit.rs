//! Bounds the time of regular expressions in the engine's process, which may serve many sessions: `limit.cjs`, which Node
//! loads before the engine. This module puts it where Node finds it.

use std::{io, path::Path};

use crate::launcher::Spec;

const SCRIPT: (&str, &str) = ("regexp_limit.cjs", include_str!("regexp_limit/limit.cjs"));

/// Writes the script into an instance's folder.
pub(super) fn write(instance: &Path) -> io::Result<()> {
    std::fs::write(instance.join(SCRIPT.0), SCRIPT.1)
}

/// Has Node load the script. Node takes its own options only in front of the program.
pub(super) fn configure(mut spec: Spec, instance: &Path) -> Spec {
    spec.args.splice(0..0, ["--require".into(), instance.join(SCRIPT.0).into()]);
    spec
}
