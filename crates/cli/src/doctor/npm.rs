//! Whether there is an npm. Only `greenroom setup` needs one, so its absence is no failure.

use greenroom_engine::node as nodes;

use super::{Patient, Verdict, node};

pub(super) async fn check(patient: &Patient) -> Verdict {
    if patient.is_custom() {
        return Verdict::skipped("not needed: `pool.engine` is custom");
    }
    let Ok(node) = node::find(patient).await else {
        return Verdict::skipped("not looked for without Node");
    };
    let found = match nodes::npm(&node, patient.surroundings.search_path()) {
        Ok(npm) => npm.version(&patient.launcher).await.map(|version| (npm, version)),
        Err(error) => Err(error),
    };
    match found {
        Ok((npm, version)) => Verdict::ok(format!("{version}: `{}`", npm.path.display())),
        Err(error) => Verdict::warning(format!("{error}; `greenroom setup` needs it to install the engine"))
            .fix(error.hint()),
    }
}
