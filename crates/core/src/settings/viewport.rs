//! The size of a page.

use std::fmt;

use super::kind::{Given, Kind, Shape, Wrong};

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

/// The longest side of a viewport: the usual texture limit of the graphics stack that Chromium paints with.
const SIDE_MAX: u32 = 16_384;

pub(super) struct Size;

impl Kind for Size {
    type Value = Viewport;

    fn parse(&self, given: Given<'_>) -> Result<Viewport, Wrong> {
        let side = |text: &str| text.parse().ok().filter(|side| (1..=SIDE_MAX).contains(side));
        given
            .text()
            .and_then(|text| text.split_once(['x', 'X']))
            .and_then(|(width, height)| Some(Viewport { width: side(width)?, height: side(height)? }))
            .ok_or(Wrong(None))
    }

    fn show(&self, value: &Viewport) -> String {
        value.to_string()
    }

    fn allowed(&self) -> String {
        format!("width and height such as `1280x720`, each from 1 to {SIDE_MAX}")
    }

    fn shape(&self) -> Shape {
        Shape::One("WxH".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::kind::tests::text;

    /// A viewport is two sides within what Chromium can paint.
    #[test]
    fn viewports() {
        assert_eq!(text(&Size, "1280x720"), Ok(Viewport { width: 1280, height: 720 }));
        assert_eq!(text(&Size, "1X16384"), Ok(Viewport { width: 1, height: 16_384 }));
        for wrong in ["", "1280", "0x720", "1280x16385", "1280x-1", "1280x720x1", "1280 x 720"] {
            assert_eq!(text(&Size, wrong), Err(Wrong(None)), "{wrong}");
        }
    }
}
