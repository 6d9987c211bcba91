//! Refuses options that the devtools engine cannot fulfil.

use greenroom_core::StartError;

use crate::EngineOptions;

pub(super) fn check(options: &EngineOptions) -> Result<(), StartError> {
    if options.pool.isolated && options.attach.is_some() {
        let message = "the devtools engine makes no contexts of its own in an attached browser";
        return Err(StartError::new(message).hint("set `isolated` to false, or use the playwright engine"));
    }
    if options.pool.slots > 1 && options.attach.is_some() {
        return Err(StartError::new(format!("an attached browser has one slot, not {}", options.pool.slots))
            .hint("set `slots` to 1: its tabs share their cookies"));
    }
    if options.pool.slots > 1 && !options.pool.isolated {
        return Err(StartError::new(format!(
            "a browser that is not isolated has one slot, not {}",
            options.pool.slots
        ))
        .hint("set `slots` to 1, or `isolated` to true: two browsers cannot share a profile"));
    }
    Ok(())
}
