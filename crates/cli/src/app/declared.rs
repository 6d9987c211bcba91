//! Which attached browser is which of those that the configuration declares, while both change.

use std::sync::Arc;

use greenroom_core::settings::AttachedBrowser;
use greenroom_fleet::FleetError;
use greenroom_gateway::Gateway;
use parking_lot::{Mutex, MutexGuard};

use super::attached_browsers::Attacher;

/// The declared browsers, each with the number that agents know it by.
pub struct Declared {
    by: Arc<Attacher>,
    attached: Mutex<Vec<(String, u32)>>,
}

impl Declared {
    pub fn new(by: Arc<Attacher>) -> Self {
        Self { by, attached: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(String, u32)>> {
        self.attached.lock()
    }

    /// Takes a browser on. Nothing is connected by that.
    pub fn attach(&self, gateway: &Gateway, browser: &AttachedBrowser) -> Result<(), FleetError> {
        let index = gateway.attach(|index| self.by.declared(browser, index))?.index;
        self.lock().push((browser.url.clone(), index));
        Ok(())
    }

    /// Leaves a browser, unless an agent has had it taken out already.
    pub async fn detach(&self, gateway: &Gateway, browser: &AttachedBrowser) {
        let found = {
            let mut attached = self.lock();
            let at = attached.iter().position(|(url, _)| *url == browser.url);
            at.map(|at| attached.swap_remove(at))
        };
        let Some((_, index)) = found else { return };
        if let Err(error) = gateway.detach(index).await {
            tracing::debug!(%error, "browser {index} is not there to be left");
        }
    }
}
