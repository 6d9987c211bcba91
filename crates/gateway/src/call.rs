//! The walk of one `tools/call`: route, check, permit, fleet, shape. Whatever fails on the way is rescued into an
//! answer here.

use std::{sync::Arc, time::Instant};

use greenroom_core::{
    Agent, Call, Nobody, Owner, Raw, RefId, Reply, SessionId, likeness::nearest, record::Record,
    settings::Responses,
};
use greenroom_fleet::{Answer, Target, Whose};
use greenroom_mcp::{RpcError, error::INVALID_REQUEST};
use serde_json::value::RawValue;

use crate::{
    Gateway,
    catalog::{Entry, Listed},
    connection::Connection,
    offload::{offload_if_large, offloadable},
    recall::{
        Claimed, Kept, Mode, Order, Ticket, paged,
        pages::{self, Query},
    },
    rescue::{self, Failure},
    route::{Request, Selected, Unroutable},
    shape::{self, Form},
    tools::{self, Said},
    turn::{Turn, Turns},
    whose::{Unnamed, notes, whose},
};

/// Whoever makes a call.
pub(crate) struct Caller {
    pub(crate) owner: Owner,
    /// `None` for a request that stands alone: it has no session of its own.
    pub(crate) connection: Option<Arc<Connection>>,
    pub(crate) agent: Arc<dyn Agent>,
    /// It speaks REST, and calls things as REST does.
    pub(crate) is_program: bool,
    /// It is this user, on this machine.
    pub(crate) is_here: bool,
}

impl Caller {
    /// A program, which has no connection and cannot be asked anything.
    pub(crate) fn program(owner: &Owner) -> Self {
        let agent = Arc::new(Nobody);
        Self { owner: owner.clone(), connection: None, agent, is_program: true, is_here: false }
    }
}

/// Carries out a call, in its turn. Never fails: the body is a result or an error object to send.
pub(crate) async fn run(
    gateway: &Gateway,
    caller: &Caller,
    params: Option<&RawValue>,
    mut turn: Turn,
) -> Result<Raw, Raw> {
    turn.come().await;
    let _guard = offload_if_large(params.map_or(0, |params| params.get().len())).await;
    let request = match Request::parse(params) {
        Ok(request) => request,
        Err(error) => {
            return match rescue::unroutable(error) {
                Ok(failure) => Ok(failure.to_result()),
                Err(error) => Err(error.to_raw()),
            };
        }
    };
    if let Some(tool) = tools::find(&request.tool) {
        if tool.runs_others {
            // In its turn, so that what comes behind does not overtake it meanwhile. A failure is told by the tool.
            let _ = gateway.catalog.list().await;
        }
        let began = Instant::now();
        let outcome = turn.first_step(tool.run(gateway, caller, request)).await;
        gateway.metrics.call(tool.name, outcome.as_ref().is_ok_and(|said| !said.failed), began.elapsed());
        let _guard = offload_if_large(outcome.as_ref().map_or(0, Said::bytes)).await;
        return Ok(outcome.map_or_else(|failure| failure.to_result(), |said| said.to_result()));
    }
    engine_tool(gateway, caller, request, turn).await
}

/// What a call that was let through came to.
enum Done {
    Call(Box<Ended>),
    /// Nothing ran: it is a part of an earlier answer.
    Page(paged::Said),
}

/// A call that has ended.
struct Ended {
    outcome: Result<Answer, Failure>,
    kept: Kept,
    mode: Option<Mode>,
    page: Option<Query>,
    notes: Vec<String>,
}

/// Why a call was not let through.
enum Refusal {
    Failure(Failure),
    Rpc(RpcError),
    /// A call of this name was made before.
    Repeat(Box<Record>),
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<Unroutable> for Refusal {
    fn from(error: Unroutable) -> Self {
        match rescue::unroutable(error) {
            Ok(failure) => Self::Failure(failure),
            Err(error) => Self::Rpc(error),
        }
    }
}

async fn engine_tool(gateway: &Gateway, caller: &Caller, request: Request, turn: Turn) -> Result<Raw, Raw> {
    match carry_out(gateway, caller, request, Given::default(), turn).await {
        Ok(Done::Call(ended)) => ended.shaped(gateway, caller).await,
        Ok(Done::Page(said)) => Ok(shape::said(&said.text, said.ref_id.as_ref(), &[])),
        Err(Refusal::Failure(failure)) => Ok(failure.to_result()),
        Err(Refusal::Rpc(error)) => Err(error.to_raw()),
        // Only who gives a name can be told that it was used.
        Err(Refusal::Repeat(_)) => Err(RpcError::new(INVALID_REQUEST, "this call was made before").to_raw()),
    }
}

/// A call of a program, which speaks no MCP.
pub(crate) struct ProgramCall {
    pub(crate) session: Option<SessionId>,
    pub(crate) tool: String,
    pub(crate) arguments: Option<Raw>,
    /// What its record is to be called, so that the call is made once however often it is sent.
    pub(crate) ref_id: Option<RefId>,
}

/// What a program is told.
pub(crate) enum Told {
    /// The call was let through and has ended, well or not.
    Ended {
        kept: Box<Kept>,
        notes: Vec<String>,
        /// Why greenroom could not carry it out.
        failure: Option<Failure>,
    },
    /// It was made before.
    Repeat(Box<Record>),
}

/// Carries out a call of a program. An error says why it was not let through.
pub(crate) async fn for_program(
    gateway: &Gateway,
    owner: &Owner,
    call: ProgramCall,
) -> Result<Told, Failure> {
    let caller = Caller::program(owner);
    let _unanswered = gateway.answering.token();
    let _guard = offload_if_large(call.arguments.as_ref().map_or(0, |arguments| arguments.get().len())).await;
    let request = Request::of(&call.tool, call.arguments)?;
    let given = Given { session: call.session, ref_id: call.ref_id };
    match carry_out(gateway, &caller, request, given, Turns::default().take()).await {
        Ok(Done::Call(ended)) => {
            let Ended { kept, notes, outcome, .. } = *ended;
            Ok(Told::Ended { kept: Box::new(kept), notes, failure: outcome.err() })
        }
        Ok(Done::Page(_)) => Err(Failure::not_let_through("`cache_key` is for agents".to_owned())),
        Err(Refusal::Repeat(record)) => Ok(Told::Repeat(record)),
        Err(Refusal::Failure(failure)) => Err(failure),
        Err(Refusal::Rpc(error)) => Err(Failure::not_let_through(error.message)),
    }
}

/// The same, to its end, even when nobody waits for it any more: a call with a name is asked for again. `None` when
/// greenroom itself failed.
pub(crate) async fn to_its_end(
    gateway: &Arc<Gateway>,
    owner: &Owner,
    call: ProgramCall,
) -> Option<Result<Told, Failure>> {
    let (own, owner) = (gateway.clone(), owner.clone());
    let unanswered = gateway.answering.token();
    let made = tokio::spawn(offloadable(async move {
        let _unanswered = unanswered;
        for_program(&own, &owner, call).await
    }));
    made.await.ok()
}

/// What is known of a call beside its request.
#[derive(Default)]
struct Given {
    session: Option<SessionId>,
    ref_id: Option<RefId>,
}

async fn carry_out(
    gateway: &Gateway,
    caller: &Caller,
    mut request: Request,
    given: Given,
    turn: Turn,
) -> Result<Done, Refusal> {
    let listed = gateway.catalog.list().await.map_err(Failure::from)?;
    let Some((name, entry)) = listed.get(&request.tool) else {
        if listed.iter().next().is_none() {
            return Err(Failure::nothing_attached(&request.tool).into());
        }
        let suggestion = suggestion(gateway, caller, &listed, &request.tool);
        return Err(Refusal::Rpc(rescue::unknown_tool(&request.tool, suggestion.as_deref())));
    };
    let Selected { session, target, wants } = request.take_selectors(entry.takes)?;
    let permit = gateway.policy.permit(&caller.owner, name).map_err(Failure::from)?;
    if caller.is_program {
        let elsewhere = session.as_ref().is_some_and(|id| given.session.as_ref() != Some(id));
        if elsewhere || wants.mode.is_some() || wants.page.is_some() {
            return Err(Failure::for_agents(elsewhere).into());
        }
    }
    // Looked at before anything runs: a mistake in it must not leave a page changed.
    let page = wants.page.as_ref().map(pages::Asked::check).transpose().map_err(Failure::from)?;
    if let Some((asked, key)) = wants.page.as_ref().and_then(|asked| Some((asked, asked.cache_key.as_ref()?)))
    {
        let said = paged::next(&gateway.recall, &caller.owner, key, asked).map_err(Failure::from)?;
        return Ok(Done::Page(said));
    }
    let whose = whose(gateway, caller, session.or(given.session)).await;
    let session = whose.as_ref().ok().and_then(|whose| gateway.fleet.session_ref(&caller.owner, whose));
    let (recall, owner, arguments) = (&gateway.recall, &caller.owner, request.arguments());
    let order = Order { owner, whose: whose.as_ref().ok(), tool: name, arguments };
    let ticket = match given.ref_id {
        None => Ticket::take(recall, order),
        Some(ref_id) => match Ticket::claim(recall, order, ref_id.clone()).await {
            Claimed::Ticket(ticket) => ticket,
            Claimed::Repeat(record) => return Err(Refusal::Repeat(record)),
            Claimed::Interrupted => return Err(Failure::call_interrupted(&ref_id).into()),
            Claimed::Taken => return Err(Failure::request_id_taken(&ref_id).into()),
            Claimed::Undecided(why) => return Err(Failure::records_unavailable(&why).into()),
        },
    };
    // Where it would run decides how its arguments are looked at. Both come first: whoever gives no session where one is
    // needed may have to mend them too.
    let matters = whose.as_ref().ok().filter(|_| listed.differs(entry));
    let place = matters.map(|whose| place_of(gateway, caller, whose, &target)).transpose();
    let fits = place.and_then(|place| fits(&listed, (name, entry), place.as_deref(), request.arguments()));
    let whose = fits.and(whose).and_then(|whose| comparable(&whose, wants.mode).map(|()| whose));
    let whose = match whose {
        Ok(whose) => whose,
        Err(failure) => {
            drop(turn);
            let kept = ticket.failed(session, &failure.text()).await;
            return Ok(Done::Call(Box::new(Ended {
                outcome: Err(failure),
                kept,
                mode: wants.mode,
                page,
                notes: Vec::new(),
            })));
        }
    };
    let unnamed = Unnamed::begin(caller, &whose);
    let call = Call { scribe: ticket.scribe(), ..Call::new(name.clone(), request.into_params()) };
    let began = Instant::now();
    let outcome =
        turn.first_step(gateway.fleet.call(permit, whose.clone(), target, call, caller.agent.clone())).await;
    let _guard = offload_if_large(outcome.as_ref().map_or(0, |answer| bytes_of(&answer.reply))).await;
    let fine = outcome.as_ref().is_ok_and(|answer| !answer.reply.is_failure());
    gateway.metrics.call(name, fine, began.elapsed());
    Ok(Done::Call(Box::new(match outcome {
        Ok(mut answer) => {
            gateway.metrics.ran(&answer.ran, fine);
            ticket.teach(recall, &whose, &answer.reply, gateway.catalog.engine(&answer.ran.pool).as_deref());
            let kept = ticket.answered(&answer.reply, &answer.ran, &answer.view, Instant::now()).await;
            let notes = notes(caller, &whose, std::mem::take(&mut answer.notes), unnamed);
            Ended { outcome: Ok(answer), kept, mode: wants.mode, page, notes }
        }
        Err(error) => {
            let failure = Failure::of(gateway, &error);
            let kept = ticket.failed(session, &failure.text()).await;
            Ended { outcome: Err(failure), kept, mode: wants.mode, page, notes: Vec::new() }
        }
    })))
}

/// How much an answer has that may be looked through.
fn bytes_of(reply: &Reply) -> usize {
    let (Ok(body) | Err(body)) = &reply.body;
    let console = reply.console.iter().map(|line| line.message.len());
    body.get().len() + reply.snapshot_text().map_or(0, |text| text.len()) + console.sum::<usize>()
}

impl Ended {
    /// The answer as it is sent.
    async fn shaped(mut self, gateway: &Gateway, caller: &Caller) -> Result<Raw, Raw> {
        let _guard =
            offload_if_large(self.outcome.as_ref().map_or(0, |answer| bytes_of(&answer.reply))).await;
        if let Some(query) = self.page.take()
            && let Some(page) = self.paged(gateway, caller, &query).await
        {
            return Ok(page);
        }
        let Self { outcome, kept, mode, notes, .. } = self;
        let pool = outcome.as_ref().ok().map(|answer| answer.ran.pool.clone());
        let mode = gateway.recall.mode(mode, pool.as_deref());
        let reply = match outcome {
            Ok(answer) => answer.reply,
            Err(failure) => Ok(failure.to_result()).into(),
        };
        formed(gateway, &caller.owner, reply, &kept, mode, &notes).await
    }

    /// A page of the answer. A failure has none, and is told as it is.
    async fn paged(&mut self, gateway: &Gateway, caller: &Caller, query: &Query) -> Option<Raw> {
        let answer = self.outcome.as_ref().ok().filter(|answer| !answer.reply.is_failure())?;
        if query.silent_mode && !query.is_page {
            self.mode = Some(Mode::As(Responses::Refs));
            return None;
        }
        let ref_id = self.kept.record();
        let engine = gateway.catalog.engine(&answer.ran.pool)?;
        let of = (&self.kept.tool, &answer.reply, ref_id);
        match paged::first(&gateway.recall, engine, &caller.owner, of, query).await {
            Ok(Some(said)) => {
                let lost = self.kept.not_recorded.as_ref().map(|why| shape::not_recorded(why));
                let notes: Vec<_> = self.notes.iter().cloned().chain(lost).collect();
                Some(shape::said(&said.text, ref_id, &notes))
            }
            Ok(None) => {
                self.notes.push("there is no data in this answer to make pages of".to_owned());
                None
            }
            Err(error) => {
                // The whole answer instead of a few values of it could be thousands of tokens that nobody asked for. It
                // is kept, and the failure says where.
                self.outcome = Err(Failure::from(error));
                None
            }
        }
    }
}

/// An answer in the form that its call gets.
pub(crate) async fn formed(
    gateway: &Gateway,
    owner: &Owner,
    reply: Reply,
    kept: &Kept,
    mode: Mode,
    notes: &[String],
) -> Result<Raw, Raw> {
    let recall = &gateway.recall;
    let before = match (mode, kept.record(), &recall.records) {
        (Mode::Diff, Some(ref_id), Some(records)) if kept.has_snapshot => {
            // Without it the agent gets the whole, which is never wrong.
            records.snapshot_before(owner, ref_id).await.ok().flatten()
        }
        _ => None,
    };
    let (inline_tokens, site) = (recall.inline_tokens, recall.site.get().map(String::as_str));
    shape::answer(reply, notes, &Form { mode, kept, inline_tokens, before, site })
}

/// What to do about a tool that is not there: what to set, or the tool that was probably meant. Only what may be used is
/// worth suggesting.
pub(crate) fn suggestion(gateway: &Gateway, caller: &Caller, listed: &Listed, name: &str) -> Option<String> {
    if let Some(cap) = gateway.catalog.missing_cap(name) {
        return Some(format!("the engine has it, with `{cap}` in `pool.caps`"));
    }
    // Programs have no use for what agents have of greenroom's own.
    let own =
        tools::names(gateway, caller.is_here).filter(|_| !caller.is_program).map(|name| -> &str { name });
    let shown = listed.iter().map(|(name, _)| &**name).chain(own);
    let shown = shown.filter(|name| gateway.policy.shows(&caller.owner, name));
    nearest(name, shown).map(|nearest| format!("did you mean \"{nearest}\"?"))
}

/// The pool that a call will run in, or why it can run nowhere.
pub(crate) fn place_of(
    gateway: &Gateway,
    caller: &Caller,
    whose: &Whose,
    target: &Target,
) -> Result<String, Failure> {
    let place = gateway.fleet.pool_of_call(&caller.owner, whose, target);
    place.map_err(|error| Failure::of(gateway, &error))
}

/// Whether a call can be answered with what it changed. That is found in the records of its session, and what several of
/// its owner's callers did in a browser one after the other is nobody's history.
pub(crate) fn comparable(whose: &Whose, mode: Option<Mode>) -> Result<(), Failure> {
    match (whose, mode) {
        (Whose::NoOne, Some(Mode::Diff)) => Err(Failure::nothing_to_compare()),
        _ => Ok(()),
    }
}

/// Whether a call can be made with these arguments, in this pool if it matters which one.
pub(crate) fn fits(
    listed: &Listed,
    (name, entry): (&str, &Entry),
    pool: Option<&str>,
    arguments: Option<&RawValue>,
) -> Result<(), Failure> {
    if let Some((place, others)) = pool.and_then(|pool| listed.elsewhere(entry, pool)) {
        return Err(Failure::tool_not_there(name, place, &others));
    }
    listed.check(entry, pool, arguments).map_err(|invalid| Failure::invalid_arguments(name, &invalid))
}
