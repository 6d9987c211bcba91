//! The flags of the fake engine. They are parsed by hand: a start must cost next to nothing, since tests start
//! hundreds.

use std::{path::PathBuf, str::FromStr, time::Duration};

/// How the engine behaves before and during `initialize`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    #[default]
    Normal,
    /// `--die-at-start`: writes the text of `--stderr TEXT` to stderr and exits with code 1.
    Die,
    /// `--garbage-at-start`: writes lines that are not messages, then works.
    Garbage,
    /// `--hang-at-start`: reads everything, never answers `initialize`.
    Hang,
}

/// What SIGTERM does.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnTerm {
    /// Ends the process, as in every program.
    #[default]
    Default,
    /// `--log-sigterm`: the engine logs it as `SIGTERM`, then exits.
    Log,
    /// `--ignore-sigterm`: the engine logs it, and does nothing else.
    Ignore,
}

#[derive(Debug)]
pub(crate) struct FakeEngineOptions {
    pub start: Start,
    /// `--stderr TEXT`: what `--die-at-start` writes to stderr.
    pub stderr: Option<String>,
    /// `--slow-start MS`: sleeps before it reads the first line.
    pub slow_start: Duration,
    /// `--protocol VERSION`: answers this revision, whatever the client asks for.
    pub protocol: Option<String>,
    /// `--log FILE`: see [`super::log::EngineLog`].
    pub log: Option<PathBuf>,
    /// `--extra-tool NAME`, any number of times: a tool without arguments that answers its name.
    pub extra_tools: Vec<String>,
    /// `--no-logging`: no logging capability, and `logging/setLevel` is unknown.
    pub logging: bool,
    pub on_term: OnTerm,
    /// `--page-size N`: `tools/list` answers at most N tools and a cursor.
    pub page_size: usize,
}

impl FakeEngineOptions {
    /// Reads the flags; an unknown one is an error, so that a misspelt test cannot pass.
    pub fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            start: Start::Normal,
            stderr: None,
            slow_start: Duration::ZERO,
            protocol: None,
            log: None,
            extra_tools: Vec::new(),
            logging: true,
            on_term: OnTerm::Default,
            page_size: usize::MAX,
        };
        while let Some(flag) = args.next() {
            match flag.as_str() {
                "--die-at-start" => options.start = Start::Die,
                "--garbage-at-start" => options.start = Start::Garbage,
                "--hang-at-start" => options.start = Start::Hang,
                "--log-sigterm" => options.on_term = OnTerm::Log,
                "--ignore-sigterm" => options.on_term = OnTerm::Ignore,
                "--no-logging" => options.logging = false,
                "--stderr" => options.stderr = Some(value(&flag, &mut args)?),
                "--slow-start" => options.slow_start = Duration::from_millis(value(&flag, &mut args)?),
                "--protocol" => options.protocol = Some(value(&flag, &mut args)?),
                "--log" => options.log = Some(value(&flag, &mut args)?),
                "--extra-tool" => options.extra_tools.push(value(&flag, &mut args)?),
                "--page-size" => options.page_size = value::<usize>(&flag, &mut args)?.max(1),
                _ => return Err(format!("fake engine: unknown flag: `{flag}`")),
            }
        }
        Ok(options)
    }
}

fn value<T: FromStr>(flag: &str, args: &mut impl Iterator<Item = String>) -> Result<T, String> {
    let text = args.next().ok_or_else(|| format!("fake engine: value missing after `{flag}`"))?;
    text.parse().map_err(|_| format!("fake engine: bad value after `{flag}`: `{text}`"))
}
