//! Durations as settings: whole milliseconds, or text with a unit.

use std::time::Duration;

use super::value_type::{FlagShape, GivenForm, GivenValue, InvalidValue, ValueType};

/// The longest duration, in days. A year is as good as for ever for everything here, and adding it to the clock cannot
/// overflow.
const DAYS_MAX: u64 = 365;
const MS_MAX: u64 = DAYS_MAX * 24 * 60 * 60 * 1_000;

const UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

pub(super) struct Span {
    ms_min: u64,
}

impl Span {
    pub(super) const POSITIVE: Self = Self { ms_min: 1 };
    pub(super) const FROM_ZERO: Self = Self { ms_min: 0 };
}

impl ValueType for Span {
    type Value = Duration;

    fn parse(&self, given: GivenValue<'_>) -> Result<Duration, InvalidValue> {
        match given.written {
            GivenForm::Toml(toml::Value::Integer(ms)) => u64::try_from(*ms).ok(),
            _ => given.text().and_then(milliseconds),
        }
        .filter(|ms| (self.ms_min..=MS_MAX).contains(ms))
        .map(Duration::from_millis)
        .ok_or(InvalidValue(None))
    }

    /// The largest unit that divides it, so that what was written as `5m` is shown as `5m`.
    fn show(&self, value: &Duration) -> String {
        let ms = value.as_millis();
        let exact = UNITS.iter().rev().find(|(_, unit)| ms > 0 && ms.is_multiple_of(u128::from(*unit)));
        exact.map_or_else(|| format!("{ms}ms"), |(name, unit)| format!("{}{name}", ms / u128::from(*unit)))
    }

    fn allowed(&self) -> String {
        let least = if self.ms_min == 0 { "" } else { " above zero" };
        format!("a duration{least} such as `250ms`, `30s`, `5m` or `1h`, at most {DAYS_MAX} days")
    }

    fn amount(&self, value: &Duration) -> Option<u64> {
        u64::try_from(value.as_millis()).ok()
    }

    fn shape(&self) -> FlagShape {
        FlagShape::One("DURATION".to_owned())
    }
}

/// A duration written as in a setting, for values that are not settings: `250ms`, `30s`, `5m`, `1h`, at most a year.
pub fn parse_duration(text: &str) -> Option<Duration> {
    milliseconds(text).filter(|ms| *ms <= MS_MAX).map(Duration::from_millis)
}

fn milliseconds(text: &str) -> Option<u64> {
    with_unit(text, &UNITS)
}

/// A whole number, perhaps followed by one of these units, multiplied by the unit's factor.
pub(super) fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim_start() {
        "" => 1,
        unit => units.iter().find(|(name, _)| *name == unit)?.1,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::value_type::tests::{text, toml};

    fn ms(ms: u64) -> Result<Duration, InvalidValue> {
        Ok(Duration::from_millis(ms))
    }

    /// Every unit, and milliseconds without one, read the same as text and in TOML.
    #[test]
    fn durations_are_parsed_with_units() {
        let kind = Span::POSITIVE;
        for (written, value) in
            [("250ms", 250), ("30s", 30_000), ("5m", 300_000), ("1h", 3_600_000), ("30 s", 30_000)]
        {
            assert_eq!(text(&kind, written), ms(value), "{written}");
            assert_eq!(toml(&kind, &format!("\"{written}\"")), ms(value), "{written}");
        }
        assert_eq!((text(&kind, "1500"), toml(&kind, "1500")), (ms(1_500), ms(1_500)));
    }

    /// Nonsense, fractions, zero where it is not allowed, and values that would overflow the clock are refused.
    #[test]
    fn invalid_durations_are_refused() {
        for wrong in [
            "",
            "s",
            "5 parsecs",
            "1.5s",
            "-5s",
            "5M",
            "0",
            "0s",
            "8761h",
            "99999999999999999999h",
            "18446744073709551615h",
        ] {
            assert_eq!(text(&Span::POSITIVE, wrong), Err(InvalidValue(None)), "{wrong}");
        }
        for wrong in ["-1", "1.5", "true", "[1]"] {
            assert_eq!(toml(&Span::POSITIVE, wrong), Err(InvalidValue(None)), "{wrong}");
        }
        assert_eq!((text(&Span::FROM_ZERO, "0"), text(&Span::POSITIVE, "8760h")), (ms(0), ms(MS_MAX)));
    }

    /// A duration is shown in the largest unit that says it exactly.
    #[test]
    fn duration_is_shown_in_its_largest_exact_unit() {
        for (value, shown) in [
            (0, "0ms"),
            (250, "250ms"),
            (1_500, "1500ms"),
            (90_000, "90s"),
            (300_000, "5m"),
            (7_200_000, "2h"),
        ] {
            assert_eq!(Span::FROM_ZERO.show(&Duration::from_millis(value)), shown);
        }
    }
}
