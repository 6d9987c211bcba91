//! Ends an unused server: no session is open, no client or front is connected, no call runs, and no command came
//! for a while.

use std::time::Duration;

use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

/// How often the use of the server is checked within `timeout`. The server ends at most a tenth of `timeout` too late.
const CHECKS_PER_TIMEOUT: u32 = 10;

/// Returns when the server has been without use for `timeout`. `commands` changes with each command that the server gets.
pub async fn unused_for(timeout: Duration, mut commands: watch::Receiver<u64>, is_used: impl Fn() -> bool) {
    let mut since = Instant::now();
    while since.elapsed() < timeout {
        sleep((timeout / CHECKS_PER_TIMEOUT).max(Duration::from_millis(10))).await;
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

    const TIMEOUT: Duration = Duration::from_secs(600);

    /// An unused server ends in time; a use or a command restarts the timeout.
    #[tokio::test(start_paused = true)]
    async fn use_or_command_restarts_the_timeout() {
        let commands = watch::Sender::new(0_u64);
        let began = Instant::now();
        unused_for(TIMEOUT, commands.subscribe(), || false).await;
        assert!((TIMEOUT..TIMEOUT * 11 / 10).contains(&began.elapsed()), "{:?}", began.elapsed());

        let began = Instant::now();
        unused_for(TIMEOUT, commands.subscribe(), || began.elapsed() < TIMEOUT * 3).await;
        assert!(began.elapsed() >= TIMEOUT * 39 / 10, "{:?}", began.elapsed());

        let began = Instant::now();
        let sent = Cell::new(false);
        let command = || {
            if began.elapsed() > TIMEOUT / 2 && !sent.replace(true) {
                commands.send_modify(|count| *count += 1);
            }
            false
        };
        unused_for(TIMEOUT, commands.subscribe(), command).await;
        assert!(began.elapsed() >= TIMEOUT * 3 / 2, "{:?}", began.elapsed());
    }
}
