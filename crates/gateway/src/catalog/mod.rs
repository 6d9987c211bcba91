//! The tool list: read from the engines, kept on disk, shown with greenroom's own parameters added.
//!
//! The first `tools/list` does not wait for an engine: lists are found on disk by the engine's fingerprint, and engines
//! with the same fingerprint are asked once. A list that turns out to differ later replaces the old one and is
//! announced if clients would see a difference. An engine that cannot be asked hides no other pool's tools.

mod arguments;
mod cache;
mod inject;
mod listed;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeSet, HashMap},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use greenroom_core::{Engine, StartError, Toolset, settings::Scope};
use tokio::sync::watch;

pub(crate) use arguments::Checker;
pub use arguments::Invalid;
pub(crate) use inject::{BROWSER, INSTANCE, POOL, SESSION_ID, Shown, Takes};
pub use listed::{Entry, Listed};

/// A pool, as far as tools are concerned.
pub struct Source {
    pub pool: Arc<str>,
    pub engine: Arc<dyn Engine>,
    /// Whether callers can choose among its instances.
    pub several: bool,
}

/// The tools of all pools, as they are known now.
pub struct Catalog {
    /// The default pool first.
    sources: Vec<Source>,
    shown: Shown,
    folder: PathBuf,
    state: Mutex<State>,
    /// Held while lists are being fetched, so that many first callers start one engine.
    fetching: tokio::sync::Mutex<()>,
    /// Counts changes that clients should hear of.
    changes: watch::Sender<u64>,
}

struct State {
    /// What each source offers, as far as that is known.
    sets: Vec<Option<Toolset>>,
    /// `None` until clients were shown a list.
    listed: Option<Arc<Listed>>,
}

impl Catalog {
    /// `sources` has a pool each, the default one first; `recalls` says whether calls are kept; `folder` is where lists
    /// are.
    pub fn new(sources: Vec<Source>, scope: Scope, recalls: bool, folder: PathBuf) -> Arc<Self> {
        let pools = if sources.len() > 1 {
            sources.iter().map(|one| one.pool.to_string()).collect()
        } else {
            Vec::new()
        };
        let instances = sources.iter().any(|source| source.several);
        let sets = sources.iter().map(|_| None).collect();
        Arc::new(Self {
            sources,
            shown: Shown { scope, pools, instances, recalls },
            folder,
            state: Mutex::new(State { sets, listed: None }),
            fetching: tokio::sync::Mutex::default(),
            changes: watch::Sender::new(0),
        })
    }

    /// Tools that run code in an engine's own process, of any pool.
    pub fn unsafe_tools(&self) -> BTreeSet<&'static str> {
        self.sources.iter().flat_map(|source| source.engine.unsafe_tools()).collect()
    }

    /// The engine of a pool.
    pub(crate) fn engine(&self, pool: &str) -> Option<Arc<dyn Engine>> {
        self.sources.iter().find(|source| *source.pool == *pool).map(|source| source.engine.clone())
    }

    /// The parameters that greenroom shows.
    pub(crate) fn shown(&self) -> &Shown {
        &self.shown
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
    /// hear of it if they were shown another one.
    pub fn offered(&self, pool: &str, set: &Toolset) {
        let Some(source) = self.sources.iter().find(|source| *source.pool == *pool) else { return };
        let fingerprint = source.engine.fingerprint();
        if !cache::read(&self.folder, &fingerprint).is_some_and(|kept| same(&kept, set)) {
            self.keep(&fingerprint, set);
        }
        self.changed(set, |other| *other.pool == *pool || other.engine.fingerprint() == fingerprint);
    }

    /// A running engine announced a list. Clients hear of it only if they were shown another one.
    pub fn announced(&self, pool: &str, set: &Toolset) {
        self.changed(set, |source| *source.pool == *pool);
    }

    /// Counts up with every change that clients should hear of.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> Option<Arc<Listed>> {
        self.lock().listed.clone()
    }

    /// The lists of all pools that can be had, from disk or not. Only when none can be had is that an error, the first
    /// pool's.
    async fn fetch(&self, from_disk: bool) -> Result<Arc<Listed>, StartError> {
        let mut known: HashMap<String, Result<Toolset, StartError>> = HashMap::new();
        let mut sets = Vec::with_capacity(self.sources.len());
        // What a running engine has said is newer than what is on disk.
        let said = if from_disk { self.lock().sets.clone() } else { vec![None; self.sources.len()] };
        for (Source { pool, engine, .. }, said) in self.sources.iter().zip(said) {
            let fingerprint = engine.fingerprint();
            let set = match (said, known.get(&fingerprint)) {
                (Some(set), _) => Ok(set),
                (None, Some(set)) => set.clone(),
                (None, None) => {
                    let set = self.ask(&**engine, &fingerprint, from_disk).await;
                    // With one pool it is the caller who hears of it.
                    if let Err(error) = &set
                        && self.sources.len() > 1
                    {
                        tracing::warn!(%error, %pool, "the tools of a pool cannot be listed");
                    }
                    known.insert(fingerprint, set.clone());
                    set
                }
            };
            sets.push(set);
        }
        if sets.iter().all(Result::is_err) {
            let none = || StartError::new("there is no pool");
            return Err(sets.into_iter().find_map(Result::err).unwrap_or_else(none));
        }
        let mut state = self.lock();
        for (place, set) in state.sets.iter_mut().zip(sets) {
            // An engine may have said something meanwhile.
            if let Ok(set) = set
                && (place.is_none() || !from_disk)
            {
                *place = Some(set);
            }
        }
        Ok(self.rebuild(&mut state))
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
    fn changed(&self, set: &Toolset, of: impl Fn(&Source) -> bool) {
        let mut state = self.lock();
        let mut news = false;
        for (source, place) in self.sources.iter().zip(&mut state.sets) {
            if of(source) && !place.as_ref().is_some_and(|known| same(known, set)) {
                tracing::info!(pool = %source.pool, tools = set.tools.len(), "the engine's tools have changed");
                *place = Some(set.clone());
                news = true;
            }
        }
        // Whoever was shown nothing yet will be shown this.
        let Some(before) = state.listed.clone().filter(|_| news) else { return };
        let after = self.rebuild(&mut state);
        let texts = |listed: &Listed| {
            listed.iter().map(|(_, entry)| entry.shown.get().to_owned()).collect::<Vec<_>>()
        };
        if texts(&before) != texts(&after) {
            self.changes.send_modify(|count| *count += 1);
        }
    }

    fn rebuild(&self, state: &mut State) -> Arc<Listed> {
        let pools = self.sources.iter().zip(state.sets.iter().map(Option::as_ref));
        let listed = Arc::new(Listed::new(pools, self.shown.clone()));
        state.listed = Some(listed.clone());
        listed
    }
}

fn same(one: &Toolset, other: &Toolset) -> bool {
    let texts =
        |set: &Toolset| set.tools.iter().map(|tool| tool.definition.get().to_owned()).collect::<Vec<_>>();
    texts(one) == texts(other)
}
