//! Recall: what is kept of calls, and what of it agents are sent.

#[allow(dead_code, reason = "recall is not wired up yet")]
pub(crate) mod cut;
#[allow(dead_code, reason = "recall is not wired up yet")]
pub(crate) mod diff;
#[allow(dead_code, reason = "recall is not wired up yet")]
pub(crate) mod lines;
#[allow(dead_code, reason = "recall is not wired up yet")]
pub(crate) mod pages;
#[allow(dead_code, reason = "recall is not wired up yet")]
mod script;
#[allow(dead_code, reason = "recall is not wired up yet")]
pub(crate) mod tokens;
#[allow(dead_code, reason = "recall is not wired up yet")]
mod tree;

use std::{collections::HashMap, sync::Arc};

use greenroom_core::{Records, settings::Responses};

/// What every call is kept by, and how much of its answer is sent.
pub struct Recall {
    /// `None` where nothing is kept.
    pub records: Option<Arc<dyn Records>>,
    pub responses: Responses,
    /// Of pools that have it otherwise.
    pub of_pools: HashMap<String, Responses>,
    /// How much of an answer is sent inline, in estimated tokens.
    pub inline_tokens: usize,
    /// Arguments that are not kept, beside those that look like secrets.
    pub redact: Vec<String>,
}
