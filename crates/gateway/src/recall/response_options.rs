//! What a call asks of its answer: how much of it, in which form, which part. These parameters are greenroom's own and
//! never reach an engine.

use greenroom_core::{
    Fields, Raw,
    settings::{Pictures, Responses},
};
use serde::Deserialize;

use super::pages;

pub(crate) const MODE: &str = "mode";
/// Another name of the parameter `mode`: that of the setting.
pub(crate) const RESPONSES: &str = "responses";
/// The parameter that says how pictures are sent, by a word of the setting.
pub(crate) const PICTURES: &str = "pictures";
pub(crate) const PICTURE_FORMS: [Pictures; 3] = [Pictures::Inline, Pictures::Small, Pictures::Link];
/// The parameter that says whether the refs of elements are drawn on a picture.
pub(crate) const ANNOTATE: &str = "annotate";

/// How much of an answer is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseMode {
    As(Responses),
    /// As `inline`, but of the snapshot only the changes.
    Diff,
}

impl ResponseMode {
    pub(crate) const WORDS: [(&'static str, Self); 5] = [
        ("auto", Self::As(Responses::Auto)),
        ("diff", Self::Diff),
        ("inline", Self::As(Responses::Inline)),
        ("refs", Self::As(Responses::Refs)),
        ("raw", Self::As(Responses::Raw)),
    ];

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(name, _)| *name == word).map(|(_, mode)| *mode)
    }
}

/// What a call asks of its answer.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ResponseOptions {
    pub(crate) mode: Option<ResponseMode>,
    pub(crate) page: Option<pages::PageQuery>,
    pub(crate) pictures: Option<Pictures>,
    pub(crate) annotate: bool,
}

/// Why these parameters are wrong. Names the parameter.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidOption {
    #[error("`{0}` must be one of auto, diff, inline, refs, raw")]
    Mode(&'static str),
    #[error("`{PICTURES}` must be one of inline, small, link")]
    Pictures,
    #[error("`{0}` {1}")]
    Type(&'static str, &'static str),
    #[error(transparent)]
    Page(#[from] pages::PageError),
}

/// Which of these parameters of a tool are greenroom's, not the tool's own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct InjectedOptions {
    pub(crate) mode: bool,
    pub(crate) responses: bool,
    pub(crate) pages: bool,
    pub(crate) pictures: bool,
    pub(crate) annotate: bool,
}

impl InjectedOptions {
    /// Whether the text of the arguments may contain any of these parameters.
    pub(crate) fn any_in(self, arguments: &str) -> bool {
        (self.mode && arguments.contains(MODE))
            || (self.responses && arguments.contains(RESPONSES))
            || (self.pictures && arguments.contains(PICTURES))
            || (self.annotate && arguments.contains(ANNOTATE))
            || (self.pages && pages::NAMES.iter().any(|name| arguments.contains(name)))
    }

    /// Removes these parameters from the arguments.
    pub(crate) fn take_from(self, arguments: &mut Fields) -> Result<ResponseOptions, InvalidOption> {
        let mut response_options = ResponseOptions::default();
        for (name, own) in [(RESPONSES, self.responses), (MODE, self.mode)] {
            let given = if own { arguments.remove(name) } else { None };
            if let Some(given) = given.filter(is_given) {
                response_options.mode = Some(mode(&given).ok_or(InvalidOption::Mode(name))?);
            }
        }
        let mut take = |name, own| if own { arguments.remove(name).filter(is_given) } else { None };
        if let Some(given) = take(PICTURES, self.pictures) {
            response_options.pictures = Some(pictures(&given).ok_or(InvalidOption::Pictures)?);
        }
        if let Some(given) = take(ANNOTATE, self.annotate) {
            let wrong = |_| InvalidOption::Type(ANNOTATE, "must be true or false");
            response_options.annotate = serde_json::from_str(given.get()).map_err(wrong)?;
        }
        if self.pages {
            let mut parameters = pages::PageParameters::default();
            for name in pages::NAMES {
                if let Some(given) = arguments.remove(name).filter(is_given) {
                    parameters.set(name, given.get()).map_err(|must| InvalidOption::Type(name, must))?;
                }
            }
            if parameters != pages::PageParameters::default() {
                response_options.page = Some(parameters.check()?);
            }
        }
        Ok(response_options)
    }
}

/// `null` counts as missing.
fn is_given(raw: &Raw) -> bool {
    raw.get() != "null"
}

fn mode(raw: &Raw) -> Option<ResponseMode> {
    let word = <&str>::deserialize(&mut serde_json::Deserializer::from_str(raw.get())).ok()?;
    ResponseMode::from_word(word)
}

fn pictures(raw: &Raw) -> Option<Pictures> {
    let word = <&str>::deserialize(&mut serde_json::Deserializer::from_str(raw.get())).ok()?;
    PICTURE_FORMS.into_iter().find(|form| form.as_str() == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(arguments: &str) -> Result<ResponseOptions, InvalidOption> {
        let raw = greenroom_core::raw::parse(arguments.to_owned()).unwrap();
        let takes =
            InjectedOptions { mode: true, responses: true, pages: true, pictures: true, annotate: true };
        takes.take_from(&mut Fields::open(&raw).unwrap())
    }

    /// The error for a wrong type names the parameter and what it must be.
    #[test]
    fn wrong_type_errors_name_the_parameter() {
        for (arguments, says) in [
            (r#"{"limit": -1}"#, "`limit` must be a whole number from 1 to 10,000"),
            (r#"{"limit": 1.5}"#, "`limit` must be a whole number from 1 to 10,000"),
            (r#"{"offset": "3"}"#, "`offset` must be a whole number from 0"),
            (r#"{"output_format": "xml"}"#, "`output_format` must be yaml or json"),
            (r#"{"flatten": "yes"}"#, "`flatten` must be true or false"),
            (r#"{"cache_key": 5}"#, "`cache_key` must be text"),
            (r#"{"mode": "all"}"#, "`mode` must be one of auto, diff, inline, refs, raw"),
            (r#"{"pictures": "tiny"}"#, "`pictures` must be one of inline, small, link"),
            (r#"{"annotate": "yes"}"#, "`annotate` must be true or false"),
        ] {
            assert_eq!(taken(arguments).unwrap_err().to_string(), says, "{arguments}");
        }
    }

    /// Whole numbers may have either spelling, `null` counts as missing, and a call without the parameters asks for no
    /// page.
    #[test]
    fn numbers_and_null_are_accepted() {
        let page = taken(r#"{"limit": 2.0, "offset": 4, "flatten": true, "cache_key": null}"#)
            .unwrap()
            .page
            .unwrap();
        assert_eq!((page.limit, page.offset, page.flatten, page.parameters.cache_key), (2, 4, true, None));
        assert_eq!(taken(r#"{"url": "x", "limit": null}"#), Ok(ResponseOptions::default()));
        let picture = taken(r#"{"pictures": "link", "annotate": true}"#).unwrap();
        assert_eq!((picture.pictures, picture.annotate), (Some(Pictures::Link), true));
    }
}
