//! Times as greenroom writes them for programs: RFC 3339 in UTC.

use std::time::SystemTime;

use jiff::Timestamp;

/// RFC 3339 in UTC, to the second.
pub fn timestamp(time: SystemTime) -> String {
    format!("{:.0}", moment(time))
}

/// RFC 3339 in UTC, to the millisecond: for lines of a log, which come close together.
pub fn timestamp_ms(time: SystemTime) -> String {
    format!("{:.3}", moment(time))
}

/// A time in RFC 3339. `None` for any other text.
pub fn parse(text: &str) -> Option<SystemTime> {
    text.parse::<Timestamp>().ok().map(SystemTime::from)
}

/// The time as a timestamp. A time after the year 9999 becomes the epoch: such a clock is wrong anyway.
fn moment(time: SystemTime) -> Timestamp {
    Timestamp::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Times are written as RFC 3339 has them, leap years included; fractions of a second are cut off.
    #[test]
    fn timestamps_are_written_as_rfc_3339() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_826_154, "2000-02-29T12:09:14Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
        ] {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(timestamp(time + Duration::from_millis(999)), text);
            assert_eq!(parse(text), Some(time));
        }
        let later = SystemTime::UNIX_EPOCH + Duration::from_micros(1_042_900);
        assert_eq!(timestamp_ms(later), "1970-01-01T00:00:01.042Z");
        let cut = SystemTime::UNIX_EPOCH + Duration::from_millis(1_042);
        assert_eq!(parse("1970-01-01T00:00:01.042Z"), Some(cut));
        let far = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40);
        assert_eq!(timestamp(far), "1970-01-01T00:00:00Z");
    }

    /// A text that is not a time in RFC 3339 is refused.
    #[test]
    fn only_rfc_3339_times_are_parsed() {
        for odd in [
            "",
            "Z",
            "now",
            "2026-02-30T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-01T00:00:00",
        ] {
            assert_eq!(parse(odd), None, "{odd}");
        }
    }
}
