//! `greenroom mcp` with a running server: it joins the server, survives its end, and leaves nothing of its own behind.

mod reconnect;
mod relay;
mod restart;
mod shared_server;
mod standalone;
mod takeover;
