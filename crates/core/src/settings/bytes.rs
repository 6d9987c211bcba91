//! Sizes as settings: whole bytes, or text with a unit.

use std::ops::RangeInclusive;

use super::{
    duration::with_unit,
    value_type::{FlagShape, GivenForm, GivenValue, InvalidValue, ValueType},
};

const UNITS: [(&str, u64); 4] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];

pub(super) struct Bytes(pub(super) RangeInclusive<u64>);

impl ValueType for Bytes {
    type Value = u64;

    fn parse(&self, given: GivenValue<'_>) -> Result<u64, InvalidValue> {
        match given.written {
            GivenForm::Toml(toml::Value::Integer(bytes)) => u64::try_from(*bytes).ok(),
            _ => given.text().and_then(|text| with_unit(text, &UNITS)),
        }
        .filter(|bytes| self.0.contains(bytes))
        .ok_or(InvalidValue(None))
    }

    /// Uses the largest unit that divides the value.
    fn show(&self, value: &u64) -> String {
        let exact = UNITS.iter().rev().find(|(_, unit)| *value > 0 && value.is_multiple_of(*unit));
        exact.map_or_else(|| value.to_string(), |(name, unit)| format!("{}{name}", value / unit))
    }

    fn allowed(&self) -> String {
        format!(
            "a size such as `512MiB` or `2GiB`, {} to {}",
            self.show(self.0.start()),
            self.show(self.0.end())
        )
    }

    fn shape(&self) -> FlagShape {
        FlagShape::One("SIZE".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::value_type::tests::{text, toml};

    /// Every unit, and bytes without one, read the same as text and in TOML; nonsense and overflow are refused.
    #[test]
    fn byte_sizes_are_parsed_with_units() {
        let kind = Bytes(1 << 20..=1 << 50);
        assert_eq!((text(&kind, "512MiB"), toml(&kind, "\"2 GiB\"")), (Ok(512 << 20), Ok(2 << 30)));
        assert_eq!((text(&kind, "1048577"), toml(&kind, "1048577")), (Ok(1_048_577), Ok(1_048_577)));
        for wrong in ["", "MiB", "1MB", "1.5GiB", "-1", "1023KiB", "2000TiB", "99999999999999999999TiB"] {
            assert_eq!(text(&kind, wrong), Err(InvalidValue(None)), "{wrong}");
        }
        assert_eq!((kind.show(&(512 << 20)), kind.show(&1_048_577)), ("512MiB".into(), "1048577".into()));
    }
}
