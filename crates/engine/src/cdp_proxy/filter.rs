//! Decides what happens to each message of one engine's connection. It has no socket and no clock: messages and times come
//! in, messages go out.
//!
//! [`rules`] judge the engine's calls, and keys that copy or paste go through the [`Clipboard`]. The browser's messages
//! pass, except those about targets that are not the engine's ([`OwnContexts`]) or that do not answer ([`SilentTabs`]),
//! calls of bound functions, console messages and requests without end ([`BindingLimit`], [`ConsoleLimit`],
//! [`NetworkLimit`]), long texts ([`long_events`]) and long answers ([`AnswerLimit`], [`bounded_calls`]). [`AddressLimit`]
//! ends pages with too many long addresses, and a script bounds their Web Locks ([`RealmLimits`]). [`DownloadLimit`] counts
//! downloads, and stops them when they are too many or too large. [`own_frames`] removes greenroom's own functions from
//! stacks. Answers to failed navigations pass after their error pages ([`FailedNavigations`]), and answers for crashed
//! pages become errors ([`CrashedPages`]). [`OwnEvaluations`] ends functions of greenroom's own that do not return. The
//! filter recognises answers by their numbers and most events by their names; it parses only events of `Network`,
//! `Fetch`, `Target`, of downloads and of worlds for scripts.

use greenroom_cdp::message_stream::Text;
use tokio::time::Instant;

use super::{
    EngineRules, ProxyMessage, Targets,
    address_limit::{self, AddressLimit},
    answer_limit::{self, AnswerLimit},
    binding_limit::BindingLimit,
    bounded_calls,
    clipboard::Clipboard,
    console_limit::ConsoleLimit,
    context_proxies::ContextProxies,
    crashed_pages::CrashedPages,
    download_limit::DownloadLimit,
    failed_navigations::{self, FailedNavigations},
    long_events,
    message::{
        AttachedTarget, DetachedTarget, Envelope, MessageKind, OwnIds, kind, params, refusal, rewritten,
        session_of,
    },
    network_limit::{self, NetworkLimit},
    own_contexts::OwnContexts,
    own_evaluations::OwnEvaluations,
    own_frames,
    realm_limits::RealmLimits,
    rules::{self, CallVerdict},
    silent_tabs::SilentTabs,
};

/// The engine sent a message that is not a call. Its connection ends, since no unreadable message may pass.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnreadableCall;

/// One connection of an engine.
pub(super) struct Filter {
    ids: OwnIds,
    /// Whether other sessions, or the browser's user, have pages in the same browser.
    shares_browser: bool,
    addresses: AddressLimit,
    answers: AnswerLimit,
    bindings: BindingLimit,
    console: ConsoleLimit,
    network: NetworkLimit,
    downloads: Option<DownloadLimit>,
    context_proxies: Option<ContextProxies>,
    navigations: FailedNavigations,
    own_evaluations: OwnEvaluations,
    own_contexts: Option<OwnContexts>,
    clipboard: Option<Clipboard>,
    realm_limits: Option<RealmLimits>,
    silent_tabs: Option<SilentTabs>,
    crashed_pages: Option<CrashedPages>,
}

impl Filter {
    pub(super) fn new(rules: &EngineRules) -> Self {
        let EngineRules { targets, downloads, context_ports, forgets_crashed_pages, send_within: _ } = rules;
        let is_isolated = matches!(targets, Targets::OwnContexts);
        Self {
            ids: OwnIds::default(),
            shares_browser: !matches!(targets, Targets::All),
            addresses: AddressLimit::default(),
            answers: AnswerLimit::default(),
            bindings: BindingLimit::default(),
            console: ConsoleLimit::default(),
            network: NetworkLimit::default(),
            downloads: downloads.clone().map(|downloads| DownloadLimit::new(downloads, is_isolated)),
            // Contexts of a browser that belongs to one seat use that browser's own port.
            context_proxies: context_ports.clone().filter(|_| is_isolated).map(ContextProxies::new),
            navigations: FailedNavigations::default(),
            own_evaluations: OwnEvaluations::default(),
            own_contexts: is_isolated.then(OwnContexts::default),
            clipboard: is_isolated.then(Clipboard::new),
            realm_limits: is_isolated.then(RealmLimits::new),
            silent_tabs: match targets {
                Targets::Responsive(engine_tabs) => Some(SilentTabs::new(engine_tabs.clone())),
                Targets::All | Targets::OwnContexts => None,
            },
            crashed_pages: forgets_crashed_pages.then(CrashedPages::default),
        }
    }

    /// The engine calls the browser.
    pub(super) fn on_engine_call(
        &mut self,
        text: &Text,
        now: Instant,
    ) -> Result<Vec<ProxyMessage>, UnreadableCall> {
        let out = self.judge_call(text, now)?;
        Ok(self.without_answers_of_crashed_pages(out))
    }

    fn judge_call(&mut self, text: &Text, now: Instant) -> Result<Vec<ProxyMessage>, UnreadableCall> {
        let call: Envelope<'_> = serde_json::from_str(text).map_err(|_| UnreadableCall)?;
        let (Some(id), Some(method)) = (call.id, call.method.as_deref()) else { return Err(UnreadableCall) };
        let mut verdict = self.own_contexts.as_ref().map_or_else(
            || rules::judge(method, call.params, self.shares_browser),
            |contexts| rules::judge_in(method, &call, contexts),
        );
        if let (CallVerdict::Replace(params), Some(proxies), "Target.createBrowserContext") =
            (&mut verdict, &mut self.context_proxies, method)
            && let Err(error) = proxies.creating(id, params)
        {
            verdict = CallVerdict::Refuse(format!("cannot open a port of the egress proxy: {error}"));
        }
        if let CallVerdict::Refuse(why) = verdict {
            tracing::debug!(method, why, "refused an engine's call");
            return Ok(vec![ProxyMessage::ToEngine(refusal(id, call.session.as_deref(), &why))]);
        }
        if let (Some(contexts), Some(clipboard)) = (&mut self.own_contexts, &mut self.clipboard)
            && let Some(gone) = contexts.on_engine_call(&call)
        {
            clipboard.forget(&gone);
            self.addresses.forget(&gone);
            if let Some(proxies) = &mut self.context_proxies {
                proxies.forget(&gone);
            }
            if let Some(downloads) = &self.downloads {
                downloads.forget(&gone);
            }
        }
        if let Some(downloads) = &self.downloads {
            downloads.on_engine_call(&call);
        }
        if let Some(tabs) = &mut self.silent_tabs {
            tabs.on_engine_call(&call, now);
        }
        self.answers.on_engine_call(&call);
        self.own_evaluations.on_engine_call(&call, text, now);
        if let ("Page.navigate", Some(session)) = (method, call.session.as_deref()) {
            self.network.navigates(session);
            self.addresses.navigates(session);
            self.console.navigates(session);
        }
        let judged_call = match verdict {
            CallVerdict::Replace(params) => rewritten(id, call.session.as_deref(), method, params),
            CallVerdict::Pass | CallVerdict::Refuse(_) if method == "Runtime.callFunctionOn" => {
                bounded_calls::bounded(text).unwrap_or_else(|| text.clone())
            }
            CallVerdict::Pass | CallVerdict::Refuse(_) => text.clone(),
        };
        let replacement = match &mut self.clipboard {
            Some(clipboard) => clipboard.on_engine_call(&call, &judged_call, now, &mut self.ids),
            None => None,
        };
        let mut out = replacement.unwrap_or_else(|| vec![ProxyMessage::ToBrowser(judged_call)]);
        if let Some(realm_limits) = &mut self.realm_limits {
            out.extend(realm_limits.on_engine_call(&call, &mut self.ids));
        }
        if let Some(released_answer) = self.navigations.on_engine_call(&call) {
            out.extend(self.pass(released_answer, now));
        }
        Ok(out)
    }

    /// The browser sends a message.
    pub(super) fn on_browser_message(&mut self, text: Text, now: Instant) -> Vec<ProxyMessage> {
        let out = match self.navigations.on_browser_message(&text, now) {
            failed_navigations::NavigationVerdict::Pass => self.pass(text, now),
            failed_navigations::NavigationVerdict::Hold => Vec::new(),
            failed_navigations::NavigationVerdict::PassThen(held) => {
                let mut out = self.pass(text, now);
                out.extend(self.pass(held, now));
                out
            }
        };
        self.without_answers_of_crashed_pages(out)
    }

    fn without_answers_of_crashed_pages(&mut self, mut out: Vec<ProxyMessage>) -> Vec<ProxyMessage> {
        if let Some(crashed_pages) = &mut self.crashed_pages {
            crashed_pages.check(&mut out);
        }
        out
    }

    /// An event within the limits, or what happens instead of it.
    fn limit(&mut self, name: &str, text: Text, now: Instant) -> Result<Text, Vec<ProxyMessage>> {
        if self.own_contexts.is_some() && long_events::names_long_address(name, &text) {
            let page = self.network.page_session(session_of(&text).unwrap_or_default());
            let ends = self.addresses.count_long_address(page, text.len(), now, &mut self.ids);
            if !ends.is_empty() {
                return Err(ends);
            }
        }
        // A page writes these itself: console messages, errors, calls of bound functions. It may upload as much as it likes.
        if name.starts_with("Runtime.") || name.starts_with("Log.") {
            let ends = self.count_long_message(&text, now);
            if !ends.is_empty() {
                return Err(ends);
            }
        }
        let text = long_events::shortened(name, text).ok_or_else(Vec::new)?;
        self.answers.on_event(name, &text);
        match name {
            "Target.attachedToTarget" => {
                if let Some((parent, attached)) = params::<AttachedTarget>(&text) {
                    self.network.attached(parent.as_deref(), &attached, now);
                    self.addresses.attached(parent.as_deref(), &attached);
                    if let Some(crashed_pages) = &mut self.crashed_pages {
                        crashed_pages.attached(&attached);
                    }
                }
            }
            "Target.detachedFromTarget" => {
                if let Some((_, DetachedTarget { session_id })) = params(&text) {
                    self.answers.detached(&session_id);
                    self.own_evaluations.detached(&session_id);
                    self.bindings.detached(&session_id);
                    self.console.detached(&session_id);
                    self.network.detached(&session_id);
                    self.addresses.detached(&session_id);
                    if let Some(crashed_pages) = &mut self.crashed_pages {
                        crashed_pages.detached(&session_id);
                    }
                    if let Some(downloads) = &mut self.downloads {
                        downloads.detached(&session_id);
                    }
                }
            }
            _ => {}
        }
        // If a browser names no session, all of its messages count together.
        let session = session_of(&text).unwrap_or_default().to_owned();
        if !self.bindings.admits(self.network.page_session(&session), name, now) {
            return Err(Vec::new());
        }
        let text =
            self.console.judge(self.network.page_session(&session), name, text, now).ok_or_else(Vec::new)?;
        match self.network.judge(name, text, now, &mut self.ids) {
            network_limit::EventVerdict::Pass(text) => Ok(text),
            network_limit::EventVerdict::Instead(out) => Err(out),
        }
    }

    /// Counts what a page has written. Returns the calls that end pages of its context if that is too much.
    fn count_long_message(&mut self, text: &Text, now: Instant) -> Vec<ProxyMessage> {
        if self.own_contexts.is_none() || !address_limit::is_long_message(text) {
            return Vec::new();
        }
        let page = self.network.page_session(session_of(text).unwrap_or_default());
        self.addresses.count_long_message(page, text.len(), now, &mut self.ids)
    }

    /// Decides on a message of the browser that is not held.
    fn pass(&mut self, text: Text, now: Instant) -> Vec<ProxyMessage> {
        match kind(&text) {
            MessageKind::Answer(id) => self.pass_answer(id, text, now),
            MessageKind::Event(name) => {
                let orders = match &self.downloads {
                    Some(downloads) => downloads.event(&name, &text, &mut self.ids),
                    None => Vec::new(),
                };
                let mut out = self.pass_event(&name, text.clone(), now);
                out.extend(orders);
                out
            }
            MessageKind::Neither => self.pass_to_engine(text, now),
        }
    }

    /// Whether the engine gets an answer, and in which form.
    fn pass_answer(&mut self, id: u32, text: Text, now: Instant) -> Vec<ProxyMessage> {
        let is_own = self.ids.contains(id);
        self.own_evaluations.answered(id);
        if !is_own && let Some(refused) = self.answers.refuse(id, &text) {
            let mut out = vec![ProxyMessage::ToEngine(refused)];
            if answer_limit::is_value(&text) {
                out.extend(self.count_long_message(&text, now));
            }
            return out;
        }
        let (Some(contexts), Some(clipboard)) = (&mut self.own_contexts, &mut self.clipboard) else {
            return if is_own { Vec::new() } else { self.pass_to_engine(text, now) };
        };
        if is_own {
            if let Some(realm_limits) = &mut self.realm_limits
                && let Some(close) = realm_limits.answered(id, &text, &mut self.ids)
            {
                return vec![close];
            }
            return clipboard.answered(id, &text, &mut self.ids);
        }
        let made = contexts.answered(id, &text);
        if let Some(proxies) = &mut self.context_proxies {
            proxies.answered(id, made.as_deref());
        }
        if let (Some(made), Some(downloads)) = (&made, &self.downloads) {
            downloads.context_made(made);
        }
        let clipboard_calls = clipboard.on_answer_to_engine(id, &mut self.ids);
        std::iter::once(ProxyMessage::ToEngine(text)).chain(clipboard_calls).collect()
    }

    /// Whether the engine gets an event, and in which form.
    fn pass_event(&mut self, name: &str, text: Text, now: Instant) -> Vec<ProxyMessage> {
        let text = if own_frames::may_have_stack(name) { own_frames::without_own_frames(text) } else { text };
        let text = match self.limit(name, text, now) {
            Ok(text) => text,
            Err(replacement) => return replacement,
        };
        let (Some(contexts), Some(clipboard), Some(realm_limits)) =
            (&mut self.own_contexts, &mut self.clipboard, &mut self.realm_limits)
        else {
            return self.pass_to_engine(text, now);
        };
        let mut before = Vec::new();
        match name {
            "Target.attachedToTarget" => {
                if let Some((parent, attached)) = params::<AttachedTarget>(&text) {
                    // A target attached within the engine's own page is the engine's, too.
                    if parent.is_none()
                        && let Some(out) = contexts.attached(&attached, now, &mut self.ids)
                    {
                        return out;
                    }
                    if let Some(downloads) = &mut self.downloads {
                        downloads.attached(&attached);
                    }
                    clipboard.attached(parent, &attached);
                    before = realm_limits.attached(&attached, &mut self.ids);
                }
            }
            "Target.detachedFromTarget" => {
                if let Some((_, DetachedTarget { session_id })) = params(&text) {
                    clipboard.detached(&session_id);
                    realm_limits.detached(&session_id);
                    if contexts.detached(&session_id) {
                        return Vec::new();
                    }
                }
            }
            _ if contexts.hides(&text) || clipboard.event(name, &text) => return Vec::new(),
            _ => {}
        }
        before.push(ProxyMessage::ToEngine(text));
        before
    }

    /// The engine gets a message, unless its tab does not answer.
    fn pass_to_engine(&mut self, text: Text, now: Instant) -> Vec<ProxyMessage> {
        match &mut self.silent_tabs {
            Some(tabs) => tabs.on_browser_message(text, now),
            None => vec![ProxyMessage::ToEngine(text)],
        }
    }

    /// When time alone changes something, if no message comes before.
    pub(super) fn due(&self) -> Option<Instant> {
        let tabs = self.silent_tabs.as_ref().and_then(SilentTabs::due);
        let keys = self.clipboard.as_ref().and_then(Clipboard::due);
        tabs.into_iter().chain(keys).chain(self.navigations.due()).chain(self.own_evaluations.due()).min()
    }

    pub(super) fn on_deadline(&mut self, now: Instant) -> Vec<ProxyMessage> {
        let tabs = self.silent_tabs.as_mut().map(|tabs| tabs.on_deadline(now)).unwrap_or_default();
        let keys = self.clipboard.as_mut().map(|clipboard| clipboard.on_deadline(now)).unwrap_or_default();
        let mut out: Vec<ProxyMessage> = tabs.into_iter().chain(keys).collect();
        out.extend(self.own_evaluations.on_deadline(now, &mut self.ids));
        for held in self.navigations.on_deadline(now) {
            out.extend(self.pass(held, now));
        }
        self.without_answers_of_crashed_pages(out)
    }
}

#[cfg(test)]
mod tests;
