//! The tool list: read from the engines, kept on disk, shown with greenroom's own parameters added.
//!
//! The first `tools/list` does not wait for an engine: lists are found on disk by the engine's fingerprint, and engines
//! with the same fingerprint are asked once. A list that turns out to differ later replaces the old one and is
//! announced if clients would see a difference. An engine that cannot be asked hides no other pool's tools. Attached
//! browsers come and go while greenroom runs ([`browsers`]).

mod arguments;
mod attached_browsers;
mod cache;
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

use greenroom_core::{Engine, StartError, Tool, Toolset, settings::Scope};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

pub(crate) use arguments::Checker;
pub use arguments::Invalid;
pub(crate) use inject::{
    BROWSER, Browsers, INSTANCE, POOL, SESSION_ID, Shown, TAG, Takes, with_session_required,
};
pub use listed::{Entry, Listed};
pub use source::Source;
pub(crate) use source::{Place, Server};

use source::Known;

/// The tools of all pools and attached browsers, as they are known now.
pub struct Catalog {
    scope: Scope,
    recalls: bool,
    folder: PathBuf,
    state: Mutex<State>,
    /// Held while lists are being fetched, so that many first callers start one engine.
    fetching: tokio::sync::Mutex<()>,
    /// Counts changes that clients should hear of.
    changes: watch::Sender<u64>,
}

struct State {
    /// The default pool first, then the other pools, then attached browsers by index.
    sources: Vec<Known>,
    shown: Arc<Shown>,
    /// `None` until clients were shown a list.
    listed: Option<Arc<Listed>>,
}

impl Catalog {
    /// `sources` has a pool each, the default one first; `recalls` says whether calls are kept; `folder` is where lists
    /// are.
    pub fn new(sources: Vec<Source>, scope: Scope, recalls: bool, folder: PathBuf) -> Arc<Self> {
        let sources: Vec<_> = sources.into_iter().map(Known::pool).collect();
        let shown = Arc::new(Shown::of(&sources, scope, recalls));
        Arc::new(Self {
            scope,
            recalls,
            folder,
            state: Mutex::new(State { sources, shown, listed: None }),
            fetching: tokio::sync::Mutex::default(),
            changes: watch::Sender::new(0),
        })
    }

    /// Tools that run code in an engine's own process, of any pool.
    pub fn unsafe_tools(&self) -> BTreeSet<&'static str> {
        self.lock().sources.iter().flat_map(|known| known.source.engine.unsafe_tools()).collect()
    }

    /// The entry of `caps` with which a pool would have this tool.
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

    /// The pools whose engines are servers of somebody else's, the default one first, and what each said of itself.
    pub(crate) fn servers(&self) -> Vec<Server> {
        let state = self.lock();
        let servers = state.sources.iter().filter(|known| known.source.engine.is_server());
        let servers: Vec<_> = servers.map(|known| (known.source.clone(), known.set.clone())).collect();
        drop(state);
        let server = |(source, set): (Source, Option<Toolset>)| {
            let set = set.or_else(|| cache::read(&self.folder, &source.engine.fingerprint()));
            Server { pool: source.pool, introduction: set.and_then(|set| set.introduction) }
        };
        servers.into_iter().map(server).collect()
    }

    /// The parameters that greenroom shows.
    pub(crate) fn shown(&self) -> Arc<Shown> {
        self.lock().shown.clone()
    }

    /// The list: as known, as kept on disk, or from the engines.
    pub async fn list(&self) -> Result<Arc<Listed>, StartError> {
        if let Some(listed) = self.known() {
            return Ok(listed);
        }
        let _turn = self.fetching.lock().await;
        if let Some(listed) = self.known() {
            return Ok(listed);
        }
        self.fetch(true).await
    }

    /// Asks the engines anew and keeps their answers on disk.
    pub async fn refresh(&self) -> Result<Arc<Listed>, StartError> {
        let _turn = self.fetching.lock().await;
        self.fetch(false).await
    }

    /// An engine that has just started offers this list: the next one will, too. So it is kept on disk, and clients
    /// hear of it if they were shown another one. A `partial` list may lack tools that others are offered: those stay.
    pub fn offered(&self, pool: &str, set: &Toolset, partial: bool) {
        let Some(engine) = self.engine(pool) else { return };
        let fingerprint = engine.fingerprint();
        let kept = cache::read(&self.folder, &fingerprint);
        let set = &match &kept {
            Some(kept) if partial => joined(kept, set),
            _ => set.clone(),
        };
        if !kept.is_some_and(|kept| same(&kept, set)) {
            self.keep(&fingerprint, set);
        }
        self.changed(set, |known| known.is_called(pool) || known.source.engine.fingerprint() == fingerprint);
    }

    /// A running engine announced a list. Clients hear of it only if they were shown another one. A `partial` list may lack
    /// tools that others are offered: those stay.
    pub fn announced(&self, pool: &str, set: &Toolset, partial: bool) {
        let known = {
            let state = self.lock();
            let known = state.sources.iter().find(|known| known.is_called(pool));
            known.and_then(|known| known.set.clone()).filter(|_| partial)
        };
        let set = &known.map_or_else(|| set.clone(), |known| joined(&known, set));
        self.changed(set, |known| known.is_called(pool));
    }

    /// Counts up with every change that clients should hear of.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn known(&self) -> Option<Arc<Listed>> {
        self.lock().listed.clone()
    }

    /// The lists of all pools that can be had, from disk or not. Only when none can be had is that an error, the first
    /// pool's.
    async fn fetch(&self, from_disk: bool) -> Result<Arc<Listed>, StartError> {
        // What a running engine has said is newer than what is on disk.
        let said = |known: &Known| known.set.clone().filter(|_| from_disk);
        let sources: Vec<_> =
            self.lock().sources.iter().map(|known| (known.source.clone(), said(known))).collect();
        let several = sources.len() > 1;
        let mut known: HashMap<String, Result<Toolset, StartError>> = HashMap::new();
        let mut sets = Vec::with_capacity(sources.len());
        for (Source { pool, engine, .. }, said) in sources {
            let fingerprint = engine.fingerprint();
            let set = match (said, known.get(&fingerprint)) {
                (Some(set), _) => Ok(set),
                (None, Some(set)) => set.clone(),
                (None, None) => {
                    let set = self.ask(&*engine, &fingerprint, from_disk).await;
                    // With one pool it is the caller who hears of it.
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
            // An engine may have said something meanwhile, or have gone.
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

    /// These pools offer this list from now on.
    fn changed(&self, set: &Toolset, of: impl Fn(&Known) -> bool) {
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

    /// Makes the list anew, and tells clients if they would see another one. Whoever was shown nothing yet will be
    /// shown this.
    fn announce(&self, state: &mut State) {
        let shown = Arc::new(Shown::of(&state.sources, self.scope, self.recalls));
        let shown_before = std::mem::replace(&mut state.shown, shown);
        let Some(before) = state.listed.clone() else { return };
        let after = rebuild(state);
        if *shown_before != *state.shown || !before.looks_like(&after) {
            self.changes.send_modify(|count| *count += 1);
        }
    }
}

fn rebuild(state: &mut State) -> Arc<Listed> {
    let listed = Arc::new(Listed::new(&state.sources, state.shown.clone()));
    state.listed = Some(listed.clone());
    listed
}

/// What is known, with what is newly said of it.
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
