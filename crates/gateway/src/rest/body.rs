//! Reads the body of a request: JSON that every parser reads the same way, within a size and a time.

use std::{fmt::Display, time::Duration};

use axum::{
    body::{Body, Bytes, to_bytes},
    http::HeaderMap,
};
use greenroom_core::{excerpt::shortened, json_check};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _},
};
use serde_json::{Number, value::RawValue};
use tokio::time::timeout;

use super::RestError;
use crate::{front::http::is_json, offload::offload_if_large};

/// How long a body may be, and how long it may take to arrive.
#[derive(Clone, Copy)]
pub(crate) struct BodyLimits {
    pub(super) bytes_max: usize,
    pub(super) within: Duration,
}

/// A command has some fifty bytes and fits into one packet.
pub(super) const COMMAND: BodyLimits = BodyLimits { bytes_max: 64 * 1024, within: Duration::from_secs(10) };

/// A call may contain a script or a long form, sent over a slow network. Files are not sent this way.
pub(crate) const CALL: BodyLimits =
    BodyLimits { bytes_max: 8 * 1024 * 1024, within: Duration::from_secs(60) };

/// The body as this type; `None` if it is empty.
pub(crate) async fn read<T: DeserializeOwned>(
    headers: &HeaderMap,
    body: Body,
    bounds: BodyLimits,
) -> Result<Option<T>, RestError> {
    let bytes = bytes(body, bounds).await?;
    let _guard = offload_if_large(bytes.len()).await;
    if bytes.is_empty() {
        return Ok(None);
    }
    if !is_json(headers) {
        return Err(RestError::not_json());
    }
    // serde also reads structs from arrays; no client means that.
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(|first| *first == b'[') {
        return Err(RestError::bad_body("the body must be an object"));
    }
    let unusable = |why: &dyn Display| {
        RestError::bad_body(format!("the body cannot be used: {}", shortened(&why.to_string())))
    };
    let raw: &RawValue = serde_json::from_slice(&bytes).map_err(|error| unusable(&error))?;
    json_check::check(raw).map_err(|ambiguous| unusable(&ambiguous))?;
    serde_json::from_str(raw.get()).map(Some).map_err(|error| unusable(&error))
}

/// The whole body.
pub(super) async fn bytes(body: Body, bounds: BodyLimits) -> Result<Bytes, RestError> {
    match timeout(bounds.within, to_bytes(body, bounds.bytes_max)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => {
            let source = std::error::Error::source(&error);
            Err(match source.is_some_and(|source| source.is::<http_body_util::LengthLimitError>()) {
                true => RestError::too_big(bounds.bytes_max),
                false => RestError::bad_body("the body cannot be read"),
            })
        }
        Err(_) => Err(RestError::bad_body("the body did not arrive in time")),
    }
}

/// A whole number, also if written as `3.0`: JSON makes no difference, and programs in some languages always write it
/// so.
pub(crate) fn whole<'de, D: Deserializer<'de>, T: TryFrom<u64>>(given: D) -> Result<T, D::Error> {
    let given = Number::deserialize(given)?;
    let fraction =
        || given.as_f64().filter(|number| number.fract() == 0.0 && (0.0..FLOAT_MAX).contains(number));
    // Exact, up to `FLOAT_MAX`.
    let number = given.as_u64().or_else(|| fraction().map(|number| number as u64));
    number
        .and_then(|number| T::try_from(number).ok())
        .ok_or_else(|| D::Error::custom(format!("not a whole number, or too great a one: `{given}`")))
}

/// The greatest number up to which floats represent every whole number.
const FLOAT_MAX: f64 = 9_007_199_254_740_992.0;

#[cfg(test)]
mod tests {
    use super::*;

    /// Whole numbers may have either spelling; fractions, negative and too large numbers are refused by name.
    #[test]
    fn fractions_and_negative_numbers_are_refused() {
        #[derive(Deserialize)]
        struct Of(#[serde(deserialize_with = "whole")] u32);
        let read = |text: &str| serde_json::from_str::<Of>(text).map(|Of(number)| number);
        for (text, number) in [("3", 3), ("3.0", 3), ("3e2", 300), ("0", 0), ("4294967295", u32::MAX)] {
            assert_eq!(read(text).unwrap(), number, "{text}");
        }
        for odd in ["3.5", "-1", "4294967296", "1e300", "null", "\"3\""] {
            let refused = read(odd).err().unwrap();
            assert!(!refused.to_string().is_empty(), "{odd}");
        }
        assert!(read("2.5").err().unwrap().to_string().contains("`2.5`"));
    }
}
