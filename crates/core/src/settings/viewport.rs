//! The size of a page.

use std::fmt;

use super::value_type::{FlagShape, GivenValue, InvalidValue, ValueType};
use crate::page_size::{self, PIXELS_MAX, SIDE_MAX};

/// The size of a page in CSS pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Viewport {
    pub width: u32,
    pub height: u32,
}

impl fmt::Display for Viewport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

pub(super) struct ViewportSize;

impl ValueType for ViewportSize {
    type Value = Viewport;

    fn parse(&self, given: GivenValue<'_>) -> Result<Viewport, InvalidValue> {
        let fits = |size: &Viewport| page_size::check(size.width.into(), size.height.into(), 1.0).is_ok();
        given
            .text()
            .and_then(|text| text.split_once(['x', 'X']))
            .and_then(|(width, height)| {
                Some(Viewport { width: width.parse().ok()?, height: height.parse().ok()? })
            })
            .filter(fits)
            .ok_or(InvalidValue(None))
    }

    fn show(&self, value: &Viewport) -> String {
        value.to_string()
    }

    fn allowed(&self) -> String {
        format!(
            "width and height such as `1280x720`, each from 1 to {SIDE_MAX}, and at most {PIXELS_MAX} pixels in all"
        )
    }

    fn shape(&self) -> FlagShape {
        FlagShape::One("WxH".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::value_type::tests::text;

    /// A viewport is two sides within what Chromium can paint.
    #[test]
    fn viewport_sides_are_limited() {
        assert_eq!(text(&ViewportSize, "1280x720"), Ok(Viewport { width: 1280, height: 720 }));
        assert_eq!(text(&ViewportSize, "1X16384"), Ok(Viewport { width: 1, height: 16_384 }));
        for wrong in ["", "1280", "0x720", "1280x16385", "16384x16384", "1280x-1", "1280x720x1", "1280 x 720"]
        {
            assert_eq!(text(&ViewportSize, wrong), Err(InvalidValue(None)), "{wrong}");
        }
    }
}
