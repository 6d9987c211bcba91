//! `greenroom mcp` with a running server: it joins it, survives it, and leaves nothing of its own behind.

mod reconnect;
mod relay;
mod restart;
mod shared_server;
mod standalone;
mod takeover;
