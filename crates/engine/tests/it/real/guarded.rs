//! The tools of the installed engines are those for which the guards' tests were written.

use std::collections::BTreeMap;

use greenroom_core::{Engine, Toolset};
use serde_json::Value;

use super::{data_folder, devtools, engine};

/// The arguments of every tool, by its name.
type Tools = BTreeMap<String, Vec<String>>;

/// Every capability that can be set.
const CAPS: [&str; 7] = ["config", "network", "pdf", "storage", "testing", "vision", "devtools"];

fn arguments(offered: &Toolset) -> Tools {
    let arguments = |definition: &str| {
        let tool: Value = serde_json::from_str(definition).unwrap();
        let properties = tool["inputSchema"]["properties"].as_object().cloned().unwrap_or_default();
        let mut names: Vec<_> = properties.keys().cloned().collect();
        names.sort();
        names
    };
    offered.tools.iter().map(|tool| (tool.name.to_string(), arguments(tool.definition.get()))).collect()
}

/// The recorded arguments, which the guards' fuzz tests use, are those of the installed engines with everything switched on.
/// A new argument has to be reviewed, and recorded.
#[tokio::test]
async fn recorded_arguments_are_the_engines() {
    let data = data_folder();
    let playwright = engine(data.path(), 1, &CAPS).tools().await.unwrap();
    let recorded: Tools =
        serde_json::from_str(include_str!("../../../src/recorded/playwright-arguments.json")).unwrap();
    assert_eq!(arguments(&playwright), recorded);
    let data = data_folder();
    let devtools = devtools::engine(data.path(), 1, |_| {}).tools().await.unwrap();
    let recorded: Tools =
        serde_json::from_str(include_str!("../../../src/recorded/devtools-arguments.json")).unwrap();
    assert_eq!(arguments(&devtools), recorded);
}
