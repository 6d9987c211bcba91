//! Pictures are scaled and drawn on; hostile ones are refused before their pixels are decoded.

use image::{
    DynamicImage, ImageFormat, Rgb, RgbImage, RgbaImage,
    codecs::{jpeg::JpegEncoder, webp::WebPEncoder},
};

use super::*;

fn png(width: u32, height: u32) -> Vec<u8> {
    let mut data = std::io::Cursor::new(Vec::new());
    let half = |x: u32, _| Rgb(if x < width / 2 { [255, 0, 0] } else { [0, 0, 255] });
    RgbImage::from_fn(width, height, half).write_to(&mut data, ImageFormat::Png).unwrap();
    data.into_inner()
}

fn decoded(picture: &Picture) -> RgbImage {
    image::load_from_memory(&picture.data).unwrap().into_rgb8()
}

/// A PNG that begins like one of this size, with no more pixel data than a few bytes.
fn claims(width: u32, height: u32) -> Vec<u8> {
    let mut data = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |kind: &[u8], body: &[u8]| {
        data.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
        let content = [kind, body].concat();
        data.extend(&content);
        data.extend(crc(&content).to_be_bytes());
    };
    let mut header = [width.to_be_bytes(), height.to_be_bytes()].concat();
    header.extend([8, 2, 0, 0, 0]);
    chunk(b"IHDR", &header);
    chunk(b"IDAT", &[0x78, 0x9c, 0x03, 0x00, 0x00, 0x00, 0x00, 0x01]);
    chunk(b"IEND", &[]);
    data
}

fn crc(data: &[u8]) -> u32 {
    !data.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & 0_u32.wrapping_sub(crc & 1)))
    })
}

/// The longest side shrinks to the limit, the other in proportion, and the content stays in its place.
#[test]
fn longest_side_is_limited() {
    for ((width, height), side_max, expected) in [
        ((256, 144), 128, Some((128, 72))),
        ((144, 256), 128, Some((72, 128))),
        ((257, 3), 64, Some((64, 1))),
        ((1000, 1), 10, Some((10, 1))),
        ((128, 72), 128, None),
        ((1, 1), 128, None),
    ] {
        let scaled = scale_down(&png(width, height), side_max).unwrap();
        let size = scaled.as_ref().map(|picture| (picture.size.width, picture.size.height));
        assert_eq!(size, expected, "{width}x{height} within {side_max}");
        if let Some(picture) = scaled.filter(|picture| picture.size.height > 1) {
            assert_eq!(picture.mime, "image/png");
            let pixels = decoded(&picture);
            assert_eq!((pixels.width(), pixels.height()), expected.unwrap());
            assert_eq!(pixels.get_pixel(1, 0), &Rgb([255, 0, 0]));
            assert_eq!(pixels.get_pixel(pixels.width() - 2, 0), &Rgb([0, 0, 255]));
        }
    }
}

/// JPEG stays JPEG. WebP, and PNG with transparency or 16 bits for each colour, become plain PNG.
#[test]
fn formats() {
    let pixels = DynamicImage::from(RgbImage::from_pixel(40, 20, Rgb([0, 200, 0])));
    let mut jpeg = Vec::new();
    let mut webp = Vec::new();
    pixels.write_with_encoder(JpegEncoder::new(&mut jpeg)).unwrap();
    pixels.write_with_encoder(WebPEncoder::new_lossless(&mut webp)).unwrap();
    let written = |picture: DynamicImage| {
        let mut data = std::io::Cursor::new(Vec::new());
        picture.write_to(&mut data, ImageFormat::Png).unwrap();
        data.into_inner()
    };
    let deep = written(DynamicImage::from(pixels.to_rgb16()));
    let clear = written(DynamicImage::from(RgbaImage::from_pixel(40, 20, image::Rgba([0, 200, 0, 128]))));
    for (data, mime) in
        [(&jpeg, "image/jpeg"), (&webp, "image/png"), (&deep, "image/png"), (&clear, "image/png")]
    {
        assert_eq!(size(data).unwrap(), Size { width: 40, height: 20 });
        let scaled = scale_down(data, 20).unwrap().unwrap();
        assert_eq!((scaled.mime, scaled.size), (mime, Size { width: 20, height: 10 }));
        let [red, green, blue] = decoded(&scaled).get_pixel(10, 5).0;
        assert!(red < 10 && green.abs_diff(200) < 10 && blue < 10, "{mime}: {red} {green} {blue}");
    }
}

/// A picture with too many pixels is refused by its header, before anything of that size is allocated.
#[test]
fn too_many_pixels_are_refused() {
    for (width, height) in [(30_000, 30_000), (u32::MAX >> 1, u32::MAX >> 1), (33_554_433, 1)] {
        let bomb = claims(width, height);
        for refused in
            [size(&bomb).map(drop), scale_down(&bomb, 1568).map(drop), draw_boxes(&bomb, &[]).map(drop)]
        {
            // The decoder itself refuses sizes whose bytes cannot be counted.
            assert!(
                matches!(refused, Err(PictureError::Pixels { .. } | PictureError::Image(_))),
                "{width}x{height}: {refused:?}"
            );
        }
    }
    assert!(matches!(size(&claims(8192, 4096)), Ok(Size { width: 8192, height: 4096 })));
    assert!(matches!(size(&vec![0x89; BYTES_MAX + 1]), Err(PictureError::Bytes)));
}

/// Bytes that are no picture, or only the beginning of one, or damaged, are errors.
#[test]
fn damaged_pictures_are_errors() {
    let whole = png(200, 100);
    for data in [&b""[..], b"x", b"<svg/>", b"GIF89a", b"\x89PNG\r\n\x1a\n", &claims(200, 100)] {
        assert!(scale_down(data, 50).is_err(), "{data:?}");
        assert!(draw_boxes(data, &[]).is_err(), "{data:?}");
    }
    for end in 0..whole.len() - 12 {
        let _ = scale_down(&whole[..end], 50);
    }
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        let _ = scale_down(&damaged, 50);
    }
}

/// A panic of a decoder is an error.
#[test]
fn panics_are_errors() {
    let panics = || -> Result<(), PictureError> { panic!("a decoder's own") };
    assert!(matches!(guarded(panics), Err(PictureError::Panicked)));
}

fn labelled(x: i64, y: i64, width: i64, height: i64, label: &str) -> LabelledBox {
    LabelledBox { rect: Rect { x, y, width, height }, label: label.to_owned() }
}

/// A box is drawn inside of its rectangle, its label above it in the same colour; all other pixels stay.
#[test]
fn boxes_and_labels_are_drawn() {
    let mut plain = std::io::Cursor::new(Vec::new());
    let white = RgbImage::from_pixel(300, 200, Rgb([255, 255, 255]));
    white.write_to(&mut plain, ImageFormat::Png).unwrap();
    let boxes = [labelled(50, 60, 100, 40, "e1"), labelled(200, 60, 50, 40, "e27")];
    let drawn = decoded(&draw_boxes(plain.get_ref(), &boxes).unwrap());
    let first = drawn.get_pixel(50, 60);
    let second = drawn.get_pixel(200, 60);
    assert_ne!(first, second);
    for (x, y) in [(50, 60), (149, 60), (50, 99), (149, 99), (51, 61), (100, 60)] {
        assert_eq!(drawn.get_pixel(x, y), first, "{x},{y}");
    }
    for (x, y) in [(49, 70), (150, 70), (60, 100), (52, 70), (100, 80), (5, 5)] {
        assert_eq!(drawn.get_pixel(x, y), &Rgb([255, 255, 255]), "{x},{y}");
    }
    // The label's background, and the stem of its digit 1.
    assert_eq!(drawn.get_pixel(50, 59), first);
    assert_eq!(drawn.get_pixel(50 + 2 * (1 + 6 + 2), 60 - 2 * 4), &Rgb([255, 255, 255]));
}

/// A label covers no other box if its own box has room around it, and stays inside of the picture.
#[test]
fn labels_do_not_cover_other_boxes() {
    let mut plain = std::io::Cursor::new(Vec::new());
    let white = Rgb([255, 255, 255]);
    RgbImage::from_pixel(300, 200, white).write_to(&mut plain, ImageFormat::Png).unwrap();
    // Rows with less room between them than a label needs, in a box of their own.
    let boxes = [
        labelled(0, 0, 300, 200, "e1"),
        labelled(100, 30, 80, 20, "e2"),
        labelled(100, 55, 80, 20, "e3"),
        labelled(100, 80, 80, 20, "e4"),
    ];
    let drawn = decoded(&draw_boxes(plain.get_ref(), &boxes).unwrap());
    for (x, y) in [(104, 40), (104, 65), (104, 90), (170, 45), (170, 70)] {
        assert_eq!(drawn.get_pixel(x, y), &white, "a label is in the box at {x},{y}");
    }
    let middle = drawn.get_pixel(100, 55);
    assert_eq!(drawn.get_pixel(180, 55), middle, "the label of the middle row is right of it");
    assert_eq!(drawn.get_pixel(2, 2), drawn.get_pixel(0, 0), "the label of the outer box is in its corner");
}

/// Boxes outside of the picture, beyond its edges, without an area, and many in one place are drawn as far as they are
/// visible.
#[test]
fn odd_boxes_are_drawn_as_far_as_visible() {
    let far = i64::MAX / 2;
    let mut boxes = vec![
        labelled(-50, -50, 60, 60, "e1"),
        labelled(95, 45, 100, 100, "e2"),
        labelled(0, 0, 0, 0, "e3"),
        labelled(500, 500, 10, 10, "e4"),
        labelled(-far, -far, far, far, "e5"),
        labelled(far, far, far, far, "e6"),
        labelled(0, 0, far, far, "a label of many letters, longer than the picture"),
    ];
    boxes.extend((0..300).map(|n| labelled(10, 10, 5, 5, &format!("f{n}e{n}"))));
    for (width, height) in [(100, 50), (1, 1), (3, 200)] {
        let drawn = draw_boxes(&png(width, height), &boxes).unwrap();
        assert_eq!(drawn.size, Size { width, height });
    }
}
