//! Attached browsers in the catalog: they come and go while greenroom runs, and clients hear of it if that changes what
//! they see.

use std::sync::Arc;

use greenroom_core::Engine;
use greenroom_fleet::{BrowserStatus, pool_name};

use super::{Catalog, Known, Source, cache};

impl Catalog {
    /// Takes an attached browser on, driven by this engine. If an engine like it has said what it offers, this one
    /// offers the same; if none has, [`Catalog::complete`] asks.
    pub fn add_browser(&self, status: &BrowserStatus, engine: Arc<dyn Engine>) {
        let fingerprint = engine.fingerprint();
        // Before somebody was shown a list, it is found when it is first asked for.
        let kept = self.known().and_then(|_| cache::read(&self.folder, &fingerprint));
        let source = Source { pool: pool_name(status.index).into(), engine, several: false };
        let mut state = self.lock();
        let like = |known: &&Known| known.source.engine.fingerprint() == fingerprint;
        let set = kept.or_else(|| state.sources.iter().filter(like).find_map(|known| known.set.clone()));
        let added = Known { set, ..Known::browser(source, status) };
        state.sources.retain(|known| known.place.index() != Some(status.index));
        let behind = |known: &Known| known.place.index().is_some_and(|index| index > status.index);
        let at = state.sources.iter().position(behind).unwrap_or(state.sources.len());
        state.sources.insert(at, added);
        self.announce(&mut state);
    }

    /// An attached browser is gone.
    pub fn remove_browser(&self, index: u32) {
        let mut state = self.lock();
        let before = state.sources.len();
        state.sources.retain(|known| known.place.index() != Some(index));
        if state.sources.len() < before {
            self.announce(&mut state);
        }
    }

    /// Asks engines that have not said yet what they offer, if somebody was shown a list without them. One that cannot
    /// be asked hides nothing and refuses nothing.
    pub async fn complete(&self) {
        let _turn = self.fetching.lock().await;
        let before = {
            let state = self.lock();
            let missing = state.sources.iter().any(|known| known.set.is_none());
            state.listed.clone().filter(|_| missing)
        };
        let Some(before) = before else { return };
        if let Ok(after) = self.fetch(true).await
            && !before.looks_like(&after)
        {
            self.changes.send_modify(|count| *count += 1);
        }
    }
}
