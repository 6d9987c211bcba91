//! Recall: what is kept of calls, and what of it agents are sent.
//!
//! [`ticket`] makes the record of a call, `running` knows those that have not ended, [`redact`] takes the secrets out of it; [`wants`] is what a call says of its
//! answer, `cut` and `diff` make that shorter; `content` and `pages` are for what is asked for later.

mod call_record;
pub(crate) mod content;
pub(crate) mod diff;
mod ended_call;
pub(crate) mod fold;
mod line_diff;
pub(crate) mod paged;
pub(crate) mod pages;
mod redact;
pub(crate) mod response_options;
pub(crate) mod result;
mod running;
mod search;
mod secret_values;
mod secrets;
pub(crate) mod tokens;
mod tree;

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use greenroom_core::{
    Owner, Records,
    record::{NotRecorded, SessionRef},
    settings::Responses,
};
use parking_lot::RwLock;
use tokio::time::timeout;

use call_record::WRITE;
pub(crate) use call_record::{Claimed, Ticket};
pub(crate) use ended_call::Kept;
pub(crate) use response_options::Mode;

/// What every call is kept by, and how much of its answer is sent.
pub struct Recall {
    /// `None` where nothing is kept.
    pub records: Option<Arc<dyn Records>>,
    pub responses: Responses,
    /// Of pools that have it otherwise.
    pub of_pools: RwLock<HashMap<String, Responses>>,
    /// How much of an answer is sent inline, in estimated tokens.
    pub inline_tokens: usize,
    /// Arguments that are not kept, beside those that look like secrets.
    pub redact: Vec<String>,
    /// Where this greenroom can be reached, once it can be.
    pub site: OnceLock<String>,
    /// Answers that are asked for page by page.
    pub pages: pages::cache::PageCache,
    /// What runs now.
    pub running: Arc<running::Running>,
    /// What records must not tell.
    pub secrets: secrets::Secrets,
}

impl Recall {
    /// Nothing is kept, and everything is sent.
    pub fn none() -> Self {
        Self {
            records: None,
            responses: Responses::Inline,
            of_pools: RwLock::default(),
            inline_tokens: usize::MAX,
            redact: Vec::new(),
            site: OnceLock::new(),
            pages: pages::cache::PageCache::default(),
            running: Arc::default(),
            secrets: secrets::Secrets::default(),
        }
    }

    /// What of its answer a call gets that ran in this pool.
    pub(crate) fn mode(&self, wanted: Option<Mode>, pool: Option<&str>) -> Mode {
        let of_pools = self.of_pools.read();
        let configured = pool.and_then(|pool| of_pools.get(pool)).copied().unwrap_or(self.responses);
        wanted.unwrap_or(Mode::As(configured))
    }

    /// Records a session before its first call. A failure is in the log, and in the first call's answer if it lasts.
    pub(crate) async fn session_began(&self, owner: &Owner, session: &SessionRef) {
        let Some(records) = &self.records else { return };
        let why = match timeout(WRITE, records.session_began(owner, session)).await {
            Ok(Ok(())) => return,
            Ok(Err(NotRecorded(why))) => why,
            Err(_) => "writing it down took too long".into(),
        };
        tracing::warn!(uid = %session.uid, %why, "the beginning of a session is not recorded");
    }

    /// What calls get from now on that run in this pool; without, what all get.
    pub(crate) fn responds(&self, pool: &str, responses: Option<Responses>) {
        let mut of_pools = self.of_pools.write();
        match responses {
            Some(responses) => drop(of_pools.insert(pool.to_owned(), responses)),
            None => drop(of_pools.remove(pool)),
        }
    }
}
