//! Adds greenroom's own parameters to a tool's input schema: which session, which pool, which instance, which attached
//! browser. Everything else in the definition stays as it is.
//!
//! The list shows a parameter only where it offers a choice; callers may pass it everywhere. A tool that has a
//! parameter of that name itself keeps it.

use greenroom_core::{
    Fields, Raw,
    raw::encode,
    settings::{Pictures, Scope, ToolProfile},
};
use serde_json::{json, value::RawValue};

use super::source::{KnownSource, SourceName};
use crate::recall::{
    pages,
    response_options::{self, ANNOTATE, MODE, PICTURE_FORMS, PICTURES, RESPONSES},
};

pub(crate) const SESSION_ID: &str = "sessionId";
pub(crate) const POOL: &str = "browser_pool";
pub(crate) const INSTANCE: &str = "browser_instance";
pub(crate) const BROWSER: &str = "browserIndex";
pub(crate) const TAG: &str = "browserTag";

/// Every tool in the list carries these parameters, so they must be short: at most 20 tokens each, not
/// counting the names of pools; at most 48 for the parameter that chooses a browser.
const SESSION_DESCRIPTION: &str = "Your own browser, by any id";
const INSTANCE_DESCRIPTION: &str = "Number or alias in the pool";
const BROWSER_DESCRIPTION: &str = "Which browser; see list_browsers";
const ANNOTATE_DESCRIPTION: &str = "Draw the refs of what can be clicked or filled";
const LABEL_DESCRIPTION: &str = "Index or label; see list_browsers";

/// How many attached browsers there are, as far as the list depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttachedCount {
    None,
    /// One browser is attached. greenroom refuses a call that names it.
    One,
    Several {
        /// Some have a label.
        labelled: bool,
    },
}

/// Which of greenroom's own parameters the tool list shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListOptions {
    pub(crate) scope: Scope,
    pub(crate) profile: ToolProfile,
    /// The pools to choose from, the default one first; empty where there is no choice.
    pub(crate) pools: Vec<String>,
    /// Whether a pool has several instances to choose from.
    pub(crate) instances: bool,
    pub(crate) browsers: AttachedCount,
    /// Whether an attached browser has a tag.
    pub(crate) tagged: bool,
    /// Whether the store keeps calls, so that a later call can compare with them or ask for them.
    pub(crate) recalls: bool,
}

/// Which parameters of a tool are greenroom's, not the tool's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InjectedParameters {
    pub(crate) session: bool,
    pub(crate) pool: bool,
    pub(crate) instance: bool,
    pub(crate) browser: bool,
    pub(crate) response_options: response_options::InjectedOptions,
}

impl InjectedParameters {
    #[cfg(test)]
    pub(crate) const ALL: Self = Self {
        session: true,
        pool: true,
        instance: true,
        browser: true,
        response_options: response_options::InjectedOptions {
            mode: true,
            responses: true,
            pages: true,
            pictures: true,
            annotate: true,
        },
    };
    const NONE: Self = Self {
        session: false,
        pool: false,
        instance: false,
        browser: false,
        response_options: response_options::InjectedOptions {
            mode: false,
            responses: false,
            pages: false,
            pictures: false,
            annotate: false,
        },
    };
}

/// What a tool's answers contain, as far as its engine's adapter knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AnswerContents {
    pub(crate) snapshots: bool,
    pub(crate) data: bool,
    /// The tool only takes a snapshot.
    pub(crate) is_snapshot_tool: bool,
    /// The tool takes a picture of the page.
    pub(crate) is_screenshot_tool: bool,
    /// The engine can draw refs on that picture.
    pub(crate) annotates: bool,
}

impl ListOptions {
    /// Shows the parameters for which these sources offer a choice.
    pub(super) fn from_sources(
        sources: &[KnownSource],
        scope: Scope,
        profile: ToolProfile,
        recalls: bool,
    ) -> Self {
        let (pools, browsers): (Vec<_>, Vec<_>) = sources.iter().partition(|known| known.name.is_pool());
        let has_label =
            |known: &&KnownSource| matches!(&known.name, SourceName::Browser(name) if name.label.is_some());
        let choice = pools.len() > 1 || !browsers.is_empty();
        Self {
            scope,
            profile,
            instances: pools.iter().any(|known| known.source.has_instance_choice),
            pools: pools.iter().filter(|_| choice).map(|known| known.source.pool.to_string()).collect(),
            tagged: browsers.iter().any(|known| known.tagged),
            browsers: match browsers.len() {
                0 => AttachedCount::None,
                1 => AttachedCount::One,
                _ => AttachedCount::Several { labelled: browsers.iter().any(has_label) },
            },
            recalls,
        }
    }

    /// The parameters that choose a pool, instance or browser, as far as they are shown, in their order.
    pub(crate) fn selectors(&self) -> impl Iterator<Item = (&'static str, Raw)> {
        let text = |description: &str| encode(&json!({ "type": "string", "description": description }));
        let pool = (!self.pools.is_empty()).then(|| (POOL, text(&self.pools_text())));
        let instance = self.instances.then(|| (INSTANCE, text(INSTANCE_DESCRIPTION)));
        pool.into_iter().chain(instance).chain(self.browser())
    }

    /// The parameter that chooses an attached browser, if there are several: an index, counted from 1, or a label if a
    /// browser has one. Callers may write an index as a number or as text.
    pub(crate) fn browser(&self) -> Option<(&'static str, Raw)> {
        let AttachedCount::Several { labelled } = self.browsers else { return None };
        let parameter = match labelled {
            true => json!({
                "anyOf": [{ "type": "integer", "minimum": 1 }, { "type": "string" }],
                "description": LABEL_DESCRIPTION,
            }),
            false => json!({ "type": "integer", "minimum": 1, "description": BROWSER_DESCRIPTION }),
        };
        Some((BROWSER, encode(&parameter)))
    }

    /// `Pool: CHROMIUM (default), FIREFOX`. With attached browsers no pool is the default.
    fn pools_text(&self) -> String {
        let names = self.pools.join(", ");
        match (self.browsers, self.pools.split_first()) {
            (AttachedCount::None, Some((_, []))) => format!("Pool: {names} (default)"),
            (AttachedCount::None, Some((first, others))) => {
                format!("Pool: {first} (default), {}", others.join(", "))
            }
            _ => format!("Pool, instead of an attached browser: {names}"),
        }
    }

    /// The definition with the parameters, and which of them are greenroom's.
    pub(super) fn add_to(&self, definition: &RawValue, gives: AnswerContents) -> (Raw, InjectedParameters) {
        self.add(definition, gives).unwrap_or_else(|| (definition.to_owned(), InjectedParameters::NONE))
    }

    fn add(&self, definition: &RawValue, gives: AnswerContents) -> Option<(Raw, InjectedParameters)> {
        let mut tool = Fields::open(definition).ok()?;
        let mut schema = tool.read::<Fields>("inputSchema").ok()?.unwrap_or_default();
        let mut properties = schema.read::<Fields>("properties").ok()?.unwrap_or_default();
        let free = |name: &str| properties.get(name).is_none();
        let response_options = response_options::InjectedOptions {
            mode: free(MODE),
            responses: free(RESPONSES),
            pages: gives.data && pages::NAMES.iter().all(|name| free(name)),
            pictures: free(PICTURES),
            annotate: gives.is_screenshot_tool && free(ANNOTATE),
        };
        let injected = InjectedParameters {
            session: free(SESSION_ID),
            pool: free(POOL),
            instance: free(INSTANCE),
            browser: free(BROWSER),
            response_options,
        };
        let session = encode(&json!({ "type": "string", "description": SESSION_DESCRIPTION }));
        let own: Vec<_> = std::iter::once((SESSION_ID, session)).chain(self.selectors()).collect();
        let added: Vec<_> = own.into_iter().filter(|(name, _)| free(name)).collect();
        // Every tool accepts these parameters. The list shows them only for tools whose answers are long
        // enough, as the profile decides.
        let shows_mode = match self.profile {
            ToolProfile::Core => gives.is_snapshot_tool,
            ToolProfile::Compact | ToolProfile::Full => gives.snapshots,
        };
        let shows_pages = match self.profile {
            ToolProfile::Core => false,
            ToolProfile::Compact => gives.is_snapshot_tool,
            ToolProfile::Full => true,
        };
        let form = (shows_mode && response_options.mode && self.recalls).then(|| (MODE, mode()));
        let parts = (response_options.pages && shows_pages).then(pages::parameters).into_iter().flatten();
        let shows_pictures = gives.is_screenshot_tool && self.recalls && self.profile != ToolProfile::Core;
        let pictures = (shows_pictures && response_options.pictures).then(|| (PICTURES, pictures()));
        let annotate = (gives.annotates && response_options.annotate).then(|| (ANNOTATE, annotate()));
        let form: Vec<_> = form.into_iter().chain(parts).chain(pictures).chain(annotate).collect();
        if added.is_empty() && form.is_empty() {
            return Some((definition.to_owned(), injected));
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
        if self.scope == Scope::Explicit && injected.session {
            require_session(&mut schema)?;
        }
        tool.set("inputSchema", schema.to_raw());
        Some((tool.to_raw(), injected))
    }
}

/// Makes `sessionId` the first required parameter.
fn require_session(schema: &mut Fields) -> Option<()> {
    let mut required = vec![encode(SESSION_ID)];
    required.extend(schema.read::<Vec<Raw>>("required").ok()?.unwrap_or_default());
    schema.set("required", encode(&required));
    Some(())
}

/// A tool's definition with `sessionId` required.
pub(crate) fn with_session_required(definition: &RawValue) -> Option<Raw> {
    let mut tool = Fields::open(definition).ok()?;
    let mut schema = tool.read::<Fields>("inputSchema").ok()??;
    require_session(&mut schema)?;
    tool.set("inputSchema", schema.to_raw());
    Some(tool.to_raw())
}

/// The schema of `mode`. Every tool that shows a page carries it, so it has no description: the instructions explain
/// the words once. It leaves out `auto`, which is the default, and `raw`, which is for programs.
fn mode() -> Raw {
    encode(&json!({ "type": "string", "enum": MODE_WORDS }))
}

/// The schema of `pictures`, with the words of the setting. Only the tool that takes pictures carries it.
fn pictures() -> Raw {
    encode(&json!({ "type": "string", "enum": PICTURE_FORMS.map(Pictures::as_str) }))
}

fn annotate() -> Raw {
    encode(&json!({ "type": "boolean", "description": ANNOTATE_DESCRIPTION }))
}

/// The words of `mode` that a model chooses from.
pub(crate) const MODE_WORDS: [&str; 3] = ["inline", "diff", "refs"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recall::ResponseMode;

    fn shown(scope: Scope, pools: &[&str], instances: bool) -> ListOptions {
        let pools = pools.iter().map(|name| (*name).to_owned()).collect();
        ListOptions {
            scope,
            profile: ToolProfile::Full,
            pools,
            instances,
            browsers: AttachedCount::None,
            tagged: false,
            recalls: true,
        }
    }

    fn check(definition: &str, shown: &ListOptions, expected: &str) -> InjectedParameters {
        let definition = greenroom_core::raw::parse(definition.to_owned()).unwrap();
        let (text, injected) = shown.add_to(&definition, AnswerContents::default());
        let parameter = |name: &str, description: &str| {
            format!(r#""{name}":{{"type":"string","description":"{description}"}}"#)
        };
        let expected = expected
            .replace("<ID>", &parameter("sessionId", SESSION_DESCRIPTION))
            .replace("<POOL>", &parameter("browser_pool", "Pool: CHROMIUM (default), FIREFOX"))
            .replace("<INSTANCE>", &parameter("browser_instance", INSTANCE_DESCRIPTION));
        assert_eq!(text.get(), expected);
        assert!(!injected.response_options.pages, "nothing of it is known to be data");
        assert!(!injected.response_options.annotate, "the tool is not known to take pictures");
        InjectedParameters {
            response_options: response_options::InjectedOptions {
                pages: true,
                annotate: true,
                ..injected.response_options
            },
            ..injected
        }
    }

    /// Every word that the list offers is a mode.
    #[test]
    fn offered_modes_exist() {
        for word in MODE_WORDS {
            assert!(ResponseMode::WORDS.iter().any(|(name, _)| *name == word), "{word}");
        }
    }

    /// `sessionId` comes first, the rest stays as the engine wrote it, and only `explicit` requires it.
    #[test]
    fn session_id_is_injected_first() {
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
        let injected = check(own, &shown(Scope::Connection, &[], false), own);
        assert_eq!(injected, InjectedParameters { session: false, ..InjectedParameters::ALL });
    }

    /// Pools and instances are shown only where there is a choice, after `sessionId`, and accepted everywhere; a tool's
    /// own parameter of such a name stays its own.
    #[test]
    fn selectors_are_listed_only_with_a_choice() {
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
            assert_eq!(
                check(tool, &shown(Scope::Call, pools, instances), &with(inside)),
                InjectedParameters::ALL
            );
        }
        let own = r#"{"name":"t","inputSchema":{"type":"object","properties":{"browser_pool":{}}}}"#;
        let expected = r#"{"name":"t","inputSchema":{"type":"object","properties":{<ID>,<INSTANCE>,"browser_pool":{}}}}"#;
        let injected = check(own, &shown(Scope::Call, &names, true), expected);
        assert_eq!(injected, InjectedParameters { pool: false, ..InjectedParameters::ALL });
    }
}
