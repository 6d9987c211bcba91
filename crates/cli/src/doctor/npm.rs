//! Whether there is an npm. Only `greenroom setup` needs one, so its absence is no failure.

use greenroom_engine::node as nodes;

use super::{CheckOutcome, Installation, node};

pub(super) async fn check(installation: &Installation) -> CheckOutcome {
    if installation.is_custom() {
        return CheckOutcome::skipped("not needed: `pool.engine` is custom");
    }
    let Ok(node) = node::find(installation).await else {
        return CheckOutcome::skipped("not looked for without Node");
    };
    let found = match nodes::npm(&node, installation.env.search_path()) {
        Ok(npm) => npm.version(&installation.launcher).await.map(|version| (npm, version)),
        Err(error) => Err(error),
    };
    match found {
        Ok((npm, version)) => CheckOutcome::ok(format!("{version}: `{}`", npm.path.display())),
        Err(error) => {
            CheckOutcome::warning(format!("{error}; `greenroom setup` needs it to install the engine"))
                .fix(error.hint())
        }
    }
}
