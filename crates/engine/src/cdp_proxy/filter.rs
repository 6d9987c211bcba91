//! Decides what becomes of each message of one engine's connection. It holds no socket and no clock: messages and moments
//! come in, messages go out.
//!
//! Calls of the engine are judged by [`rules`]. What the browser says passes, but for what concerns targets that are not the
//! engine's ([`OwnContexts`]) or that do not answer ([`SilentTabs`]). Most of it is not even read: of answers only the
//! number counts, and of events the name.

use greenroom_cdp::link::Text;
use tokio::time::Instant;

use super::{
    Out, Targets,
    message::{Attached, Detached, Envelope, Kind, OwnIds, kind, params, refusal, rewritten},
    own_contexts::OwnContexts,
    rules::{self, Verdict},
    silent_tabs::SilentTabs,
};

/// The engine sent what is no call. Its connection ends, since nothing that cannot be read may pass.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unreadable;

/// One connection of an engine.
pub(super) struct Filter {
    ids: OwnIds,
    own_contexts: Option<OwnContexts>,
    silent_tabs: Option<SilentTabs>,
}

impl Filter {
    pub(super) fn new(targets: &Targets) -> Self {
        let (own_contexts, silent_tabs) = match targets {
            Targets::All => (None, None),
            Targets::OwnContexts => (Some(OwnContexts::default()), None),
            Targets::Responsive(own) => (None, Some(SilentTabs::new(own.clone()))),
        };
        Self { ids: OwnIds::default(), own_contexts, silent_tabs }
    }

    /// The engine calls the browser.
    pub(super) fn engine_says(&mut self, text: Text, now: Instant) -> Result<Vec<Out>, Unreadable> {
        let call: Envelope<'_> = serde_json::from_str(&text).map_err(|_| Unreadable)?;
        let (Some(id), Some(method)) = (call.id, call.method.as_deref()) else { return Err(Unreadable) };
        let verdict = rules::judge(method, call.params, self.own_contexts.is_some());
        if let Verdict::Refuse(why) = verdict {
            tracing::debug!(method, why, "an engine's call is refused");
            return Ok(vec![Out::ToEngine(refusal(id, call.session.as_deref(), &why))]);
        }
        if let Some(contexts) = &mut self.own_contexts {
            contexts.engine_says(&call);
        }
        if let Some(tabs) = &mut self.silent_tabs {
            tabs.engine_says(&call, now);
        }
        let text = match verdict {
            Verdict::Replace(params) => rewritten(id, call.session.as_deref(), method, params),
            Verdict::Pass | Verdict::Refuse(_) => text.clone(),
        };
        Ok(vec![Out::ToBrowser(text)])
    }

    /// The browser says something.
    pub(super) fn browser_says(&mut self, text: Text, now: Instant) -> Vec<Out> {
        if let Some(contexts) = &mut self.own_contexts {
            match kind(&text) {
                Kind::Answer(id) if self.ids.have(id) => return Vec::new(),
                Kind::Answer(id) => contexts.answered(id, &text),
                Kind::Event(name) if name == "Target.attachedToTarget" => {
                    if let Some((None, attached)) = params::<Attached>(&text)
                        && let Some(out) = contexts.attached(&attached, &mut self.ids)
                    {
                        return out;
                    }
                }
                Kind::Event(name) if name == "Target.detachedFromTarget" => {
                    if let Some((_, Detached { session_id })) = params(&text)
                        && contexts.detached(&session_id)
                    {
                        return Vec::new();
                    }
                }
                Kind::Event(_) if contexts.hides(&text) => return Vec::new(),
                Kind::Event(_) | Kind::Neither => {}
            }
        }
        match &mut self.silent_tabs {
            Some(tabs) => tabs.browser_says(text, now),
            None => vec![Out::ToEngine(text)],
        }
    }

    /// When time will have made a difference, if nothing is said before.
    pub(super) fn due(&self) -> Option<Instant> {
        self.silent_tabs.as_ref()?.due()
    }

    pub(super) fn time_passed(&mut self, now: Instant) -> Vec<Out> {
        self.silent_tabs.as_mut().map(|tabs| tabs.time_passed(now)).unwrap_or_default()
    }
}
