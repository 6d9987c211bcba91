//! Browsers on the command line: `--browserUrl [LABEL=]URL[|START COMMAND]`, and `--wsEndpoint` likewise. The scheme says
//! what kind of address it is, so each flag takes both kinds. Headers cannot be given here: they are secrets, and every
//! user of the machine can read a command line.

use super::BrowserDraft;
use crate::{
    settings::{
        resolve::SettingsMerge,
        source::{BrowserFlag, Origin, SettingLocation},
        value_type::{GivenForm, GivenValue},
    },
    web_address::shown,
};

/// The parts of a flag's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Flag<'a> {
    label: Option<&'a str>,
    url: &'a str,
    command: Option<&'a str>,
}

impl<'a> Flag<'a> {
    fn read(text: &'a str) -> Self {
        let (place, command) =
            text.split_once('|').map_or((text, None), |(place, command)| (place, Some(command)));
        // A label stands before the address; a `=` within the address comes after its `://`.
        let (label, url) = match place.split_once('=') {
            Some((label, url)) if !label.contains("://") => (Some(label), url),
            _ => (None, place),
        };
        Self { label, url: url.trim(), command }
    }
}

impl SettingsMerge<'_> {
    pub(in crate::settings) fn browser_flag(&mut self, given: &BrowserFlag) {
        let BrowserFlag { flag, value } = given;
        let Flag { label, url, command } = Flag::read(value);
        let origin = Origin::Flag((*flag).to_owned());
        let site = SettingLocation { name: format!("{flag} {}", shown(url)), origin };
        let mut draft = BrowserDraft::new(site.clone());
        let parts = [("label", label), ("url", Some(url)), ("start_command", command)];
        for (key, text) in parts.into_iter().filter_map(|(key, text)| Some((key, text?))) {
            let given = GivenValue { written: GivenForm::Text(text), base: &self.sources.working_dir };
            let part = SettingLocation {
                name: match key {
                    "label" => format!("{flag} LABEL="),
                    "url" => (*flag).to_owned(),
                    _ => format!("{}|", site.name),
                },
                origin: site.origin.clone(),
            };
            self.problems.extend(draft.name(key, given, part).err());
            draft.named.insert(key, site.clone());
        }
        self.browsers.push(draft);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flag's value splits into label, address and command, whatever characters these contain.
    #[test]
    fn browser_flag_is_split_into_its_parts() {
        let flag = |label, url, command| Flag { label, url, command };
        for (text, parts) in [
            ("http://h:1", flag(None, "http://h:1", None)),
            ("http://h:1|chrome a|b", flag(None, "http://h:1", Some("chrome a|b"))),
            ("work=http://h:1", flag(Some("work"), "http://h:1", None)),
            ("wss://h/?k=v", flag(None, "wss://h/?k=v", None)),
            ("a b=wss://h/?k=v|x=y", flag(Some("a b"), "wss://h/?k=v", Some("x=y"))),
            ("http://h:1|x=http://y", flag(None, "http://h:1", Some("x=http://y"))),
            ("=http://h:1|", flag(Some(""), "http://h:1", Some(""))),
            ("", flag(None, "", None)),
        ] {
            assert_eq!(Flag::read(text), parts, "{text}");
        }
    }
}
