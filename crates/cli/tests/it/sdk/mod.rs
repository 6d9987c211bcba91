//! greenroom driven by the official SDKs: one generation of each for every protocol revision, over stdio and HTTP.
//!
//! All of them run one script, written once per language (`sdk/typescript/script.mjs`, `sdk/python/script.py`, [`rust`]),
//! and all must print the lines of `sdk/expected.jsonl`: [`script_run`] reads those, [`server`] starts greenroom for
//! clients that do not start it themselves.

mod conformance;
mod python;
mod real;
mod rust;
mod schemathesis;
pub mod script_run;
mod server;
mod typescript;
mod versions;
