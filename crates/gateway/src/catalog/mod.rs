//! The tool list: read from the engine, kept on disk, shown with greenroom's own parameters added.
//!
//! The first `tools/list` does not wait for an engine: the list is found on disk by the engine's fingerprint. A
//! list that turns out to differ later replaces it and is announced; an equal one is not.

mod arguments;
mod cache;
mod inject;

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use greenroom_core::{Engine, Raw, StartError, Toolset, settings::Scope};
use serde_json::value::RawValue;
use tokio::sync::watch;

use arguments::Checker;
pub use arguments::Invalid;

/// One engine's tools, as they are known now.
pub struct Catalog {
    engine: Arc<dyn Engine>,
    scope: Scope,
    folder: PathBuf,
    current: Mutex<Option<Arc<Listed>>>,
    /// Held while the list is being fetched, so that many first callers start one engine.
    fetching: tokio::sync::Mutex<()>,
    /// Counts changes that clients should hear of.
    changes: watch::Sender<u64>,
}

/// A tool list, ready to be shown and checked against.
pub struct Listed {
    set: Toolset,
    tools: HashMap<Arc<str>, Entry>,
}

/// A tool of the list.
pub struct Entry {
    /// As clients see it.
    pub shown: Raw,
    /// Whether `sessionId` is greenroom's here; a tool that has such a parameter itself keeps it.
    pub takes_session: bool,
    engines_own: Raw,
    checker: OnceLock<Checker>,
}

impl Catalog {
    /// `folder` is where lists are kept.
    pub fn new(engine: Arc<dyn Engine>, scope: Scope, folder: PathBuf) -> Arc<Self> {
        Arc::new(Self {
            engine,
            scope,
            folder,
            current: Mutex::default(),
            fetching: tokio::sync::Mutex::default(),
            changes: watch::Sender::new(0),
        })
    }

    /// The list: as known, as kept on disk, or from the engine.
    pub async fn list(&self) -> Result<Arc<Listed>, StartError> {
        if let Some(listed) = self.known() {
            return Ok(listed);
        }
        let _turn = self.fetching.lock().await;
        if let Some(listed) = self.known() {
            return Ok(listed);
        }
        let fingerprint = self.engine.fingerprint();
        let set = match cache::read(&self.folder, &fingerprint) {
            Some(set) => set,
            None => self.fetch(&fingerprint).await?,
        };
        Ok(self.replace(set))
    }

    /// Asks the engine anew and keeps its answer on disk.
    pub async fn refresh(&self) -> Result<Arc<Listed>, StartError> {
        let _turn = self.fetching.lock().await;
        let set = self.fetch(&self.engine.fingerprint()).await?;
        Ok(self.replace(set))
    }

    /// An engine that has just started offers this list: the next one will, too. So it is kept on disk, and clients
    /// hear of it if they were shown another one.
    pub fn offered(&self, set: Toolset) {
        let fingerprint = self.engine.fingerprint();
        if !cache::read(&self.folder, &fingerprint).is_some_and(|kept| same(&kept, &set)) {
            self.keep(&fingerprint, &set);
        }
        self.announced(set);
    }

    /// A running engine announced a list. Clients hear of it only if they were shown another one.
    pub fn announced(&self, set: Toolset) {
        let before = self.known();
        if before.as_ref().is_some_and(|listed| same(&listed.set, &set)) {
            return;
        }
        tracing::info!(tools = set.tools.len(), "the engine's tools have changed");
        self.replace(set);
        if before.is_some() {
            self.changes.send_modify(|count| *count += 1);
        }
    }

    /// Counts up with every change that clients should hear of.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn known(&self) -> Option<Arc<Listed>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn fetch(&self, fingerprint: &str) -> Result<Toolset, StartError> {
        let set = self.engine.tools().await?;
        self.keep(fingerprint, &set);
        Ok(set)
    }

    fn keep(&self, fingerprint: &str, set: &Toolset) {
        if let Err(error) = cache::write(&self.folder, fingerprint, set) {
            tracing::warn!(%error, "cannot keep the tool list; the next start asks the engine again");
        }
    }

    fn replace(&self, set: Toolset) -> Arc<Listed> {
        let listed = Arc::new(Listed::new(set, self.scope));
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(listed.clone());
        listed
    }
}

fn same(one: &Toolset, other: &Toolset) -> bool {
    let texts =
        |set: &Toolset| set.tools.iter().map(|tool| tool.definition.get().to_owned()).collect::<Vec<_>>();
    texts(one) == texts(other)
}

impl Listed {
    fn new(set: Toolset, scope: Scope) -> Self {
        let entry = |definition: &RawValue| {
            let (shown, takes_session) = inject::session_id(definition, scope);
            Entry { shown, takes_session, engines_own: definition.to_owned(), checker: OnceLock::new() }
        };
        let tools = set.tools.iter().map(|tool| (tool.name.clone(), entry(&tool.definition))).collect();
        Self { set, tools }
    }

    /// The tools in the engine's order.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Entry)> {
        self.set.tools.iter().filter_map(|tool| self.tools.get_key_value(&tool.name))
    }

    pub fn get(&self, name: &str) -> Option<(&Arc<str>, &Entry)> {
        self.tools.get_key_value(name)
    }
}

impl Entry {
    /// Checks a call's arguments, greenroom's own already taken out.
    pub fn check(&self, arguments: Option<&RawValue>) -> Result<(), Invalid> {
        let checked = self.checker.get_or_init(|| Checker::new(&self.engines_own)).check(arguments);
        checked.map_err(|mut invalid| {
            // Whoever is told what there is should hear of all of it.
            if let (Invalid::Unknown { known, .. }, true) = (&mut invalid, self.takes_session) {
                known.push(inject::SESSION_ID.to_owned());
            }
            invalid
        })
    }
}
