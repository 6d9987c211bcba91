//! Makes the engine of an instance from its configuration.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock, Weak},
};

use greenroom_core::{
    Engine, InstanceId, StartError,
    settings::{Pool, Settings},
};
use greenroom_engine::{
    Endpoint, EngineBase, EngineOptions, OfferedTools, ToolsChanged, browser::InstallPaths,
    launcher::Launcher, ports::Ports, registry, run_folder::RunFolder,
};
use greenroom_gateway::Catalog;

use super::proxies::EgressDirectory;

/// Makes the engines of pools and attached browsers, from the parts of this process that all engines share. Cheap to clone.
#[derive(Clone)]
pub struct Engines {
    pub launcher: Launcher,
    pub run: Arc<RunFolder>,
    pub ports: Ports,
    pub install_paths: InstallPaths,
    pub egress: EgressDirectory,
    /// Engines report changed tools to the catalog. `App::build` makes the catalog after the engines, and sets it then.
    pub catalog: Arc<OnceLock<Weak<Catalog>>>,
}

impl Engines {
    /// The engine of an instance of a pool.
    pub fn make(
        &self,
        settings: &Arc<Settings>,
        name: &Arc<str>,
        pool: &Pool,
        id: InstanceId,
    ) -> Arc<dyn Engine> {
        self.engine(settings, name, pool, id, None)
    }

    /// The engine of a browser that already runs.
    pub fn attach(
        &self,
        settings: &Arc<Settings>,
        name: &Arc<str>,
        pool: &Pool,
        endpoint: Arc<Endpoint>,
    ) -> Arc<dyn Engine> {
        self.engine(settings, name, pool, InstanceId(0), Some(endpoint))
    }

    fn engine(
        &self,
        settings: &Arc<Settings>,
        name: &Arc<str>,
        pool: &Pool,
        id: InstanceId,
        attach: Option<Arc<Endpoint>>,
    ) -> Arc<dyn Engine> {
        let options = EngineOptions {
            settings: settings.clone(),
            pool: pool.clone(),
            install_paths: self.install_paths.clone(),
            attach,
            profile: profile(settings, name, pool, id),
        };
        let egress = self.egress.find(settings, name, pool);
        let base = EngineBase {
            options: Arc::new(options),
            launcher: self.launcher.clone(),
            run: self.run.clone(),
            ports: self.ports.clone(),
            proxy: egress.address,
            egress: egress.ports,
            tools_changed: self.tools_changed(name),
        };
        (registry::entry(pool.engine).make)(base)
    }

    fn tools_changed(&self, name: &Arc<str>) -> ToolsChanged {
        let catalog_cell = self.catalog.clone();
        let pool = name.clone();
        Arc::new(move |offer| {
            let Some(catalog) = catalog_cell.get().and_then(Weak::upgrade) else { return };
            let OfferedTools { tools, at_start, partial } = offer;
            match at_start {
                true => catalog.engine_started_with(&pool, &tools, partial),
                false => catalog.engine_changed_to(&pool, &tools, partial),
            }
        })
    }
}

/// Checks the files that settings name: they must exist when greenroom starts.
pub fn check(settings: &Settings) -> Result<(), StartError> {
    let attached = settings.browsers.iter().map(|browser| &browser.pool);
    let mut pools = settings.instances().into_iter().map(|(_, pool)| pool).chain(attached);
    pools.try_for_each(|pool| (registry::entry(pool.engine).check)(pool))
}

/// The profile folder of an instance, if its profile is kept. Each instance has its own: two browsers cannot share one.
fn profile(settings: &Settings, name: &str, pool: &Pool, id: InstanceId) -> Option<PathBuf> {
    // Through the extension the engine uses the user's own browser and profile.
    if pool.extension {
        return pool.user_data_dir.clone();
    }
    let profiles =
        pool.user_data_dir.clone().unwrap_or_else(|| settings.data_dir.join("profiles").join(name));
    (!pool.isolated).then(|| profiles.join(id.to_string()))
}
