//! The ports of the egress proxy that one browser uses: one for the browser itself, and one for each context that an engine
//! makes in it, so that every connection and every refusal belongs to one session.
//!
//! [`crate::cdp_proxy`] opens a port for each new context and tells the browser to use it. Seats find their port by the id of
//! their context, and assign their user to it. A port closes when its context is gone.

use std::{collections::HashMap, io, net::SocketAddr, sync::Arc};

use greenroom_core::{
    StartError,
    port::{Egress, EgressPort},
};
use parking_lot::Mutex;

use crate::{
    downloads::ContextId,
    ports::{PortGuard, Ports},
};

pub(crate) struct ContextPorts {
    egress: Arc<dyn Egress>,
    ports: Ports,
    /// The port of the browser's default context, and of all that the browser itself fetches.
    browser: HeldPort,
    by_context: Mutex<HashMap<String, HeldPort>>,
}

/// An open port that no browser may connect to as a site.
pub(crate) struct HeldPort {
    port: Arc<dyn EgressPort>,
    _guard: PortGuard,
}

impl HeldPort {
    fn open(egress: &dyn Egress, ports: &Ports) -> io::Result<Self> {
        let port = egress.open_port()?;
        let guard = ports.hold(port.address().port())?;
        Ok(Self { port, _guard: guard })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.port.address()
    }
}

impl ContextPorts {
    /// Opens the port of a browser that is about to start.
    pub(crate) fn new(egress: Arc<dyn Egress>, ports: &Ports) -> Result<Self, StartError> {
        let failed = |error| StartError::new(format!("cannot open a port of the egress proxy: {error}"));
        let browser = HeldPort::open(&*egress, ports).map_err(failed)?;
        Ok(Self { egress, ports: ports.clone(), browser, by_context: Mutex::default() })
    }

    /// The address of the browser's own port.
    pub(crate) fn browser_address(&self) -> SocketAddr {
        self.browser.address()
    }

    /// Opens a port for a context that is about to be made.
    pub(crate) fn open(&self) -> io::Result<HeldPort> {
        HeldPort::open(&*self.egress, &self.ports)
    }

    /// A context exists that uses this port.
    pub(crate) fn made(&self, context: &str, port: HeldPort) {
        self.by_context.lock().insert(context.to_owned(), port);
    }

    /// A context is gone: closes its port.
    pub(crate) fn forget(&self, context: &str) {
        self.by_context.lock().remove(context);
    }

    /// The port that a context uses; `None` if greenroom knows no such context.
    pub(crate) fn port(&self, context: &ContextId) -> Option<Arc<dyn EgressPort>> {
        match context {
            None => Some(self.browser.port.clone()),
            Some(context) => self.by_context.lock().get(context).map(|held| held.port.clone()),
        }
    }
}
