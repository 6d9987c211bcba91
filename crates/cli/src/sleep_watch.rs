//! Detects that the machine slept: one clock counts the sleep, the other stands still. The fleet then ignores health
//! checks that were missed during the sleep, and checks every browser at once.

use std::time::Duration;

use greenroom_fleet::Fleet;
use tokio_util::task::AbortOnDropHandle;

/// How often the clocks are compared. A sleep is detected at most this long after it.
const COMPARE_INTERVAL: Duration = Duration::from_secs(2);

/// A shorter gap is no sleep: the clocks are read one after the other, and a busy machine may pause in between.
const SLEEP_MIN: Duration = Duration::from_secs(5);

/// Compares the clocks until the handle is dropped.
pub fn watch(fleet: Fleet) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut ahead = clocks_apart();
        loop {
            tokio::time::sleep(COMPARE_INTERVAL).await;
            let now = clocks_apart();
            if let Some(slept) = slept(ahead, now) {
                tracing::info!(seconds = slept.as_secs(), "the machine slept; checking every browser");
                fleet.check_after_sleep();
            }
            ahead = now;
        }
    }))
}

/// How long the machine slept, by the difference of the clocks before and now.
fn slept(before: Duration, now: Duration) -> Option<Duration> {
    now.checked_sub(before).filter(|slept| *slept >= SLEEP_MIN)
}

/// How far the clock that counts sleep is ahead of the one that does not.
#[cfg(target_os = "linux")]
fn clocks_apart() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let read = |clock| Duration::try_from(clock_gettime(clock)).unwrap_or_default();
    read(ClockId::Boottime).saturating_sub(read(ClockId::Monotonic))
}

/// How far the wall clock is ahead of the clock that stands still in a sleep. If someone sets the wall clock forward,
/// the fleet makes one needless check.
#[cfg(not(target_os = "linux"))]
fn clocks_apart() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let awake = Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default();
    let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    wall.saturating_sub(awake)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A jump of one clock against the other is a sleep; a short gap is not, nor is a clock that was set back.
    #[test]
    fn only_a_large_clock_jump_counts_as_sleep() {
        let seconds = Duration::from_secs;
        assert_eq!(slept(seconds(100), seconds(3_700)), Some(seconds(3_600)));
        assert_eq!(slept(seconds(100), seconds(100) + Duration::from_millis(3)), None);
        assert_eq!(slept(seconds(100), seconds(50)), None);
        assert!(
            slept(clocks_apart(), clocks_apart()).is_none(),
            "the machine did not sleep between two lines"
        );
    }
}
