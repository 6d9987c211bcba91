//! Attaches and detaches browsers while greenroom runs, and decides which callers may do so.
//!
//! This module does not know how an engine drives a browser or which addresses are allowed: the `cli` passes in an
//! [`Attach`] that does. A caller cannot give a start command or headers: a command runs as greenroom's user, so only
//! that user's own configuration may name one.

use std::sync::Arc;

use greenroom_core::{
    BoxFuture, Engine,
    settings::{AutoOnOff, BROWSERS_MAX, EngineKind, browser_label, browser_tags, browser_url},
};
use greenroom_fleet::{BrowserSettings, BrowserStatus, FleetError, pool_name};
use serde::Deserialize;
use tokio::runtime::Handle;
use utoipa::ToSchema;

use crate::{Gateway, PoolAnswers};

/// A request to attach a browser.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AttachRequest {
    /// The address of the browser's debugger: `http://host:port`, or `ws://…`.
    pub url: String,
    /// A name by which calls can choose the browser, besides its index.
    #[serde(default)]
    pub label: Option<String>,
    #[serde(default)]
    pub tags: Vec<String>,
    /// The engine that drives the browser; the configured one by default.
    #[serde(default)]
    pub engine: Option<AttachEngine>,
}

/// An engine that can attach to a running browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AttachEngine {
    Playwright,
    Devtools,
}

impl From<AttachEngine> for EngineKind {
    fn from(engine: AttachEngine) -> Self {
        match engine {
            AttachEngine::Playwright => Self::Playwright,
            AttachEngine::Devtools => Self::Devtools,
        }
    }
}

/// A browser to attach.
pub struct Attachment {
    pub settings: BrowserSettings,
    /// The engine that lists its tools.
    pub engine: Arc<dyn Engine>,
    /// How much of its answers agents get, and in which form.
    pub answers: PoolAnswers,
}

/// Makes the attachment once the fleet has given it an index.
pub type AttachmentBuilder = Box<dyn FnOnce(u32) -> Attachment + Send>;

/// Prepares browsers for their engine.
pub trait Attach: Send + Sync {
    /// Returns how to drive this browser, or why it may not be attached. It connects nothing.
    fn prepare(&self, request: AttachRequest) -> BoxFuture<'_, Result<AttachmentBuilder, AttachError>>;
}

/// Why a browser may not be attached: the request describes one that greenroom cannot use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct AttachError {
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// Whether the browser is allowed, but does not answer now.
    pub down: bool,
}

impl AttachError {
    /// The error for an address at which no browser answers.
    pub fn down(message: impl Into<String>) -> Self {
        Self { down: true, ..Self::new(message) }
    }

    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, down: false }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Which callers may attach and detach browsers, and the code that can do it.
#[derive(Clone)]
pub struct AttachPolicy {
    pub allowed: AutoOnOff,
    /// Whether the configuration named browsers at the start.
    pub configured: bool,
    /// `None` where no browser can be attached at all.
    pub attacher: Option<Arc<dyn Attach>>,
}

impl AttachPolicy {
    /// A policy under which no caller may attach browsers.
    pub fn none() -> Self {
        Self { allowed: AutoOnOff::Off, configured: false, attacher: None }
    }

    /// Whether a caller may attach browsers. `is_local` says whether the caller is this user on this machine.
    pub(crate) fn allows(&self, is_local: bool) -> bool {
        self.attacher.is_some()
            && match self.allowed {
                AutoOnOff::On => true,
                AutoOnOff::Off => false,
                AutoOnOff::Auto => is_local && self.configured,
            }
    }
}

/// Why a browser was not attached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotAttached {
    /// The caller may not, or this process cannot attach browsers.
    #[error("browsers cannot be attached or removed here")]
    NotAllowed,
    #[error(transparent)]
    Refused(#[from] AttachError),
    #[error("too many browsers are attached: {BROWSERS_MAX}")]
    TooMany,
    #[error(transparent)]
    Fleet(#[from] FleetError),
}

impl Gateway {
    /// Adds a browser, so that calls can name it. It connects nothing.
    pub fn attach(&self, make: impl FnOnce(u32) -> Attachment) -> Result<BrowserStatus, FleetError> {
        let mut made = None;
        let status = self.fleet.add_browser(|index| {
            let Attachment { settings, engine, answers } = make(index);
            made = Some((engine, answers));
            settings
        })?;
        if let Some((engine, answers)) = made {
            self.policy.also_unsafe(engine.unsafe_tools());
            self.recall.set_pool_answers(&pool_name(status.index), answers);
            self.catalog.add_browser(&status, engine);
        }
        Ok(status)
    }

    /// Attaches a browser on a caller's request and connects it. A browser that cannot be connected is removed again:
    /// with one more browser in the list, every other caller would have to name the browser it means.
    pub(crate) async fn connect_browser(
        &self,
        request: &AttachRequest,
    ) -> Result<BrowserStatus, NotAttached> {
        let attacher = self.attaching.attacher.as_ref().ok_or(NotAttached::NotAllowed)?;
        let request = read(request)?;
        if self.fleet.browsers().len() >= BROWSERS_MAX {
            return Err(NotAttached::TooMany);
        }
        let index = self.attach(attacher.prepare(request).await?)?.index;
        let mut undecided = DetachOnDrop { gateway: self, index: Some(index) };
        let connected = self.fleet.reconnect_browser(&index.to_string()).await;
        undecided.index = None;
        match connected {
            Ok(status) => {
                self.catalog.fetch_missing().await;
                Ok(status)
            }
            Err(error) => {
                // Another caller may have detached it meanwhile.
                let _ = self.detach(index).await;
                Err(error.into())
            }
        }
    }

    /// Detaches a browser and leaves it as it was. Returns when greenroom has disconnected from it.
    pub async fn detach(&self, index: u32) -> Result<BrowserStatus, FleetError> {
        let name = index.to_string();
        self.fleet.browser(&name)?;
        self.forget(index);
        let left = self.fleet.remove_browser(&name).await;
        // Remove the metrics last: calls count until they have ended, and detaching ends them.
        self.metrics.forget_browser(index);
        left
    }

    fn forget(&self, index: u32) {
        self.catalog.remove_browser(index);
        self.recall.set_pool_answers(&pool_name(index), PoolAnswers::default());
    }
}

/// A browser whose connection attempt has not ended. If the caller leaves before that, dropping this detaches it.
struct DetachOnDrop<'a> {
    gateway: &'a Gateway,
    /// `None` once the attempt has ended.
    index: Option<u32>,
}

impl Drop for DetachOnDrop<'_> {
    fn drop(&mut self) {
        let Some(index) = self.index else { return };
        self.gateway.forget(index);
        let fleet = self.gateway.fleet.clone();
        let metrics = self.gateway.metrics.clone();
        // If the runtime is gone, the fleet has disconnected every browser already.
        if let Ok(runtime) = Handle::try_current() {
            // Another caller may have detached it meanwhile.
            runtime.spawn(async move {
                let _ = fleet.remove_browser(&index.to_string()).await;
                metrics.forget_browser(index);
            });
        }
    }
}

/// Checks a caller's request by the same rules as the configuration.
fn read(request: &AttachRequest) -> Result<AttachRequest, AttachError> {
    if request.url.contains('|') {
        let message = "a start command cannot be given here: `|` in the URL";
        let hint = "leave it out; the operator can give one with `--browserUrl` or in the configuration file";
        return Err(AttachError::new(message).hint(hint));
    }
    let of = |what: &'static str| move |why: String| AttachError::new(format!("`{what}`: {why}"));
    Ok(AttachRequest {
        url: browser_url(&request.url).map_err(of("url"))?,
        label: request.label.as_deref().map(browser_label).transpose().map_err(of("label"))?,
        tags: browser_tags(request.tags.iter().map(String::as_str)).map_err(of("tags"))?,
        engine: request.engine,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Never;

    impl Attach for Never {
        fn prepare(&self, _: AttachRequest) -> BoxFuture<'_, Result<AttachmentBuilder, AttachError>> {
            Box::pin(async { Err(AttachError::new("never")) })
        }
    }

    /// Requests take every engine that attaches to browsers, by the word of the configuration, and no other.
    #[test]
    fn requests_take_engines_that_attach() {
        for kind in EngineKind::all() {
            let request = format!(r#"{{"url":"http://127.0.0.1:1","engine":"{kind}"}}"#);
            let engine =
                serde_json::from_str::<AttachRequest>(&request).ok().and_then(|request| request.engine);
            assert_eq!(engine.map(EngineKind::from), Some(kind).filter(|kind| kind.attaches()), "{kind}");
        }
    }

    /// `auto` allows callers on this machine if browsers were configured, `on` allows every caller, `off` none; and no
    /// caller may where this process cannot attach browsers.
    #[test]
    fn changes_setting_decides_who_attaches() {
        let may = |allowed, configured, is_local| {
            AttachPolicy { allowed, configured, attacher: Some(Arc::new(Never)) }.allows(is_local)
        };
        for (allowed, configured, is_local, expected) in [
            (AutoOnOff::Auto, true, true, true),
            (AutoOnOff::Auto, true, false, false),
            (AutoOnOff::Auto, false, true, false),
            (AutoOnOff::On, false, false, true),
            (AutoOnOff::Off, true, true, false),
        ] {
            assert_eq!(may(allowed, configured, is_local), expected, "{allowed:?} {configured} {is_local}");
        }
        assert!(!AttachPolicy { allowed: AutoOnOff::On, ..AttachPolicy::none() }.allows(true));
    }

    /// The error for a bad URL, label or tag names the fault; the error for a start command says why it is refused.
    #[test]
    fn invalid_attach_requests_are_refused() {
        let plain = AttachRequest { url: "http://127.0.0.1:9222".to_owned(), ..AttachRequest::default() };
        let label = |label: &str| AttachRequest { label: Some(label.to_owned()), ..plain.clone() };
        let tags = |tags: &[&str]| AttachRequest {
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            ..plain.clone()
        };
        for fine in [plain.clone(), label("my work 2"), tags(&["a", "b"])] {
            assert_eq!(read(&fine), Ok(fine));
        }
        let url = |url: &str| AttachRequest { url: url.to_owned(), ..plain.clone() };
        for (odd, says) in [
            (url("http://127.0.0.1:9222|chrome"), "start command"),
            (url("file:///etc/passwd"), "`url`: expected"),
            (label("7"), "`label`: expected a name"),
            (label(""), "`label`: expected"),
            (label("a\nb"), "`label`: expected"),
            (label(&"x".repeat(65)), "`label`: expected"),
            (tags(&[""]), "`tags`: expected"),
        ] {
            let refused = read(&odd).unwrap_err();
            assert!(refused.message.contains(says), "{odd:?}: {refused}");
        }
    }
}
