//! A tool list over several pools, ready to be shown and checked against.
//!
//! It is the union of the pools' tools, in the order of the pools. If several pools have a tool, the list shows the
//! first pool's description, and the check uses the description of the pool that is called. A pool that could not be
//! asked yet adds no tool and refuses none: its engine checks the call.

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
};

use greenroom_core::{Raw, settings::ToolProfile};
use indexmap::IndexMap;
use serde_json::value::RawValue;

use crate::recall::{pages, response_options};

use super::{
    arguments::{ArgumentChecker, InvalidArguments},
    compact::compact,
    inject::{self, AnswerContents, AttachedCount, InjectedParameters, ListOptions},
    source::{KnownSource, SourceName},
};

/// A tool list.
pub struct ToolList {
    tools: IndexMap<Arc<str>, ListedTool>,
    /// The pools, with the name by which callers know each.
    source_names: Vec<(Arc<str>, SourceName)>,
    /// Pools whose tools are not known.
    unknown: Vec<Arc<str>>,
    shown: Arc<ListOptions>,
}

/// A tool of the list.
pub struct ListedTool {
    /// The definition that clients get.
    pub shown: Raw,
    /// Whether clients see it in the list; otherwise `more_tools` describes it.
    pub(crate) is_listed: bool,
    /// Which selectors greenroom takes out of this tool's arguments; a tool that has such a parameter itself keeps it.
    pub(crate) injected: InjectedParameters,
    /// The definitions of the pools that have it; usually there is only one. Never empty.
    variants: Vec<ToolVariant>,
}

/// One definition of a tool, and the pools that share it.
struct ToolVariant {
    definition: Raw,
    pools: Vec<Arc<str>>,
    checker: OnceLock<ArgumentChecker>,
}

impl ToolList {
    /// What the sources offer, in their order.
    pub(super) fn new(sources: &[KnownSource], shown: Arc<ListOptions>) -> Self {
        let mut tools = IndexMap::<Arc<str>, ListedTool>::new();
        let mut unknown = Vec::new();
        let source_names =
            sources.iter().map(|known| (known.source.pool.clone(), known.name.clone())).collect();
        for KnownSource { source, set, .. } in sources {
            let pool = &source.pool;
            let format = source.engine.format();
            let Some(set) = set else {
                unknown.push(pool.clone());
                continue;
            };
            for tool in &set.tools {
                let entry = tools.entry(tool.name.clone()).or_insert_with(|| {
                    let contents = AnswerContents {
                        snapshots: format.gives_snapshots(&tool.name),
                        data: format.gives_data(&tool.name),
                        is_snapshot_tool: format.snapshot_tool() == Some(&*tool.name),
                        is_screenshot_tool: format.screenshot_tool() == Some(&*tool.name),
                        annotates: format.annotates(),
                    };
                    // greenroom does not know what a custom server's descriptions mean, so it does not
                    // shorten them.
                    let is_compact = shown.profile != ToolProfile::Full && !source.engine.is_server();
                    let compacted = is_compact.then(|| compact(&tool.definition, format));
                    let (shown_definition, injected) =
                        shown.add_to(compacted.as_deref().unwrap_or(&tool.definition), contents);
                    let core = format.core_tools();
                    let is_listed =
                        shown.profile != ToolProfile::Core || core.is_empty() || core.contains(&&*tool.name);
                    ListedTool { shown: shown_definition, injected, is_listed, variants: Vec::new() }
                });
                // If an engine lists a name twice, the first one counts.
                if entry.variant(pool).is_none() {
                    entry.add(&tool.definition, pool);
                }
            }
        }
        Self { tools, source_names, unknown, shown }
    }

    /// The tools in the order of the pools and their engines.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &ListedTool)> {
        self.tools.iter()
    }

    pub fn get(&self, name: &str) -> Option<(&Arc<str>, &ListedTool)> {
        self.tools.get_key_value(name)
    }

    /// Whether clients see the same tools in the other list.
    pub(super) fn has_same_tools(&self, other: &Self) -> bool {
        let texts = |listed: &Self| -> Vec<String> {
            listed.tools.values().map(|entry| entry.shown.get().to_owned()).collect()
        };
        texts(self) == texts(other)
    }

    /// The name by which callers know this pool.
    pub(crate) fn source_name(&self, pool: &str) -> Option<&SourceName> {
        self.source_names.iter().find(|(name, _)| **name == *pool).map(|(_, name)| name)
    }

    /// If this pool lacks the tool: this pool, and the pools that have the tool. `None` for a pool that just came or
    /// went, whose tools are unknown.
    pub(crate) fn pools_with_tool(
        &self,
        entry: &ListedTool,
        pool: &str,
    ) -> Option<(&SourceName, Vec<&SourceName>)> {
        let name = self.source_name(pool)?;
        if self.unknown.iter().any(|unknown| **unknown == *pool) || entry.variant(pool).is_some() {
            return None;
        }
        let others = self.source_names.iter().filter(|(name, _)| entry.variant(name).is_some());
        Some((name, others.map(|(_, name)| name).collect()))
    }

    /// Whether a call of this tool depends on where it runs. With attached browsers it always does: the call must name
    /// one, or must not.
    pub(crate) fn depends_on_target(&self, entry: &ListedTool) -> bool {
        entry.variants.len() > 1
            || entry.pools().count() < self.source_names.len()
            || self.shown.browsers != AttachedCount::None
    }

    /// Checks a call's arguments, greenroom's own already removed, against the pool's definition of the tool. Without a
    /// pool it uses the definition that is shown.
    pub(crate) fn check(
        &self,
        entry: &ListedTool,
        pool: Option<&str>,
        arguments: Option<&RawValue>,
    ) -> Result<(), InvalidArguments> {
        let Some(variant) = pool.and_then(|pool| entry.variant(pool)).or(entry.variants.first()) else {
            return Ok(());
        };
        variant.checker.get_or_init(|| ArgumentChecker::new(&variant.definition)).check(arguments).map_err(
            |mut invalid| {
                // The hint lists every argument, greenroom's own included.
                if let InvalidArguments::Unknown { known, .. } = &mut invalid {
                    if entry.injected.session {
                        known.push(inject::SESSION_ID.to_owned());
                    }
                    let options = entry.injected.response_options;
                    for (name, own) in [
                        (response_options::MODE, options.mode),
                        (response_options::PICTURES, options.pictures),
                        (response_options::ANNOTATE, options.annotate),
                    ] {
                        if own && entry.shown.get().contains(&format!("\"{name}\":")) {
                            known.push(name.to_owned());
                        }
                    }
                    if entry.injected.response_options.pages {
                        known.extend(pages::NAMES.map(ToOwned::to_owned));
                    }
                    let own = |name: &str| match name {
                        inject::POOL => entry.injected.pool,
                        inject::BROWSER => entry.injected.browser,
                        _ => entry.injected.instance,
                    };
                    let selectors = self.shown.selectors().map(|(name, _)| name).filter(|name| own(name));
                    known.extend(selectors.map(ToOwned::to_owned));
                }
                invalid
            },
        )
    }
}

impl ListedTool {
    /// The definition for clients whose calls must name a session, although the list in general does not demand it.
    pub(crate) fn shown_with_session_required(&self) -> Cow<'_, RawValue> {
        let required = self.injected.session.then(|| inject::with_session_required(&self.shown)).flatten();
        required.map_or(Cow::Borrowed(&*self.shown), Cow::Owned)
    }

    fn add(&mut self, definition: &RawValue, pool: &Arc<str>) {
        let same = self.variants.iter_mut().find(|variant| variant.definition.get() == definition.get());
        match same {
            Some(variant) => variant.pools.push(pool.clone()),
            None => {
                self.variants.push(ToolVariant {
                    definition: definition.to_owned(),
                    pools: vec![pool.clone()],
                    checker: OnceLock::new(),
                });
            }
        }
    }

    fn variant(&self, pool: &str) -> Option<&ToolVariant> {
        self.variants.iter().find(|variant| variant.pools.iter().any(|name| **name == *pool))
    }

    fn pools(&self) -> impl Iterator<Item = &str> {
        self.variants.iter().flat_map(|variant| variant.pools.iter().map(|name| &**name))
    }
}
