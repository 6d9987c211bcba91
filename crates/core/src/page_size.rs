//! How large a page may be: one limit for settings, for tools' arguments, and for the page's own requests.
//!
//! A browser paints a page into buffers of its size. Measured with Chromium 156, a screenshot and a screencast of a page
//! take about 30 bytes a device pixel: 0.2 GB more at 8 million of them, 1 GB at 33 million, 5.3 GB at 268 million
//! (16384x16384), where calls take 12 to 29 s. With a screencast, a side of 32768 ends the browser.

/// The longest side of a page in CSS pixels: the usual texture limit of the graphics stack that Chromium paints with.
pub const SIDE_MAX: u32 = 16_384;

/// The most device pixels of a page: an 8K screen (7680x4320) fits, and costs about 1 GB while a picture of it is taken.
pub const PIXELS_MAX: u32 = 33_554_432;

/// The most device pixels for a CSS pixel, in each direction. Screens have up to 4.
pub const SCALE_MAX: u32 = 8;

/// Why a page may not have a size.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum WrongSize {
    #[error("width and height of a page are from 1 to {SIDE_MAX}: {width}x{height}")]
    Side { width: f64, height: f64 },
    #[error("the scale factor of a page is above 0 and at most {SCALE_MAX}: {scale}")]
    Scale { scale: f64 },
    #[error("a page has at most {PIXELS_MAX} pixels: {width}x{height} at scale factor {scale} has more")]
    Pixels { width: f64, height: f64, scale: f64 },
}

/// Whether a page may have this size: in CSS pixels, with `scale` device pixels for each. NaN does not pass.
pub fn check(width: f64, height: f64, scale: f64) -> Result<(), WrongSize> {
    let side = |side: f64| (1.0..=f64::from(SIDE_MAX)).contains(&side);
    if !side(width) || !side(height) {
        return Err(WrongSize::Side { width, height });
    }
    if !(scale > 0.0 && scale <= f64::from(SCALE_MAX)) {
        return Err(WrongSize::Scale { scale });
    }
    if width * height * scale * scale > f64::from(PIXELS_MAX) {
        return Err(WrongSize::Pixels { width, height, scale });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes of real screens pass, long pages too; sizes that would take gigabytes, and invalid numbers, do not.
    #[test]
    fn oversized_pages_are_refused() {
        for (width, height, scale) in [
            (1.0, 1.0, 1.0),
            (1280.0, 720.0, 1.0),
            (412.5, 823.0, 2.625),
            (7680.0, 4320.0, 1.0),
            (3840.0, 2160.0, 2.0),
            (2048.0, 16_384.0, 1.0),
            (500.0, 500.0, 0.5),
        ] {
            assert_eq!(check(width, height, scale), Ok(()), "{width}x{height}x{scale}");
        }
        for (width, height) in [
            (100_000.0, 1.0),
            (1.0, 16_385.0),
            (0.0, 720.0),
            (0.5, 720.0),
            (-1280.0, -720.0),
            (1e9, 1e9),
            (f64::NAN, 1.0),
            (1.0, f64::INFINITY),
        ] {
            assert!(matches!(check(width, height, 1.0), Err(WrongSize::Side { .. })), "{width}x{height}");
        }
        for scale in [0.0, -1.0, 8.1, 1e9, f64::NAN, f64::INFINITY] {
            assert!(matches!(check(1.0, 1.0, scale), Err(WrongSize::Scale { .. })), "{scale}");
        }
        for (width, height, scale) in
            [(16_384.0, 16_384.0, 1.0), (16_384.0, 2049.0, 1.0), (4096.0, 4096.0, 2.0)]
        {
            let refused = check(width, height, scale);
            assert!(matches!(refused, Err(WrongSize::Pixels { .. })), "{width}x{height}x{scale}");
        }
    }
}
