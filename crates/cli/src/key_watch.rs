//! The keys of a running server: those of its configuration, and those of the data folder, which `greenroom keys` may
//! change at any time.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use greenroom_core::{
    ApiKey,
    settings::{ConfiguredApiKey, Settings},
};
use greenroom_gateway::front::http::{EndedKeys, HttpState, KeyRing};
use greenroom_store::{KeyFile, KeyFileError, key_file::KeyFileStamp};
use tokio::time::{MissedTickBehavior, interval};

use crate::owner_quotas::OwnerQuotas;

/// How often the server looks at the file and at the clock. A revoked key must lose its streams within a second; a look
/// takes some microseconds.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Where a server's keys come from.
pub struct KeySources {
    configured: Vec<ApiKey>,
    file: KeyFile,
    quotas: Arc<OwnerQuotas>,
    seen: Option<KeyFileStamp>,
}

impl KeySources {
    pub fn new(settings: &Settings, quotas: Arc<OwnerQuotas>) -> Self {
        let configured = settings.server.api_keys.iter().map(ConfiguredApiKey::entry).collect();
        Self { configured, file: KeyFile::of(&settings.data_dir), quotas, seen: None }
    }

    /// Reads all keys into the ring.
    pub fn load(&mut self, keys: &KeyRing) -> Result<EndedKeys, KeyFileError> {
        // The stamp first: if the file changes meanwhile, the next look notices.
        self.seen = self.file.stamp();
        let mut all = self.configured.clone();
        all.extend(self.file.read()?);
        self.quotas.follow_keys(&all, SystemTime::now());
        Ok(keys.replace(&all, SystemTime::now()))
    }

    /// Keeps the ring up to date. Never returns.
    pub async fn watch(mut self, keys: Arc<KeyRing>, http_state: &HttpState) {
        let mut look = interval(POLL_INTERVAL);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            look.tick().await;
            let ended = if self.file.stamp() == self.seen {
                keys.expire(SystemTime::now())
            } else {
                match self.load(&keys) {
                    Ok(ended) => {
                        tracing::info!("read the API keys in `{}` again", self.file.path().display());
                        ended
                    }
                    Err(error) => {
                        tracing::error!("{error}; the keys stay as they were");
                        continue;
                    }
                }
            };
            if ended.are_first {
                tracing::warn!(
                    "there is an API key now, so every request over the network needs one; restart the server to also apply the default of `network.preset` for servers with keys"
                );
            }
            for owner in &ended.owners {
                tracing::info!(%owner, "no valid API key is left; closing the sessions of its owner");
            }
            http_state.end_keys(&ended);
        }
    }
}
