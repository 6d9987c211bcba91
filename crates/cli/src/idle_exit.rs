//! Ends an unused server: no session is open, no client or front is connected, no call runs, and no command came
//! for a while.

use std::time::Duration;

use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

/// How often the use of the server is looked at, as a part of the time after which it ends: it ends at most a tenth late.
const LOOKS: u32 = 10;

/// Returns when the server has been without use for `after`. `commands` counts commands.
pub async fn unused_for(after: Duration, mut commands: watch::Receiver<u64>, is_used: impl Fn() -> bool) {
    let mut since = Instant::now();
    while since.elapsed() < after {
        sleep((after / LOOKS).max(Duration::from_millis(10))).await;
        // A server that dropped the counter is ending anyway.
        let commanded = commands.has_changed().unwrap_or(false);
        if commanded || is_used() {
            commands.mark_unchanged();
            since = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const AFTER: Duration = Duration::from_secs(600);

    /// An unused server ends in time; use and commands begin the time anew.
    #[tokio::test(start_paused = true)]
    async fn use_begins_the_time_anew() {
        let commands = watch::Sender::new(0_u64);
        let began = Instant::now();
        unused_for(AFTER, commands.subscribe(), || false).await;
        assert!((AFTER..AFTER * 11 / 10).contains(&began.elapsed()), "{:?}", began.elapsed());

        let began = Instant::now();
        unused_for(AFTER, commands.subscribe(), || began.elapsed() < AFTER * 3).await;
        assert!(began.elapsed() >= AFTER * 39 / 10, "{:?}", began.elapsed());

        let began = Instant::now();
        let sent = Cell::new(false);
        let command = || {
            if began.elapsed() > AFTER / 2 && !sent.replace(true) {
                commands.send_modify(|count| *count += 1);
            }
            false
        };
        unused_for(AFTER, commands.subscribe(), command).await;
        assert!(began.elapsed() >= AFTER * 3 / 2, "{:?}", began.elapsed());
    }
}
