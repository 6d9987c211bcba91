//! Makes the engine of an instance from its configuration.

use std::{
    collections::HashMap,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, OnceLock, Weak},
};

use greenroom_core::{
    Engine, InstanceId, StartError,
    settings::{Browser, Codegen, EngineKind, Pool, Scale, Settings},
};
use greenroom_engine::{
    CustomEngine, CustomServer, DevtoolsEngine, DevtoolsOptions, Emulation, Endpoint, Offer,
    PlaywrightBrowser, PlaywrightEngine, PlaywrightOptions, ToolsChanged,
    browser::{Places, Wanted},
    check_init_scripts, check_secrets,
    launcher::Launcher,
    ports::Ports,
    run_folder::RunFolder,
};
use greenroom_gateway::Catalog;

/// What engines are made with. Cheap to clone.
#[derive(Clone)]
pub struct Engines {
    pub launcher: Launcher,
    pub run: Arc<RunFolder>,
    pub ports: Ports,
    pub places: Places,
    pub proxies: HashMap<Option<String>, SocketAddr>,
    /// The engines tell of changed tools, the catalog is told; the engines come first, so it is filled in.
    pub catalog: Arc<OnceLock<Weak<Catalog>>>,
}

impl Engines {
    /// The engine of an instance of a pool.
    pub fn make(&self, settings: &Settings, name: &Arc<str>, pool: &Pool, id: InstanceId) -> Arc<dyn Engine> {
        self.engine(settings, name, pool, id, None)
    }

    /// The engine of a browser that already runs.
    pub fn attach(
        &self,
        settings: &Settings,
        name: &Arc<str>,
        pool: &Pool,
        endpoint: Arc<Endpoint>,
    ) -> Arc<dyn Engine> {
        self.engine(settings, name, pool, InstanceId(0), Some(endpoint))
    }

    fn engine(
        &self,
        settings: &Settings,
        name: &Arc<str>,
        pool: &Pool,
        id: InstanceId,
        attach: Option<Arc<Endpoint>>,
    ) -> Arc<dyn Engine> {
        match pool.engine {
            EngineKind::Playwright => Arc::new(PlaywrightEngine {
                options: Arc::new(PlaywrightOptions { attach, ..self.options(settings, name, pool, id) }),
                launcher: self.launcher.clone(),
                run: self.run.clone(),
                ports: self.ports.clone(),
                proxy: self.proxy(pool),
                tools_changed: self.tools_changed(name),
            }),
            EngineKind::Devtools => Arc::new(DevtoolsEngine {
                options: Arc::new(DevtoolsOptions { attach, ..self.devtools(settings, name, pool, id) }),
                launcher: self.launcher.clone(),
                run: self.run.clone(),
                ports: self.ports.clone(),
                proxy: self.proxy(pool),
                tools_changed: self.tools_changed(name),
            }),
            EngineKind::Custom => Arc::new(CustomEngine {
                server: server(pool),
                slots: pool.slots,
                launcher: self.launcher.clone(),
                run: self.run.clone(),
                ports: self.ports.clone(),
                tools_changed: self.tools_changed(name),
            }),
        }
    }

    /// The proxy that the pool's browsers go through. One whose upstream was not known at the start has none: a reload
    /// says that it takes a restart, and until then nothing goes out where it should not.
    fn proxy(&self, pool: &Pool) -> SocketAddr {
        self.proxies.get(&pool.proxy_server).copied().unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 9)))
    }

    fn tools_changed(&self, name: &Arc<str>) -> ToolsChanged {
        let (told, pool) = (self.catalog.clone(), name.clone());
        Arc::new(move |offer| {
            let Some(catalog) = told.get().and_then(Weak::upgrade) else { return };
            let Offer { tools, at_start, partial } = offer;
            match at_start {
                true => catalog.offered(&pool, &tools, partial),
                false => catalog.announced(&pool, &tools, partial),
            }
        })
    }

    fn devtools(&self, settings: &Settings, name: &str, pool: &Pool, id: InstanceId) -> DevtoolsOptions {
        DevtoolsOptions {
            data_folder: settings.data_dir.clone(),
            node: settings.node.clone(),
            places: self.places.clone(),
            attach: None,
            slots: pool.slots,
            headless: pool.headless,
            browser: Wanted::from(pool.browser),
            executable_path: pool.executable_path.clone(),
            no_sandbox: pool.no_sandbox,
            isolated: pool.isolated,
            user_data_dir: (!pool.isolated).then(|| profile(settings, name, pool, id)),
            viewport: (pool.viewport_size.width, pool.viewport_size.height),
            user_agent: pool.user_agent.clone(),
            ignore_https_errors: pool.ignore_https_errors,
            allowed_origins: pool.allowed_origins.clone(),
            blocked_origins: pool.blocked_origins.clone(),
            browser_args: pool.browser_args.clone(),
            output_dir: pool.output_dir.clone(),
            disk_bytes_max: settings.sessions.disk_bytes_max,
        }
    }

    fn options(&self, settings: &Settings, name: &str, pool: &Pool, id: InstanceId) -> PlaywrightOptions {
        PlaywrightOptions {
            data_folder: settings.data_dir.clone(),
            node: settings.node.clone(),
            places: self.places.clone(),
            slots: pool.slots,
            own_node: settings.tools.r#unsafe,
            headless: pool.headless,
            browser: match pool.browser {
                Browser::Firefox => PlaywrightBrowser::Firefox,
                Browser::Webkit => PlaywrightBrowser::Webkit,
                other => Wanted::from(other).into(),
            },
            attach: None,
            executable_path: pool.executable_path.clone(),
            no_sandbox: pool.no_sandbox,
            isolated: pool.isolated,
            // Through the extension it is the user's own browser, with the user's own profile.
            user_data_dir: match pool.extension {
                true => pool.user_data_dir.clone(),
                false => (!pool.isolated).then(|| profile(settings, name, pool, id)),
            },
            storage_state: pool.storage_state.clone(),
            viewport: (pool.viewport_size.width, pool.viewport_size.height),
            caps: pool.caps.iter().map(ToString::to_string).collect(),
            webmcp: settings.tools.webmcp,
            timeout_action: pool.timeout_action,
            timeout_navigation: pool.timeout_navigation,
            timeout_settle: pool.timeout_settle,
            user_agent: pool.user_agent.clone(),
            device: pool.device.clone(),
            emulation: Emulation {
                locale: pool.locale.clone(),
                timezone: pool.timezone.clone(),
                geolocation: pool.geolocation.map(|place| (place.latitude(), place.longitude())),
                permissions: pool.permissions.iter().map(ToString::to_string).collect(),
                color_scheme: pool.color_scheme.map(|scheme| scheme.to_string()),
                device_scale_factor: pool.device_scale_factor.map(Scale::factor),
                bypass_csp: pool.bypass_csp,
            },
            ignore_https_errors: pool.ignore_https_errors,
            allowed_origins: pool.allowed_origins.clone(),
            blocked_origins: pool.blocked_origins.clone(),
            init_scripts: pool.init_script.clone(),
            image_responses: Some(pool.image_responses.to_string()),
            test_id_attribute: pool.test_id_attribute.clone(),
            snapshot_boxes: pool.snapshot_boxes,
            codegen: (pool.codegen != Codegen::Typescript).then(|| pool.codegen.to_string()),
            secrets_file: pool.secrets_file.clone(),
            browser_args: pool.browser_args.clone(),
            save_session: pool.save_session,
            output_dir: pool.output_dir.clone(),
            disk_bytes_max: settings.sessions.disk_bytes_max,
            extension: pool.extension,
            wsl_windows: pool.wsl_windows,
        }
    }
}

/// Looks for files that settings name and that must be there from the start. Storage states may come later: a tool of the
/// engine writes them.
pub fn check(settings: &Settings) -> Result<(), StartError> {
    let attached = settings.browsers.iter().map(|browser| &browser.pool);
    let pools = settings.instances().into_iter().map(|(_, pool)| pool).chain(attached);
    // Paths of Windows mean nothing here.
    let here = pools.filter(|pool| pool.engine == EngineKind::Playwright && !pool.wsl_windows);
    here.into_iter().try_for_each(|pool| {
        check_init_scripts(&pool.init_script)?;
        check_secrets(pool.secrets_file.as_deref())
    })
}

/// The server of a custom engine: the settings are checked to have one of both.
fn server(pool: &Pool) -> CustomServer {
    match (&pool.url, pool.command.split_first()) {
        (Some(url), _) => CustomServer::Url(url.clone()),
        (None, Some((program, args))) => {
            CustomServer::Command { program: PathBuf::from(program), args: args.to_vec() }
        }
        (None, None) => CustomServer::Command { program: PathBuf::new(), args: Vec::new() },
    }
}

/// A profile of its own for each instance: two browsers cannot share one.
fn profile(settings: &Settings, name: &str, pool: &Pool, id: InstanceId) -> PathBuf {
    let profiles =
        pool.user_data_dir.clone().unwrap_or_else(|| settings.data_dir.join("profiles").join(name));
    profiles.join(id.to_string())
}
