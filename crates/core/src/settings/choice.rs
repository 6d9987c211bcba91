//! Settings that take one of a few words. Each is an enum whose words are declared with its variants.

use std::{fmt, marker::PhantomData};

use super::value_type::{FlagShape, GivenValue, InvalidValue, ValueType};
use crate::lease::{Sharing, Strategy};

/// An enum with a word for each variant.
pub(super) trait ChoiceWords: Copy + 'static {
    const ALL: &'static [(&'static str, Self)];
    /// Words that users know from other programs, and what to use instead.
    const OTHER_TOOLS_WORDS: &'static [(&'static str, &'static str)];
    fn word(self) -> &'static str;
}

macro_rules! words {
    ($( $(#[doc = $doc:literal])+ $name:ident $(elsewhere [$( $word_there:literal => $instead:literal, )+])? { $( $(#[doc = $v_doc:literal])+ $variant:ident = $word:literal, )+ } )+) => { $(
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $( $(#[doc = $v_doc])+ $variant, )+ }

        impl $name {
            /// The variant's word in the configuration.
            pub fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $word, )+ }
            }
        }

        impl ChoiceWords for $name {
            const ALL: &'static [(&'static str, Self)] = &[$( ($word, Self::$variant), )+];
            const OTHER_TOOLS_WORDS: &'static [(&'static str, &'static str)] = &[$($( ($word_there, $instead), )+)?];
            fn word(self) -> &'static str {
                self.as_str()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    )+ };
}

words! {
    /// What a call without `sessionId` means.
    Scope {
        /// It belongs to the session of its MCP connection.
        Connection = "connection",
        /// It gets a lease for itself alone.
        Call = "call",
        /// It is refused.
        Explicit = "explicit",
    }

    /// What an agent gets of an answer.
    Responses {
        /// Only the changes of a page that the agent has just got; any other page whole.
        Auto = "auto",
        /// All of it, up to a budget.
        Inline = "inline",
        /// The outcome, and how to recall the rest.
        Refs = "refs",
        /// The engine's answer, byte for byte.
        Raw = "raw",
    }

    /// How pictures in an answer reach the agent.
    Pictures {
        /// As the engine sends them.
        Inline = "inline",
        /// Scaled down, if they are large.
        Small = "small",
        /// As links to resources, which the agent reads if it needs them.
        Link = "link",
    }

    /// Which tools greenroom lists for agents, and with which descriptions.
    ToolProfile {
        /// The few tools that most tasks need, and one that describes and runs the others.
        Core = "core",
        /// All tools, with shortened descriptions.
        Compact = "compact",
        /// All tools, with the engine's descriptions.
        Full = "full",
    }

    /// The MCP server that offers the browser tools.
    EngineKind {
        /// The pinned `@playwright/mcp`.
        Playwright = "playwright",
        /// The pinned `chrome-devtools-mcp`.
        Devtools = "devtools",
        /// Any MCP server, by its command or its address.
        Custom = "custom",
    }

    /// Which addresses browsers may reach unless rules say otherwise.
    NetworkPreset {
        /// Every address, but no metadata service and no port of greenroom's own.
        Open = "open",
        /// Public addresses only.
        Guarded = "guarded",
    }

    /// Whether something is done by default, always, or never.
    AutoOnOff {
        /// As it suits the client.
        Auto = "auto",
        /// Always.
        On = "on",
        /// Never.
        Off = "off",
    }

    /// Which browser is started.
    Browser {
        /// The best one that is installed.
        Auto = "auto",
        /// Chromium's small headless build.
        HeadlessShell = "headless-shell",
        /// Chromium.
        Chromium = "chromium",
        /// Google Chrome.
        Chrome = "chrome",
        /// Microsoft Edge.
        Msedge = "msedge",
        /// Playwright's Firefox, which its engine starts.
        Firefox = "firefox",
        /// Playwright's WebKit, which its engine starts.
        Webkit = "webkit",
    }

    /// Whether answers carry images.
    ImageResponses {
        /// In addition to their text.
        Allow = "allow",
        /// Never.
        Omit = "omit",
        /// Instead of their text, where there are any.
        Only = "only",
    }

    /// The colour scheme that browsers report to pages.
    ColorScheme {
        /// Dark text on light ground.
        Light = "light",
        /// Light text on dark ground.
        Dark = "dark",
        /// What pages show without a preference.
        NoPreference = "no-preference",
    }

    /// The programming language in which answers show the code of an action.
    Codegen {
        /// Playwright's own.
        Typescript = "typescript",
        /// Python.
        Python = "python",
        /// Java.
        Java = "java",
        /// C#.
        Csharp = "csharp",
        /// No code.
        None = "none",
    }

    /// What a page may do without asking its user.
    Permission elsewhere [
        "clipboard-read" => "Chromium has one clipboard for all sessions of a browser; copying and pasting work without a permission",
        "clipboard-write" => "Chromium has one clipboard for all sessions of a browser; copying and pasting work without a permission",
    ] {
        /// Knowing where the user is; see `geolocation`.
        Geolocation = "geolocation",
        /// Showing notifications.
        Notifications = "notifications",
        /// The camera.
        Camera = "camera",
        /// The microphone.
        Microphone = "microphone",
        /// Musical instruments.
        Midi = "midi",
        /// Finishing work while the page is closed.
        BackgroundSync = "background-sync",
        /// How the device is moved.
        Accelerometer = "accelerometer",
        /// How the device is turned.
        Gyroscope = "gyroscope",
        /// Where north is.
        Magnetometer = "magnetometer",
        /// Cookies in frames of other sites.
        StorageAccess = "storage-access",
        /// The fonts of this machine.
        LocalFonts = "local-fonts",
    }

    /// A further group of the engine's tools.
    Cap elsewhere [
        "tracing" => "its tools are in `devtools`",
        "verify" => "its tools are in `testing`",
        "core" => "its tools are always there",
        "core-install" => "no tool installs a browser",
        "core-input" => "its tools are always there",
        "core-navigation" => "its tools are always there",
        "core-tabs" => "its tools are always there",
    ] {
        /// Reading the engine's configuration.
        Config = "config",
        /// Requests, routes and offline mode.
        Network = "network",
        /// Saving pages as PDF.
        Pdf = "pdf",
        /// Cookies and web storage.
        Storage = "storage",
        /// Assertions and locators.
        Testing = "testing",
        /// Mouse actions by coordinates.
        Vision = "vision",
        /// Traces, videos and highlights.
        Devtools = "devtools",
    }
}

impl Cap {
    /// Whether the group's tools reach every tab of a context, as routes, offline mode, recordings, traces and videos
    /// do. Tools for cookies do too, but do not count: a user who adds them wants just that.
    pub fn reaches_all_tabs(self) -> bool {
        matches!(self, Self::Network | Self::Devtools)
    }
}

impl ChoiceWords for Sharing {
    const ALL: &'static [(&'static str, Self)] = &[("owner", Self::OneOwner), ("all", Self::All)];
    const OTHER_TOOLS_WORDS: &'static [(&'static str, &'static str)] = &[];

    fn word(self) -> &'static str {
        match self {
            Self::OneOwner => "owner",
            Self::All => "all",
        }
    }
}

impl ChoiceWords for Strategy {
    /// `Fill`, the built-in pool's strategy, has no word: `auto` means it there.
    const ALL: &'static [(&'static str, Self)] = &[
        ("fifo", Self::Fifo),
        ("round_robin", Self::RoundRobin),
        ("least_used", Self::LeastUsed),
        ("sticky", Self::Sticky),
    ];
    const OTHER_TOOLS_WORDS: &'static [(&'static str, &'static str)] = &[];

    fn word(self) -> &'static str {
        Self::ALL.iter().find(|(_, strategy)| *strategy == self).map_or("auto", |(word, _)| word)
    }
}

/// One of the words of `T`.
pub(super) struct Choice<T>(PhantomData<T>);

impl<T> Choice<T> {
    pub(super) const ANY: Self = Self(PhantomData);
}

impl<T: ChoiceWords> ValueType for Choice<T> {
    type Value = T;

    fn parse(&self, given: GivenValue<'_>) -> Result<T, InvalidValue> {
        let text = given.text().ok_or(InvalidValue(None))?;
        let known = T::ALL.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        known.ok_or_else(|| {
            let elsewhere = T::OTHER_TOOLS_WORDS.iter().find(|(word, _)| *word == text);
            InvalidValue(elsewhere.map(|(_, instead)| (*instead).to_owned()))
        })
    }

    fn show(&self, value: &T) -> String {
        value.word().to_owned()
    }

    fn allowed(&self) -> String {
        let words: Vec<_> = T::ALL.iter().map(|(word, _)| format!("`{word}`")).collect();
        format!("one of {}", words.join(", "))
    }

    fn shape(&self) -> FlagShape {
        FlagShape::One(T::ALL.iter().map(|(word, _)| *word).collect::<Vec<_>>().join("|"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::value_type::tests::{text, toml};

    /// A word that users know from other versions of an engine is refused, in lists too, and the error says what to use.
    #[test]
    fn words_of_other_engine_versions_get_a_hint() {
        let why = "its tools are in `devtools`".to_owned();
        assert_eq!(text(&Choice::<Cap>::ANY, "tracing"), Err(InvalidValue(Some(why.clone()))));
        let listed = InvalidValue(Some(format!("`tracing` is not one of them: {why}")));
        assert_eq!(text(&crate::settings::list::Many(Choice::<Cap>::ANY), "pdf,tracing"), Err(listed));
    }

    /// A choice takes its own words exactly, and says which they are.
    #[test]
    fn choice_accepts_its_own_words_only() {
        let kind = Choice::<Browser>::ANY;
        assert_eq!(text(&kind, "headless-shell"), Ok(Browser::HeadlessShell));
        assert_eq!(toml(&kind, "\"msedge\""), Ok(Browser::Msedge));
        for wrong in ["", "Chrome", "opera", "headless_shell"] {
            assert_eq!(text(&kind, wrong), Err(InvalidValue(None)), "{wrong}");
        }
        assert_eq!(toml(&kind, "1"), Err(InvalidValue(None)));
        let words = "`auto`, `headless-shell`, `chromium`, `chrome`, `msedge`, `firefox`, `webkit`";
        assert_eq!(kind.allowed(), format!("one of {words}"));
    }
}
