//! Decodes and encodes, within the limits of this crate.

use std::io::Cursor;

use image::{
    DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits, RgbImage,
    codecs::{jpeg::JpegEncoder, png::PngEncoder},
    guess_format,
    imageops::FilterType,
};

use crate::{BYTES_MAX, PIXELS_MAX, Picture, PictureError, Size};

/// What a decoder may allocate: [`PIXELS_MAX`] pixels of 4 bytes. A picture with more bytes for each pixel must be smaller.
const ALLOCATED_BYTES_MAX: u64 = PIXELS_MAX * 4;

/// The quality of a JPEG that is encoded again. Text stays readable; the engine's own JPEGs have 90.
const JPEG_QUALITY: u8 = 85;

/// A decoded picture.
pub(crate) struct Decoded {
    pub(crate) pixels: RgbImage,
    is_jpeg: bool,
}

pub(crate) fn size(data: &[u8]) -> Result<Size, PictureError> {
    let (width, height) = reader(data)?.into_dimensions()?;
    if u64::from(width) * u64::from(height) > PIXELS_MAX {
        return Err(PictureError::Pixels { width, height });
    }
    Ok(Size { width, height })
}

fn reader(data: &[u8]) -> Result<ImageReader<Cursor<&[u8]>>, PictureError> {
    if data.len() > BYTES_MAX {
        return Err(PictureError::Bytes);
    }
    let mut reader = ImageReader::with_format(Cursor::new(data), format(data)?);
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(ALLOCATED_BYTES_MAX);
    reader.limits(limits);
    Ok(reader)
}

/// The format by the first bytes: a declared MIME type may be wrong.
fn format(data: &[u8]) -> Result<ImageFormat, PictureError> {
    match guess_format(data) {
        Ok(format @ (ImageFormat::Png | ImageFormat::Jpeg | ImageFormat::WebP)) => Ok(format),
        _ => Err(PictureError::Format),
    }
}

impl Decoded {
    pub(crate) fn read(data: &[u8]) -> Result<Self, PictureError> {
        // The header says how many pixels there are: a small file may have very many.
        size(data)?;
        let mut decoder = reader(data)?.into_decoder()?;
        // The encoded result carries no orientation tag, so the pixels are rotated here.
        let orientation = decoder.orientation()?;
        let mut decoded = DynamicImage::from_decoder(decoder)?;
        decoded.apply_orientation(orientation);
        Ok(Self { pixels: decoded.into_rgb8(), is_jpeg: format(data)? == ImageFormat::Jpeg })
    }

    pub(crate) fn resized(self, to: Size) -> Self {
        let pixels = DynamicImage::ImageRgb8(self.pixels);
        // Averages all pixels that become one, so thin lines and small text stay visible.
        let resized = pixels.resize_exact(to.width, to.height, FilterType::Triangle);
        Self { pixels: resized.into_rgb8(), ..self }
    }

    pub(crate) fn encode(self) -> Result<Picture, PictureError> {
        let size = Size { width: self.pixels.width(), height: self.pixels.height() };
        let mut data = Vec::new();
        let mime = if self.is_jpeg {
            self.pixels.write_with_encoder(JpegEncoder::new_with_quality(&mut data, JPEG_QUALITY))?;
            "image/jpeg"
        } else {
            self.pixels.write_with_encoder(PngEncoder::new(&mut data))?;
            "image/png"
        };
        Ok(Picture { data, mime, size })
    }
}
