//! The tools of the installed engines are those for which the guards' tests were written.

use std::collections::BTreeMap;

use greenroom_core::{Engine, Toolset};
use serde_json::Value;

use super::{data_folder, devtools, engine, sizes};

/// The arguments of every tool, by its name.
type GuardedArguments = BTreeMap<String, Vec<String>>;

/// Every capability that can be set.
const CAPS: [&str; 7] = ["config", "network", "pdf", "storage", "testing", "vision", "devtools"];

fn arguments(offered: &Toolset) -> GuardedArguments {
    let arguments = |definition: &str| {
        let tool: Value = serde_json::from_str(definition).unwrap();
        let properties = tool["inputSchema"]["properties"].as_object().cloned().unwrap_or_default();
        let mut names: Vec<_> = properties.keys().cloned().collect();
        names.sort();
        names
    };
    offered.tools.iter().map(|tool| (tool.name.to_string(), arguments(tool.definition.get()))).collect()
}

/// The tools of the installed engines, with everything switched on, have the arguments that the guards know: all of them are
/// recorded, and every size is known.
#[tokio::test]
async fn guards_know_all_arguments() {
    let one = data_folder();
    let other = data_folder();
    let playwright = engine(one.path(), 1, &CAPS).tools().await.unwrap();
    let devtools = devtools::engine(other.path(), 1, |_| {}).tools().await.unwrap();
    recorded_arguments_are_the_engines(&playwright, &devtools);
    sizes::every_size_is_known(&playwright, &devtools);
}

/// The recorded arguments, which the fuzzing of the guards goes through, are those of the installed engines with everything
/// switched on. A developer has to review a new argument, and record it.
fn recorded_arguments_are_the_engines(playwright: &Toolset, devtools: &Toolset) {
    let recorded: GuardedArguments =
        serde_json::from_str(include_str!("../../../src/recorded/playwright-arguments.json")).unwrap();
    assert_eq!(arguments(playwright), recorded);
    let recorded: GuardedArguments =
        serde_json::from_str(include_str!("../../../src/recorded/devtools-arguments.json")).unwrap();
    assert_eq!(arguments(devtools), recorded);
}
