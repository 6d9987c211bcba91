//! One set of values that must fit together, and how messages name it if they do not.

use std::collections::BTreeSet;

use super::rules::{ATTACHED, KeyRule, RULES, of_contexts, of_other_engines};
use crate::settings::{
    choice::EngineKind,
    draft::Layer,
    engine_facts::Attaching,
    key::Key,
    problem::Problem,
    resolve::Resolved,
    source::{Origin, SettingLocation},
    table::Pool,
};

/// Whose values a subject has.
#[derive(Clone, Copy)]
pub(super) enum SubjectKind<'a> {
    BuiltIn,
    /// The common values of a declared pool's instances.
    Pool(&'a str),
    Instance(&'a str, usize),
    /// An attached browser, counted from 0.
    Browser(usize),
    /// Any browser that may be attached later.
    AtRunTime,
}

pub(super) struct ConflictSubject<'a> {
    pub resolved: &'a Resolved,
    /// Settings without a valid value to compare.
    pub wrong: &'a BTreeSet<&'static str>,
    pub of: SubjectKind<'a>,
    pub pool: &'a Pool,
}

impl ConflictSubject<'_> {
    pub(super) fn conflicts(&self) -> Vec<Problem> {
        let attached: &[KeyRule] = if self.is_attached() { ATTACHED } else { &[] };
        let mut problems = Vec::new();
        for KeyRule { keys, broken, hint } in RULES.iter().chain(attached) {
            if broken(self.pool) {
                problems.extend(self.conflict(*keys, hint));
            }
        }
        if self.is_attached() {
            problems.extend(self.attached());
        }
        problems.extend(self.of_other_engines());
        problems.extend(self.unsafe_tools());
        problems
    }

    /// Rules for attached browsers alone.
    fn attached(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let engine = self.pool.engine;
        if !engine.attaches() && self.is_own(&["engine"]) {
            let attaching = EngineKind::all().filter(|engine| engine.attaches());
            let attaching: Vec<_> = attaching.map(|engine| format!("`{engine}`")).collect();
            problems.push(Problem::Conflict {
                message: format!("{}{} ({})", self.who(), self.has("engine"), self.from("engine")),
                hint: format!(
                    "set it to {}: the {engine} engine attaches to no browser; it can be a pool next to the browsers, \
                     `[pools.NAME]`",
                    attaching.join(" or ")
                ),
            });
        }
        let hint = match engine.facts().attaching {
            Attaching::OwnContextOnly => "leave it out: it would reach the tabs of the browser's user",
            Attaching::Never | Attaching::AnyContext => {
                "set `{isolated}` to `true`, or leave it out: in the browser's own context it would reach the tabs of \
                 the browser's user"
            }
        };
        let of_contexts = of_contexts(self.pool).into_iter();
        problems.extend(of_contexts.filter_map(|key| self.conflict([key, "isolated"], hint)));
        problems
    }

    fn of_other_engines(&self) -> impl Iterator<Item = Problem> {
        of_other_engines(self.pool).into_iter().filter_map(|(key, engine)| {
            self.conflict([key, "engine"], &format!("leave it out: it is an option of the {engine} engine"))
        })
    }

    fn unsafe_tools(&self) -> Option<Problem> {
        let is_unsafe = self.resolved.settings.tools.r#unsafe && !self.wrong.contains("tools.unsafe");
        let shared = self.pool.slots > 1 && self.pool.engine.facts().shares_process;
        (is_unsafe && shared && self.is_own(&["slots", "engine"])).then(|| {
            let slots = self.name("slots");
            let from = self.from("slots");
            Problem::Conflict {
                message: format!(
                    "{}`tools.unsafe` (from {}) requires `{slots}` to be 1, but it is {} ({from})",
                    self.who(),
                    self.resolved.origin("tools.unsafe"),
                    self.pool.slots
                ),
                hint: format!(
                    "set `{slots}` to 1: code in the engine's process reaches every session of that process"
                ),
            }
        })
    }

    /// The problem of two keys, unless another subject reports it.
    fn conflict(&self, keys: [&str; 2], hint: &str) -> Option<Problem> {
        self.is_own(&keys).then(|| {
            let [a, b] = keys;
            let who = self.who();
            let has_a = self.has(a);
            let from_a = self.from(a);
            let message = format!("{who}{has_a} ({from_a}), but {} ({})", self.has(b), self.from(b));
            let named =
                |hint: String, key: Key| hint.replace(&format!("{{{}}}", key.name()), &self.name(key.name()));
            Problem::Conflict { message, hint: Key::all().fold(hint.to_owned(), named) }
        })
    }

    fn is_attached(&self) -> bool {
        matches!(self.of, SubjectKind::Browser(_) | SubjectKind::AtRunTime)
    }

    /// The levels on which the subject was configured, the strongest first.
    fn layers(&self) -> Vec<&Layer> {
        let draft = |pool: &str| self.resolved.drafts().get(pool);
        match self.of {
            SubjectKind::BuiltIn | SubjectKind::AtRunTime => Vec::new(),
            SubjectKind::Pool(pool) => draft(pool).map(|draft| &draft.own).into_iter().collect(),
            SubjectKind::Instance(pool, id) => {
                let own = draft(pool).and_then(|draft| draft.instances.get(&id));
                own.into_iter().chain(draft(pool).map(|draft| &draft.own)).collect()
            }
            SubjectKind::Browser(at) => {
                self.resolved.browser_drafts().get(at).map(|draft| &draft.own).into_iter().collect()
            }
        }
    }

    /// Whether this subject reports a conflict of these keys: no key has a problem of its own, and the subject is not
    /// an instance that has all of them from its pool.
    fn is_own(&self, keys: &[&str]) -> bool {
        let is_wrong = |key: &&str| {
            self.layers().iter().any(|layer| layer.wrong.contains(key))
                || self.wrong.iter().any(|wrong| wrong.strip_prefix("pool.") == Some(key))
        };
        let brought = |key: &&str| match self.of {
            SubjectKind::Instance(pool, id) => self.resolved.site(pool, Some(id), key).is_some(),
            _ => true,
        };
        !keys.iter().any(is_wrong) && keys.iter().any(brought)
    }

    fn who(&self) -> String {
        match self.of {
            SubjectKind::BuiltIn => String::new(),
            SubjectKind::Pool(pool) => format!("pool `{pool}`: "),
            SubjectKind::Instance(pool, id) => format!("pool `{pool}`, instance {id}: "),
            SubjectKind::Browser(at) => format!("browser {}: ", at + 1),
            SubjectKind::AtRunTime => "for a browser that is attached to: ".to_owned(),
        }
    }

    fn name(&self, key: &str) -> String {
        match self.of {
            SubjectKind::BuiltIn | SubjectKind::AtRunTime => format!("pool.{key}"),
            SubjectKind::Pool(_) | SubjectKind::Instance(..) => key.to_uppercase(),
            SubjectKind::Browser(_) => key.to_owned(),
        }
    }

    /// A key with its value.
    fn has(&self, key: &str) -> String {
        let value = match Key::find(key) {
            Some(Key::Setting(_)) if key == "command" && self.pool.command.is_empty() => "empty".to_owned(),
            Some(Key::Setting(setting)) if !setting.is_guarded() || key == "extension" => {
                format!("`{}`", setting.show_in(self.pool))
            }
            _ => "set".to_owned(),
        };
        format!("`{}` is {value}", self.name(key))
    }

    fn from(&self, key: &str) -> String {
        let site: Option<&SettingLocation> = self.layers().into_iter().find_map(|layer| layer.sites.get(key));
        match (site, self.resolved.origin(&format!("pool.{key}"))) {
            (Some(site), _) => format!("from {site}"),
            (None, Origin::Default) => "the default".to_owned(),
            (None, origin) => format!("from {origin}"),
        }
    }
}
