//! An egress proxy that the test itself has: every port is the same one, and nothing is refused.

use std::{io, net::SocketAddr, sync::Arc};

use greenroom_core::{
    network::Blocked,
    port::{Egress, EgressPort, PortUser, Refusals},
};

pub struct FixedEgress(pub SocketAddr);

impl Egress for FixedEgress {
    fn open_port(&self) -> io::Result<Arc<dyn EgressPort>> {
        Ok(Arc::new(Self(self.0)))
    }
}

impl EgressPort for FixedEgress {
    fn address(&self) -> SocketAddr {
        self.0
    }

    fn assign(&self, _: PortUser) {}

    fn take_refusals(&self) -> Refusals {
        Refusals::default()
    }

    fn refusal_of(&self, _: &str, _: u16) -> Option<Blocked> {
        None
    }
}
