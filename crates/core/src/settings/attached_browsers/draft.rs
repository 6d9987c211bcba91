//! What the sources say of each attached browser, and the browsers made of it: the settings of all pools that apply to
//! a running browser, under the browser's own values. Also finds problems between browsers; `check.rs` finds those
//! within one.

use std::collections::BTreeMap;

use super::{
    AppliesTo, AttachedBrowser, BROWSERS_MAX, Header,
    part::{BrowserLabel, BrowserTags, HeaderTable, StartCommandLine},
};
use crate::{
    settings::{
        SETTINGS,
        check::of_other_engines,
        draft::Layer,
        problem::Problem,
        resolve::Resolved,
        server_url::ServerUrl,
        setting_macro::Setting,
        source::{Origin, SettingLocation},
        table::{Pool, Settings},
        value_type::{GivenValue, InvalidValue, ValueType},
    },
    web_address::{ServerAddress, shown},
};

/// What the sources say of one browser.
#[derive(Debug, Clone)]
pub(in crate::settings) struct BrowserDraft {
    /// The source that names the browser: `browsers.1` of a file, or a flag.
    pub declared_by: SettingLocation,
    /// Empty if no address is given, or it cannot be read.
    pub url: String,
    pub label: Option<String>,
    pub tags: Vec<String>,
    pub headers: Vec<Header>,
    pub start_command: Vec<String>,
    /// Where each of these was set.
    pub named: BTreeMap<&'static str, SettingLocation>,
    /// The browser's own values of pool settings.
    pub own: Layer,
}

impl BrowserDraft {
    pub(super) fn new(declared_by: SettingLocation) -> Self {
        Self {
            own: Layer::new(&declared_by),
            declared_by,
            url: String::new(),
            label: None,
            tags: Vec::new(),
            headers: Vec::new(),
            start_command: Vec::new(),
            named: BTreeMap::new(),
        }
    }

    /// Adds a value of one of the keys in [`NAMED`](super::NAMED).
    pub(super) fn name(
        &mut self,
        key: &'static str,
        given: GivenValue<'_>,
        site: SettingLocation,
    ) -> Result<(), Problem> {
        let read = match key {
            "url" => ServerUrl::DEBUGGER.parse(given).map(|url| self.url = url),
            "label" => BrowserLabel.parse(given).map(|label| self.label = Some(label)),
            "tags" => BrowserTags.parse(given).map(|tags| self.tags = tags),
            "headers" => HeaderTable.parse(given).map(|headers| self.headers = headers),
            _ => StartCommandLine.parse(given).map(|command| self.start_command = command),
        };
        match read {
            Ok(()) => {
                self.named.insert(key, site);
                Ok(())
            }
            Err(InvalidValue(why)) => {
                let (value, allowed) = wrong(key, given);
                Err(Problem::Value { key: site.name.clone(), value, place: site.place(), allowed, why })
            }
        }
    }

    /// Adds the value of a pool's setting.
    pub(super) fn set(
        &mut self,
        setting: &'static Setting,
        given: GivenValue<'_>,
        site: SettingLocation,
    ) -> Result<(), Problem> {
        match self.own.set(setting, given) {
            Ok(()) => {
                self.own.sites.insert(setting.name(), site);
                Ok(())
            }
            Err(InvalidValue(why)) => {
                self.own.wrong.insert(setting.name());
                let value = (setting.show_wrong)(given);
                let allowed = setting.allowed();
                Err(Problem::Value { key: site.name.clone(), value, place: site.place(), allowed, why })
            }
        }
    }

    /// The browser: `base`, which holds for all browsers, overridden by this browser's values.
    pub(in crate::settings) fn browser(&self, base: &Pool) -> AttachedBrowser {
        let mut pool = self.own.over(base.clone());
        drop_inapplicable_settings(&mut pool, |key| self.own.sites.contains_key(key));
        AttachedBrowser {
            url: self.url.clone(),
            label: self.label.clone(),
            tags: self.tags.clone(),
            headers: self.headers.clone(),
            start_command: self.start_command.clone(),
            pool,
        }
    }

    /// Where a part of the browser was set.
    fn site(&self, key: &str) -> &SettingLocation {
        self.named.get(key).unwrap_or(&self.declared_by)
    }
}

/// A wrong value for a message, and what was expected.
fn wrong(key: &str, given: GivenValue<'_>) -> (String, String) {
    match key {
        "url" => (ServerUrl::DEBUGGER.show_wrong(given), ServerUrl::DEBUGGER.allowed()),
        "label" => (BrowserLabel.show_wrong(given), BrowserLabel.allowed()),
        "tags" => (BrowserTags.show_wrong(given), BrowserTags.allowed()),
        "headers" => (HeaderTable.show_wrong(given), HeaderTable.allowed()),
        _ => (StartCommandLine.show_wrong(given), StartCommandLine.allowed()),
    }
}

/// The values that a browser starts from: the defaults of declared pools, overridden by the settings of all pools that
/// apply to a running browser.
pub(in crate::settings) fn base(resolved: &Resolved) -> Pool {
    let mut whole = Settings::around(Pool::declared_defaults());
    for setting in SETTINGS.iter().filter(|setting| setting.is_of_browsers()) {
        if *resolved.origin(setting.key) != Origin::Default {
            (setting.copy)(&resolved.settings, &mut whole);
        }
    }
    whole.pool
}

/// Drops settings of all pools that cannot apply to this browser: emulation settings if greenroom makes no contexts of
/// its own in it, and options of another engine. Lists of origins stay: the user must learn from the error that they do
/// not hold here.
fn drop_inapplicable_settings(pool: &mut Pool, is_own: impl Fn(&str) -> bool) {
    let foreign = if is_own("engine") { of_other_engines(pool) } else { Vec::new() };
    let defaults = Settings::around(Pool::declared_defaults());
    let mut whole = Settings::around(pool.clone());
    for setting in SETTINGS.iter().filter(|setting| setting.is_of_browsers()) {
        let name = setting.name();
        let wall = matches!(name, "allowed_origins" | "blocked_origins");
        let meaningless = foreign.iter().any(|(other, _)| *other == name)
            || setting.applies_to == Some(AppliesTo::Isolated) && !pool.isolated;
        if meaningless && !wall && !is_own(name) {
            (setting.copy)(&defaults, &mut whole);
        }
    }
    *pool = whole.pool;
    if !pool.isolated && !is_own("caps") {
        pool.caps.retain(|cap| !cap.reaches_all_tabs());
    }
}

/// Problems between browsers.
pub(in crate::settings) fn problems(drafts: &[BrowserDraft]) -> Vec<Problem> {
    let mut problems = Vec::new();
    if drafts.len() > BROWSERS_MAX {
        problems.push(Problem::Conflict {
            message: format!(
                "there are {} browsers, but at most {BROWSERS_MAX} can be attached",
                drafts.len()
            ),
            hint: "start a second greenroom for the others".to_owned(),
        });
    }
    let mut places: Vec<(ServerAddress, &BrowserDraft)> = Vec::new();
    let mut labels: BTreeMap<&str, &SettingLocation> = BTreeMap::new();
    for draft in drafts {
        if !draft.url.is_empty() {
            let place = ServerAddress::parse(&draft.url);
            // Compare with the nearest browser before it, so that each of three equal ones is reported once.
            let other = places.iter().rev().find(|(other, _)| other.may_equal(&place));
            problems.extend(other.map(|(_, other)| twice(other, draft)));
            places.push((place, draft));
        }
        if let Some(label) = &draft.label {
            let site = draft.site("label");
            match labels.insert(label, site) {
                None => {}
                Some(other) => problems.push(Problem::Conflict {
                    message: format!("two browsers have the label `{label}`: {other} and {site}"),
                    hint: "give each a label of its own".to_owned(),
                }),
            }
        }
    }
    problems
}

/// The problem of two addresses that lead to one browser.
fn twice(one: &BrowserDraft, other: &BrowserDraft) -> Problem {
    let first = shown(&one.url);
    let second = shown(&other.url);
    let sites = format!("{} and {}", one.site("url"), other.site("url"));
    let message = match first == second {
        true => format!("`{second}` is there twice: {sites}"),
        false => format!("`{first}` and `{second}` are one browser: {sites}"),
    };
    Problem::Conflict { message, hint: "name each browser once".to_owned() }
}

impl Resolved {
    /// Where an attached browser was named: a file, or a flag. Browsers are counted from 0 here.
    pub fn browser_origin(&self, browser: usize) -> &Origin {
        self.browser_drafts().get(browser).map_or(&Origin::Default, |draft| &draft.declared_by.origin)
    }

    /// Where an attached browser's value of a pool setting came from: the word for its level, and the source.
    pub fn browser_key(&self, browser: usize, key: &str) -> (&'static str, &Origin) {
        let draft = self.browser_drafts().get(browser);
        if let Some(site) = draft.and_then(|draft| draft.own.sites.get(key)) {
            return ("browser", &site.origin);
        }
        // A setting that does not reach a browser has another value there than in `[pool]`.
        let kept = |setting: &&Setting| {
            let pool = self.settings.browsers.get(browser).map(|browser| &browser.pool);
            pool.is_some_and(|pool| setting.is_same_in(pool, &self.settings.pool))
        };
        let mut settings = SETTINGS.iter().filter(|setting| setting.is_of_browsers());
        match settings
            .find(|setting| setting.name() == key)
            .filter(kept)
            .map(|setting| self.origin(setting.key))
        {
            None | Some(Origin::Default) => ("default", &Origin::Default),
            Some(origin) => ("global", origin),
        }
    }
}

/// The values of a browser that is attached at run time. This replaces an engine that cannot attach to a browser by the
/// default engine; a configured browser with such an engine is refused instead.
pub(in crate::settings) fn at_run_time(mut base: Pool) -> Pool {
    if !base.engine.attaches() {
        base.engine = Pool::declared_defaults().engine;
    }
    drop_inapplicable_settings(&mut base, |_| false);
    base
}
