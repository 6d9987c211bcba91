//! Adds greenroom's own parameters to a tool's input schema: which session, which pool, which instance. Everything else
//! in the definition stays as it is.
//!
//! A parameter is shown only where it offers a choice, and taken from callers everywhere; a tool that has a parameter of
//! that name itself keeps it.

use greenroom_core::{Fields, Raw, raw::encode, settings::Scope};
use serde_json::{json, value::RawValue};

use crate::recall::{
    pages,
    wants::{self, MODE, Mode, RESPONSES},
};

pub(crate) const SESSION_ID: &str = "sessionId";
pub(crate) const POOL: &str = "browser_pool";
pub(crate) const INSTANCE: &str = "browser_instance";
pub(crate) const BROWSER: &str = "browserIndex";

/// Every tool carries these, so every token counts: at most 20 of them each, beside the names of pools.
const SESSION_DESCRIPTION: &str = "Your browser; each agent picks its own id";
const INSTANCE_DESCRIPTION: &str = "Number or alias in the pool";

/// What is shown to callers.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    pub(crate) scope: Scope,
    /// The pools to choose from, the default one first; empty where there is no choice.
    pub(crate) pools: Vec<String>,
    /// Whether a pool has several instances to choose from.
    pub(crate) instances: bool,
    /// Whether calls are kept, so that there is something to compare with and to ask for later.
    pub(crate) recalls: bool,
}

/// Which of the parameters are greenroom's in a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Takes {
    pub(crate) session: bool,
    pub(crate) pool: bool,
    pub(crate) instance: bool,
    pub(crate) browser: bool,
    pub(crate) wants: wants::Takes,
}

impl Takes {
    #[cfg(test)]
    pub(crate) const ALL: Self = Self {
        session: true,
        pool: true,
        instance: true,
        browser: true,
        wants: wants::Takes { mode: true, responses: true, pages: true },
    };
    const NONE: Self = Self {
        session: false,
        pool: false,
        instance: false,
        browser: false,
        wants: wants::Takes { mode: false, responses: false, pages: false },
    };
}

/// What a tool's answers have in them, as far as its engine's adapter knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Gives {
    pub(crate) snapshots: bool,
    pub(crate) data: bool,
}

impl Shown {
    /// The parameters that choose a place, as far as they are shown, in their order.
    pub(crate) fn places(&self) -> impl Iterator<Item = (&'static str, Raw)> {
        let text = |description: &str| encode(&json!({ "type": "string", "description": description }));
        let pool = (!self.pools.is_empty()).then(|| (POOL, text(&pools(&self.pools))));
        let instance = self.instances.then(|| (INSTANCE, text(INSTANCE_DESCRIPTION)));
        pool.into_iter().chain(instance)
    }

    /// The definition with the parameters, and which of them are greenroom's.
    pub(super) fn add_to(&self, definition: &RawValue, gives: Gives) -> (Raw, Takes) {
        self.add(definition, gives).unwrap_or_else(|| (definition.to_owned(), Takes::NONE))
    }

    fn add(&self, definition: &RawValue, gives: Gives) -> Option<(Raw, Takes)> {
        let mut tool = Fields::open(definition).ok()?;
        let mut schema = tool.read::<Fields>("inputSchema").ok()?.unwrap_or_default();
        let mut properties = schema.read::<Fields>("properties").ok()?.unwrap_or_default();
        let free = |name: &str| properties.get(name).is_none();
        let wants = wants::Takes {
            mode: free(MODE),
            responses: free(RESPONSES),
            pages: gives.data && pages::NAMES.iter().all(|name| free(name)),
        };
        let takes = Takes {
            session: free(SESSION_ID),
            pool: free(POOL),
            instance: free(INSTANCE),
            browser: free(BROWSER),
            wants,
        };
        let session = encode(&json!({ "type": "string", "description": SESSION_DESCRIPTION }));
        let own: Vec<_> = std::iter::once((SESSION_ID, session)).chain(self.places()).collect();
        let added: Vec<_> = own.into_iter().filter(|(name, _)| free(name)).collect();
        let form = (gives.snapshots && wants.mode && self.recalls).then(|| (MODE, mode()));
        let parts = wants.pages.then(pages::parameters).into_iter().flatten();
        let form: Vec<_> = form.into_iter().chain(parts).collect();
        if added.is_empty() && form.is_empty() {
            return Some((definition.to_owned(), takes));
        }
        for (name, parameter) in form {
            properties.set(name, parameter);
        }
        for (name, parameter) in added.into_iter().rev() {
            properties.set_first(name, parameter);
        }
        if schema.get("type").is_none() {
            schema.set_first("type", encode("object"));
        }
        schema.set("properties", properties.to_raw());
        if self.scope == Scope::Explicit && takes.session {
            let mut required = vec![encode(SESSION_ID)];
            required.extend(schema.read::<Vec<Raw>>("required").ok()?.unwrap_or_default());
            schema.set("required", encode(&required));
        }
        tool.set("inputSchema", schema.to_raw());
        Some((tool.to_raw(), takes))
    }
}

/// Of every tool that shows a page; what the words mean is in the instructions.
fn mode() -> Raw {
    let words: Vec<_> = Mode::WORDS.iter().map(|(word, _)| word).collect();
    encode(&json!({ "type": "string", "enum": words }))
}

/// `Pool: CHROMIUM (default), FIREFOX`.
fn pools(names: &[String]) -> String {
    let mut text = "Pool: ".to_owned();
    for (n, name) in names.iter().enumerate() {
        text += if n > 0 { ", " } else { "" };
        text += name;
        text += if n == 0 { " (default)" } else { "" };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(scope: Scope, pools: &[&str], instances: bool) -> Shown {
        let pools = pools.iter().map(|name| (*name).to_owned()).collect();
        Shown { scope, pools, instances, recalls: true }
    }

    fn check(definition: &str, shown: &Shown, expected: &str) -> Takes {
        let definition = greenroom_core::raw::parse(definition.to_owned()).unwrap();
        let (text, takes) = shown.add_to(&definition, Gives::default());
        let parameter = |name: &str, description: &str| {
            format!(r#""{name}":{{"type":"string","description":"{description}"}}"#)
        };
        let expected = expected
            .replace("<ID>", &parameter("sessionId", SESSION_DESCRIPTION))
            .replace("<POOL>", &parameter("browser_pool", "Pool: CHROMIUM (default), FIREFOX"))
            .replace("<INSTANCE>", &parameter("browser_instance", INSTANCE_DESCRIPTION));
        assert_eq!(text.get(), expected);
        assert!(!takes.wants.pages, "nothing of it is known to be data");
        Takes { wants: wants::Takes { pages: true, ..takes.wants }, ..takes }
    }

    /// `sessionId` comes first, everything else stays as it was written, and only `explicit` requires it.
    #[test]
    fn injection() {
        let tool = r#"{"name":"t","x-new":{"n": 1.50},"inputSchema":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]},"icons":[]}"#;
        check(
            tool,
            &shown(Scope::Connection, &[], false),
            r#"{"name":"t","x-new":{"n": 1.50},"inputSchema":{"type":"object","properties":{<ID>,"a":{"type":"string"}},"required":["a"]},"icons":[]}"#,
        );
        check(
            tool,
            &shown(Scope::Explicit, &[], false),
            r#"{"name":"t","x-new":{"n": 1.50},"inputSchema":{"type":"object","properties":{<ID>,"a":{"type":"string"}},"required":["sessionId","a"]},"icons":[]}"#,
        );
        check(
            r#"{"name":"t","inputSchema":{}}"#,
            &shown(Scope::Call, &[], false),
            r#"{"name":"t","inputSchema":{"type":"object","properties":{<ID>}}}"#,
        );
        let own = r#"{"name":"t","inputSchema":{"properties":{"sessionId":{}}}}"#;
        let takes = check(own, &shown(Scope::Connection, &[], false), own);
        assert_eq!(takes, Takes { session: false, ..Takes::ALL });
    }

    /// Pools and instances are shown only where there is a choice, behind `sessionId`, and taken everywhere; a tool's own
    /// parameter of such a name stays its own.
    #[test]
    fn places_are_shown_where_there_is_a_choice() {
        let tool = r#"{"name":"t","inputSchema":{"type":"object","properties":{"a":{}}}}"#;
        let with = |inside: &str| {
            format!(r#"{{"name":"t","inputSchema":{{"type":"object","properties":{{{inside},"a":{{}}}}}}}}"#)
        };
        let names = ["CHROMIUM", "FIREFOX"];
        for (pools, instances, inside) in [
            (&names[..], true, "<ID>,<POOL>,<INSTANCE>"),
            (&names[..], false, "<ID>,<POOL>"),
            (&[], true, "<ID>,<INSTANCE>"),
            (&[], false, "<ID>"),
        ] {
            assert_eq!(check(tool, &shown(Scope::Call, pools, instances), &with(inside)), Takes::ALL);
        }
        let own = r#"{"name":"t","inputSchema":{"type":"object","properties":{"browser_pool":{}}}}"#;
        let expected = r#"{"name":"t","inputSchema":{"type":"object","properties":{<ID>,<INSTANCE>,"browser_pool":{}}}}"#;
        let takes = check(own, &shown(Scope::Call, &names, true), expected);
        assert_eq!(takes, Takes { pool: false, ..Takes::ALL });
    }
}
