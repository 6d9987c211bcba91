//! Pictures from pages: reads their size, scales them down, and draws labelled boxes on them.
//!
//! A page decides what is in a picture of it, and an MCP server may send any bytes as a picture. So every function
//! refuses a picture beyond [`PIXELS_MAX`] or [`BYTES_MAX`] before it decodes the pixels, and a decoder that fails or panics
//! is an [`PictureError`], never a panic of the caller. All functions compute and block: callers run them on threads for such
//! work. The gateway scales what it sends; the engine's adapters draw the boxes.

mod codec;
mod draw;
mod font;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use draw::{LabelledBox, Rect};

/// The most pixels of a picture that is decoded: as many as a page may have. Decoded, they take 134 MB at 4 bytes each.
pub const PIXELS_MAX: u64 = 33_554_432;

/// The largest file that is decoded: what a record keeps of one picture.
pub const BYTES_MAX: usize = 32 * 1024 * 1024;

/// Why this crate cannot scale or draw on a picture.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    #[error("it is neither PNG nor JPEG nor WebP")]
    Format,
    #[error("it has more than {PIXELS_MAX} pixels: {width}x{height}")]
    Pixels { width: u32, height: u32 },
    #[error("it has more than {BYTES_MAX} bytes")]
    Bytes,
    #[error("it cannot be decoded: {0}")]
    Image(#[from] image::ImageError),
    #[error("its decoder failed")]
    Panicked,
}

/// Width and height in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    pub width: u32,
    pub height: u32,
}

impl Size {
    pub fn longest_side(self) -> u32 {
        self.width.max(self.height)
    }

    /// How many bytes the decoded picture takes, about.
    pub fn decoded_bytes(self) -> usize {
        let pixels = u64::from(self.width) * u64::from(self.height);
        usize::try_from(pixels.saturating_mul(4)).unwrap_or(usize::MAX)
    }

    /// The largest size of the same shape whose longest side is `side_max`. No side is 0.
    fn within(self, side_max: u32) -> Self {
        let longest = u64::from(self.longest_side().max(1));
        let scaled = |side: u32| {
            let rounded = (u64::from(side) * u64::from(side_max) + longest / 2) / longest;
            u32::try_from(rounded).unwrap_or(side_max).max(1)
        };
        Self { width: scaled(self.width), height: scaled(self.height) }
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

/// An encoded picture.
#[derive(Debug)]
pub struct Picture {
    pub data: Vec<u8>,
    pub mime: &'static str,
    pub size: Size,
}

/// The size of a picture, from its header. Decodes no pixels.
pub fn size(data: &[u8]) -> Result<Size, PictureError> {
    guarded(|| codec::size(data))
}

/// The picture scaled down so that its longest side has `side_max` pixels. A JPEG stays a JPEG; the others become PNG.
/// `None` if no side is longer.
pub fn scale_down(data: &[u8], side_max: u32) -> Result<Option<Picture>, PictureError> {
    guarded(|| {
        let size = codec::size(data)?;
        if size.longest_side() <= side_max {
            return Ok(None);
        }
        let decoded = codec::Decoded::read(data)?;
        decoded.resized(size.within(side_max)).encode().map(Some)
    })
}

/// The picture with these boxes drawn on it, each with its label. A JPEG stays a JPEG; the others become PNG.
pub fn draw_boxes(data: &[u8], boxes: &[LabelledBox]) -> Result<Picture, PictureError> {
    guarded(|| {
        let mut decoded = codec::Decoded::read(data)?;
        draw::draw(&mut decoded.pixels, boxes);
        decoded.encode()
    })
}

/// Decoders are careful, but their input is hostile: a panic of one must not end the caller's task.
fn guarded<T>(work: impl FnOnce() -> Result<T, PictureError>) -> Result<T, PictureError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(PictureError::Panicked))
}

#[cfg(test)]
mod tests;
