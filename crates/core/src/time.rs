//! Times as greenroom writes them for programs: RFC 3339 in UTC.

use std::time::{Duration, SystemTime};

/// RFC 3339 in UTC, to the second.
pub fn timestamp(time: SystemTime) -> String {
    format!("{}Z", to_the_second(since_epoch(time).as_secs()))
}

/// RFC 3339 in UTC, to the millisecond: lines of a log come closer together.
pub fn timestamp_ms(time: SystemTime) -> String {
    let since = since_epoch(time);
    format!("{}.{:03}Z", to_the_second(since.as_secs()), since.subsec_millis())
}

/// A clock before 1970 is as good as none.
fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

fn to_the_second(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// The date so many days after 1970-01-01. Years begin in March here, so that the leap day comes last.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times are written as RFC 3339 has them, leap years included.
    #[test]
    fn timestamps() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_826_154, "2000-02-29T12:09:14Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
        ] {
            assert_eq!(timestamp(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
        let later = SystemTime::UNIX_EPOCH + Duration::from_millis(1_042);
        assert_eq!(timestamp_ms(later), "1970-01-01T00:00:01.042Z");
    }
}
