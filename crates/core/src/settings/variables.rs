//! Reads variables, of the environment and of `.env`: which are greenroom's, what each of them sets, and which wins
//! where a setting has several.

use std::path::{Path, PathBuf};

use super::{
    SETTINGS, Setting,
    key::Key,
    nearest::nearest,
    problem::Problem,
    resolve::{SettingLabel, SettingsMerge, find},
    source::{API_KEY_VARIABLE, CONFIG_FLAG, CONFIG_VARIABLE, Origin, SESSION_VARIABLE, SettingLocation},
    value_type::{GivenForm, GivenValue},
    variable_grammar::{self, PoolKeyPath, VariableName},
};

const PREFIX: &str = "GREENROOM_";

/// Keys that no variable of greenroom's prefix can set.
const ELSEWHERE: [&str; 4] = ["browsers", "browser_url", "ws_endpoint", "pools"];

/// Whether a name with our prefix is not a setting: `GREENROOM_RUN`, which marks greenroom's child processes (one of
/// which may be a greenroom too), and variables for its tests.
fn is_internal(variable: &str) -> bool {
    matches!(variable, "GREENROOM_RUN" | "GREENROOM_SOAK") || variable.starts_with("GREENROOM_TEST_")
}

/// Whether a variable is greenroom's, so that an unknown one is reported: `GREENROOM_*`, `PW_MCP_PROXY_*`, other
/// names of settings, and names that settings once had.
pub fn is_ours(variable: &str) -> bool {
    let prefixed = variable.starts_with(PREFIX) && !is_internal(variable);
    prefixed
        || variable.starts_with(variable_grammar::PREFIX)
        || variable_grammar::renamed(variable).is_some()
        || SETTINGS.iter().any(|setting| setting.alias == Some(variable))
}

/// The source of variables: the environment, or the `.env` of this path.
pub(super) struct Variables {
    pub dotenv: Option<PathBuf>,
}

impl Variables {
    fn place(&self) -> String {
        self.dotenv.as_ref().map_or_else(|| "the environment".to_owned(), |path| path.display().to_string())
    }

    fn site(&self, name: &str) -> SettingLocation {
        let origin = match &self.dotenv {
            Some(path) => Origin::DotEnv(path.clone()),
            None => Origin::Env(name.to_owned()),
        };
        SettingLocation { name: name.escape_debug().to_string(), origin }
    }
}

impl SettingsMerge<'_> {
    pub(super) fn variables(&mut self, from: &Variables, mut variables: Vec<(String, Option<String>)>) {
        // Later variables win, so this sorts the names: `GREENROOM_…` comes last, a plain name such as
        // `HEADLESS` first.
        variables
            .sort_by_key(|(name, _)| (name.starts_with(PREFIX), name.starts_with(variable_grammar::PREFIX)));
        for (name, value) in variables {
            if let Some(new) = variable_grammar::renamed(&name) {
                // An empty value of a plain name sets nothing.
                if value.as_deref() != Some("") {
                    self.problems.push(Problem::Renamed { variable: name, place: from.place(), new });
                }
                continue;
            }
            match variable_grammar::read(&name) {
                None => self.setting(from, &name, value.as_deref()),
                Some(Err(misnamed)) => self.problems.push(misnamed.problem(&name, &from.place())),
                Some(Ok(VariableName::Global(Key::Setting(setting)))) => {
                    let place = from.dotenv.as_ref().map(|path| path.display().to_string());
                    let label = SettingLabel { key: name.clone(), place };
                    self.assign(from, setting, &name, value.as_deref(), label);
                }
                Some(Ok(VariableName::Global(key))) => self.of_all_pools(from, key, &name, value.as_deref()),
                Some(Ok(VariableName::Of(spot))) => self.of_pool(from, &spot, &name, value.as_deref()),
            }
        }
    }

    /// A variable of greenroom's own prefix, or a second name.
    fn setting(&mut self, from: &Variables, name: &str, value: Option<&str>) {
        let found = SETTINGS.iter().find(|setting| setting.variable() == name || setting.alias == Some(name));
        // Other programs use plain names too, and an empty value sets nothing.
        if found.is_some_and(|setting| setting.alias == Some(name)) && value == Some("") {
            return;
        }
        let wrong = name.strip_prefix(PREFIX).unwrap_or(name);
        let declaring = wrong.strip_prefix("POOL_").and_then(|key| Key::declaring(&key.to_lowercase()));
        match found {
            Some(setting) => {
                let place = from.dotenv.as_ref().map(|path| format!("{name} in {}", path.display()));
                let place = Some(place.unwrap_or_else(|| name.to_owned()));
                let label = SettingLabel { key: setting.key.to_owned(), place };
                self.assign(from, setting, name, value, label);
            }
            // A `.env` that names the config file would make any file in its folder trusted.
            None if name == CONFIG_VARIABLE && from.dotenv.is_some() => {
                self.problems.push(Problem::Guarded {
                    key: name.to_owned(),
                    place: from.place(),
                    instead: format!("set {CONFIG_VARIABLE} in the environment, or give --{CONFIG_FLAG}"),
                });
            }
            // A `.env` may come with a cloned repository, and its key would make the server take this user for another.
            None if name == API_KEY_VARIABLE && from.dotenv.is_some() => {
                self.problems.push(Problem::Guarded {
                    key: name.to_owned(),
                    place: from.place(),
                    instead: format!("set {API_KEY_VARIABLE} in the environment, or give --key-file"),
                });
            }
            None if [CONFIG_VARIABLE, SESSION_VARIABLE, API_KEY_VARIABLE].contains(&name) => {}
            None => match declaring {
                Some(key) => self.of_all_pools(from, key, name, value),
                None => {
                    let known = nearest(wrong, SETTINGS.iter().map(|setting| setting.key)).and_then(find);
                    let variable = name.to_owned();
                    let place = from.place();
                    let problem =
                        Problem::UnknownVariable { variable, place, nearest: known.map(Setting::variable) };
                    // A name that resembles no setting may be another program's, or another version's: only warn.
                    if known.is_some() || nearest(wrong, ELSEWHERE).is_some() {
                        self.problems.push(problem);
                    } else {
                        self.warnings.push(problem);
                    }
                }
            },
        }
    }

    fn assign(
        &mut self,
        from: &Variables,
        setting: &'static Setting,
        name: &str,
        value: Option<&str>,
        label: SettingLabel,
    ) {
        match value {
            _ if setting.is_guarded() && from.dotenv.is_some() => {
                self.guarded(setting, format!("{name} in {}", from.place()));
            }
            None => {
                self.wrong.insert(setting.key);
                self.problems.push(Problem::NoText { variable: name.to_owned(), place: from.place() });
            }
            Some(value) => {
                let base: &Path = &self.sources.working_dir;
                self.set(
                    setting,
                    GivenValue { written: GivenForm::Text(value), base },
                    from.site(name).origin,
                    label,
                );
            }
        }
    }

    /// A key of declarations that is set for all pools at once: a description may be, the others may not.
    fn of_all_pools(&mut self, from: &Variables, key: Key, name: &str, value: Option<&str>) {
        let site = from.site(name);
        match value {
            None => self.problems.push(Problem::NoText { variable: site.name, place: from.place() }),
            Some(value) => {
                let given = GivenValue { written: GivenForm::Text(value), base: &self.sources.working_dir };
                self.declare_for_all(key, given, &site);
            }
        }
    }

    fn of_pool(&mut self, from: &Variables, spot: &PoolKeyPath, name: &str, value: Option<&str>) {
        let site = from.site(name);
        match value {
            _ if spot.key.is_guarded() && from.dotenv.is_some() => self.guarded_in_pool(spot, &site),
            None => {
                self.drafts.mark_invalid(spot, &site);
                self.problems.push(Problem::NoText { variable: site.name, place: from.place() });
            }
            Some(value) => {
                let given = GivenValue { written: GivenForm::Text(value), base: &self.sources.working_dir };
                self.problems.extend(self.drafts.set(spot, given, site).err());
            }
        }
    }
}
