//! Whether there is a Node that can run the engines.

use greenroom_engine::node::{self, Node, NodeError};

use super::{Patient, Verdict};
use crate::packages;

pub(super) async fn check(patient: &Patient) -> Verdict {
    if patient.is_custom() {
        return Verdict::skipped("not needed: `pool.engine` is custom");
    }
    match find(patient).await {
        Ok(Node { path, version }) => Verdict::ok(format!("{version}: `{}`", path.display())),
        Err(error) => Verdict::failed(error.to_string()).fix(error.hint()),
    }
}

/// The Node that all engines would run on.
pub(super) async fn find(patient: &Patient) -> Result<Node, NodeError> {
    let settings = &patient.resolved.settings;
    let path = patient.surroundings.search_path();
    let node = node::find(&patient.launcher, settings.node.as_deref(), path).await?;
    packages::needed(settings).iter().try_for_each(|package| package.runs_on(&node))?;
    Ok(node)
}
