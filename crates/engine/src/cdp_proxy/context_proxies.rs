//! Gives every context that an engine makes its own port of the egress proxy: adds `proxyServer` to the engine's
//! `Target.createBrowserContext`, and notes which context uses which port.
//!
//! A context that gets no port is not made: without one it would use the browser's own port, and its connections would
//! belong to no session.

use std::{
    collections::{HashMap, HashSet},
    io,
    sync::Arc,
};

use serde_json::Value;

use super::rules::Params;
use crate::context_ports::{ContextPorts, HeldPort};

/// Chromium goes around a proxy for loopback unless this entry of the bypass list forbids it.
const NO_BYPASS: &str = "<-loopback>";

/// The contexts of one connection. The browser drops them when the connection ends, and their ports close then.
pub(super) struct ContextProxies {
    ports: Arc<ContextPorts>,
    /// Ports of contexts that the browser has not made yet, by the engine's call.
    opening: HashMap<u32, HeldPort>,
    contexts: HashSet<String>,
}

impl ContextProxies {
    pub(super) fn new(ports: Arc<ContextPorts>) -> Self {
        Self { ports, opening: HashMap::new(), contexts: HashSet::new() }
    }

    /// The engine makes a context: opens its port, and adds it to the call.
    pub(super) fn creating(&mut self, call: u32, params: &mut Params) -> io::Result<()> {
        let port = self.ports.open()?;
        params.insert("proxyServer".to_owned(), Value::from(format!("http://{}", port.address())));
        params.insert("proxyBypassList".to_owned(), Value::from(NO_BYPASS));
        self.opening.insert(call, port);
        Ok(())
    }

    /// The browser has answered a call: with the context that it made, or without one.
    pub(super) fn answered(&mut self, call: u32, made: Option<&str>) {
        if let (Some(port), Some(context)) = (self.opening.remove(&call), made) {
            self.ports.made(context, port);
            self.contexts.insert(context.to_owned());
        }
    }

    /// The engine disposes of a context.
    pub(super) fn forget(&mut self, context: &str) {
        if self.contexts.remove(context) {
            self.ports.forget(context);
        }
    }
}

impl Drop for ContextProxies {
    fn drop(&mut self) {
        for context in &self.contexts {
            self.ports.forget(context);
        }
    }
}
