//! greenroom's own CDP connection to a Chromium: it knows each context's pages, their URLs and titles, and sees
//! crashes. It never goes through the agent's tool calls.
//!
//! One task reads the events and owns all state. [`Observer::sync`] asks the browser something and answers when
//! everything that happened before the browser's reply has been looked at, so that after it "no crash was seen"
//! means that there was none.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::Path,
    time::Duration,
};

use greenroom_cdp::{Client, Event, Events};
use greenroom_core::{Lost, StartError, View};
use serde::Deserialize;
use serde_json::json;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
    time::timeout,
};

/// Commands that may wait for the observer's task; each is one seat's, and a seat has one out at a time.
const COMMANDS: usize = 64;

/// How long an answer may wait for the titles of its pages. Usual is half a millisecond.
const REFRESH: Duration = Duration::from_millis(250);

/// What a seat learns of its context.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    pub(crate) view: watch::Receiver<View>,
    pub(crate) crashed: watch::Receiver<Option<Lost>>,
}

/// A handle to the observer's task, which ends with it.
pub(crate) struct Observer {
    client: Client,
    commands: mpsc::Sender<Command>,
    _task: JoinSet<()>,
}

enum Command {
    Sync(oneshot::Sender<Contexts>),
    Refresh(oneshot::Sender<()>),
    Watch(Scope, oneshot::Sender<Watched>),
    Forget(Scope),
}

/// What is followed together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Scope {
    Context(String),
    /// Every context there is.
    Browser,
}

/// The contexts of a browser.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Contexts {
    /// Those that were made, the default one not counted.
    #[serde(rename = "browserContextIds")]
    pub(crate) made: BTreeSet<String>,
    /// The browser's own, of its profile. Older browsers do not name it.
    #[serde(rename = "defaultBrowserContextId")]
    pub(crate) default: Option<String>,
}

impl Observer {
    pub(crate) async fn connect(endpoint: &str) -> Result<Self, StartError> {
        let failed =
            |error: greenroom_cdp::Error| StartError::new(format!("cannot observe the browser: {error}"));
        let (client, events) = Client::connect(endpoint).await.map_err(failed)?;
        client
            .call("Target.setDiscoverTargets", &json!({ "discover": true, "filter": [{ "type": "page" }] }))
            .await
            .map_err(failed)?;
        let (commands, queue) = mpsc::channel(COMMANDS);
        let mut task = JoinSet::new();
        task.spawn(
            Task { client: client.clone(), events, pages: HashMap::new(), followed: HashMap::new() }
                .run(queue),
        );
        Ok(Self { client, commands, _task: task })
    }

    /// The browser's contexts. `None` when the browser is gone.
    pub(crate) async fn sync(&self) -> Option<Contexts> {
        let (reply, contexts) = oneshot::channel();
        self.commands.send(Command::Sync(reply)).await.ok()?;
        contexts.await.ok()
    }

    /// Asks the browser for a sign of life, beside whatever the observer itself waits for.
    pub(crate) async fn ping(&self) -> Result<(), greenroom_cdp::Error> {
        self.client.call("Browser.getVersion", &json!({})).await.map(|_| ())
    }

    /// Resolves when nothing is observed any more: the browser is gone, or does not answer.
    pub(crate) async fn ended(&self) {
        self.commands.closed().await;
    }

    /// Looks at all pages anew: the browser announces new URLs, but not titles that change later.
    pub(crate) async fn refresh(&self) {
        let (reply, done) = oneshot::channel();
        // An answer waits for this. A browser too busy to say its titles shows older ones.
        let _ = timeout(REFRESH, async {
            if self.commands.send(Command::Refresh(reply)).await.is_ok() {
                let _ = done.await;
            }
        })
        .await;
    }

    /// Follows a context from now on.
    pub(crate) async fn watch(&self, context: &str) -> Option<Watched> {
        self.follow(Scope::Context(context.to_owned())).await
    }

    /// Follows all contexts together: of a browser that is one seat's.
    pub(crate) async fn watch_all(&self) -> Option<Watched> {
        self.follow(Scope::Browser).await
    }

    async fn follow(&self, scope: Scope) -> Option<Watched> {
        let (reply, watched) = oneshot::channel();
        self.commands.send(Command::Watch(scope, reply)).await.ok()?;
        watched.await.ok()
    }

    async fn forget(&self, context: &str) {
        let _ = self.commands.send(Command::Forget(Scope::Context(context.to_owned()))).await;
    }

    /// Opens an empty tab in the browser's own context, whose page is of this size.
    pub(crate) async fn open_tab(&self, (width, height): (u32, u32)) -> Result<(), greenroom_cdp::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Made {
            target_id: String,
        }
        let made = self.client.call("Target.createTarget", &json!({ "url": "about:blank" })).await?;
        let Ok(Made { target_id }) = serde_json::from_str(made.get()) else { return Ok(()) };
        self.resize(&target_id, width, height).await;
        Ok(())
    }

    /// Has the browser put what its own context downloads into a folder, for as long as this observer is connected.
    pub(crate) async fn downloads_to(&self, folder: &Path) -> Result<(), greenroom_cdp::Error> {
        let behaviour = json!({ "behavior": "allow", "downloadPath": folder });
        self.client.call("Browser.setDownloadBehavior", &behaviour).await.map(drop)
    }

    /// Gives a page its size, whatever frame is around it. A browser that cannot do that keeps what its flags say.
    async fn resize(&self, target: &str, width: u32, height: u32) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Window {
            window_id: i64,
        }
        let resized = async {
            let window =
                self.client.call("Browser.getWindowForTarget", &json!({ "targetId": target })).await?;
            let Ok(Window { window_id }) = serde_json::from_str(window.get()) else { return Ok(()) };
            let size = json!({ "windowId": window_id, "width": width, "height": height });
            self.client.call("Browser.setContentsSize", &size).await.map(drop)
        };
        if let Err(error) = resized.await {
            tracing::debug!(%error, "cannot give a page its size");
        }
    }

    /// Stops following a context and makes sure that it is gone.
    pub(crate) async fn dispose(&self, context: &str) {
        self.forget(context).await;
        let there = self.sync().await.is_some_and(|contexts| contexts.made.contains(context));
        if there
            && let Err(error) = self
                .client
                .call("Target.disposeBrowserContext", &json!({ "browserContextId": context }))
                .await
        {
            tracing::debug!(%error, context, "cannot dispose of a context");
        }
    }
}

impl Observer {
    /// Closes the tabs of a context that stays, and stops following it. Returns when they are gone, for which a page
    /// that hangs needs half a second. With `leave_one` an empty tab takes their place: a browser with windows ends
    /// with its last one.
    pub(crate) async fn close_tabs(
        &self,
        context: &str,
        leave_one: bool,
    ) -> Result<(), greenroom_cdp::Error> {
        let gone = || greenroom_cdp::Error::from(greenroom_cdp::Closed::ByBrowser);
        let mut old = self.tabs(context).await?;
        if leave_one {
            self.client.call("Target.createTarget", &json!({ "url": "about:blank" })).await?;
        }
        for tab in &old {
            // One that is gone by now is refused.
            let _ = self.client.call("Target.closeTarget", &json!({ "targetId": tab })).await;
        }
        let mut watched = self.watch(context).await.ok_or_else(gone)?;
        loop {
            watched.view.mark_unchanged();
            let now = self.tabs(context).await?;
            old.retain(|tab| now.contains(tab));
            if old.is_empty() {
                break;
            }
            watched.view.changed().await.map_err(|_| gone())?;
        }
        self.forget(context).await;
        Ok(())
    }

    async fn tabs(&self, context: &str) -> Result<Vec<String>, greenroom_cdp::Error> {
        let answer = self.client.call("Target.getTargets", &json!({})).await?;
        let targets = serde_json::from_str::<Targets>(answer.get()).map(|targets| targets.target_infos);
        let ours = |info: &TargetInfo| info.r#type == "page" && info.browser_context_id == context;
        Ok(targets.into_iter().flatten().filter(ours).map(|info| info.target_id).collect())
    }
}

struct Task {
    client: Client,
    events: Events,
    /// Every page there is, whosever it is.
    pages: HashMap<String, Page>,
    followed: HashMap<Scope, Followed>,
}

struct Page {
    context: String,
    url: String,
    title: String,
}

/// What is known of a scope that somebody follows.
struct Followed {
    /// Its pages, by when each last changed.
    order: BTreeMap<u64, String>,
    clock: u64,
    view: watch::Sender<View>,
    crashed: watch::Sender<Option<Lost>>,
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
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Targets {
    target_infos: Vec<TargetInfo>,
}

impl Task {
    async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        loop {
            tokio::select! {
                event = self.events.next() => match event {
                    Ok(event) => self.event(&event),
                    Err(closed) => {
                        tracing::debug!(%closed, "the observer's connection ended");
                        return;
                    }
                },
                command = commands.recv() => match command {
                    Some(Command::Sync(reply)) => match self.sync().await {
                        Some(contexts) => drop(reply.send(contexts)),
                        // Nobody is answered any more: the browser is gone.
                        None => return,
                    },
                    Some(Command::Refresh(reply)) => {
                        self.refresh().await;
                        let _ = reply.send(());
                    }
                    Some(Command::Watch(scope, reply)) => {
                        let _ = reply.send(self.watch(&scope));
                    }
                    Some(Command::Forget(scope)) => drop(self.followed.remove(&scope)),
                    None => return,
                },
            }
        }
    }

    async fn sync(&mut self) -> Option<Contexts> {
        let answer = self.client.call("Target.getBrowserContexts", &json!({})).await.ok()?;
        while let Some(event) = self.events.try_next() {
            self.event(&event);
        }
        serde_json::from_str(answer.get()).ok()
    }

    async fn refresh(&mut self) {
        let Ok(answer) = self.client.call("Target.getTargets", &json!({})).await else { return };
        // What happened before the answer is older than it, and would overwrite it later.
        while let Some(event) = self.events.try_next() {
            self.event(&event);
        }
        let Ok(Targets { target_infos }) = serde_json::from_str(answer.get()) else { return };
        for info in target_infos {
            let news = |page: &Page| page.url != info.url || page.title != info.title;
            if self.pages.get(&info.target_id).is_some_and(news) {
                self.page(info);
            }
        }
    }

    fn watch(&mut self, scope: &Scope) -> Watched {
        let followed = self.followed.entry(scope.clone()).or_insert_with(|| Followed {
            order: BTreeMap::new(),
            clock: 0,
            view: watch::Sender::new(View::default()),
            crashed: watch::Sender::new(None),
        });
        let result = Watched { view: followed.view.subscribe(), crashed: followed.crashed.subscribe() };
        let pages: Vec<_> = self.pages.iter().filter(|(_, page)| scope.has(page)).map(|(id, _)| id).collect();
        for page in pages {
            followed.touch(page);
        }
        followed.show(&self.pages);
        result
    }

    fn event(&mut self, event: &Event) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Info {
            target_info: TargetInfo,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Which {
            target_id: String,
            #[serde(default)]
            status: String,
        }
        match event.method.as_str() {
            "Target.targetCreated" | "Target.targetInfoChanged" => {
                if let Ok(Info { target_info }) = serde_json::from_str(event.params.get())
                    && target_info.r#type == "page"
                {
                    self.page(target_info);
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
            _ => {}
        }
    }

    fn page(&mut self, info: TargetInfo) {
        let TargetInfo { target_id, title, url, browser_context_id: context, .. } = info;
        self.pages.insert(target_id.clone(), Page { context: context.clone(), url, title });
        self.each(&context, |followed, pages| {
            followed.touch(&target_id);
            followed.show(pages);
        });
    }

    fn gone(&mut self, page: &str) {
        let Some(Page { context, .. }) = self.pages.remove(page) else { return };
        self.each(&context, |followed, pages| {
            followed.order.retain(|_, other| other != page);
            followed.show(pages);
        });
    }

    fn crashed(&mut self, page: &str, status: &str) {
        let Some(context) = self.pages.get(page).map(|page| page.context.clone()) else { return };
        self.each(&context, |followed, _| {
            followed.crashed.send_replace(Some(Lost::Page(status.into())));
        });
    }

    /// Does something for everybody who follows what belongs to a context.
    fn each(&mut self, context: &str, does: impl Fn(&mut Followed, &HashMap<String, Page>)) {
        for scope in [Scope::Context(context.to_owned()), Scope::Browser] {
            if let Some(followed) = self.followed.get_mut(&scope) {
                does(followed, &self.pages);
            }
        }
    }
}

impl Scope {
    fn has(&self, page: &Page) -> bool {
        match self {
            Self::Context(context) => page.context == *context,
            Self::Browser => true,
        }
    }
}

impl Followed {
    /// The page that changed last is the one its session looks at.
    fn touch(&mut self, page: &str) {
        self.order.retain(|_, other| other != page);
        self.clock += 1;
        self.order.insert(self.clock, page.to_owned());
    }

    fn show(&self, pages: &HashMap<String, Page>) {
        let page = self.order.last_key_value().and_then(|(_, page)| pages.get(page));
        let (url, title) = page.map(|page| (page.url.clone(), page.title.clone())).unwrap_or_default();
        let view = View { url, title, tabs: self.order.len() };
        self.view.send_if_modified(|old| {
            let changed = *old != view;
            *old = view;
            changed
        });
    }
}
