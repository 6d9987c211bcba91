//! The tool list: read from the engines, cached on disk, shown with greenroom's own parameters added.
//!
//! The first `tools/list` does not wait for an engine: the catalog reads lists from disk by the engine's fingerprint,
//! and asks engines with the same fingerprint once. A list that turns out to differ later replaces the old one, and the
//! catalog notifies clients if they would see a difference. An engine that cannot be asked hides no other pool's tools.
//! Attached browsers come and go while greenroom runs ([`browser_sources`]).

mod arguments;
mod browser_sources;
mod cache;
mod compact;
mod inject;
mod listed;
mod source;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeSet, HashMap},
    path::PathBuf,
    sync::Arc,
};

use greenroom_core::{
    Engine, StartError, Tool, Toolset,
    settings::{Scope, ToolProfile},
};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

pub(crate) use arguments::ArgumentChecker;
pub use arguments::InvalidArguments;
#[cfg(test)]
pub(crate) use inject::MODE_WORDS;
pub(crate) use inject::{
    AttachedCount, BROWSER, INSTANCE, InjectedParameters, ListOptions, POOL, SESSION_ID, TAG,
    with_session_required,
};
pub use listed::{ListedTool, ToolList};
pub use source::ToolSource;
pub(crate) use source::{CustomPool, SourceName};

use source::KnownSource;

/// The tools of all pools and attached browsers, as they are known now.
pub struct Catalog {
    scope: Scope,
    profile: ToolProfile,
    recalls: bool,
    folder: PathBuf,
    state: Mutex<CatalogState>,
    /// Held while lists are being fetched, so that many first callers start one engine.
    fetching: tokio::sync::Mutex<()>,
    /// Counts the changes that clients are notified of.
    changes: watch::Sender<u64>,
}

struct CatalogState {
    /// The default pool first, then the other pools, then attached browsers by index.
    sources: Vec<KnownSource>,
    shown: Arc<ListOptions>,
    /// `None` until a client was shown a list.
    listed: Option<Arc<ToolList>>,
}

impl Catalog {
    /// `sources` has one entry per pool, the default pool first; `recalls` says whether calls are recorded; `folder`
    /// holds the cached lists.
    pub fn new(
        sources: Vec<ToolSource>,
        scope: Scope,
        profile: ToolProfile,
        recalls: bool,
        folder: PathBuf,
    ) -> Arc<Self> {
        let sources: Vec<_> = sources.into_iter().map(KnownSource::pool).collect();
        let shown = Arc::new(ListOptions::from_sources(&sources, scope, profile, recalls));
        Arc::new(Self {
            scope,
            profile,
            recalls,
            folder,
            state: Mutex::new(CatalogState { sources, shown, listed: None }),
            fetching: tokio::sync::Mutex::default(),
            changes: watch::Sender::new(0),
        })
    }

    pub(crate) fn profile(&self) -> ToolProfile {
        self.profile
    }

    /// The tools of all pools that run code in an engine's own process.
    pub fn unsafe_tools(&self) -> BTreeSet<&'static str> {
        self.lock().sources.iter().flat_map(|known| known.source.engine.unsafe_tools()).collect()
    }

    /// The entry of `caps` that would add this tool to a pool.
    pub(crate) fn missing_cap(&self, tool: &str) -> Option<&'static str> {
        self.lock().sources.iter().find_map(|known| known.source.engine.missing_cap(tool))
    }

    /// The engine of a pool.
    pub(crate) fn engine(&self, pool: &str) -> Option<Arc<dyn Engine>> {
        self.lock()
            .sources
            .iter()
            .find(|known| known.is_called(pool))
            .map(|known| known.source.engine.clone())
    }

    /// The pools whose engines are custom servers, the default pool first, with each server's introduction.
    pub(crate) fn servers(&self) -> Vec<CustomPool> {
        let state = self.lock();
        let servers = state.sources.iter().filter(|known| known.source.engine.is_server());
        let servers: Vec<_> = servers.map(|known| (known.source.clone(), known.set.clone())).collect();
        drop(state);
        let server = |(source, set): (ToolSource, Option<Toolset>)| {
            let set = set.or_else(|| cache::read(&self.folder, &source.engine.fingerprint()));
            CustomPool { pool: source.pool, introduction: set.and_then(|set| set.introduction) }
        };
        servers.into_iter().map(server).collect()
    }

    /// greenroom's own parameters that the list shows.
    pub(crate) fn shown(&self) -> Arc<ListOptions> {
        self.lock().shown.clone()
    }

    /// The list: from memory, from disk, or from the engines.
    pub async fn list(&self) -> Result<Arc<ToolList>, StartError> {
        if let Some(listed) = self.known() {
            return Ok(listed);
        }
        let _turn = self.fetching.lock().await;
        if let Some(listed) = self.known() {
            return Ok(listed);
        }
        self.fetch(true).await
    }

    /// Asks the engines again and writes their answers to disk.
    pub async fn refresh(&self) -> Result<Arc<ToolList>, StartError> {
        let _turn = self.fetching.lock().await;
        self.fetch(false).await
    }

    /// Takes the list of an engine that has just started. The next engine of its kind will offer the same, so the
    /// catalog writes the list to disk, and notifies clients that were shown another list. A `partial` list may lack
    /// tools that other callers are offered: those stay.
    pub fn engine_started_with(&self, pool: &str, set: &Toolset, partial: bool) {
        let Some(engine) = self.engine(pool) else { return };
        let fingerprint = engine.fingerprint();
        let cached = cache::read(&self.folder, &fingerprint);
        let set = &match &cached {
            Some(cached) if partial => joined(cached, set),
            _ => set.clone(),
        };
        if !cached.is_some_and(|cached| same(&cached, set)) {
            self.keep(&fingerprint, set);
        }
        self.set_tools(set, |known| {
            known.is_called(pool) || known.source.engine.fingerprint() == fingerprint
        });
    }

    /// Takes a list that a running engine announced, and notifies clients only if they were shown another
    /// list. A `partial` list may lack tools that other callers are offered: those stay.
    pub fn engine_changed_to(&self, pool: &str, set: &Toolset, partial: bool) {
        let known = {
            let state = self.lock();
            let known = state.sources.iter().find(|known| known.is_called(pool));
            known.and_then(|known| known.set.clone()).filter(|_| partial)
        };
        let set = &known.map_or_else(|| set.clone(), |known| joined(&known, set));
        self.set_tools(set, |known| known.is_called(pool));
    }

    /// Counts up with every change that clients are notified of.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, CatalogState> {
        self.state.lock()
    }

    fn known(&self) -> Option<Arc<ToolList>> {
        self.lock().listed.clone()
    }

    /// The lists of all pools that can be read, from disk or from the engine. If none can be read, returns the first
    /// pool's error.
    async fn fetch(&self, from_disk: bool) -> Result<Arc<ToolList>, StartError> {
        // The list of a running engine is newer than the one on disk.
        let said = |known: &KnownSource| known.set.clone().filter(|_| from_disk);
        let sources: Vec<_> =
            self.lock().sources.iter().map(|known| (known.source.clone(), said(known))).collect();
        let several = sources.len() > 1;
        let mut known: HashMap<String, Result<Toolset, StartError>> = HashMap::new();
        let mut sets = Vec::with_capacity(sources.len());
        for (ToolSource { pool, engine, .. }, said) in sources {
            let fingerprint = engine.fingerprint();
            let set = match (said, known.get(&fingerprint)) {
                (Some(set), _) => Ok(set),
                (None, Some(set)) => set.clone(),
                (None, None) => {
                    let set = self.ask(&*engine, &fingerprint, from_disk).await;
                    // With one pool the caller gets this error.
                    if let Err(error) = &set
                        && several
                    {
                        tracing::warn!(%error, %pool, "the tools of a pool cannot be listed");
                    }
                    known.insert(fingerprint, set.clone());
                    set
                }
            };
            sets.push((pool, set));
        }
        if !sets.is_empty() && sets.iter().all(|(_, set)| set.is_err()) {
            let none = || StartError::new("there is no pool");
            return Err(sets.into_iter().find_map(|(_, set)| set.err()).unwrap_or_else(none));
        }
        let mut state = self.lock();
        for (pool, set) in sets {
            let known = state.sources.iter_mut().find(|known| known.is_called(&pool));
            // Meanwhile the engine may have announced a list, or its browser may have been removed.
            if let (Ok(set), Some(known)) = (set, known)
                && (known.set.is_none() || !from_disk)
            {
                known.set = Some(set);
            }
        }
        Ok(rebuild(&mut state))
    }

    async fn ask(
        &self,
        engine: &dyn Engine,
        fingerprint: &str,
        from_disk: bool,
    ) -> Result<Toolset, StartError> {
        if from_disk && let Some(set) = cache::read(&self.folder, fingerprint) {
            return Ok(set);
        }
        let set = engine.tools().await?;
        self.keep(fingerprint, &set);
        Ok(set)
    }

    fn keep(&self, fingerprint: &str, set: &Toolset) {
        if let Err(error) = cache::write(&self.folder, fingerprint, set) {
            tracing::warn!(%error, "cannot keep the tool list; the next start asks the engine again");
        }
    }

    /// Sets the list of the sources that `of` selects.
    fn set_tools(&self, set: &Toolset, of: impl Fn(&KnownSource) -> bool) {
        let mut state = self.lock();
        let mut news = false;
        for known in state.sources.iter_mut().filter(|known| of(known)) {
            if !known.set.as_ref().is_some_and(|before| same(before, set)) {
                tracing::info!(pool = %known.source.pool, tools = set.tools.len(), "the engine's tools have changed");
                known.set = Some(set.clone());
                news = true;
            }
        }
        if news {
            self.announce(&mut state);
        }
    }

    /// Makes the list anew, and notifies clients if they would see a difference. Before the first `tools/list` there is
    /// no client to notify.
    fn announce(&self, state: &mut CatalogState) {
        let shown =
            Arc::new(ListOptions::from_sources(&state.sources, self.scope, self.profile, self.recalls));
        let shown_before = std::mem::replace(&mut state.shown, shown);
        let Some(before) = state.listed.clone() else { return };
        let after = rebuild(state);
        if *shown_before != *state.shown || !before.has_same_tools(&after) {
            self.changes.send_modify(|count| *count += 1);
        }
    }
}

fn rebuild(state: &mut CatalogState) -> Arc<ToolList> {
    let listed = Arc::new(ToolList::new(&state.sources, state.shown.clone()));
    state.listed = Some(listed.clone());
    listed
}

/// The known tools, with those of the new list `said` added or replaced.
fn joined(known: &Toolset, said: &Toolset) -> Toolset {
    let of = |name: &str| said.tools.iter().find(|tool| *tool.name == *name);
    let mut tools: Vec<_> = known.tools.iter().map(|tool| of(&tool.name).unwrap_or(tool).clone()).collect();
    let is_new = |tool: &&Tool| known.tools.iter().all(|known| known.name != tool.name);
    tools.extend(said.tools.iter().filter(is_new).cloned());
    Toolset { tools, introduction: said.introduction.clone().or_else(|| known.introduction.clone()) }
}

fn same(one: &Toolset, other: &Toolset) -> bool {
    let texts = |set: &Toolset| {
        let tools = set.tools.iter().map(|tool| tool.definition.get().to_owned());
        let said = set.introduction.iter().flat_map(|said| {
            [said.capabilities.get(), said.instructions.as_deref().unwrap_or_default()].map(ToOwned::to_owned)
        });
        tools.chain(said).collect::<Vec<_>>()
    };
    texts(one) == texts(other)
}
