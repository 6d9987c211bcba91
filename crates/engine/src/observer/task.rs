//! The task behind an observer: it reads the browser's events, owns all state about its pages, and answers commands in their
//! order.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use greenroom_cdp::{Answer, CdpClient, Event, Events};
use greenroom_core::View;
use serde::Deserialize;
use serde_json::json;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
    time::Instant,
};

use super::{Contexts, Scope, Watched, WhyKilled, crashes::Crashes};
use crate::downloads::{Downloads, Order};

pub(super) enum Command {
    /// The answer is `None` if the browser is too slow.
    Sync(oneshot::Sender<Option<Contexts>>),
    Refresh(oneshot::Sender<()>),
    Watch(Scope, oneshot::Sender<Watched>),
    Own(u64, Vec<String>),
    Tabs(Scope, oneshot::Sender<Tabs>),
    ContextShowing(String, oneshot::Sender<Option<String>>),
    Forget(Scope),
    /// Counts the downloads of the browser, all of which belong to one seat.
    Count(Arc<Downloads>),
}

/// The browser's name for the crash of a page whose renderer was killed by a signal.
const KILLED: &str = "killed";

/// The outcome of asking the browser.
enum Synced {
    Contexts(Contexts),
    /// It did not answer in time.
    Silent,
    Gone,
}

/// The existing tabs.
pub(super) struct Tabs {
    /// Those in the scope.
    pub(super) within: Vec<String>,
    /// The number of others.
    pub(super) others: usize,
}

pub(super) struct Task {
    client: CdpClient,
    events: Events,
    /// Every page of the browser, in all scopes.
    pages: HashMap<String, Page>,
    /// The scope of each tab, by its id: includes tabs that the browser has not announced yet, and closed ones.
    own: HashMap<String, u64>,
    followed: HashMap<Scope, Followed>,
    downloads: Option<Arc<Downloads>>,
    why_killed: WhyKilled,
    /// Refusals of files, and cancellations of downloads, that the browser has not answered yet.
    refusals: JoinSet<()>,
}

struct Page {
    context: String,
    url: String,
    title: String,
    opener: Option<String>,
    /// The number of the event that reported this state, or of the last event before the answer that did.
    told_by: u64,
}

struct Followed {
    /// The pages in it, by the time of their last change.
    order: BTreeMap<u64, String>,
    clock: u64,
    view: watch::Sender<View>,
    crashes: watch::Sender<Crashes>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TargetInfo {
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
    target_infos: Vec<TargetInfo>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Which {
    target_id: String,
    #[serde(default)]
    status: String,
}

/// The page whose new address or title an event reports. A page can change both without end, and only the latest state
/// matters.
pub(super) fn changed_page(event: &Event) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Changed {
        target_info: Which,
    }
    if event.method != "Target.targetInfoChanged" {
        return None;
    }
    serde_json::from_str(event.params.get()).ok().map(|Changed { target_info }| target_info.target_id)
}

impl Task {
    pub(super) fn new(client: CdpClient, mut events: Events, why_killed: WhyKilled) -> Self {
        events.keep_latest(changed_page);
        Self {
            client,
            events,
            pages: HashMap::new(),
            own: HashMap::new(),
            followed: HashMap::new(),
            downloads: None,
            why_killed,
            refusals: JoinSet::new(),
        }
    }

    pub(super) async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        loop {
            tokio::select! {
                event = self.events.next() => match event {
                    Ok(event) => self.event(&event),
                    Err(closed) => {
                        tracing::debug!(%closed, "the observer's connection ended");
                        return;
                    }
                },
                Some(_) = self.refusals.join_next() => {}
                command = commands.recv() => match command {
                    Some(Command::Sync(reply)) => match self.sync().await {
                        Synced::Contexts(contexts) => drop(reply.send(Some(contexts))),
                        Synced::Silent => drop(reply.send(None)),
                        // No command gets an answer any more: the browser is gone.
                        Synced::Gone => return,
                    },
                    Some(Command::Refresh(reply)) => {
                        self.refresh().await;
                        let _ = reply.send(());
                    }
                    Some(Command::Watch(scope, reply)) => {
                        let _ = reply.send(self.watch(&scope));
                    }
                    Some(Command::Own(scope, tabs)) => self.claim(scope, tabs),
                    Some(Command::Tabs(scope, reply)) => match self.sync().await {
                        Synced::Contexts(_) => drop(reply.send(self.tabs(&scope))),
                        Synced::Silent => {}
                        Synced::Gone => return,
                    },
                    Some(Command::ContextShowing(url, reply)) => match self.sync().await {
                        Synced::Contexts(_) => drop(reply.send(self.context_showing(&url))),
                        Synced::Silent => {}
                        Synced::Gone => return,
                    },
                    Some(Command::Forget(scope)) => self.forget(&scope),
                    Some(Command::Count(downloads)) => self.downloads = Some(downloads),
                    None => return,
                },
            }
        }
    }

    /// Calls the browser, and returns when all events before its reply are processed. Events are processed during the wait:
    /// a page can cause thousands of them in the time that a busy browser takes for its reply.
    async fn call(&mut self, method: &str) -> Result<Answer, greenroom_cdp::Error> {
        let client = self.client.clone();
        let params = json!({});
        let call = client.call_in_order(method, &params);
        tokio::pin!(call);
        let answer = loop {
            tokio::select! {
                answer = &mut call => break answer,
                event = self.events.next() => match event {
                    Ok(event) => self.event(&event),
                    Err(closed) => break Err(closed.into()),
                },
            }
        };
        for event in self.events.take_arrived() {
            self.event(&event);
        }
        answer
    }

    async fn sync(&mut self) -> Synced {
        let answer = match self.call("Target.getBrowserContexts").await {
            Ok(answer) => answer,
            // A slow browser is not gone. Its health checks decide whether it is too slow.
            Err(greenroom_cdp::Error::NoAnswer { .. }) => return Synced::Silent,
            Err(_) => return Synced::Gone,
        };
        serde_json::from_str(answer.result.get()).map_or(Synced::Gone, Synced::Contexts)
    }

    /// The context of a page that shows this URL.
    fn context_showing(&self, url: &str) -> Option<String> {
        self.pages.values().find(|page| page.url == url).map(|page| page.context.clone())
    }

    async fn refresh(&mut self) {
        // Events before the answer are older than it, and would overwrite it later. Events after it are newer, and have been
        // processed, too.
        let Ok(Answer { result, after_event }) = self.call("Target.getTargets").await else { return };
        let Ok(AllTargets { target_infos }) = serde_json::from_str(result.get()) else { return };
        for info in target_infos {
            let is_news = |page: &Page| {
                page.told_by <= after_event && (page.url != info.url || page.title != info.title)
            };
            if self.pages.get(&info.target_id).is_some_and(is_news) {
                self.page(info, after_event);
            }
        }
    }

    fn watch(&mut self, scope: &Scope) -> Watched {
        let followed = self.followed.entry(scope.clone()).or_insert_with(|| Followed {
            order: BTreeMap::new(),
            clock: 0,
            view: watch::Sender::new(View::default()),
            crashes: watch::Sender::default(),
        });
        let result = Watched { view: followed.view.subscribe(), crashes: followed.crashes.subscribe() };
        for page in self.tabs(scope).within {
            self.touch(&page);
        }
        result
    }

    fn forget(&mut self, scope: &Scope) {
        self.followed.remove(scope);
        if let Scope::Own(scope) = scope {
            self.own.retain(|_, owner| owner != scope);
        }
    }

    fn tabs(&self, scope: &Scope) -> Tabs {
        let is_within = |(id, page): &(&String, &Page)| match scope {
            Scope::Context(context) => page.context == *context,
            Scope::Own(owner) => self.own.get(*id) == Some(owner),
            Scope::Browser => true,
        };
        let within: Vec<String> = self.pages.iter().filter(is_within).map(|(id, _)| id.clone()).collect();
        let others = self.pages.len() - within.len();
        Tabs { within, others }
    }

    /// Notes the scope of these tabs, and of all tabs that they have opened, directly or indirectly.
    fn claim(&mut self, owner: u64, mut tabs: Vec<String>) {
        while let Some(tab) = tabs.pop() {
            if self.own.insert(tab.clone(), owner) == Some(owner) {
                continue;
            }
            let opened = |(_, page): &(&String, &Page)| page.opener.as_ref() == Some(&tab);
            tabs.extend(self.pages.iter().filter(opened).map(|(id, _)| id.clone()));
            self.touch(&tab);
        }
    }

    fn event(&mut self, event: &Event) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Info {
            target_info: TargetInfo,
        }
        match event.method.as_str() {
            "Target.targetCreated" | "Target.targetInfoChanged" => {
                if let Ok(Info { target_info }) = serde_json::from_str(event.params.get())
                    && target_info.r#type == "page"
                {
                    self.page(target_info, event.number);
                }
            }
            "Target.targetDestroyed" => {
                if let Ok(Which { target_id, .. }) = serde_json::from_str(event.params.get()) {
                    self.gone(&target_id);
                }
            }
            "Target.targetCrashed" => {
                if let Ok(Which { target_id, status }) = serde_json::from_str(event.params.get()) {
                    self.crashed(&target_id, &status);
                }
            }
            "Fetch.requestPaused" => self.refuse(event),
            name if Downloads::is_event(name) => self.download(event),
            _ => {}
        }
    }

    /// Stops downloads over the quota.
    fn download(&mut self, event: &Event) {
        let Some(downloads) = &self.downloads else { return };
        let orders = downloads.event(&event.method, event.params.get(), |_| Some(None));
        if orders.is_empty() {
            return;
        }
        let client = self.client.clone();
        self.refusals.spawn(async move {
            for Order { method, params } in orders {
                if let Err(error) = client.call(method, &params).await {
                    tracing::debug!(%error, "a download ended before the browser could stop it");
                }
            }
        });
    }

    /// Refuses to load a file of this machine. The browser loads nothing of it until then.
    fn refuse(&mut self, event: &Event) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Paused {
            request_id: String,
        }
        let Ok(Paused { request_id }) = serde_json::from_str(event.params.get()) else { return };
        tracing::warn!("refused a page's request for a file of this machine");
        let client = self.client.clone();
        self.refusals.spawn(async move {
            let refusal = json!({ "requestId": request_id, "errorReason": "AccessDenied" });
            if let Err(error) = client.call("Fetch.failRequest", &refusal).await {
                tracing::debug!(%error, "the browser no longer waits for a refusal");
            }
        });
    }

    fn page(&mut self, info: TargetInfo, told_by: u64) {
        let TargetInfo { target_id, title, url, browser_context_id: context, opener_id: opener, .. } = info;
        if let Some(owner) = opener.as_ref().and_then(|opener| self.own.get(opener)) {
            self.own.insert(target_id.clone(), *owner);
        }
        self.pages.insert(target_id.clone(), Page { context, url, title, opener, told_by });
        self.touch(&target_id);
    }

    /// The scopes to which a page belongs.
    fn scopes(&self, id: &str, page: &Page) -> [Option<Scope>; 3] {
        let own = self.own.get(id).map(|owner| Scope::Own(*owner));
        [Some(Scope::Context(page.context.clone())), own, Some(Scope::Browser)]
    }

    /// The page that changed last is the session's current one.
    fn touch(&mut self, id: &str) {
        let Some(page) = self.pages.get(id) else { return };
        for scope in self.scopes(id, page).into_iter().flatten() {
            if let Some(followed) = self.followed.get_mut(&scope) {
                followed.order.retain(|_, other| other != id);
                followed.clock += 1;
                followed.order.insert(followed.clock, id.to_owned());
            }
            self.show(&scope);
        }
    }

    fn gone(&mut self, id: &str) {
        let Some(page) = self.pages.remove(id) else { return };
        for scope in self.scopes(id, &page).into_iter().flatten() {
            if let Some(followed) = self.followed.get_mut(&scope) {
                followed.order.retain(|_, other| other != id);
            }
            self.show(&scope);
        }
    }

    fn crashed(&mut self, id: &str, status: &str) {
        let Some(page) = self.pages.get(id) else { return };
        let why = self.why_killed.lock().clone();
        let why = why.filter(|_| status == KILLED);
        let status = why.as_deref().unwrap_or(status);
        for scope in self.scopes(id, page).into_iter().flatten() {
            if let Some(followed) = self.followed.get(&scope) {
                followed.crashes.send_modify(|crashes| crashes.add(id, &page.url, status, Instant::now()));
            }
        }
    }

    fn show(&self, scope: &Scope) {
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
