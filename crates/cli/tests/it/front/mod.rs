//! The stdio front from outside: the real `greenroom mcp`, real MCP clients, and the fake engine behind it.

mod bad_input;
mod bulk;
mod catalog;
mod client_exit;
mod cost;
mod engine_loss;
mod engine_start;
mod expiry;
mod fidelity;
pub mod fixture;
mod growth;
mod lifecycle;
mod limits;
mod order;
mod own_tools;
mod policy;
mod pool_parameters;
pub mod pools;
pub mod recall;
mod rmcp_client;
mod server_messages;
mod session_scope;
mod spares;
