//! The pools that a configuration declares: named groups of instances, each instance with its own values.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use super::{
    choice::{Browser, EngineKind},
    table::{Pool, Settings},
};
use crate::web_address;

/// A pool by its name, as `PW_MCP_PROXY__<POOL>_*` or `[pools.<POOL>]` declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredPool {
    pub name: String,
    /// What the pool is for; empty when not configured.
    pub description: String,
    /// Calls that name no pool go here. Exactly one pool has this.
    pub is_default: bool,
    /// The values of an instance without its own, and of instances that are added later.
    pub common: Pool,
    /// At least one; an instance's ID is its index here.
    pub instances: Vec<DeclaredInstance>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredInstance {
    /// A second name besides the ID: never a number, and different for each instance of the pool.
    pub alias: Option<String>,
    pub pool: Pool,
}

impl Settings {
    /// The built-in pool; `None` if pools or browsers to attach to are configured.
    pub fn built_in(&self) -> Option<&Pool> {
        (self.pools.is_empty() && self.browsers.is_empty()).then_some(&self.pool)
    }

    /// The configured instances, each with the name that messages use for it: the declared ones, or those of
    /// the built-in pool. Attached browsers are not among them.
    pub fn instances(&self) -> Vec<(String, &Pool)> {
        if let Some(pool) = self.built_in() {
            return vec![("pool".to_owned(), pool)];
        }
        let of = |pool: &'_ DeclaredPool| -> Vec<String> {
            (0..pool.instances.len()).map(|id| format!("pool {}, instance {id}", pool.name)).collect()
        };
        let named = self.pools.iter().flat_map(|pool| of(pool).into_iter().zip(&pool.instances));
        named.map(|(place, instance)| (place, &instance.pool)).collect()
    }

    /// The pool of calls that name neither a pool nor a browser; `None` if only browsers are configured.
    pub fn default_pool(&self) -> Option<&Pool> {
        let declared = self.pools.iter().find(|pool| pool.is_default).map(|pool| &pool.common);
        declared.or_else(|| self.built_in())
    }

    /// The engines that pools and attached browsers are configured with.
    pub fn engines(&self) -> BTreeSet<EngineKind> {
        let of_pools = self.instances().into_iter().map(|(_, pool)| pool.engine);
        of_pools.chain(self.browsers.iter().map(|browser| browser.pool.engine)).collect()
    }

    /// The values of a browser that is attached while greenroom runs, by its address alone. The error says why `[pool]`
    /// cannot apply to such a browser.
    pub fn attached(&self) -> Result<Pool, String> {
        self.attached.clone().unwrap_or_else(|| Ok(Pool::declared_defaults()))
    }

    /// Settings with this pool and defaults for the rest, for code that works on whole settings.
    pub(super) fn around(pool: Pool) -> Self {
        Self { pool, ..Self::defaults(PathBuf::new()) }
    }
}

impl Pool {
    /// Whether greenroom starts a Chromium for the pool. Otherwise the engine starts its own browser.
    pub fn has_chromium(&self) -> bool {
        let engines_own = matches!(self.browser, Browser::Firefox | Browser::Webkit);
        !self.engine.facts().is_user_supplied && !engines_own && !self.wsl_windows && !self.extension
    }

    /// Whether greenroom's proxy stands between the pool's browsers and the network. A custom engine brings its own browser,
    /// and the extension uses the user's.
    pub fn is_proxied(&self) -> bool {
        !self.engine.facts().is_user_supplied && !self.extension
    }

    /// The custom engine's address for messages: without its secrets.
    pub fn shown_url(&self) -> Option<String> {
        self.url.as_deref().map(web_address::shown)
    }

    /// The values of a declared pool that sets nothing: one persistent browser per instance, where the built-in pool
    /// shares one among many isolated sessions.
    pub fn declared_defaults() -> Self {
        Self {
            isolated: false,
            slots: 1,
            timeout: Duration::from_secs(30),
            ..Settings::defaults(PathBuf::new()).pool
        }
    }
}
