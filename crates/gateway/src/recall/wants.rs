//! What a call wants of its answer: how much of it, in which form, which part. These parameters are greenroom's own and
//! never reach an engine.

use greenroom_core::{Fields, Raw, settings::Responses};
use serde::Deserialize;

use super::pages;

pub(crate) const MODE: &str = "mode";
/// The same by the setting's name, without `diff`.
pub(crate) const RESPONSES: &str = "responses";

/// What is sent of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    As(Responses),
    /// As `inline`, but of the snapshot only what changed.
    Diff,
}

impl Mode {
    pub(crate) const WORDS: [(&'static str, Self); 4] = [
        ("diff", Self::Diff),
        ("inline", Self::As(Responses::Inline)),
        ("refs", Self::As(Responses::Refs)),
        ("raw", Self::As(Responses::Raw)),
    ];
}

/// What a call wants, as far as it says so.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Wants {
    pub(crate) mode: Option<Mode>,
    pub(crate) page: Option<pages::Asked>,
}

/// Why that cannot be had. Names the parameter.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unwanted {
    #[error("`{0}` must be one of diff, inline, refs, raw")]
    Mode(&'static str),
    #[error("{0}")]
    Page(String),
}

/// Which of the parameters are greenroom's in a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Takes {
    pub(crate) mode: bool,
    pub(crate) responses: bool,
    pub(crate) pages: bool,
}

impl Takes {
    /// Whether any of them may be in this text of arguments.
    pub(crate) fn any_in(self, arguments: &str) -> bool {
        (self.mode && arguments.contains(MODE))
            || (self.responses && arguments.contains(RESPONSES))
            || (self.pages && pages::NAMES.iter().any(|name| arguments.contains(name)))
    }

    /// Takes them out of the arguments.
    pub(crate) fn take_from(self, arguments: &mut Fields) -> Result<Wants, Unwanted> {
        let mut wants = Wants::default();
        for (name, own) in [(RESPONSES, self.responses), (MODE, self.mode)] {
            let given = if own { arguments.remove(name) } else { None };
            if let Some(given) = given.filter(is_given) {
                wants.mode = Some(mode(&given).ok_or(Unwanted::Mode(name))?);
            }
        }
        if self.pages {
            let mut page = Fields::default();
            for name in pages::NAMES {
                if let Some(given) = arguments.remove(name).filter(is_given) {
                    page.set(name, given);
                }
            }
            if page.names().next().is_some() {
                let asked = serde_json::from_str(page.to_raw().get());
                wants.page = Some(asked.map_err(|error| Unwanted::Page(without_place(&error)))?);
            }
        }
        Ok(wants)
    }
}

/// `null` is as good as nothing.
fn is_given(raw: &Raw) -> bool {
    raw.get() != "null"
}

fn mode(raw: &Raw) -> Option<Mode> {
    let word = <&str>::deserialize(&mut serde_json::Deserializer::from_str(raw.get())).ok()?;
    Mode::WORDS.iter().find(|(name, _)| *name == word).map(|(_, mode)| *mode)
}

/// An error of the parser without the place in a text that nobody has seen.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(what, _)| what.to_owned())
}
