//! Merges the sources of configuration: defaults < TOML < `.env` < environment < flags. A wrong value is a problem even
//! where a higher source would hide it, and all problems are reported at once.
//!
//! Called once by the cli, which reads the files and the environment.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
};

use super::{
    SECTIONS, SETTINGS, Setting, Settings, check, dotenv,
    kind::{Given, Written},
    nearest::nearest,
    problem::{Problem, Problems},
};

/// The variable and the flag that name the config file. They are no settings, since they decide where settings are read.
pub const CONFIG_VARIABLE: &str = "GREENROOM_CONFIG";
pub const CONFIG_FLAG: &str = "config";

/// Everything a configuration is made of, unread.
#[derive(Debug, Default)]
pub struct Sources {
    /// The platform's data folder for greenroom, the default of `data_dir`; `None` when the home folder is unknown.
    pub data_dir: Option<PathBuf>,
    /// Where relative paths of environment, `.env` and flags start.
    pub working_dir: PathBuf,
    /// Where the user's own config file is or would be, for hints.
    pub user_file: Option<PathBuf>,
    /// Config files, the later ones winning.
    pub files: Vec<ConfigFile>,
    pub dotenv: Option<DotEnv>,
    /// The environment; names that are not [ours](is_ours) are ignored.
    pub environment: Vec<(OsString, OsString)>,
    /// Flags that were given: key and value.
    pub flags: Vec<(&'static str, String)>,
}

#[derive(Debug)]
pub struct ConfigFile {
    pub path: PathBuf,
    pub text: String,
    /// The user chose it, or it is the user's own; it does not merely lie in the working directory.
    pub trusted: bool,
}

#[derive(Debug)]
pub struct DotEnv {
    pub path: PathBuf,
    pub text: String,
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Default,
    File(PathBuf),
    DotEnv(PathBuf),
    /// The variable's name.
    Env(String),
    /// The flag with its dashes.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) | Self::DotEnv(path) => path.display().fmt(f),
            Self::Env(name) | Self::Flag(name) => f.write_str(name),
        }
    }
}

/// The settings in force, and where each came from.
#[derive(Debug, Clone)]
pub struct Resolved {
    pub settings: Settings,
    origins: BTreeMap<&'static str, Origin>,
}

impl Resolved {
    /// Where the value of `key` came from.
    pub fn origin(&self, key: &str) -> &Origin {
        self.origins.get(key).unwrap_or(&Origin::Default)
    }
}

/// Names that start like ours and are no settings: the mark of greenroom's children, one of which may be a greenroom, and
/// what steers its tests.
fn is_aside(variable: &str) -> bool {
    matches!(variable, "GREENROOM_RUN" | "GREENROOM_SOAK") || variable.starts_with("GREENROOM_TEST_")
}

/// Whether a variable is greenroom's, so that one nobody knows is a mistake: `GREENROOM_*`, and other names of settings.
pub fn is_ours(variable: &str) -> bool {
    let named = variable.starts_with("GREENROOM_") && !is_aside(variable);
    named || SETTINGS.iter().any(|setting| setting.alias == Some(variable))
}

/// Reads and merges all sources, then checks the whole.
pub fn resolve(sources: &Sources) -> Result<Resolved, Problems> {
    let defaults = Settings::defaults(sources.data_dir.clone().unwrap_or_default());
    let mut merge = Merge {
        sources,
        resolved: Resolved { settings: defaults, origins: BTreeMap::new() },
        wrong: BTreeSet::new(),
        problems: Vec::new(),
    };
    for file in &sources.files {
        merge.file(file);
    }
    if let Some(DotEnv { path, text }) = &sources.dotenv {
        let place = path.display().to_string();
        merge.variables(dotenv::variables(text), &place, Some(path));
    }
    let environment = sources.environment.iter().filter_map(|(name, value)| {
        let name = name.to_str().filter(|name| is_ours(name))?;
        Some((name.to_owned(), value.to_str().map(str::to_owned)))
    });
    merge.variables(environment.collect(), "the environment", None);
    for (key, value) in &sources.flags {
        if let Some(setting) = find(key) {
            let flag = format!("--{}", setting.flag());
            merge.set(setting, Written::Text(value), &sources.working_dir, Origin::Flag(flag.clone()), &flag);
        }
    }
    merge.finish()
}

fn find(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key)
}

struct Merge<'a> {
    sources: &'a Sources,
    resolved: Resolved,
    /// Keys with a problem of their own, which spare their conflicts with others.
    wrong: BTreeSet<&'static str>,
    problems: Vec<Problem>,
}

impl Merge<'_> {
    fn file(&mut self, file: &ConfigFile) {
        match file.text.parse::<toml::Table>() {
            Ok(table) => self.table(file, "", &table),
            Err(error) => {
                let start = error.span().map_or(0, |span| span.start);
                let line = 1 + file.text.bytes().take(start).filter(|byte| *byte == b'\n').count();
                let message = error.message().replace('\n', ", ");
                self.problems.push(Problem::Syntax { file: file.path.clone(), line, message });
            }
        }
    }

    fn table(&mut self, file: &ConfigFile, section: &str, table: &toml::Table) {
        for (name, value) in table {
            let key = if section.is_empty() { name.clone() } else { format!("{section}.{name}") };
            let place = file.path.display().to_string();
            if let Some(setting) = find(&key) {
                if setting.guarded && !file.trusted {
                    self.guarded(setting, place);
                } else {
                    let base = file.path.parent().unwrap_or(Path::new(""));
                    self.set(setting, Written::Toml(value), base, Origin::File(file.path.clone()), &place);
                }
            } else if section.is_empty() && SECTIONS.iter().any(|section| section.name == name) {
                match value.as_table() {
                    Some(table) => self.table(file, name, table),
                    None => self.problems.push(Problem::Value {
                        key,
                        value: value.to_string(),
                        place,
                        allowed: format!("a table, `[{name}]`"),
                        why: None,
                    }),
                }
            } else {
                let sections = SECTIONS.iter().map(|section| section.name).filter(|_| value.is_table());
                let names = sections.chain(SETTINGS.iter().map(|setting| setting.key));
                let nearest = nearest(&key, names).map(str::to_owned);
                let key = key.escape_debug().to_string();
                self.problems.push(Problem::UnknownKey { file: file.path.clone(), key, nearest });
            }
        }
    }

    /// `dotenv` is the path of the `.env` file that they come from, `None` for the environment itself.
    fn variables(
        &mut self,
        mut variables: Vec<(String, Option<String>)>,
        place: &str,
        dotenv: Option<&Path>,
    ) {
        // Aliases first, whatever the order of the lines, so that the proper name wins.
        variables.sort_by_key(|(name, _)| name.starts_with("GREENROOM_"));
        let working_dir = &self.sources.working_dir;
        for (name, value) in variables {
            let found = SETTINGS
                .iter()
                .find(|setting| setting.variable() == name || setting.alias == Some(name.as_str()));
            // Other programs use plain names too, and an empty one says nothing.
            let alias = found.is_some_and(|setting| setting.alias == Some(name.as_str()));
            if alias && value.as_ref().is_some_and(String::is_empty) {
                continue;
            }
            match (found, value) {
                // A `.env` that names the config file would make any file beside it a trusted one.
                (None, _) if name == CONFIG_VARIABLE && dotenv.is_some() => {
                    self.problems.push(Problem::Guarded {
                        key: name,
                        place: place.to_owned(),
                        instead: format!("set {CONFIG_VARIABLE} in the environment, or give --{CONFIG_FLAG}"),
                    });
                }
                (None, _) if name == CONFIG_VARIABLE => {}
                (None, _) => {
                    let wrong = name.trim_start_matches("GREENROOM_");
                    let known = nearest(wrong, SETTINGS.iter().map(|setting| setting.key)).and_then(find);
                    let nearest = known.map(Setting::variable);
                    let (variable, place) = (name, place.to_owned());
                    self.problems.push(Problem::UnknownVariable { variable, place, nearest });
                }
                (Some(setting), _) if setting.guarded && dotenv.is_some() => {
                    self.guarded(setting, format!("{name} in {place}"));
                }
                (Some(setting), None) => {
                    self.wrong.insert(setting.key);
                    self.problems.push(Problem::NoText { variable: name, place: place.to_owned() });
                }
                (Some(setting), Some(value)) => {
                    let (origin, from) = match dotenv {
                        Some(path) => (Origin::DotEnv(path.to_owned()), format!("{name} in {place}")),
                        None => (Origin::Env(name.clone()), name),
                    };
                    self.set(setting, Written::Text(&value), working_dir, origin, &from);
                }
            }
        }
    }

    fn set(
        &mut self,
        setting: &'static Setting,
        written: Written<'_>,
        base: &Path,
        origin: Origin,
        place: &str,
    ) {
        let given = Given { written, base };
        match (setting.set)(&mut self.resolved.settings, given) {
            Ok(()) => {
                self.resolved.origins.insert(setting.key, origin);
            }
            Err(wrong) => {
                self.wrong.insert(setting.key);
                self.problems.push(Problem::Value {
                    key: setting.key.to_owned(),
                    value: given.display(),
                    place: place.to_owned(),
                    allowed: setting.allowed(),
                    why: wrong.0,
                });
            }
        }
    }

    fn guarded(&mut self, setting: &'static Setting, place: String) {
        self.wrong.insert(setting.key);
        let file = self
            .sources
            .user_file
            .as_ref()
            .map_or_else(String::new, |file| format!(", or in {}", file.display()));
        let instead =
            format!("set it as {} in the environment, as --{}{file}", setting.variable(), setting.flag());
        self.problems.push(Problem::Guarded { key: setting.key.to_owned(), place, instead });
    }

    fn finish(mut self) -> Result<Resolved, Problems> {
        self.problems.extend(check::conflicts(&self.resolved, &self.wrong));
        let home_unknown =
            self.sources.data_dir.is_none() && *self.resolved.origin("data_dir") == Origin::Default;
        if home_unknown && !self.wrong.contains("data_dir") {
            let instead = "set HOME, or name a folder with GREENROOM_DATA_DIR or --data-dir".to_owned();
            self.problems.push(Problem::NoDataDir { instead });
        }
        if self.problems.is_empty() { Ok(self.resolved) } else { Err(Problems(self.problems)) }
    }
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
