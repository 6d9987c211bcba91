//! Whether there is a Node that can run the engine.

use greenroom_engine::node::{self, NoNode, Node};

use super::{Patient, Verdict};

pub(super) async fn check(patient: &Patient) -> Verdict {
    if patient.is_custom() {
        return Verdict::skipped("not needed: `pool.engine` is custom");
    }
    match find(patient).await {
        Ok(Node { path, version }) => Verdict::ok(format!("{version}: `{}`", path.display())),
        Err(error) => Verdict::failed(error.to_string()).fix(error.hint()),
    }
}

/// The Node the engine would run on.
pub(super) async fn find(patient: &Patient) -> Result<Node, NoNode> {
    let named = patient.resolved.settings.node.as_deref();
    node::find(&patient.launcher, named, patient.surroundings.search_path()).await
}
