//! An operation as a line of JSON, and back.

use std::{
    borrow::Cow,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use greenroom_core::{
    Owner, RefId, SessionUid, raw,
    record::{Request, Response, SessionRef, Status},
};
use serde::{Deserialize, Serialize};

use crate::op::Op;

/// An operation as it is noted. Times are milliseconds, as they are kept.
#[derive(Serialize, Deserialize)]
pub(super) enum Line<'a> {
    Begin {
        ref_id: Cow<'a, str>,
        owner: Cow<'a, str>,
        session: Option<Session<'a>>,
        tool: Cow<'a, str>,
        params: Cow<'a, str>,
        at: u64,
    },
    End {
        ref_id: Cow<'a, str>,
        session: Option<Session<'a>>,
        is_success: bool,
        result: Cow<'a, str>,
        snapshot: Option<Cow<'a, str>>,
        error: Option<Cow<'a, str>>,
        url: Option<Cow<'a, str>>,
        title: Option<Cow<'a, str>>,
        at: u64,
        took_ms: u64,
    },
}

#[derive(Serialize, Deserialize)]
pub(super) struct Session<'a> {
    uid: Cow<'a, str>,
    name: Cow<'a, str>,
    pool: Cow<'a, str>,
}

impl<'a> Line<'a> {
    pub(super) fn begin(request: &'a Request) -> Option<Self> {
        Some(Self::Begin {
            ref_id: request.ref_id.as_str().into(),
            owner: request.owner.as_str().into(),
            session: request.session.as_ref().map(Session::of),
            tool: (&*request.tool).into(),
            params: request.params.get().into(),
            at: millis(request.at)?,
        })
    }

    /// `None` for what has more than texts.
    pub(super) fn end(response: &'a Response) -> Option<Self> {
        if !response.console.is_empty() || !response.blobs.is_empty() {
            return None;
        }
        Some(Self::End {
            ref_id: response.ref_id.as_str().into(),
            session: response.session.as_ref().map(Session::of),
            is_success: response.status == Status::Success,
            result: (&*response.result).into(),
            snapshot: response.snapshot.as_deref().map(Cow::from),
            error: response.error.as_deref().map(Cow::from),
            url: response.url.as_deref().map(Cow::from),
            title: response.title.as_deref().map(Cow::from),
            at: millis(response.at)?,
            took_ms: u64::try_from(response.took.as_millis()).ok()?,
        })
    }

    pub(super) fn into_op(self) -> Option<Op> {
        Some(match self {
            Self::Begin { ref_id, owner, session, tool, params, at } => Op::Begin(
                Request {
                    ref_id: RefId::parse(&ref_id).ok()?,
                    owner: Owner::new(&owner),
                    session: session.and_then(Session::into_ref),
                    tool: tool.into(),
                    params: raw::parse(params.into_owned()).ok()?,
                    at: time(at)?,
                },
                None,
            ),
            Self::End { ref_id, session, is_success, result, snapshot, error, url, title, at, took_ms } => {
                Op::End(
                    Box::new(Response {
                        ref_id: RefId::parse(&ref_id).ok()?,
                        session: session.and_then(Session::into_ref),
                        status: if is_success { Status::Success } else { Status::Error },
                        result: result.into(),
                        snapshot: snapshot.map(Into::into),
                        console: Vec::new(),
                        error: error.map(Cow::into_owned),
                        blobs: Vec::new(),
                        url: url.map(Cow::into_owned),
                        title: title.map(Cow::into_owned),
                        at: time(at)?,
                        took: Duration::from_millis(took_ms),
                    }),
                    None,
                )
            }
        })
    }
}

impl<'a> Session<'a> {
    fn of(session: &'a SessionRef) -> Self {
        let SessionRef { uid, name, pool } = session;
        Self { uid: uid.as_str().into(), name: (&**name).into(), pool: (&**pool).into() }
    }

    fn into_ref(self) -> Option<SessionRef> {
        Some(SessionRef {
            uid: SessionUid::parse(&self.uid)?,
            name: self.name.into(),
            pool: self.pool.into(),
        })
    }
}

fn millis(at: SystemTime) -> Option<u64> {
    u64::try_from(at.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}

fn time(millis: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_millis(millis))
}
