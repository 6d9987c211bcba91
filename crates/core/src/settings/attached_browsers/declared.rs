//! Reads `[[browsers]]` of a config file. All of it is guarded: an address gives access to a user's open browser, and a
//! start command is a program.

use std::path::Path;

use super::{AppliesTo, NAMED, applies_to, draft::BrowserDraft, key::names};
use crate::settings::{
    key::Key,
    nearest::nearest,
    problem::Problem,
    resolve::SettingsMerge,
    source::{ConfigFile, Origin, SettingLocation},
    value_type::{GivenForm, GivenValue},
};

/// The name of the list that holds the browsers.
pub(in crate::settings) const BROWSERS: &str = "browsers";

impl SettingsMerge<'_> {
    /// Reads the browsers of a file; `value` is the value of the key `browsers`.
    pub(in crate::settings) fn browsers(&mut self, file: &ConfigFile, value: &toml::Value) {
        let place = file.path.display().to_string();
        if !file.trusted {
            let own = self.sources.user_file.as_ref();
            let own = own.map_or_else(String::new, |file| format!(" in {},", file.display()));
            let instead =
                format!("declare them{own} in a file that you name with --config, or as --browserUrl");
            self.problems.push(Problem::Guarded { key: BROWSERS.to_owned(), place, instead });
            return;
        }
        // The value may hold headers, which are secrets, so the message repeats none of it.
        let shape = |key: &str| Problem::Value {
            key: key.to_owned(),
            value: "…".to_owned(),
            place: Some(place.clone()),
            allowed: format!("a table for each browser, `[[{BROWSERS}]]`"),
            why: None,
        };
        let Some(list) = value.as_array() else { return self.problems.push(shape(BROWSERS)) };
        for value in list {
            // Browsers are counted from 1, as everywhere.
            let name = format!("{BROWSERS}.{}", self.browsers.len() + 1);
            let mut draft = BrowserDraft::new(site(file, name.clone()));
            match value.as_table() {
                None => self.problems.push(shape(&name)),
                Some(table) => self.browser(file, table, &mut draft),
            }
            self.browsers.push(draft);
        }
    }

    fn browser(&mut self, file: &ConfigFile, table: &toml::Table, draft: &mut BrowserDraft) {
        let declared_by = draft.declared_by.clone();
        let base = file.path.parent().unwrap_or(Path::new(""));
        for (name, value) in table {
            let given = GivenValue { written: GivenForm::Toml(value), base };
            let site = site(file, format!("{}.{}", declared_by.name, name.escape_debug()));
            let taken = match (NAMED.into_iter().find(|key| key == name), Key::find(name), applies_to(name)) {
                (Some(key), ..) => draft.name(key, given, site),
                (_, _, Some(AppliesTo::No(why))) => Err(Problem::Conflict {
                    message: format!("{site} means nothing to a browser that is attached to"),
                    hint: format!("leave it out: {why}"),
                }),
                (_, Some(Key::Setting(setting)), _) => draft.set(setting, given, site),
                _ => Err(Problem::UnknownKey {
                    file: file.path.clone(),
                    nearest: nearest(name, names()).map(|key| format!("{}.{key}", declared_by.name)),
                    key: site.name,
                }),
            };
            self.problems.extend(taken.err());
        }
        if !table.contains_key("url") {
            self.problems.push(Problem::Conflict {
                message: format!("{declared_by} has no `url`"),
                hint: "add its debugger's address, such as `url = \"http://127.0.0.1:9222\"`".to_owned(),
            });
        }
    }
}

fn site(file: &ConfigFile, name: String) -> SettingLocation {
    SettingLocation { name, origin: Origin::File(file.path.clone()) }
}
