//! Attached browsers in the catalog: they come and go while greenroom runs. The catalog notifies clients if that
//! changes the list that they see.

use std::sync::Arc;

use greenroom_core::Engine;
use greenroom_fleet::{BrowserStatus, pool_name};

use super::{Catalog, KnownSource, ToolSource, cache};

impl Catalog {
    /// Adds an attached browser with its engine. If an engine with the same fingerprint has listed its tools, this
    /// browser offers the same; if none has, [`Catalog::fetch_missing`] asks the engine.
    pub fn add_browser(&self, status: &BrowserStatus, engine: Arc<dyn Engine>) {
        let fingerprint = engine.fingerprint();
        // Before the first `tools/list` the catalog reads no list from disk.
        let cached = self.known().and_then(|_| cache::read(&self.folder, &fingerprint));
        let source = ToolSource { pool: pool_name(status.index).into(), engine, has_instance_choice: false };
        let mut state = self.lock();
        let like = |known: &&KnownSource| known.source.engine.fingerprint() == fingerprint;
        let set = cached.or_else(|| state.sources.iter().filter(like).find_map(|known| known.set.clone()));
        let added = KnownSource { set, ..KnownSource::browser(source, status) };
        state.sources.retain(|known| known.name.index() != Some(status.index));
        let behind = |known: &KnownSource| known.name.index().is_some_and(|index| index > status.index);
        let at = state.sources.iter().position(behind).unwrap_or(state.sources.len());
        state.sources.insert(at, added);
        self.announce(&mut state);
    }

    /// Removes an attached browser.
    pub fn remove_browser(&self, index: u32) {
        let mut state = self.lock();
        let before = state.sources.len();
        state.sources.retain(|known| known.name.index() != Some(index));
        if state.sources.len() < before {
            self.announce(&mut state);
        }
    }

    /// Asks the engines whose tools are unknown, if a client was shown a list without them. An engine that cannot be
    /// asked hides no tool and refuses none.
    pub async fn fetch_missing(&self) {
        let _turn = self.fetching.lock().await;
        let before = {
            let state = self.lock();
            let missing = state.sources.iter().any(|known| known.set.is_none());
            state.listed.clone().filter(|_| missing)
        };
        let Some(before) = before else { return };
        if let Ok(after) = self.fetch(true).await
            && !before.has_same_tools(&after)
        {
            self.changes.send_modify(|count| *count += 1);
        }
    }
}
