//! `greenroom mcp` with a running server: it joins it, survives it, and leaves nothing of its own behind.

mod alone;
mod broken;
mod pass;
mod relay;
mod restart;
mod takeover;
