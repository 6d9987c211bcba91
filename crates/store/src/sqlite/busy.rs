//! How a connection waits for another process that writes.
//!
//! SQLite's own wait begins with a millisecond, twenty times as long as a commit takes. This handler first
//! yields the processor a few times; most waits end there.

use std::{
    thread,
    time::{Duration, Instant},
};

use rusqlite::Connection;

/// How long a writer waits for others. A commit takes microseconds and a checkpoint some milliseconds; a process that
/// holds the database for longer than this is suspended, and calls must not wait for it.
pub(crate) const BUSY_WITHIN: Duration = Duration::from_secs(2);

/// How often the thread yields before it sleeps. About 50 µs on an idle machine.
const YIELDS_MAX: i32 = 32;

/// The pause between two later attempts.
const RETRY_PAUSE: Duration = Duration::from_micros(500);

pub(crate) fn install(connection: &mut Connection) -> rusqlite::Result<()> {
    let mut since = Instant::now();
    connection.busy_handler(Some(move |turn| {
        if turn == 0 {
            since = Instant::now();
        }
        if turn < YIELDS_MAX {
            thread::yield_now();
        } else {
            // No thread unparks this one: there is no event for a lock of another process.
            thread::park_timeout(RETRY_PAUSE);
        }
        since.elapsed() < BUSY_WITHIN
    }))
}
