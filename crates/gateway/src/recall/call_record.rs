//! The record of one call while it is made: begun before the call runs, ended before its answer is sent.
//!
//! Every permitted call has a [`CallRecord`]. It writes the call's beginning through the call's recorder, and
//! the call's result at its end. If it is dropped without a result, the client has left, and the record says
//! so. If records are off, it does nothing.

mod claim;

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use greenroom_core::{
    BoxFuture, CallRecorder, Engine, Owner, Records, RefId, Reply,
    port::Content,
    raw::encode,
    record::{BlobRef, ConsoleLine, Level, NotRecorded, Request, Response, SessionRef, Status},
};
use greenroom_fleet::{CallAnswer, SessionKey};
use serde_json::{json, value::RawValue};
use tokio::time::{error::Elapsed, timeout};
use uuid::Uuid;

pub(crate) use claim::Claimed;

use crate::route;

use super::{
    ended_call::EndedCall,
    redact::{RedactedParams, SecretClues, looks_secret, redact},
    result::{EmbeddedBytes, embedded, message_of, name_instead, replace, text_of},
    running::RunningMark,
    secret_values::{REDACTED, SecretValues},
};

/// How long a call waits for its record. Usually it takes a fifth of a millisecond; a disk that takes this long is
/// broken, and the call goes on without a record.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// One call's record.
pub(crate) struct CallRecord {
    /// `None` if records are off.
    entry: Option<Arc<RecordEntry>>,
    tool: Arc<str>,
    began: Instant,
    is_ended: bool,
    /// Marks the call as running. Dropped last, after all writes.
    _runs: Option<RunningMark>,
}

struct RecordEntry {
    records: Arc<dyn Records>,
    request: Request,
    /// The secrets that the call brought.
    secrets: SecretValues,
    /// The secrets of its session at the call's end, including those that the call brought.
    known: OnceLock<Arc<SecretValues>>,
    /// Whether the call's beginning was given to the store.
    is_begun: AtomicBool,
    /// When the call began: each step of a bulk has its own time.
    began: OnceLock<Instant>,
    /// Why the store did not record the call's beginning.
    not_begun: Arc<OnceLock<Arc<str>>>,
}

impl CallRecord {
    /// Makes the record of a call, under a new `ref_id`. `session_key` is `None` if it is unclear which
    /// session the call is for; such a call does not run.
    pub(crate) fn with_new_id(
        recall: &super::Recall,
        owner: &Owner,
        session_key: Option<&SessionKey>,
        call: &route::CallRequest,
    ) -> Self {
        let ref_id = RefId::new(SystemTime::now(), Uuid::new_v4().into_bytes());
        let runs = recall.running.try_enter(owner, &ref_id).ok();
        Self::with_id(recall, owner, session_key, call, ref_id, runs)
    }

    /// Drops the record without writing an end: the `ref_id` belongs to another call, or to none.
    fn discard(mut self) {
        self.is_ended = true;
    }

    fn with_id(
        recall: &super::Recall,
        owner: &Owner,
        session_key: Option<&SessionKey>,
        call: &route::CallRequest,
        ref_id: RefId,
        runs: Option<RunningMark>,
    ) -> Self {
        let at = SystemTime::now();
        let tool = &call.tool;
        let arguments = call.arguments();
        let entry = recall.records.clone().map(|records| {
            let known = session_key
                .map(|session_key| recall.secrets.of_session(owner, session_key))
                .unwrap_or_default();
            let clues =
                SecretClues { tool, names: &recall.redact, fields: &known.fields, known: &known.values };
            let RedactedParams { params, secrets } = redact(arguments, &clues);
            if let Some(session_key) = session_key {
                // The session learns the secrets before the call runs: the page may show them even if the
                // call's answer never comes.
                recall.secrets.learn(owner, session_key, None, &secrets);
            }
            let owner = owner.clone();
            let tool = tool.clone();
            Arc::new(RecordEntry {
                records,
                request: Request { ref_id, owner, session: None, tool, params, at },
                secrets,
                known: OnceLock::new(),
                is_begun: AtomicBool::new(false),
                began: OnceLock::new(),
                not_begun: Arc::default(),
            })
        });
        Self { entry, tool: tool.clone(), began: Instant::now(), is_ended: false, _runs: runs }
    }

    /// Notes the session's secrets from this call: those it brought, and the secret fields of the page it shows.
    pub(crate) fn learn_secrets(
        &self,
        recall: &super::Recall,
        session_key: &SessionKey,
        reply: &Reply,
        engine: Option<&dyn Engine>,
    ) {
        let Some(entry) = &self.entry else { return };
        let such = |name: &str| looks_secret(name, &recall.redact);
        let fields =
            reply.snapshot_text().zip(engine).map(|(text, engine)| engine.format().fields(text, &such));
        let owner = &entry.request.owner;
        // A field's description may not show that it takes a secret; then the page shows what was typed.
        let shown = fields.iter().flatten().filter_map(|field| field.value.clone());
        let mut values = entry.secrets.clone();
        shown.for_each(|value| values.add(value));
        let fields = fields.map(|fields| fields.into_iter().map(|field| field.reference).collect());
        recall.secrets.learn(owner, session_key, fields, &values);
        let _ = entry.known.set(recall.secrets.of_session(owner, session_key).values);
    }

    /// The recorder with which the session records the call before it runs.
    pub(crate) fn recorder(&self) -> Option<Arc<dyn CallRecorder>> {
        let entry = self.entry.clone()?;
        Some(entry)
    }

    pub(crate) fn ref_id(&self) -> Option<&RefId> {
        self.entry.as_ref().map(|entry| &entry.request.ref_id)
    }

    /// The arguments as the record keeps them.
    fn params(&self) -> Option<&RawValue> {
        self.entry.as_ref().map(|entry| &*entry.request.params)
    }

    /// Ends the record with the engine's answer.
    pub(crate) async fn answered(mut self, answer: &CallAnswer) -> EndedCall {
        let CallAnswer { reply, ran, view, ended, .. } = answer;
        self.is_ended = true;
        let mut ended_call = self.ending(match &reply.body {
            _ if !reply.is_failure() => None,
            Ok(result) => Some(text_of(result)),
            Err(error) => Some(message_of(error)),
        });
        ended_call.at -= ended.elapsed();
        ended_call.session.clone_from(&ran.session);
        ended_call.has_snapshot = reply.snapshot_text().is_some();
        ended_call.console = reply.console.len();
        ended_call.console_errors = reply.console.iter().filter(|line| line.level == Level::Error).count();
        let Some(entry) = self.entry.clone() else { return ended_call };
        let (Ok(body) | Err(body)) = &reply.body;
        ended_call.embedded = embedded(body);
        let blobs = entry.keep_blobs(&ran.pool, &mut ended_call.embedded, reply).await;
        let result = match &blobs {
            Ok(blobs) if !ended_call.embedded.is_empty() => {
                let named = |part: &RawValue, n: usize| name_instead(part, blobs.get(n)?.id.as_str());
                replace(body, &ended_call.embedded, named).get().into()
            }
            // If the store cannot keep the bytes as a blob, the database must not keep them either.
            Err(_) => replace(body, &ended_call.embedded, |part, _| name_instead(part, "")).get().into(),
            _ => Arc::from(body.get()),
        };
        match blobs {
            Ok(blobs) => ended_call.blobs = blobs,
            Err(why) => ended_call.not_recorded = Some(why.0),
        }
        ended_call.snapshot = reply.snapshot_text().map(|text| entry.scrubbed(text.clone()));
        let began = entry.began.get().copied().unwrap_or(self.began);
        let scrubbed =
            |text: &str| Some(entry.scrubbed(text.into()).to_string()).filter(|text| !text.is_empty());
        let response = Response {
            snapshot: ended_call.snapshot.clone(),
            console: entry.scrubbed_lines(&reply.console),
            blobs: ended_call.blobs.clone(),
            url: scrubbed(&view.url),
            title: scrubbed(&view.title),
            ..entry.response(
                &ended_call,
                entry.scrubbed_json(&result),
                ended.saturating_duration_since(began),
            )
        };
        entry.end(response, &mut ended_call).await;
        ended_call
    }

    /// Ends the record with this error, which the agent gets. `session` is the session that the call was for; a session
    /// that is recorded already stays.
    pub(crate) async fn failed(mut self, session: Option<SessionRef>, message: &str) -> EndedCall {
        self.is_ended = true;
        let mut ended_call = self.ending(Some(message.to_owned()));
        let came_to_one = self.entry.as_ref().is_some_and(|entry| entry.began.get().is_some());
        ended_call.session = session.filter(|_| !came_to_one);
        if let Some(entry) = self.entry.clone() {
            let result = entry.scrubbed(error_result(message));
            let response = entry.response(&ended_call, result, self.began.elapsed());
            entry.end(response, &mut ended_call).await;
        }
        ended_call
    }

    /// Discards the record of a call that never began.
    pub(crate) fn discard_unbegun(mut self) {
        self.is_ended = !self.entry.as_ref().is_some_and(|entry| entry.is_begun.load(Ordering::Relaxed));
    }

    fn ending(&self, error: Option<String>) -> EndedCall {
        EndedCall {
            tool: self.tool.clone(),
            ref_id: self.ref_id().cloned(),
            not_recorded: None,
            session: None,
            status: if error.is_some() { Status::Error } else { Status::Success },
            error,
            at: SystemTime::now(),
            has_snapshot: false,
            snapshot: None,
            console: 0,
            console_errors: 0,
            blobs: Vec::new(),
            embedded: Vec::new(),
        }
    }
}

impl Drop for CallRecord {
    fn drop(&mut self) {
        if self.is_ended {
            return;
        }
        let ended_call = self.ending(Some("its client left before it was answered".to_owned()));
        if let Some(entry) = self.entry.as_ref().filter(|entry| entry.is_begun.load(Ordering::Relaxed)) {
            let result = error_result(ended_call.error.as_deref().unwrap_or_default());
            // The store keeps the order of operations; no caller waits for this one.
            drop(entry.records.end(entry.response(&ended_call, result, self.began.elapsed())));
        }
    }
}

/// The recorded result of a call that greenroom itself answered.
fn error_result(message: &str) -> Arc<str> {
    encode(&json!({ "content": [{ "type": "text", "text": message }], "isError": true })).get().into()
}

impl RecordEntry {
    fn scrubbed(&self, text: Arc<str>) -> Arc<str> {
        self.all_secrets().scrub(&text).map_or(text, Arc::from)
    }

    /// Scrubs a JSON text so that it stays JSON: a secret may be spelled like a part of a number.
    fn scrubbed_json(&self, text: &Arc<str>) -> Arc<str> {
        if self.all_secrets().are_too_many() {
            return encode(&json!({ "content": [{ "type": "text", "text": REDACTED }] })).get().into();
        }
        let scrubbed = self.scrubbed(text.clone());
        if Arc::ptr_eq(&scrubbed, text) || serde_json::from_str::<&RawValue>(&scrubbed).is_ok() {
            return scrubbed;
        }
        let Ok(mut value) = serde_json::from_str::<serde_json::Value>(text) else { return scrubbed };
        scrub_strings(&mut value, &|text| self.all_secrets().scrub(text));
        value.to_string().into()
    }

    fn scrubbed_lines(&self, lines: &[ConsoleLine]) -> Vec<ConsoleLine> {
        let mut lines = lines.to_vec();
        for line in &mut lines {
            if let Some(scrubbed) = self.all_secrets().scrub(&line.message) {
                line.message = scrubbed;
            }
            if let Some(place) = &mut line.location
                && let Some(scrubbed) = self.all_secrets().scrub(&place.url)
            {
                place.url = scrubbed;
            }
        }
        lines
    }

    fn all_secrets(&self) -> &SecretValues {
        self.known.get().map_or(&self.secrets, |known| known)
    }

    fn response(&self, ended_call: &EndedCall, result: Arc<str>, took: Duration) -> Response {
        Response {
            ref_id: self.request.ref_id.clone(),
            session: ended_call.session.clone(),
            status: ended_call.status,
            result,
            snapshot: None,
            console: Vec::new(),
            error: ended_call
                .error
                .as_ref()
                .map(|text| self.all_secrets().scrub(text).unwrap_or_else(|| text.clone())),
            blobs: Vec::new(),
            url: None,
            title: None,
            at: ended_call.at,
            took,
        }
    }

    /// Stores the bytes of an answer as blobs: first those within it, then the files it links to.
    async fn keep_blobs(
        &self,
        pool: &str,
        embedded: &mut [EmbeddedBytes],
        reply: &Reply,
    ) -> Result<Vec<BlobRef>, NotRecorded> {
        let mut blobs = Vec::new();
        for EmbeddedBytes { mime, data, .. } in embedded {
            blobs.push(self.keep(pool, std::mem::take(data), mime, None).await?);
        }
        for artifact in &reply.artifacts {
            if let Content::File { name, mime, data } = &artifact.content {
                blobs.push(self.keep(pool, data.clone(), mime, Some(name.clone())).await?);
            }
        }
        Ok(blobs)
    }

    async fn keep(
        &self,
        pool: &str,
        data: Vec<u8>,
        mime: &str,
        name: Option<String>,
    ) -> Result<BlobRef, NotRecorded> {
        let late = |_| NotRecorded("keeping its files took too long".into());
        let bytes = data.len() as u64;
        let id = timeout(WRITE_TIMEOUT, self.records.keep(pool, data)).await.map_err(late)??;
        Ok(BlobRef { id, mime: mime.to_owned(), name, bytes })
    }

    async fn end(&self, response: Response, ended_call: &mut EndedCall) {
        // A call that never reached a session has not begun.
        let is_begun = self.is_begun.swap(true, Ordering::Relaxed);
        let beginning = (!is_begun).then(|| self.records.begin(self.request.clone()));
        let ended = timeout(WRITE_TIMEOUT, self.records.end(response)).await;
        if matches!(ended, Ok(Ok(()))) {
            return;
        }
        if let Some(beginning) = beginning {
            set_failure_reason(&self.not_begun, timeout(WRITE_TIMEOUT, beginning).await);
        }
        // The store refuses an end without a beginning, so the error of the beginning is the reason.
        let reason = OnceLock::new();
        set_failure_reason(&reason, ended);
        ended_call.not_recorded = self.not_begun.get().or(reason.get()).cloned();
    }
}

/// Replaces every string of a value that `scrub` changes.
fn scrub_strings(value: &mut serde_json::Value, scrub: &dyn Fn(&str) -> Option<String>) {
    match value {
        serde_json::Value::String(text) => {
            if let Some(scrubbed) = scrub(text) {
                *text = scrubbed;
            }
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(|item| scrub_strings(item, scrub)),
        serde_json::Value::Object(members) => {
            members.values_mut().for_each(|member| scrub_strings(member, scrub));
        }
        _ => {}
    }
}

impl CallRecorder for RecordEntry {
    fn begin(&self, session: Option<&SessionRef>) -> BoxFuture<'static, ()> {
        let _ = self.began.set(Instant::now());
        if self.is_begun.swap(true, Ordering::Relaxed) {
            // The call was claimed under the client's `ref_id`, before its session was known. Record the session now,
            // without waiting for the store.
            if let Some(session) = session {
                let request = Request { session: Some(session.clone()), ..self.request.clone() };
                drop(self.records.begin(request));
            }
            return Box::pin(std::future::ready(()));
        }
        let written = self.records.begin(Request { session: session.cloned(), ..self.request.clone() });
        // A failure is noted for the answer: a call whose beginning is not recorded has no recorded end either.
        let not_begun = self.not_begun.clone();
        Box::pin(async move { set_failure_reason(&not_begun, timeout(WRITE_TIMEOUT, written).await) })
    }
}

/// Stores the reason why a write failed.
fn set_failure_reason(reason: &OnceLock<Arc<str>>, written: Result<Result<(), NotRecorded>, Elapsed>) {
    let why = match written {
        Ok(Ok(())) => return,
        Ok(Err(NotRecorded(why))) => why,
        Err(_) => "writing the record took too long".into(),
    };
    // Only the first reason matters.
    let _ = reason.set(why);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        recall::Recall,
        testing::{self, MemoryRecords},
    };

    fn arguments(secrets: usize) -> Box<RawValue> {
        let members: serde_json::Map<_, _> =
            (0..secrets).map(|n| (format!("token{n}"), format!("secret {n:03}").into())).collect();
        encode(&members)
    }

    fn with_new_id(recall: &Recall, arguments: &RawValue) -> CallRecord {
        let call = route::CallRequest::from_parts("t", Some(arguments.to_owned()), None).unwrap();
        CallRecord::with_new_id(recall, &Owner::local(), Some(&SessionKey::Ephemeral), &call)
    }

    /// The session knows a call's secrets before the call runs, so that later records do not contain them even if the
    /// call is cancelled. If a call brings too many secrets, no text of later calls is recorded.
    #[tokio::test]
    async fn secrets_are_known_before_a_call_runs() {
        let (gateway, _folder) = testing::recalling(MemoryRecords::new());
        let recall = &gateway.recall;
        for (secrets, shown, expected) in
            [(100, "secret 000 on a page", "[redacted] on a page"), (200, "any page", "[redacted]")]
        {
            drop(with_new_id(recall, &arguments(secrets)));
            let reply = Reply::from(Ok(encode(&json!({}))));
            let next = with_new_id(recall, &arguments(0));
            next.learn_secrets(recall, &SessionKey::Ephemeral, &reply, None);
            let entry = next.entry.as_ref().unwrap();
            assert_eq!(&*entry.scrubbed(shown.into()), expected);
        }
    }
}
