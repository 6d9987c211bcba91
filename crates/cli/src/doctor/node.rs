//! Whether there is a Node that can run the engines.

use greenroom_engine::node::{self, Node, NodeError};

use super::{CheckOutcome, Installation};
use crate::packages;

pub(super) async fn check(installation: &Installation) -> CheckOutcome {
    if installation.is_custom() {
        return CheckOutcome::skipped("not needed: `pool.engine` is custom");
    }
    match find(installation).await {
        Ok(Node { path, version }) => CheckOutcome::ok(format!("{version}: `{}`", path.display())),
        Err(error) => CheckOutcome::failed(error.to_string()).fix(error.hint()),
    }
}

/// The Node that runs the engines, if its version suits all of them.
pub(super) async fn find(installation: &Installation) -> Result<Node, NodeError> {
    let settings = &installation.resolved.settings;
    let path = installation.env.search_path();
    let node = node::find(&installation.launcher, settings.node.as_deref(), path).await?;
    packages::required(settings).iter().try_for_each(|package| package.runs_on(&node))?;
    Ok(node)
}
