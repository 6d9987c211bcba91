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

/// A time that was written as above, with or without milliseconds. `None` for any other text.
pub fn parse(text: &str) -> Option<SystemTime> {
    let (whole, ms) = match text.strip_suffix('Z')?.split_once('.') {
        Some((whole, ms)) if ms.len() == 3 => (whole, digits(ms)?),
        Some(_) => return None,
        None => (text.strip_suffix('Z')?, 0),
    };
    let (date, time) = whole.split_once('T')?;
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time, ':')?;
    let days = days_since_epoch(year, month, day)?;
    let sound = (1..=12).contains(&month) && hour < 24 && minute < 60 && second < 60;
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second;
    // A day that its month does not have would come back as another one.
    (sound && civil(days) == (year, month, day))
        .then(|| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_millis(ms))
}

fn digits(text: &str) -> Option<u64> {
    (text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

fn numbers(text: &str, between: char) -> Option<[u64; 3]> {
    let mut parts = text.split(between).map(digits);
    let found = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(found)
}

/// The reverse of [`civil`].
fn days_since_epoch(year: u64, month: u64, day: u64) -> Option<u64> {
    let year = year.checked_sub(u64::from(month <= 2))?;
    let shifted = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted + 2) / 5 + day.checked_sub(1)?;
    let day_of_era = year % 400 * 365 + year % 400 / 4 - year % 400 / 100 + day_of_year;
    (year / 400 * 146_097 + day_of_era).checked_sub(719_468)
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
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(timestamp(time), text);
            assert_eq!(parse(text), Some(time));
        }
        let later = SystemTime::UNIX_EPOCH + Duration::from_millis(1_042);
        assert_eq!(timestamp_ms(later), "1970-01-01T00:00:01.042Z");
        assert_eq!(parse("1970-01-01T00:00:01.042Z"), Some(later));
    }

    /// Every day of four centuries is read as it is written, and what is no time is none.
    #[test]
    fn times_are_read() {
        for day in 0..146_097 {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(day * 86_400 + 86_399);
            assert_eq!(parse(&timestamp(time)), Some(time));
        }
        for odd in [
            "",
            "Z",
            "now",
            "2026-02-30T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01",
            "1969-12-31T23:59:59Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-01T00:00:00.1Z",
            "2026-01-01T00:00:00",
        ] {
            assert_eq!(parse(odd), None, "{odd}");
        }
    }
}
