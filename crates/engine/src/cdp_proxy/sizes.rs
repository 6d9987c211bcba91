//! How large an engine may make what a browser draws: windows, pages, pictures. Pages can ask for any size, by the features
//! of a window that they open, and engines pass it on. A browser that draws a page of 100,000 pixels takes all of the
//! machine's memory or crashes, and with it all of its sessions.
//!
//! Sizes of windows and pages are reduced to the limits. A picture that is too large is refused: a part of it would not be
//! the picture that the agent asked for.

use greenroom_core::page_size::{PIXELS_MAX, SCALE_MAX, SIDE_MAX};
use serde_json::Value;

use super::rules::Params;

/// The most pixels of a picture, as many as the largest page has: a page 1,280 pixels wide may be 26,000 high. Chromium answers
/// no session while it compresses a picture, up to 2 s for this one.
const PICTURE_PIXELS_MAX: u32 = PIXELS_MAX;

/// Above this many pixels, more than a screen has, the proxy asks Chromium for less compression effort, which halves the
/// time for noise.
const FAST_COMPRESSION_PIXELS: f64 = 4_194_304.0;

/// The longest side of a picture: a page of that length has more than a thousand screens.
const PICTURE_SIDE_MAX: f64 = 1_000_000.0;

/// The longest side of a sheet of paper, in inches: the PDF format allows 200.
const PAPER_MAX: f64 = 200.0;

/// The most pixels of a window that a page opened: more than a screen has. A page can open up to a context's limit of tabs,
/// and the browser holds a picture of each.
const POPUP_PIXELS_MAX: u32 = 2_048 * 2_048;

/// Reduces the size that a page chose for a window, after the limits for any page.
pub(super) fn reduce_popup(params: &mut Params) -> Result<(), String> {
    let sizes = match params.get_mut("bounds") {
        Some(Value::Object(bounds)) => bounds,
        _ => params,
    };
    reduce_to(sizes, "width", "height", POPUP_PIXELS_MAX).map(drop)
}

/// `Browser.setWindowBounds`.
pub(super) fn window_bounds(params: &mut Params) -> Result<(), String> {
    match params.get_mut("bounds") {
        None => Ok(()),
        Some(Value::Object(bounds)) => reduce(bounds, "width", "height").map(drop),
        Some(_) => Err("`bounds` is not an object".to_owned()),
    }
}

/// `Browser.setContentsSize` and `Emulation.setVisibleSize`.
pub(super) fn contents_size(params: &mut Params) -> Result<(), String> {
    reduce(params, "width", "height").map(drop)
}

/// `Emulation.setDeviceMetricsOverride`. If the page is within the limits but its device pixels are too many, the scale
/// factor is reduced.
pub(super) fn device_metrics(params: &mut Params) -> Result<(), String> {
    let pixels = reduce(params, "width", "height")?;
    reduce(params, "screenWidth", "screenHeight")?;
    let scale_max = (f64::from(PIXELS_MAX) / pixels).sqrt().min(SCALE_MAX.into());
    if number(params, "deviceScaleFactor")?.is_some_and(|scale| scale > scale_max) {
        params.insert("deviceScaleFactor".to_owned(), scale_max.into());
    }
    if number(params, "scale")?.is_some_and(|scale| scale > f64::from(SCALE_MAX)) {
        params.insert("scale".to_owned(), SCALE_MAX.into());
    }
    match params.get("viewport") {
        None => Ok(()),
        Some(Value::Object(viewport)) => picture(viewport).map(drop),
        Some(_) => Err("`viewport` is not an object".to_owned()),
    }
}

/// `Page.captureScreenshot`. Without a clip the picture has the size of the page.
pub(super) fn screenshot(params: &mut Params) -> Result<(), String> {
    match params.get("clip") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Object(clip)) => {
            if picture(clip)? > FAST_COMPRESSION_PIXELS {
                params.insert("optimizeForSpeed".to_owned(), true.into());
            }
            Ok(())
        }
        Some(_) => Err("`clip` is not an object".to_owned()),
    }
}

/// `Page.printToPDF`.
pub(super) fn paper(params: &mut Params) -> Result<(), String> {
    for name in ["paperWidth", "paperHeight"] {
        if number(params, name)?.is_some_and(|inches| inches > PAPER_MAX) {
            return Err(format!("`{name}` is over {PAPER_MAX} inches"));
        }
    }
    Ok(())
}

/// The pixels of a picture, if it is not too large.
fn picture(clip: &Params) -> Result<f64, String> {
    let scale = number(clip, "scale")?.unwrap_or(1.0);
    let side = |name| Ok::<_, String>(number(clip, name)?.unwrap_or_default().max(1.0) * scale);
    let width = side("width")?;
    let height = side("height")?;
    if width.max(height) > PICTURE_SIDE_MAX || width * height > f64::from(PICTURE_PIXELS_MAX) {
        return Err(format!(
            "a picture of {width:.0} x {height:.0} pixels is too large, at most {PICTURE_PIXELS_MAX} are drawn at once: \
             leave the full page out, make the page smaller, or take an element of it"
        ));
    }
    Ok(width * height)
}

/// Reduces two sides to the limits of a page, the second one further if their product is too large. Returns the number of
/// pixels; a missing side counts as one.
fn reduce(sizes: &mut Params, first: &str, second: &str) -> Result<f64, String> {
    reduce_to(sizes, first, second, PIXELS_MAX)
}

fn reduce_to(sizes: &mut Params, first: &str, second: &str, pixels_max: u32) -> Result<f64, String> {
    let mut pixels = 1.0;
    for name in [first, second] {
        let most = (f64::from(pixels_max) / pixels).min(SIDE_MAX.into()).floor();
        let side = number(sizes, name)?.unwrap_or_default().max(1.0);
        if side > most {
            sizes.insert(name.to_owned(), (most as u32).into());
        }
        pixels *= side.min(most);
    }
    Ok(pixels)
}

fn number(params: &Params, name: &str) -> Result<Option<f64>, String> {
    match params.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_f64().filter(|number| number.is_finite()) {
            Some(number) => Ok(Some(number)),
            None => Err(format!("`{name}` is not a number")),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    type SizeRule = fn(&mut Params) -> Result<(), String>;

    fn apply(rule: SizeRule, params: Value) -> Result<Value, String> {
        let mut params = serde_json::from_value(params).unwrap();
        rule(&mut params).map(|()| Value::Object(params))
    }

    /// Windows and pages are reduced to the limits; those within them stay unchanged.
    #[test]
    fn pages_are_reduced_to_the_limits() {
        let usual = json!({ "width": 1280, "height": 720, "deviceScaleFactor": 1, "mobile": false });
        assert_eq!(apply(device_metrics, usual.clone()), Ok(usual));
        let phone = json!({ "width": 412, "height": 915, "deviceScaleFactor": 3.5, "mobile": true });
        assert_eq!(apply(device_metrics, phone.clone()), Ok(phone));
        let huge =
            json!({ "width": 100_000, "height": 1e12, "screenWidth": 100_000, "deviceScaleFactor": 1 });
        let reduced = json!({ "width": 16384, "height": 2048, "screenWidth": 16384, "deviceScaleFactor": 1 });
        assert_eq!(apply(device_metrics, huge), Ok(reduced));
        let dense = apply(device_metrics, json!({ "width": 4096, "height": 2048, "deviceScaleFactor": 1e9 }));
        assert_eq!(dense.unwrap()["deviceScaleFactor"], 2.0);
        let scaled = apply(device_metrics, json!({ "width": 100, "height": 100, "scale": 1e9 }));
        assert_eq!(scaled.unwrap()["scale"], 8);

        let bounds = json!({ "windowId": 1, "bounds": { "left": -5, "width": 100_000, "height": 720 } });
        let reduced = json!({ "windowId": 1, "bounds": { "left": -5, "width": 16384, "height": 720 } });
        assert_eq!(apply(window_bounds, bounds), Ok(reduced));
        let minimised = json!({ "windowId": 1, "bounds": { "windowState": "minimized" } });
        assert_eq!(apply(window_bounds, minimised.clone()), Ok(minimised));
        assert_eq!(apply(contents_size, json!({ "width": 16_385 })), Ok(json!({ "width": 16_384 })));
    }

    /// Pictures and papers that are too large are refused; a long page is not.
    #[test]
    fn large_pictures_are_refused() {
        let clip = |width: f64, height: f64, scale: f64| {
            apply(
                screenshot,
                json!({ "clip": { "x": 0, "y": 0, "width": width, "height": height, "scale": scale } }),
            )
        };
        assert!(clip(1280.0, 26_000.0, 1.0).is_ok());
        assert!(clip(7680.0, 4320.0, 1.0).is_ok(), "the largest page");
        assert!(apply(screenshot, json!({ "format": "png" })).is_ok());
        for (width, height, scale) in
            [(1280.0, 27_000.0, 1.0), (1280.0, 720.0, 100.0), (1.0, 1e7, 1.0), (-1.0, 1e12, 1.0)]
        {
            assert!(clip(width, height, scale).is_err(), "{width} {height} {scale}");
        }
        assert!(apply(paper, json!({ "paperWidth": 8.5, "paperHeight": 200 })).is_ok());
        assert!(apply(paper, json!({ "paperWidth": 8.5, "paperHeight": 1e9 })).is_err());
    }

    /// A large picture is compressed in haste, a usual one as the engine asks for it.
    #[test]
    fn large_pictures_are_optimized_for_speed() {
        let optimizes = |height: u32| {
            let clip = json!({ "width": 1280, "height": height });
            apply(screenshot, json!({ "clip": clip, "optimizeForSpeed": false })).unwrap()["optimizeForSpeed"]
                .take()
        };
        assert_eq!((optimizes(1_080), optimizes(15_000)), (json!(false), json!(true)));
    }

    /// A size that is not a number is refused.
    #[test]
    fn sizes_that_are_no_numbers_are_refused() {
        for rule in [contents_size as SizeRule, device_metrics] {
            for width in [json!("9999999"), json!([9_999_999]), json!(true)] {
                assert!(apply(rule, json!({ "width": width, "height": 1 })).is_err(), "{width}");
            }
        }
        assert!(apply(window_bounds, json!({ "bounds": 7 })).is_err());
        assert!(apply(screenshot, json!({ "clip": { "width": "1", "height": 1 } })).is_err());
    }
}
