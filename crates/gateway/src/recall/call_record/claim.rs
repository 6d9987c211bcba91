//! A [`CallRecord`] under a `ref_id` that the client chose: each is used once, so that a repeated call does not run
//! twice.

use std::sync::{Arc, atomic::Ordering};

use greenroom_core::{
    BoxFuture, Owner, RefId,
    raw::tree,
    record::{Claim, NotRecorded, Record},
};
use greenroom_fleet::SessionKey;
use serde_json::{Value, value::RawValue};
use tokio::time::timeout;

use super::{CallRecord, WRITE_TIMEOUT};
use crate::{
    recall::{Recall, secret_values::REDACTED},
    route,
};

/// What the store knows of a `ref_id` that a client chose.
pub(crate) enum Claimed {
    CallRecord(CallRecord),
    Repeat(Box<Record>),
    /// The call with this `ref_id` has no end, and will have none.
    Interrupted(RefId),
    Taken(RefId),
    /// The owner's record with this `ref_id` is of another call.
    UsedForOtherCall(Box<Record>),
    /// The store cannot say whether the `ref_id` was used, for this reason; the call must not run.
    Undecided(Arc<str>),
}

impl CallRecord {
    /// Makes the record of a call under the `ref_id` that its client gave, unless that is used. If a call
    /// with this `ref_id` runs, waits for its end.
    pub(crate) async fn claim(
        recall: &Recall,
        owner: &Owner,
        session_key: Option<&SessionKey>,
        call: &route::CallRequest,
    ) -> Claimed {
        let Some(ref_id) = call.ref_id.clone() else {
            return Claimed::CallRecord(Self::with_new_id(recall, owner, session_key, call));
        };
        let runs = recall.running.enter(owner, &ref_id).await;
        let call_record = Self::with_id(recall, owner, session_key, call, ref_id.clone(), Some(runs));
        let Some(entry) = &call_record.entry else { return Claimed::CallRecord(call_record) };
        entry.is_begun.store(true, Ordering::Relaxed);
        let mut claiming = PendingClaim {
            claim: entry.records.claim(entry.request.clone()),
            call_record: Some(call_record),
        };
        let decided = timeout(WRITE_TIMEOUT, &mut claiming.claim).await.ok();
        let Some((decided, call_record)) =
            decided.and_then(|decided| Some((decided, claiming.call_record.take()?)))
        else {
            return Claimed::Undecided("writing the record took too long".into());
        };
        let claimed = match decided {
            Ok(Claim::New) => return Claimed::CallRecord(call_record),
            Ok(Claim::Repeat(record)) if !is_same(&record, call, call_record.params()) => {
                Claimed::UsedForOtherCall(record)
            }
            Ok(Claim::Repeat(record)) if record.summary.outcome.is_none() => Claimed::Interrupted(ref_id),
            Ok(Claim::Repeat(record)) => Claimed::Repeat(record),
            Ok(Claim::Taken) => Claimed::Taken(ref_id),
            Err(NotRecorded(why)) => Claimed::Undecided(why),
        };
        call_record.discard();
        claimed
    }
}

/// Whether a record is of this tool and these arguments. Both are redacted.
fn is_same(record: &Record, call: &route::CallRequest, params: Option<&RawValue>) -> bool {
    let Some(params) = params.filter(|_| record.summary.tool == *call.tool) else { return false };
    match (tree(&record.params), tree(params)) {
        (Some(first), Some(second)) => may_be_same(&first, &second),
        // A text that is too deep to be read as a tree is compared as it is.
        _ => record.params.get() == params.get(),
    }
}

/// Compares arguments in any order and spelling. A redacted text counts as equal to any other: it may be redacted in
/// the second call only, if the page has shown in the meantime that it is a secret.
fn may_be_same(first: &Value, second: &Value) -> bool {
    let is_redacted = |value: &Value| value.as_str().is_some_and(|text| text.contains(REDACTED));
    match (first, second) {
        _ if is_redacted(first) || is_redacted(second) => true,
        (Value::Array(first), Value::Array(second)) => {
            first.len() == second.len()
                && first.iter().zip(second).all(|(one, other)| may_be_same(one, other))
        }
        (Value::Object(first), Value::Object(second)) => {
            let same = |(name, value): (&String, &Value)| match second.get(name) {
                Some(other) => may_be_same(value, other),
                None => name.contains(REDACTED) || second.keys().any(|name| name.contains(REDACTED)),
            };
            first.len() == second.len() && first.iter().all(same)
        }
        _ => first == second,
    }
}

/// A claim that is not decided yet. An abandoned claim may still succeed in the store: then its record must have an
/// end, and until then no other call may use its `ref_id`.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Arguments are compared by their meaning; what is redacted in one of the calls is no difference.
    #[test]
    fn arguments_are_compared_by_meaning() {
        let typed = json!({"target": "e5", "text": "hunter2", "slowly": true});
        for same in [
            json!({"slowly": true, "text": "hunter2", "target": "e5"}),
            json!({"target": "e5", "text": REDACTED, "slowly": true}),
            json!({"target": "e5", "text": format!("a{REDACTED}"), "slowly": true}),
            json!(REDACTED),
        ] {
            assert!(may_be_same(&typed, &same) && may_be_same(&same, &typed), "{same}");
        }
        for other in [
            json!({"target": "e6", "text": "hunter2", "slowly": true}),
            json!({"target": "e6", "text": REDACTED, "slowly": true}),
            json!({"target": "e5", "text": "hunter2", "slowly": false}),
            json!({"target": "e5", "text": "hunter2"}),
            json!({"target": "e5", "text": "hunter2", "slowly": true, "submit": true}),
            json!({"target": "e5", "text": ["hunter2"], "slowly": true}),
            json!({}),
        ] {
            assert!(!may_be_same(&typed, &other) && !may_be_same(&other, &typed), "{other}");
        }
    }
}
