//! Refuses calls that ask for a page or a video so large that it would take the machine's memory, or crash the browser that
//! others share. The limits are those of [`greenroom_core::page_size`], which settings have too.
//!
//! This module knows which arguments of the engines' tools are sizes. It refuses a given argument that it cannot read as a
//! size, since the engine may read it differently. The engine itself reports missing arguments. Seats call this before
//! anything else.

use greenroom_core::{
    Call, Fields,
    page_size::{self, WrongSize},
};
use serde_json::value::RawValue;

/// The most frames per second of a video. The engine writes as many as the call asks for, whether or not anything moved; no
/// screen shows more.
const FRAMES_MAX: f64 = 120.0;

/// The code of a refusal.
pub(crate) const SIZE_REFUSED: &str = "size_refused";

/// In which arguments a tool takes its sizes.
enum SizeArguments {
    /// Numbers `width` and `height`.
    Sides,
    /// An object `size` of such numbers, and a number `fps`.
    Video,
    /// A text `viewport`: `<width>x<height>[x<scale>][,word…]`, or an empty one.
    Viewport,
}

/// Why a call is refused.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum SizeRefusal {
    #[error(transparent)]
    Size(#[from] WrongSize),
    #[error("a video has from 1 to {FRAMES_MAX} frames per second: {0}")]
    Frames(f64),
    #[error("`{0}` cannot be read as a size")]
    Unreadable(&'static str),
}

/// The tools of all engines that take sizes.
fn sizes(tool: &str) -> Option<SizeArguments> {
    match tool {
        "browser_resize" | "resize_page" => Some(SizeArguments::Sides),
        "browser_start_video" => Some(SizeArguments::Video),
        "emulate" => Some(SizeArguments::Viewport),
        _ => None,
    }
}

/// Whether every size that a call asks for is allowed.
pub(crate) fn check(call: &Call) -> Result<(), SizeRefusal> {
    let Some(sizes) = sizes(&call.tool) else { return Ok(()) };
    let Some(arguments) = open(&call.params, "arguments")? else { return Ok(()) };
    match sizes {
        SizeArguments::Sides => check_sides(&arguments),
        SizeArguments::Video => {
            if given(&arguments, "fps").is_some()
                && let Some(fps) = number(&arguments, "fps")?
                && !(1.0..=FRAMES_MAX).contains(&fps)
            {
                return Err(SizeRefusal::Frames(fps));
            }
            open(&arguments.to_raw(), "size")?.map_or(Ok(()), |size| check_sides(&size))
        }
        SizeArguments::Viewport => match arguments.read::<String>("viewport") {
            Ok(text) => text.filter(|text| !text.is_empty()).map_or(Ok(()), |text| check_viewport(&text)),
            Err(_) => Err(SizeRefusal::Unreadable("viewport")),
        },
    }
}

/// A member that is given and not `null`: the engine takes a `null` for absent, or refuses it.
fn given<'a>(fields: &'a Fields, name: &str) -> Option<&'a RawValue> {
    fields.get(name).filter(|value| value.get() != "null")
}

/// The object of this name in an object, if there is one.
fn open(raw: &RawValue, name: &'static str) -> Result<Option<Fields>, SizeRefusal> {
    let unreadable = |_| SizeRefusal::Unreadable(name);
    let fields = Fields::open(raw).map_err(unreadable)?;
    given(&fields, name).map(Fields::open).transpose().map_err(unreadable)
}

fn number(fields: &Fields, name: &'static str) -> Result<Option<f64>, SizeRefusal> {
    fields.read(name).map_err(|_| SizeRefusal::Unreadable(name))
}

/// One side alone is checked with the smallest other one.
fn check_sides(fields: &Fields) -> Result<(), SizeRefusal> {
    let width = number(fields, "width")?;
    let height = number(fields, "height")?;
    Ok(page_size::check(width.unwrap_or(1.0), height.unwrap_or(1.0), 1.0)?)
}

fn check_viewport(text: &str) -> Result<(), SizeRefusal> {
    let unreadable = SizeRefusal::Unreadable("viewport");
    let size = text.split(',').next().unwrap_or_default();
    let numbers: Result<Vec<f64>, _> = size.split('x').map(|number| number.trim().parse()).collect();
    match numbers.as_deref() {
        Ok([width, height]) => Ok(page_size::check(*width, *height, 1.0)?),
        Ok([width, height, scale]) => Ok(page_size::check(*width, *height, *scale)?),
        _ => Err(unreadable),
    }
}

#[cfg(test)]
mod tests {
    use greenroom_core::raw::parse;

    use super::*;

    fn checked(tool: &str, arguments: &str) -> Result<(), SizeRefusal> {
        let params = format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#);
        check(&Call::new(tool, parse(params).unwrap()))
    }

    /// Sizes within the limits pass, as do calls without a size, and tools that have none.
    #[test]
    fn sizes_within_limits_pass() {
        for (tool, arguments) in [
            ("browser_resize", r#"{"width": 1280, "height": 720}"#),
            ("browser_resize", r#"{"width": 1.28e3, "height": 720.0}"#),
            ("browser_resize", "{}"),
            ("resize_page", r#"{"pageId": 1, "width": 7680, "height": 4320}"#),
            ("browser_start_video", r#"{"filename": "a.webm"}"#),
            ("browser_start_video", r#"{"size": {"width": 800, "height": 600}, "fps": 25}"#),
            ("browser_start_video", r#"{"size": null, "fps": null}"#),
            ("browser_resize", "null"),
            ("emulate", "null"),
            ("emulate", r#"{"viewport": "412x823x2.625,mobile,touch"}"#),
            ("emulate", r#"{"viewport": "1280x720"}"#),
            ("emulate", r#"{"viewport": ""}"#),
            ("emulate", r#"{"networkConditions": "Offline"}"#),
            ("draw_of_a_page", r#"{"width": 100000}"#),
        ] {
            assert_eq!(checked(tool, arguments), Ok(()), "{tool} {arguments}");
        }
        assert_eq!(
            check(&Call::new("browser_resize", parse(r#"{"name":"browser_resize"}"#.into()).unwrap())),
            Ok(())
        );
    }

    /// Sizes beyond the limits are refused in every notation of a number, alone or together.
    #[test]
    fn sizes_beyond_limits_are_refused() {
        for (tool, arguments) in [
            ("browser_resize", r#"{"width": 100000, "height": 100000}"#),
            ("browser_resize", r#"{"width": 1e9, "height": 1}"#),
            ("browser_resize", r#"{"width": 1, "height": 16384.5}"#),
            ("browser_resize", r#"{"width": -1280, "height": 720}"#),
            ("browser_resize", r#"{"height": 10000000}"#),
            ("browser_resize", r#"{"width": 5, "height": 5, "width": 100000}"#),
            ("resize_page", r#"{"width": 16384, "height": 16384}"#),
            ("browser_start_video", r#"{"size": {"width": 100000, "height": 100000}}"#),
            ("browser_start_video", r#"{"fps": 1e9}"#),
            ("emulate", r#"{"viewport": "100000x100000x1"}"#),
            ("emulate", r#"{"viewport": "1e9x1"}"#),
            ("emulate", r#"{"viewport": "1280x720x50,mobile"}"#),
            ("emulate", r#"{"viewport": "NaNxinfx1"}"#),
            ("emulate", r#"{"viewport": "8192x8192x2"}"#),
        ] {
            let refused = checked(tool, arguments).unwrap_err();
            assert!(!matches!(refused, SizeRefusal::Unreadable(_)), "{tool} {arguments}: {refused}");
        }
    }

    /// An argument that the guard cannot read does not reach the engine.
    #[test]
    fn unreadable_sizes_are_refused() {
        for (tool, arguments) in [
            ("browser_resize", r#"{"width": "100000", "height": 1}"#),
            ("browser_resize", r#"{"width": 1e400, "height": 1}"#),
            ("browser_resize", r#"{"width": null, "height": 1}"#),
            ("browser_resize", r#"{"width": [1280], "height": 1}"#),
            ("browser_resize", "[100000, 100000]"),
            ("browser_start_video", r#"{"size": "100000x100000"}"#),
            ("browser_start_video", r#"{"fps": "1"}"#),
            ("emulate", r#"{"viewport": "0x10x0x10"}"#),
            ("emulate", r#"{"viewport": "1280"}"#),
            ("emulate", r#"{"viewport": "0b1x1"}"#),
            ("emulate", r#"{"viewport": "1280x720\ud800"}"#),
            ("emulate", r#"{"viewport": {"width": 100000}}"#),
        ] {
            let refused = checked(tool, arguments).unwrap_err();
            assert!(matches!(refused, SizeRefusal::Unreadable(_)), "{tool} {arguments}: {refused}");
        }
    }
}
