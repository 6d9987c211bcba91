//! Recall: what is recorded of calls, and how much of it agents receive.
//!
//! [`call_record`] makes the record of a call, `running` knows the calls that have not ended, [`redact`] removes the
//! secrets. [`response_options`] is what a call asks of its answer; `fold`, `diff` and [`pictures`] shorten the answer.
//! `content` and `pages` serve later reads.

mod call_record;
pub(crate) mod content;
pub(crate) mod diff;
mod ended_call;
pub(crate) mod fold;
mod line_diff;
pub(crate) mod paged;
pub(crate) mod pages;
pub(crate) mod pictures;
mod redact;
pub(crate) mod response_options;
pub(crate) mod result;
mod running;
mod search;
mod secret_values;
mod secrets;
pub(crate) mod sent_pages;
pub(crate) mod tokens;
mod tree;
pub(crate) mod upload;

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use greenroom_core::{
    Owner, Records,
    record::{NotRecorded, SessionRef},
    settings::{Pictures, Responses},
};
use parking_lot::RwLock;
use tokio::time::timeout;

use call_record::WRITE_TIMEOUT;
pub(crate) use call_record::{CallRecord, Claimed};
pub(crate) use ended_call::EndedCall;
pub(crate) use response_options::ResponseMode;

/// How answers of one pool are sent to agents. `None` stands for the general setting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolAnswers {
    pub responses: Option<Responses>,
    pub pictures: Option<Pictures>,
}

/// Records calls, and decides how much of an answer is sent.
pub struct Recall {
    /// `None` if records are off.
    pub records: Option<Arc<dyn Records>>,
    pub responses: Responses,
    /// The `responses` and `pictures` settings that a pool sets for itself, by pool name. They take precedence over the two fields of this struct.
    pub pool_overrides: RwLock<HashMap<String, PoolAnswers>>,
    /// How much of an answer is sent inline, in estimated tokens.
    pub inline_tokens: usize,
    pub pictures: Pictures,
    /// The longest side of a picture that is sent small.
    pub picture_side_pixels: u32,
    /// More argument names to redact, in addition to those that look like secrets.
    pub redact: Vec<String>,
    /// `http://host:port` of this server, for links to blobs. Empty until the server listens, and always over stdio.
    pub base_url: OnceLock<String>,
    /// Files that programs upload.
    pub uploads: upload::Uploads,
    /// Answers that agents read page by page.
    pub pages: pages::cache::PageCache,
    /// The calls that run now.
    pub running: Arc<running::RunningCalls>,
    /// The secrets that must not appear in records.
    pub secrets: secrets::Secrets,
    /// The pages that agents were sent last.
    pub sent_pages: sent_pages::SentPages,
}

impl Recall {
    /// A `Recall` that records nothing and sends answers whole.
    pub fn none() -> Self {
        Self {
            records: None,
            responses: Responses::Inline,
            pool_overrides: RwLock::default(),
            inline_tokens: usize::MAX,
            pictures: Pictures::Inline,
            picture_side_pixels: u32::MAX,
            redact: Vec::new(),
            base_url: OnceLock::new(),
            uploads: upload::Uploads::default(),
            pages: pages::cache::PageCache::default(),
            running: Arc::default(),
            secrets: secrets::Secrets::default(),
            sent_pages: sent_pages::SentPages::default(),
        }
    }

    /// How much of its answer a call in this pool gets.
    pub(crate) fn mode(&self, wanted: Option<ResponseMode>, pool: Option<&str>) -> ResponseMode {
        let pool_overrides = self.pool_overrides.read();
        let configured = pool.and_then(|pool| pool_overrides.get(pool)?.responses).unwrap_or(self.responses);
        wanted.unwrap_or(ResponseMode::As(configured))
    }

    /// How a call in this pool gets the pictures of its answer.
    pub(crate) fn pictures(&self, wanted: Option<Pictures>, pool: Option<&str>) -> Pictures {
        let pool_overrides = self.pool_overrides.read();
        let configured = || pool.and_then(|pool| pool_overrides.get(pool)?.pictures).unwrap_or(self.pictures);
        wanted.unwrap_or_else(configured)
    }

    /// Records a session before its first call. A failure is logged, and the first call's answer reports it if it
    /// lasts.
    pub(crate) async fn session_began(&self, owner: &Owner, session: &SessionRef) {
        let Some(records) = &self.records else { return };
        let why = match timeout(WRITE_TIMEOUT, records.session_began(owner, session)).await {
            Ok(Ok(())) => return,
            Ok(Err(NotRecorded(why))) => why,
            Err(_) => "writing the record took too long".into(),
        };
        tracing::warn!(uid = %session.uid, %why, "the start of a session is not recorded");
    }

    /// Sets how answers of this pool are sent. A pool without settings of its own has the general ones.
    pub(crate) fn set_pool_answers(&self, pool: &str, answers: PoolAnswers) {
        let mut pool_overrides = self.pool_overrides.write();
        if answers == PoolAnswers::default() {
            pool_overrides.remove(pool);
        } else {
            pool_overrides.insert(pool.to_owned(), answers);
        }
    }
}
