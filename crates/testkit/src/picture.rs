//! Pictures for tests: makes them, and reads their pixels.

use std::io::Cursor;

use image::{ImageFormat, Rgb, RgbImage};

/// A PNG of this size, light grey.
pub fn png(width: u32, height: u32) -> Vec<u8> {
    let mut data = Cursor::new(Vec::new());
    RgbImage::from_pixel(width, height, Rgb([240, 240, 240])).write_to(&mut data, ImageFormat::Png).unwrap();
    data.into_inner()
}

/// A decoded picture.
pub struct Pixels {
    pub width: u32,
    pub height: u32,
    pixels: RgbImage,
}

impl Pixels {
    pub fn decode(data: &[u8]) -> Self {
        let pixels = image::load_from_memory(data).unwrap().into_rgb8();
        Self { width: pixels.width(), height: pixels.height(), pixels }
    }

    /// Red, green and blue of a pixel.
    pub fn at(&self, x: u32, y: u32) -> [u8; 3] {
        self.pixels.get_pixel(x, y).0
    }
}
