//! Draws boxes with labels. A box and its label have one colour, and the next box another, so that neighbours can be told
//! apart. A label must not cover other labels. It covers another box only if all places around its own box are taken.

use image::{Rgb, RgbImage};

use crate::font;

/// A box to draw, in pixels of the picture, and its label.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelledBox {
    pub rect: Rect,
    pub label: String,
}

/// A rectangle in pixels. It may lie partly or wholly outside of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rect {
    pub x: i64,
    pub y: i64,
    pub width: i64,
    pub height: i64,
}

impl Rect {
    /// The part of this rectangle that is within the other.
    pub fn within(self, other: Self) -> Option<Self> {
        let x = self.x.max(other.x);
        let y = self.y.max(other.y);
        let right = self.right().min(other.right());
        let bottom = self.bottom().min(other.bottom());
        (right > x && bottom > y).then(|| Self { x, y, width: right - x, height: bottom - y })
    }

    fn right(self) -> i64 {
        self.x.saturating_add(self.width)
    }

    fn bottom(self) -> i64 {
        self.y.saturating_add(self.height)
    }
}

/// Dark enough for white letters, and far from each other.
const COLOURS: [[u8; 3]; 6] =
    [[214, 0, 28], [0, 92, 230], [0, 122, 51], [150, 0, 180], [176, 82, 0], [0, 116, 128]];
const LETTERS: [u8; 3] = [255, 255, 255];

/// The longest side of a picture that agents are sent unless they ask for more. Labels of larger pictures are larger, so that
/// they stay readable when the picture is scaled down.
const SEEN_SIDE: u32 = 1568;
/// How many pixels a pixel of a letter has, at least and at most: letters of 10 by 14 pixels can be read, and letters
/// twice as large hide what they stand on.
const LETTER_SCALES: (u32, u32) = (2, 4);

/// How many letters of a label are drawn. The refs of real pages are shorter.
const LETTERS_MAX: usize = 12;

pub(crate) fn draw(picture: &mut RgbImage, boxes: &[LabelledBox]) {
    let (width, height) = picture.dimensions();
    let (least, most) = LETTER_SCALES;
    let scale = (2 * width.max(height)).div_ceil(SEEN_SIDE).clamp(least, most);
    let whole = Rect { x: 0, y: 0, width: width.into(), height: height.into() };
    let line = i64::from(scale);
    let shown: Vec<_> = boxes.iter().filter_map(|one| Some((one.rect.within(whole)?, &*one.label))).collect();
    let colours = || COLOURS.into_iter().cycle().map(Rgb);
    for ((rect, _), colour) in shown.iter().zip(colours()) {
        outline(picture, *rect, line, colour);
    }
    // Labels are drawn after all boxes, so that no box crosses a label.
    let mut taken: Vec<Rect> = Vec::with_capacity(shown.len());
    for ((rect, label), colour) in shown.iter().zip(colours()) {
        let letters: Vec<char> = label.chars().take(LETTERS_MAX).collect();
        // A box around this one does not count: the label covers it in any place.
        let others = shown.iter().map(|(other, _)| *other);
        let others: Vec<_> = others.filter(|other| rect.within(*other) != Some(*rect)).collect();
        let label = label_place(*rect, letters.len(), scale, whole, &[&taken, &others]);
        fill(picture, label, colour);
        write(picture, label, &letters, scale);
        taken.push(label);
    }
}

/// The frame of a rectangle, inside of it.
fn outline(picture: &mut RgbImage, rect: Rect, line: i64, colour: Rgb<u8>) {
    let Rect { x, y, width, height } = rect;
    let across = line.min(width);
    let down = line.min(height);
    for edge in [
        Rect { x, y, width, height: down },
        Rect { x, y: rect.bottom() - down, width, height: down },
        Rect { x, y, width: across, height },
        Rect { x: rect.right() - across, y, width: across, height },
    ] {
        fill(picture, edge, colour);
    }
}

/// Where to write a label: above the box at its left, or else below it, right of it, left of it, or in its corner. `avoided` are
/// the labels so far and the other boxes; if every place covers one of these, only the labels count.
fn label_place(rect: Rect, letters: usize, scale: u32, whole: Rect, avoided: &[&[Rect]; 2]) -> Rect {
    let scale = i64::from(scale);
    let letters = i64::try_from(letters).unwrap_or_default();
    // The gap between letters and around them is one pixel of a letter.
    let width = scale * (letters * i64::from(font::WIDTH + 1) + 1);
    let height = scale * i64::from(font::HEIGHT + 2);
    let at = |x: i64, y: i64| Rect { x, y, width, height };
    let corner = at(rect.x.min(whole.width - width).max(0), rect.y.min(whole.height - height).max(0));
    let left = corner.x;
    let places = [
        at(left, rect.y - height),
        at(left, rect.bottom()),
        at(rect.right(), rect.y),
        at(rect.x - width, rect.y),
        corner,
    ];
    let is_free = |place: &Rect, avoided: &[&[Rect]]| {
        place.within(whole) == Some(*place)
            && avoided.iter().copied().flatten().all(|other| place.within(*other).is_none())
    };
    let free = |avoided: &[&[Rect]]| places.iter().find(|place| is_free(place, avoided)).copied();
    free(avoided).or_else(|| free(&avoided[..1])).unwrap_or(corner)
}

fn write(picture: &mut RgbImage, label: Rect, letters: &[char], scale: u32) {
    let scale = i64::from(scale);
    let mut left = label.x + scale;
    for letter in letters {
        for (row, bits) in (0_i64..).zip(font::glyph(*letter)) {
            for column in 0..i64::from(font::WIDTH) {
                if bits & (1 << (i64::from(font::WIDTH) - 1 - column)) != 0 {
                    let x = left + column * scale;
                    let y = label.y + (row + 1) * scale;
                    fill(picture, Rect { x, y, width: scale, height: scale }, Rgb(LETTERS));
                }
            }
        }
        left += i64::from(font::WIDTH + 1) * scale;
    }
}

fn fill(picture: &mut RgbImage, rect: Rect, colour: Rgb<u8>) {
    let (width, height) = picture.dimensions();
    let whole = Rect { x: 0, y: 0, width: width.into(), height: height.into() };
    let Some(rect) = rect.within(whole) else { return };
    for y in rect.y..rect.bottom() {
        for x in rect.x..rect.right() {
            if let (Ok(x), Ok(y)) = (u32::try_from(x), u32::try_from(y)) {
                picture.put_pixel(x, y, colour);
            }
        }
    }
}
