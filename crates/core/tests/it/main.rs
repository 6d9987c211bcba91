//! Properties of core's decisions, over histories that nobody thought of.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod ledger;
