//! Processor time as a setting: how many cores a browser may keep busy.

use std::{fmt, time::Duration};

use super::value_type::{FlagShape, GivenForm, GivenValue, InvalidValue, ValueType};

/// The most cores that a limit can name: more than any machine has.
const CORES_MAX: u32 = 1_024;

/// A number of cores, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cores(u32);

impl Cores {
    pub const ONE: Self = Self(1_000);

    /// `None` if a limit may not be this low or high.
    pub fn new(cores: f64) -> Option<Self> {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 100 and 1,024,000"
        )]
        (0.1..=f64::from(CORES_MAX)).contains(&cores).then(|| Self((cores * 1e3).round() as u32))
    }

    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / 1e3
    }

    /// The processor time that these cores have within a time.
    pub fn time_within(self, time: Duration) -> Duration {
        time * self.0 / 1_000
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_f64())
    }
}

pub(super) struct CoreCount;

impl ValueType for CoreCount {
    type Value = Cores;

    fn parse(&self, given: GivenValue<'_>) -> Result<Cores, InvalidValue> {
        let cores = match given.written {
            #[allow(clippy::cast_precision_loss, reason = "large ones are refused below")]
            GivenForm::Toml(value) => {
                value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
            }
            GivenForm::Text(text) => text.parse().ok(),
        };
        cores.and_then(Cores::new).ok_or(InvalidValue(None))
    }

    fn show(&self, value: &Cores) -> String {
        value.to_string()
    }

    fn json(&self, value: &Cores) -> serde_json::Value {
        value.as_f64().into()
    }

    fn allowed(&self) -> String {
        format!("a number of cores such as `1` or `2.5`, from 0.1 to {CORES_MAX}")
    }

    fn shape(&self) -> FlagShape {
        FlagShape::One("NUMBER".to_owned())
    }

    fn amount(&self, value: &Cores) -> Option<u64> {
        Some(value.0.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::value_type::tests::{text, toml};

    /// Whole cores and parts of one are read as text and in TOML; no core, too many and nonsense are refused.
    #[test]
    fn numbers_of_cores_are_checked() {
        assert_eq!((text(&CoreCount, "1"), toml(&CoreCount, "1")), (Ok(Cores::ONE), Ok(Cores::ONE)));
        assert_eq!(text(&CoreCount, "2.5").map(|cores| cores.to_string()), Ok("2.5".to_owned()));
        assert_eq!(toml(&CoreCount, "0.1").map(Cores::as_f64), Ok(0.1));
        for wrong in ["", "0", "-1", "0.05", "1025", "NaN", "inf", "1 core"] {
            assert_eq!(text(&CoreCount, wrong), Err(InvalidValue(None)), "{wrong}");
        }
        let half = Cores::new(0.5).unwrap();
        assert_eq!(half.time_within(Duration::from_secs(3)), Duration::from_millis(1_500));
    }
}
