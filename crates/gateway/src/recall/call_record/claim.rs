//! A [`CallRecord`] under a name that the client gave: a name is used once, so that a repeated call does not run twice.

use std::{
    sync::{Arc, atomic::Ordering},
    time::SystemTime,
};

use greenroom_core::{
    BoxFuture, Owner, RefId,
    record::{Claim, NotRecorded, Record},
};
use greenroom_fleet::SessionKey;
use tokio::time::timeout;

use super::{CallRecord, WRITE};
use crate::{recall::Recall, route};

/// What the store knows of a client's name.
pub(crate) enum Claimed {
    CallRecord(CallRecord),
    Repeat(Box<Record>),
    /// The call of this name has no end, and will have none.
    Interrupted(RefId),
    Taken(RefId),
    /// It is unknown, for this reason: then the call must not run.
    Undecided(Arc<str>),
}

impl CallRecord {
    /// A call record under the call's own name, unless that has been used. Waits for the end of a call that runs under it.
    pub(crate) async fn claim(
        recall: &Recall,
        owner: &Owner,
        session_key: Option<&SessionKey>,
        call: &route::CallRequest,
    ) -> Claimed {
        let Some(ref_id) = call.ref_id.clone() else {
            return Claimed::CallRecord(Self::take(recall, owner, session_key, call));
        };
        let runs = recall.running.enter(owner, &ref_id).await;
        let named = (SystemTime::now(), ref_id.clone());
        let call_record = Self::named(recall, (owner, session_key), call, named, Some(runs));
        let Some(entry) = &call_record.entry else { return Claimed::CallRecord(call_record) };
        entry.is_begun.store(true, Ordering::Relaxed);
        let mut claiming = PendingClaim {
            claim: entry.records.claim(entry.request.clone()),
            call_record: Some(call_record),
        };
        let decided = timeout(WRITE, &mut claiming.claim).await.ok();
        let Some((decided, call_record)) =
            decided.and_then(|decided| Some((decided, claiming.call_record.take()?)))
        else {
            return Claimed::Undecided("writing the record took too long".into());
        };
        let claimed = match decided {
            Ok(Claim::New) => return Claimed::CallRecord(call_record),
            Ok(Claim::Repeat(record)) if record.summary.outcome.is_none() => Claimed::Interrupted(ref_id),
            Ok(Claim::Repeat(record)) => Claimed::Repeat(record),
            Ok(Claim::Taken) => Claimed::Taken(ref_id),
            Err(NotRecorded(why)) => Claimed::Undecided(why),
        };
        call_record.discard();
        claimed
    }
}

/// A claim that is not decided yet. An abandoned claim may still succeed in the store: then its record must have an
/// end, and until then no other call may use its name.
struct PendingClaim {
    claim: BoxFuture<'static, Result<Claim, NotRecorded>>,
    call_record: Option<CallRecord>,
}

impl Drop for PendingClaim {
    fn drop(&mut self) {
        let Some(call_record) = self.call_record.take() else { return };
        let claim = std::mem::replace(&mut self.claim, Box::pin(std::future::pending()));
        tokio::spawn(async move {
            if matches!(claim.await, Ok(Claim::New)) {
                call_record.failed(None, "it was not made: writing the record took too long").await;
            } else {
                call_record.discard();
            }
        });
    }
}
