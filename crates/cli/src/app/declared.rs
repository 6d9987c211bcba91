//! Maps declared browsers to attached ones, while both change.

use std::sync::Arc;

use greenroom_core::settings::AttachedBrowser;
use greenroom_fleet::FleetError;
use greenroom_gateway::Gateway;
use parking_lot::{Mutex, MutexGuard};

use super::attacher::Attacher;

/// The declared browsers, each with the index that agents know it by.
pub struct DeclaredBrowsers {
    attacher: Arc<Attacher>,
    attached: Mutex<Vec<(String, u32)>>,
}

impl DeclaredBrowsers {
    pub fn new(attacher: Arc<Attacher>) -> Self {
        Self { attacher, attached: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(String, u32)>> {
        self.attached.lock()
    }

    /// Adds a browser without connecting to it.
    pub fn attach(&self, gateway: &Gateway, browser: &AttachedBrowser) -> Result<(), FleetError> {
        let index = gateway.attach(|index| self.attacher.declared(browser, index))?.index;
        self.lock().push((browser.url.clone(), index));
        Ok(())
    }

    /// Removes a browser, unless an agent has already removed it.
    pub async fn detach(&self, gateway: &Gateway, browser: &AttachedBrowser) {
        let found = {
            let mut attached = self.lock();
            let at = attached.iter().position(|(url, _)| *url == browser.url);
            at.map(|at| attached.swap_remove(at))
        };
        let Some((_, index)) = found else { return };
        if let Err(error) = gateway.detach(index).await {
            tracing::debug!(%error, "browser {index} was already removed");
        }
    }
}
