//! What settings demand of each other. Called by `resolve` when every source is read.

use std::collections::BTreeSet;

use super::{
    choice::EngineKind,
    problem::Problem,
    resolve::{Origin, Resolved},
};

/// Settings that do not go together. A setting in `wrong` has no value worth comparing.
pub(super) fn conflicts(resolved: &Resolved, wrong: &BTreeSet<&'static str>) -> Vec<Problem> {
    let pool = &resolved.settings.pool;
    let custom = pool.engine == EngineKind::Custom;
    let from = |key: &str| match resolved.origin(key) {
        Origin::Default => "the default".to_owned(),
        origin => format!("from {origin}"),
    };
    let mut problems = Vec::new();
    let mut demand = |keys: &[&str], broken: bool, message: &dyn Fn() -> String, hint: &str| {
        if broken && !keys.iter().any(|key| wrong.contains(key)) {
            problems.push(Problem::Conflict { message: message(), hint: hint.to_owned() });
        }
    };
    demand(
        &["pool.engine", "pool.command"],
        custom && pool.command.is_empty(),
        &|| format!("`pool.engine` is `custom` ({}), but `pool.command` is empty", from("pool.engine")),
        "set `pool.command` to the program of the MCP server and its arguments",
    );
    demand(
        &["pool.engine", "pool.command"],
        !custom && !pool.command.is_empty(),
        &|| {
            let (command, engine) = (from("pool.command"), from("pool.engine"));
            format!("`pool.command` is set ({command}), but `pool.engine` is `{}` ({engine})", pool.engine)
        },
        "set `pool.engine` to `custom`, or leave `pool.command` out",
    );
    demand(
        &["pool.engine", "pool.slots", "tools.unsafe"],
        resolved.settings.tools.r#unsafe && pool.slots > 1 && !custom,
        &|| {
            let (unsafe_from, slots_from) = (from("tools.unsafe"), from("pool.slots"));
            format!(
                "`tools.unsafe` ({unsafe_from}) requires `pool.slots` to be 1, but it is {} ({slots_from})",
                pool.slots
            )
        },
        "set `pool.slots` to 1: code in the engine's process reaches every session of that process",
    );
    problems
}
