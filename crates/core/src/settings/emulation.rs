//! What a page sees of its user: language, time zone, location, screen. This module checks these values, because the
//! engine accepts anything and may fail when it opens the first page.

use std::fmt;

use super::value_type::{FlagShape, GivenForm, GivenValue, InvalidValue, ValueType};
use crate::page_size::SCALE_MAX;

/// The longest language tag in use has about 35 letters, the longest name of a time zone about 32.
const NAME_BYTES_MAX: usize = 64;

/// A language as browsers name it: `de-CH`.
pub(super) struct Locale;

/// A time zone as the IANA names it: `Europe/Zurich`.
pub(super) struct TimeZone;

fn named(given: GivenValue<'_>, is_part: fn(char) -> bool) -> Result<String, InvalidValue> {
    let fits = |text: &&str| {
        text.len() <= NAME_BYTES_MAX
            && text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.chars().all(is_part)
    };
    given.text().filter(fits).map(ToOwned::to_owned).ok_or(InvalidValue(None))
}

impl ValueType for Locale {
    type Value = String;

    fn parse(&self, given: GivenValue<'_>) -> Result<String, InvalidValue> {
        named(given, |c| c.is_ascii_alphanumeric() || c == '-')
    }

    fn show(&self, value: &String) -> String {
        value.clone()
    }

    fn allowed(&self) -> String {
        "a language such as `en-GB`".to_owned()
    }

    fn shape(&self) -> FlagShape {
        FlagShape::One("LANGUAGE".to_owned())
    }
}

impl ValueType for TimeZone {
    type Value = String;

    fn parse(&self, given: GivenValue<'_>) -> Result<String, InvalidValue> {
        named(given, |c| c.is_ascii_alphanumeric() || "/_+-".contains(c))
    }

    fn show(&self, value: &String) -> String {
        value.clone()
    }

    fn allowed(&self) -> String {
        "a time zone such as `Europe/Zurich`".to_owned()
    }

    fn shape(&self) -> FlagShape {
        FlagShape::One("ZONE".to_owned())
    }
}

/// A place on the earth, in millionths of a degree: about 10 cm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geolocation {
    latitude: i32,
    longitude: i32,
}

impl Geolocation {
    /// A place by its degrees, if they are in range.
    pub fn new(latitude: f64, longitude: f64) -> Option<Self> {
        let millionths = |degrees: f64, max: f64| {
            #[allow(clippy::cast_possible_truncation, reason = "180 million fits")]
            (degrees.abs() <= max).then(|| (degrees * 1e6).round() as i32)
        };
        Some(Self { latitude: millionths(latitude, 90.0)?, longitude: millionths(longitude, 180.0)? })
    }

    pub fn latitude(self) -> f64 {
        f64::from(self.latitude) / 1e6
    }

    pub fn longitude(self) -> f64 {
        f64::from(self.longitude) / 1e6
    }
}

impl fmt::Display for Geolocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.latitude(), self.longitude())
    }
}

pub(super) struct GeoPosition;

impl ValueType for GeoPosition {
    type Value = Geolocation;

    fn parse(&self, given: GivenValue<'_>) -> Result<Geolocation, InvalidValue> {
        let degrees = |text: &str| text.trim().parse().ok();
        let place = given.text().and_then(|text| text.split_once(','));
        let place =
            place.and_then(|(latitude, longitude)| Geolocation::new(degrees(latitude)?, degrees(longitude)?));
        place.ok_or(InvalidValue(None))
    }

    fn show(&self, value: &Geolocation) -> String {
        value.to_string()
    }

    fn allowed(&self) -> String {
        "latitude and longitude in degrees, such as `47.3769,8.5417`".to_owned()
    }

    fn shape(&self) -> FlagShape {
        FlagShape::One("LATITUDE,LONGITUDE".to_owned())
    }
}

/// How many device pixels a CSS pixel has in each direction, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale(u32);

impl Scale {
    /// The factor as a scale; `None` if pages may not have it.
    pub fn new(factor: f64) -> Option<Self> {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 100 and 8000")]
        (0.1..=f64::from(SCALE_MAX)).contains(&factor).then(|| Self((factor * 1e3).round() as u32))
    }

    pub fn factor(self) -> f64 {
        f64::from(self.0) / 1e3
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.factor())
    }
}

pub(super) struct ScaleFactor;

impl ValueType for ScaleFactor {
    type Value = Scale;

    fn parse(&self, given: GivenValue<'_>) -> Result<Scale, InvalidValue> {
        let factor = match given.written {
            #[allow(clippy::cast_precision_loss, reason = "large ones are refused below")]
            GivenForm::Toml(value) => {
                value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
            }
            GivenForm::Text(text) => text.parse().ok(),
        };
        factor.and_then(Scale::new).ok_or(InvalidValue(None))
    }

    fn show(&self, value: &Scale) -> String {
        value.to_string()
    }

    fn json(&self, value: &Scale) -> serde_json::Value {
        value.factor().into()
    }

    fn allowed(&self) -> String {
        format!("a number such as `2` or `2.625`, from 0.1 to {SCALE_MAX}")
    }

    fn shape(&self) -> FlagShape {
        FlagShape::One("NUMBER".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::value_type::tests::{text, toml};

    /// Languages, time zones, places and scales are read as they are written; invalid ones are refused.
    #[test]
    fn emulated_values_are_checked() {
        for (locale, fits) in
            [("en", true), ("de-CH", true), ("zh-Hant-TW", true), ("", false), ("de_CH", false)]
        {
            assert_eq!(text(&Locale, locale).is_ok(), fits, "{locale}");
        }
        for (zone, fits) in [
            ("UTC", true),
            ("America/Port-au-Prince", true),
            ("Etc/GMT+1", true),
            ("/etc", false),
            ("a b", false),
        ] {
            assert_eq!(text(&TimeZone, zone).is_ok(), fits, "{zone}");
        }
        let place = text(&GeoPosition, " 47.3769, -8.5417001").unwrap();
        assert_eq!((place.latitude(), place.longitude()), (47.3769, -8.5417));
        assert_eq!(GeoPosition.show(&place), "47.3769,-8.5417");
        for wrong in ["", "1", "91,0", "0,181", "NaN,0", "0,inf", "a,b"] {
            assert_eq!(text(&GeoPosition, wrong), Err(InvalidValue(None)), "{wrong}");
        }
        assert_eq!(text(&ScaleFactor, "2.625").map(Scale::factor), Ok(2.625));
        assert_eq!(toml(&ScaleFactor, "2"), text(&ScaleFactor, "2.0"));
        for wrong in ["0", "-1", "8.1", "NaN", "x"] {
            assert_eq!(text(&ScaleFactor, wrong), Err(InvalidValue(None)), "{wrong}");
        }
    }
}
