//! The stdio front from outside: the real `greenroom mcp`, real MCP clients, and the fake engine behind it.

mod bad_input;
mod bulk;
mod catalog;
mod cost;
mod expiry;
mod fidelity;
mod growth;
mod independent;
mod lifecycle;
mod limits;
mod loss;
mod order;
mod own_tools;
mod places;
mod policy;
pub mod pools;
pub mod recall;
mod scope;
mod spares;
pub mod stage;
mod start;
mod talk;
mod vanish;
