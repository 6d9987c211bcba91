//! Reports slow steps on stderr: a line for each step that takes more than a second.
//!
//! On a terminal the line counts the seconds and disappears when the step is done. Elsewhere, in a log or a CI run, it is
//! printed once and then repeated, so that a long download does not look like a hang.

use std::{
    future::Future,
    io::{self, IsTerminal, Write},
    time::Duration,
};

use greenroom_core::{port::human, printable::printable_lines};
use tokio::time::{Instant, interval_at};

const SECOND: Duration = Duration::from_secs(1);

/// How often a long step is reported again where no counter is shown.
const REMINDER_SECONDS: u64 = 30;

/// Runs a step, and reports it when it takes more than a second: `installing the engine …`.
pub async fn step<T>(what: &str, work: impl Future<Output = T>) -> T {
    let terminal = io::stderr().is_terminal();
    let start = Instant::now();
    let mut ticks = interval_at(start + SECOND, SECOND);
    let mut work = std::pin::pin!(work);
    let mut shown = false;
    let done = loop {
        tokio::select! {
            done = &mut work => break done,
            _ = ticks.tick() => {
                let seconds = start.elapsed().as_secs();
                let passed = human(Duration::from_secs(seconds));
                if terminal {
                    // The carriage return lets the next line replace this one.
                    write(&format!("\r{what} … {passed}"));
                } else if !shown {
                    write(&format!("{what} …\n"));
                } else if seconds.is_multiple_of(REMINDER_SECONDS) {
                    write(&format!("{what} … {passed}\n"));
                }
                shown = true;
            }
        }
    };
    if terminal && shown {
        write("\r\x1b[K");
    }
    done
}

/// Prints a note at once.
pub fn note(text: &str) {
    write(&format!("{}\n", printable_lines(text)));
}

fn write(text: &str) {
    let mut stderr = io::stderr().lock();
    // If stderr is closed, there is nowhere to report it.
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}
