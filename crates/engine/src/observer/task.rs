//! The task behind an observer: it reads the browser's events, owns all state about its pages, and answers commands in their
//! order.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use greenroom_cdp::{CallReply, CdpClient, Event, Events};
use greenroom_core::{Lost, View};
use serde::Deserialize;
use serde_json::json;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
    time::Instant,
};

use super::paused_requests::PausedRequest;
use super::{Contexts, Scope, WatchedPages, crashes::Crashes, why_killed::WhyKilled};
use crate::{
    context_ports::ContextPorts,
    downloads::{BrowserCall, Downloads},
};

pub(super) enum ObserverCommand {
    /// The answer is `None` if the browser is too slow.
    Sync(oneshot::Sender<Option<Contexts>>),
    Refresh(oneshot::Sender<()>),
    Watch(Scope, oneshot::Sender<WatchedPages>),
    Claim(u64, Vec<String>),
    Tabs(Scope, oneshot::Sender<ScopeTabs>),
    ContextShowing(String, oneshot::Sender<Option<String>>),
    Forget(Scope),
    LoseEnded(EndedPages),
    /// Counts the downloads of the browser, all of which belong to one seat.
    Count(Arc<Downloads>),
}

/// The browser's name for the crash of a page whose renderer was killed by a signal.
const KILLED: &str = "killed";

/// Pages that greenroom has ended, and why their seats are lost now.
pub(super) struct EndedPages {
    /// Why the pages were ended.
    pub(super) why: &'static str,
    pub(super) since: Instant,
    pub(super) lost: Lost,
}

/// The outcome of asking the browser.
enum SyncOutcome {
    Contexts(Contexts),
    /// It did not answer in time.
    Silent,
    Gone,
}

/// The existing tabs.
pub(super) struct ScopeTabs {
    /// Those in the scope.
    pub(super) within: Vec<String>,
    /// The number of others.
    pub(super) others: usize,
}

pub(super) struct ObserverTask {
    client: CdpClient,
    events: Events,
    /// Every page of the browser, in all scopes.
    pages: HashMap<String, ObservedPage>,
    /// The scope of each tab, by its id: includes tabs that the browser has not announced yet, and closed ones.
    tab_owners: HashMap<String, u64>,
    followed: HashMap<Scope, FollowedScope>,
    downloads: Option<Arc<Downloads>>,
    why_killed: Arc<WhyKilled>,
    /// The egress ports of a browser that greenroom started.
    context_ports: Option<Arc<ContextPorts>>,
    /// Calls that answer paused requests or stop downloads, and that the browser has not answered yet.
    pending_answers: JoinSet<()>,
}

struct ObservedPage {
    context: String,
    url: String,
    title: String,
    opener: Option<String>,
    /// The number of the event that reported this state, or of the last event before the answer that did.
    event_number: u64,
}

struct FollowedScope {
    /// The pages in it, by the time of their last change.
    order: BTreeMap<u64, String>,
    clock: u64,
    view: watch::Sender<View>,
    crashes: watch::Sender<Crashes>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageTargetInfo {
    target_id: String,
    r#type: String,
    title: String,
    url: String,
    #[serde(default)]
    browser_context_id: String,
    /// The tab that opened it, even if the page itself may not know.
    opener_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AllTargets {
    target_infos: Vec<PageTargetInfo>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TargetStatus {
    target_id: String,
    #[serde(default)]
    status: String,
}

/// The page whose new address or title an event reports. A page can change both without end, and only the latest state
/// matters.
pub(super) fn changed_page(event: &Event) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct TargetInfoChanged {
        target_info: TargetStatus,
    }
    if event.method != "Target.targetInfoChanged" {
        return None;
    }
    serde_json::from_str(event.params.get())
        .ok()
        .map(|TargetInfoChanged { target_info }| target_info.target_id)
}

impl ObserverTask {
    pub(super) fn new(
        client: CdpClient,
        mut events: Events,
        why_killed: Arc<WhyKilled>,
        context_ports: Option<Arc<ContextPorts>>,
    ) -> Self {
        events.keep_latest(changed_page);
        Self {
            client,
            events,
            pages: HashMap::new(),
            tab_owners: HashMap::new(),
            followed: HashMap::new(),
            downloads: None,
            why_killed,
            context_ports,
            pending_answers: JoinSet::new(),
        }
    }

    pub(super) async fn run(mut self, mut commands: mpsc::Receiver<ObserverCommand>) {
        loop {
            tokio::select! {
                event = self.events.next() => match event {
                    Ok(event) => self.on_event(&event),
                    Err(closed) => {
                        tracing::debug!(%closed, "the observer's connection ended");
                        return;
                    }
                },
                Some(_) = self.pending_answers.join_next() => {}
                command = commands.recv() => match command {
                    Some(ObserverCommand::Sync(reply)) => match self.sync().await {
                        SyncOutcome::Contexts(contexts) => drop(reply.send(Some(contexts))),
                        SyncOutcome::Silent => drop(reply.send(None)),
                        // No command gets an answer any more: the browser is gone.
                        SyncOutcome::Gone => return,
                    },
                    Some(ObserverCommand::Refresh(reply)) => {
                        self.refresh().await;
                        let _ = reply.send(());
                    }
                    Some(ObserverCommand::Watch(scope, reply)) => {
                        let _ = reply.send(self.watch(&scope));
                    }
                    Some(ObserverCommand::Claim(scope, tabs)) => self.claim(scope, tabs),
                    Some(ObserverCommand::Tabs(scope, reply)) => match self.sync().await {
                        SyncOutcome::Contexts(_) => drop(reply.send(self.tabs(&scope))),
                        SyncOutcome::Silent => {}
                        SyncOutcome::Gone => return,
                    },
                    Some(ObserverCommand::ContextShowing(url, reply)) => match self.sync().await {
                        SyncOutcome::Contexts(_) => drop(reply.send(self.context_showing(&url))),
                        SyncOutcome::Silent => {}
                        SyncOutcome::Gone => return,
                    },
                    Some(ObserverCommand::Forget(scope)) => self.forget(&scope),
                    Some(ObserverCommand::LoseEnded(ended)) => self.lose_ended(&ended),
                    Some(ObserverCommand::Count(downloads)) => self.downloads = Some(downloads),
                    None => return,
                },
            }
        }
    }

    /// Calls the browser, and returns when all events before its reply are processed. Events are processed during the wait:
    /// a page can cause thousands of them in the time that a busy browser takes for its reply.
    async fn call(&mut self, method: &str) -> Result<CallReply, greenroom_cdp::Error> {
        let client = self.client.clone();
        let params = json!({});
        let call = client.call_in_order(method, &params);
        tokio::pin!(call);
        let answer = loop {
            tokio::select! {
                answer = &mut call => break answer,
                event = self.events.next() => match event {
                    Ok(event) => self.on_event(&event),
                    Err(closed) => break Err(closed.into()),
                },
            }
        };
        for event in self.events.take_arrived() {
            self.on_event(&event);
        }
        answer
    }

    async fn sync(&mut self) -> SyncOutcome {
        let answer = match self.call("Target.getBrowserContexts").await {
            Ok(answer) => answer,
            // A slow browser is not gone. Its health checks decide whether it is too slow.
            Err(greenroom_cdp::Error::NoAnswer { .. }) => return SyncOutcome::Silent,
            Err(_) => return SyncOutcome::Gone,
        };
        serde_json::from_str(answer.result.get()).map_or(SyncOutcome::Gone, SyncOutcome::Contexts)
    }

    /// The context of a page that shows this URL.
    fn context_showing(&self, url: &str) -> Option<String> {
        self.pages.values().find(|page| page.url == url).map(|page| page.context.clone())
    }

    async fn refresh(&mut self) {
        // Events before the answer are older than it, and would overwrite it later. Events after it are newer, and have been
        // processed, too.
        let Ok(CallReply { result, after_event }) = self.call("Target.getTargets").await else { return };
        let Ok(AllTargets { target_infos }) = serde_json::from_str(result.get()) else { return };
        for info in target_infos {
            let is_news = |page: &ObservedPage| {
                page.event_number <= after_event && (page.url != info.url || page.title != info.title)
            };
            if self.pages.get(&info.target_id).is_some_and(is_news) {
                self.update_page(info, after_event);
            }
        }
    }

    fn watch(&mut self, scope: &Scope) -> WatchedPages {
        let followed = self.followed.entry(scope.clone()).or_insert_with(|| FollowedScope {
            order: BTreeMap::new(),
            clock: 0,
            view: watch::Sender::new(View::default()),
            crashes: watch::Sender::default(),
        });
        let result = WatchedPages { view: followed.view.subscribe(), crashes: followed.crashes.subscribe() };
        for page in self.tabs(scope).within {
            self.mark_changed(&page);
        }
        result
    }

    fn forget(&mut self, scope: &Scope) {
        self.followed.remove(scope);
        if let Scope::SeatTabs(scope) = scope {
            self.tab_owners.retain(|_, owner| owner != scope);
        }
    }

    fn tabs(&self, scope: &Scope) -> ScopeTabs {
        let is_within = |(id, page): &(&String, &ObservedPage)| match scope {
            Scope::Context(context) => page.context == *context,
            Scope::SeatTabs(owner) => self.tab_owners.get(*id) == Some(owner),
            Scope::Browser => true,
        };
        let within: Vec<String> = self.pages.iter().filter(is_within).map(|(id, _)| id.clone()).collect();
        let others = self.pages.len() - within.len();
        ScopeTabs { within, others }
    }

    /// Notes the scope of these tabs, and of all tabs that they have opened, directly or indirectly.
    fn claim(&mut self, owner: u64, mut tabs: Vec<String>) {
        while let Some(tab) = tabs.pop() {
            if self.tab_owners.insert(tab.clone(), owner) == Some(owner) {
                continue;
            }
            let opened = |(_, page): &(&String, &ObservedPage)| page.opener.as_ref() == Some(&tab);
            tabs.extend(self.pages.iter().filter(opened).map(|(id, _)| id.clone()));
            self.mark_changed(&tab);
        }
    }

    fn on_event(&mut self, event: &Event) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct TargetInfoEvent {
            target_info: PageTargetInfo,
        }
        match event.method.as_str() {
            "Target.targetCreated" | "Target.targetInfoChanged" => {
                if let Ok(TargetInfoEvent { target_info }) = serde_json::from_str(event.params.get())
                    && target_info.r#type == "page"
                {
                    self.update_page(target_info, event.number);
                }
            }
            "Target.targetDestroyed" => {
                if let Ok(TargetStatus { target_id, .. }) = serde_json::from_str(event.params.get()) {
                    self.page_closed(&target_id);
                }
            }
            "Target.targetCrashed" => {
                if let Ok(TargetStatus { target_id, status }) = serde_json::from_str(event.params.get()) {
                    self.page_crashed(&target_id, &status);
                }
            }
            "Fetch.requestPaused" => self.answer_paused_request(event),
            name if Downloads::is_event(name) => self.on_download_event(event),
            _ => {}
        }
    }

    /// Stops downloads over the quota.
    fn on_download_event(&mut self, event: &Event) {
        let Some(downloads) = &self.downloads else { return };
        let orders = downloads.event(&event.method, event.params.get(), |_| Some(None));
        if orders.is_empty() {
            return;
        }
        let client = self.client.clone();
        self.pending_answers.spawn(async move {
            for BrowserCall { method, params } in orders {
                if let Err(error) = client.call(method, &params).await {
                    tracing::debug!(%error, "a download ended before the browser could stop it");
                }
            }
        });
    }

    /// Tells the browser how to go on with a request that it has paused. It loads nothing until then, so a request
    /// whose event cannot be read stays paused.
    fn answer_paused_request(&mut self, event: &Event) {
        let Ok(paused) = serde_json::from_str::<PausedRequest>(event.params.get()) else {
            tracing::warn!("a request stays paused: the browser's event about it cannot be read");
            return;
        };
        let context = self.pages.get(&paused.frame_id).map(|page| page.context.clone());
        let BrowserCall { method, params } = paused.answer(self.context_ports.as_ref(), &context);
        let client = self.client.clone();
        self.pending_answers.spawn(async move {
            if let Err(error) = client.call(method, &params).await {
                tracing::debug!(%error, "the browser no longer waits for an answer to a paused request");
            }
        });
    }

    fn update_page(&mut self, info: PageTargetInfo, event_number: u64) {
        let PageTargetInfo { target_id, title, url, browser_context_id: context, opener_id: opener, .. } =
            info;
        if let Some(owner) = opener.as_ref().and_then(|opener| self.tab_owners.get(opener)) {
            self.tab_owners.insert(target_id.clone(), *owner);
        }
        self.pages.insert(target_id.clone(), ObservedPage { context, url, title, opener, event_number });
        self.mark_changed(&target_id);
    }

    /// The scopes to which a page belongs.
    fn scopes(&self, id: &str, page: &ObservedPage) -> [Option<Scope>; 3] {
        let seat_tabs = self.tab_owners.get(id).map(|owner| Scope::SeatTabs(*owner));
        [Some(Scope::Context(page.context.clone())), seat_tabs, Some(Scope::Browser)]
    }

    /// The page that changed last is the session's current one.
    fn mark_changed(&mut self, id: &str) {
        let Some(page) = self.pages.get(id) else { return };
        for scope in self.scopes(id, page).into_iter().flatten() {
            if let Some(followed) = self.followed.get_mut(&scope) {
                followed.order.retain(|_, other| other != id);
                followed.clock += 1;
                followed.order.insert(followed.clock, id.to_owned());
            }
            self.publish_view(&scope);
        }
    }

    fn page_closed(&mut self, id: &str) {
        let Some(page) = self.pages.remove(id) else { return };
        for scope in self.scopes(id, &page).into_iter().flatten() {
            if let Some(followed) = self.followed.get_mut(&scope) {
                followed.order.retain(|_, other| other != id);
            }
            self.publish_view(&scope);
        }
    }

    fn page_crashed(&mut self, id: &str, status: &str) {
        let Some(page) = self.pages.get(id) else { return };
        let now = Instant::now();
        let why = if status == KILLED { self.why_killed.reason(now) } else { None };
        let status = why.as_ref().map_or(status, |(why, _)| why);
        for scope in self.scopes(id, page).into_iter().flatten() {
            if let Some(followed) = self.followed.get(&scope) {
                followed.crashes.send_modify(|crashes| {
                    crashes.add(id, &page.url, status, now);
                    if let Some((why, true)) = &why {
                        crashes.ended_by_greenroom(why, now);
                    }
                });
            }
        }
    }

    fn lose_ended(&self, EndedPages { why, since, lost }: &EndedPages) {
        for followed in self.followed.values() {
            if followed.crashes.borrow().was_ended(why, *since) {
                followed.crashes.send_modify(|crashes| crashes.lose(lost.clone()));
            }
        }
    }

    fn publish_view(&self, scope: &Scope) {
        let Some(followed) = self.followed.get(scope) else { return };
        let page = followed.order.last_key_value().and_then(|(_, page)| self.pages.get(page));
        let (url, title) = page.map(|page| (page.url.clone(), page.title.clone())).unwrap_or_default();
        let view = View { url, title, tabs: followed.order.len() };
        followed.view.send_if_modified(|old| {
            let changed = *old != view;
            *old = view;
            changed
        });
    }
}
