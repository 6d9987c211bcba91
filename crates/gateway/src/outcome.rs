//! The result of a call: the engine's reply, its record and notes; and the body that an MCP client receives.

use std::sync::Arc;

use greenroom_core::{
    Owner, Raw, RefId, Reply,
    record::SessionRef,
    settings::{Pictures, Responses},
};
use greenroom_fleet::{CallAnswer, SessionKey};

use crate::{
    Gateway,
    caller::Caller,
    error_response::ErrorResponse,
    offload::offload_if_large,
    recall::{
        CallRecord, EndedCall, ResponseMode, paged,
        pages::PageError,
        pictures::{self, PictureOptions, SentPicture},
        response_options::ResponseOptions,
    },
    render::{self, RenderOptions, Rendered},
};

/// The result of a call, success or failure.
pub(crate) struct CallOutcome {
    /// The engine's reply, or why there is none.
    pub(crate) reply: Result<Reply, ErrorResponse>,
    pub(crate) record: EndedCall,
    /// Notes for the agent below the answer: that its session was restarted, that it ends soon.
    pub(crate) notes: Vec<String>,
    /// The current page, taken because the call named an element that the page does not have.
    pub(crate) page_now: Option<Box<CallOutcome>>,
    /// What the client asks of the answer.
    response_options: ResponseOptions,
    /// The pool in which the call ran.
    pool: Option<Arc<str>>,
}

impl CallOutcome {
    /// Records the engine's reply. The caller adds the fleet's notes to the outcome.
    pub(crate) async fn answered(
        gateway: &Gateway,
        call_record: CallRecord,
        caller: &Caller,
        session_key: &SessionKey,
        answer: CallAnswer,
        response_options: ResponseOptions,
    ) -> Self {
        gateway.metrics.ran(&answer.ran, !answer.reply.is_failure());
        let engine = gateway.catalog.engine(&answer.ran.pool);
        call_record.learn_secrets(&gateway.recall, session_key, &answer.reply, engine.as_deref());
        let record = call_record.answered(&answer).await;
        if let Some(session) = &record.session {
            gateway.recall.sent_pages.answered(&session.uid, caller.reader());
        }
        Self {
            reply: Ok(answer.reply),
            record,
            notes: Vec::new(),
            page_now: None,
            response_options,
            pool: Some(answer.ran.pool),
        }
    }

    /// Records greenroom's own answer to a call that did not run or lost its browser.
    pub(crate) async fn failed(
        call_record: CallRecord,
        session: Option<SessionRef>,
        failure: ErrorResponse,
        response_options: ResponseOptions,
    ) -> Self {
        let record = call_record.failed(session, &failure.text()).await;
        Self { reply: Err(failure), record, notes: Vec::new(), page_now: None, response_options, pool: None }
    }

    /// Whether the call failed, in the engine or before.
    pub(crate) fn is_failure(&self) -> bool {
        self.reply.as_ref().map_or(true, Reply::is_failure)
    }

    /// The tool that shows the page, if the call failed because the page has no such element and the mode is
    /// `auto`.
    pub(crate) fn snapshot_tool(&self, gateway: &Gateway) -> Option<&'static str> {
        let reply = self.reply.as_ref().ok().filter(|reply| reply.is_failure())?;
        let engine = gateway.catalog.engine(self.pool.as_deref()?)?;
        let is_auto = self.mode(gateway) == ResponseMode::As(Responses::Auto);
        let error = self.record.error.as_deref().filter(|_| is_auto && reply.body.is_ok())?;
        engine.format().is_missing_ref(error).then(|| engine.format().snapshot_tool()).flatten()
    }

    /// How much of the reply the client receives.
    pub(crate) fn mode(&self, gateway: &Gateway) -> ResponseMode {
        match &self.response_options.page {
            Some(query) if query.is_silent() && !self.is_failure() => ResponseMode::As(Responses::Refs),
            _ => gateway.recall.mode(self.response_options.mode, self.pool.as_deref()),
        }
    }

    /// The page of the reply that the client asks for. `None` if it asks for none, or the call failed.
    pub(crate) async fn page(
        &self,
        gateway: &Gateway,
        owner: &Owner,
    ) -> Option<Result<paged::PageText, NoPage>> {
        let query = self.response_options.page.as_ref().filter(|query| !query.is_silent())?;
        let reply = self.reply.as_ref().ok().filter(|reply| !reply.is_failure())?;
        let Some(engine) = self.pool.as_deref().and_then(|pool| gateway.catalog.engine(pool)) else {
            return Some(Err(NoPage::PoolGone));
        };
        let EndedCall { tool, .. } = &self.record;
        let ref_id = self.record.record();
        Some(match paged::first(&gateway.recall, engine, owner, tool, reply, ref_id, query).await {
            Ok(page) => page.ok_or(NoPage::NoData),
            Err(error) => Err(error.into()),
        })
    }

    /// The body for an MCP client: a page, or as much of the reply as the client asks for.
    pub(crate) async fn into_body(mut self, gateway: &Gateway, caller: &Caller) -> Result<Raw, Raw> {
        let _guard = offload_if_large(self.reply.as_ref().map_or(0, Reply::bytes)).await;
        match self.page(gateway, &caller.owner).await {
            None | Some(Err(NoPage::PoolGone)) => {}
            Some(Ok(page)) => {
                let lost = self.record.not_recorded.as_ref().map(|why| render::not_recorded(why));
                self.notes.extend(lost);
                return Ok(render::text_result(&page.text, page.ref_id.as_ref(), &self.notes));
            }
            Some(Err(no_data @ NoPage::NoData)) => self.notes.push(no_data.to_string()),
            // The agent asked for a few values, and the whole answer could be thousands of tokens. So it gets
            // the failure, which names the record of the answer.
            Some(Err(NoPage::Query(error))) => {
                self.reply = Err(ErrorResponse::from(error));
                return self.in_mode(gateway, caller, ResponseMode::As(Responses::Inline)).await;
            }
        }
        let mode = self.mode(gateway);
        let page_now = self.page_now.take();
        let body = self.in_mode(gateway, caller, mode).await;
        match (body, page_now) {
            (Ok(failure), Some(page)) if !page.is_failure() => {
                let mode = page.mode(gateway);
                Ok(match page.in_mode(gateway, caller, mode).await {
                    Ok(page) => render::joined(failure, &page),
                    Err(_) => failure,
                })
            }
            (body, _) => body,
        }
    }

    /// The body with as much of the reply as this mode sends. Notes which page the agent then has, for later
    /// comparisons.
    pub(crate) async fn in_mode(
        self,
        gateway: &Gateway,
        caller: &Caller,
        mode: ResponseMode,
    ) -> Result<Raw, Raw> {
        let document = self.document(gateway);
        let before = self.before(gateway, caller, mode, document.as_deref()).await;
        let pictures = self.pictures(gateway, caller, mode).await;
        let Self { reply, record, notes, .. } = self;
        let reply = reply.unwrap_or_else(|failure| Ok(failure.to_result()).into());
        let recall = &gateway.recall;
        let inline_tokens = recall.inline_tokens;
        let base_url = recall.base_url.get().map(String::as_str);
        let Rendered { body, page } = render::answer(
            reply,
            &notes,
            &RenderOptions { mode, call: &record, inline_tokens, before, pictures, base_url },
        );
        if let (Some(session), Some(reader), Some(ref_id), Some(page)) =
            (&record.session, caller.reader(), record.record(), page)
        {
            recall.sent_pages.sent(&session.uid, reader, ref_id, document, page);
        }
        body
    }

    /// The pictures of the reply that this mode sends in another form than the engine's.
    async fn pictures(&self, gateway: &Gateway, caller: &Caller, mode: ResponseMode) -> Vec<SentPicture> {
        let recall = &gateway.recall;
        let form = recall.pictures(self.response_options.pictures, self.pool.as_deref());
        match (&self.reply, mode) {
            (Err(_), _) | (_, ResponseMode::As(Responses::Raw | Responses::Refs)) => Vec::new(),
            (Ok(reply), _) => {
                let options = PictureOptions {
                    form,
                    side_pixels: recall.picture_side_pixels,
                    links: caller.knows_resource_links,
                };
                pictures::prepare(reply, &self.record, options).await
            }
        }
    }

    /// Leaves the pictures of the reply as the engine sent them.
    pub(crate) fn with_pictures_inline(mut self) -> Self {
        self.response_options.pictures = Some(Pictures::Inline);
        self
    }

    /// Whether the call did nothing but take a snapshot.
    fn is_snapshot_call(&self, gateway: &Gateway) -> bool {
        let engine = self.pool.as_deref().and_then(|pool| gateway.catalog.engine(pool));
        engine.is_some_and(|engine| engine.format().snapshot_tool() == Some(&*self.record.tool))
    }

    /// The document of the reply's page.
    fn document(&self, gateway: &Gateway) -> Option<String> {
        let reply = self.reply.as_ref().ok()?;
        let snapshot = reply.snapshot_text()?;
        let engine = gateway.catalog.engine(self.pool.as_deref()?)?;
        engine.format().document(reply.body.as_ref().ok()?.get(), snapshot)
    }

    /// The page to compare with, if this mode sends changes. Without one the agent gets the whole page, which is always
    /// correct.
    async fn before(
        &self,
        gateway: &Gateway,
        caller: &Caller,
        mode: ResponseMode,
        document: Option<&str>,
    ) -> Option<(RefId, String)> {
        let recall = &gateway.recall;
        let ref_id = self.record.record().filter(|_| self.record.has_snapshot)?;
        let records = recall.records.as_ref()?;
        match mode {
            ResponseMode::Diff => records.snapshot_before(&caller.owner, ref_id).await.ok()?,
            // An agent that takes a snapshot wants the page, perhaps because it no longer has it.
            ResponseMode::As(Responses::Auto) if self.is_snapshot_call(gateway) => None,
            ResponseMode::As(Responses::Auto) => {
                let session = self.record.session.as_ref()?;
                let base = recall.sent_pages.base(&session.uid, caller.reader(), document)?;
                let snapshot = records.record(&caller.owner, &base).await.ok()??.snapshot?;
                Some((base, snapshot))
            }
            ResponseMode::As(_) => None,
        }
    }
}

/// Why a reply has no page.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoPage {
    #[error("the pool of this call no longer exists")]
    PoolGone,
    #[error("there is no data in this answer to make pages of")]
    NoData,
    #[error("{0}; {hint}", hint = .0.hint())]
    Query(#[from] PageError),
}
