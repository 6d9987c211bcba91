//! A store in memory, which the gateway's tests use in place of the database. It keeps every promise of [`Records`] but
//! one: it forgets all records when it is dropped. A test can make it fail, as a full disk would.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use greenroom_core::{
    BlobId, BoxFuture, Owner, Records, RefId, SessionUid, raw,
    record::{
        Blob, BlobRef, Claim, ConsoleLine, ConsolePart, ConsoleRange, Cursor, Level, Listed, NotRecorded,
        Outcome, Record, RecordFilter, Request, Response, SessionEvent, SessionRef, SessionRow, SessionState,
        Status, Summary, Timeline, Unreadable, What,
    },
};
use parking_lot::{Mutex, MutexGuard};

/// Records in memory.
#[derive(Default)]
pub(crate) struct MemoryRecords {
    state: Mutex<MemoryState>,
    broken: AtomicBool,
}

#[derive(Default)]
struct MemoryState {
    /// In the order in which they began; a record's position is its index here, from 1.
    records: Vec<(Request, Option<Response>)>,
    sessions: Vec<(Owner, SessionRow)>,
    cursors: HashMap<RefId, Cursor>,
    blobs: HashMap<BlobId, Vec<u8>>,
}

impl MemoryRecords {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Makes every write and read fail from now on, or succeed again.
    pub(crate) fn broken(&self, broken: bool) {
        self.broken.store(broken, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, MemoryState> {
        self.state.lock()
    }

    fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    fn write<T: Send + 'static>(
        &self,
        write: impl FnOnce(&mut MemoryState) -> T,
    ) -> BoxFuture<'static, Result<T, NotRecorded>> {
        let written = match self.is_broken() {
            true => Err(NotRecorded("the disk is full".into())),
            false => Ok(write(&mut self.lock())),
        };
        Box::pin(std::future::ready(written))
    }

    fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&MemoryState) -> T,
    ) -> BoxFuture<'static, Result<T, Unreadable>> {
        let found = match self.is_broken() {
            true => Err(Unreadable("the disk is gone".into())),
            false => Ok(read(&self.lock())),
        };
        Box::pin(std::future::ready(found))
    }
}

impl MemoryState {
    fn begin(&mut self, request: Request) {
        if let Some(session) = &request.session {
            self.session(&request.owner, session, request.at);
        }
        self.records.push((request, None));
    }

    fn session(&mut self, owner: &Owner, session: &SessionRef, at: SystemTime) {
        let row = self.sessions.iter_mut().find(|(_, row)| row.session.uid == session.uid);
        match row {
            Some((_, row)) => row.last_activity = at,
            None => {
                let session = session.clone();
                let state = SessionState::Active;
                let row = SessionRow { session, created: at, last_activity: at, state };
                self.sessions.push((owner.clone(), row));
            }
        }
    }

    fn place(&self, id: &RefId) -> Option<usize> {
        self.records.iter().position(|(request, _)| request.ref_id == *id)
    }

    /// The owner's own record of this name.
    fn own(&self, owner: &Owner, id: &RefId) -> Option<usize> {
        self.place(id).filter(|place| self.records[*place].0.owner == *owner)
    }

    fn summary(&self, place: usize) -> Summary {
        let (request, response) = &self.records[place];
        let moved = response.as_ref().and_then(|response| response.session.clone());
        Summary {
            position: place as u64 + 1,
            ref_id: request.ref_id.clone(),
            session: moved.or_else(|| request.session.clone()),
            tool: request.tool.to_string(),
            at: request.at,
            outcome: response.as_ref().map(|response| Outcome {
                status: response.status,
                error: response.error.clone(),
                at: response.at,
                took: response.took,
                url: response.url.clone(),
                title: response.title.clone(),
                has_snapshot: response.snapshot.is_some(),
                console: response.console.len(),
                console_errors: response.console.iter().filter(|line| line.level == Level::Error).count(),
            }),
        }
    }

    fn record(&self, place: usize) -> Record {
        let (request, response) = &self.records[place];
        Record {
            summary: self.summary(place),
            params: request.params.clone(),
            result: response.as_ref().map(|response| response.result.to_string()),
            snapshot: response.as_ref().and_then(|response| Some(response.snapshot.as_deref()?.to_owned())),
            blobs: response.as_ref().map(|response| response.blobs.clone()).unwrap_or_default(),
        }
    }

    fn runs_in(&self, place: usize, session: &SessionUid) -> bool {
        self.summary(place).session.is_some_and(|of| of.uid == *session)
    }

    /// The events of a call: itself, then its page, its console, and its error.
    fn events(&self, place: usize, url: &mut Option<String>) -> Vec<SessionEvent> {
        let (request, response) = &self.records[place];
        let event = |at: SystemTime, what| SessionEvent { at, ref_id: request.ref_id.clone(), what };
        let tool = request.tool.to_string();
        let Some(response) = response else {
            return vec![event(request.at, What::Call { tool, status: None, took: None })];
        };
        let status = Some(response.status);
        let took = Some(response.took);
        let mut events = vec![event(request.at, What::Call { tool, status, took })];
        if response.url.is_some() && response.url != *url {
            url.clone_from(&response.url);
            let what =
                What::Navigation { url: url.clone().unwrap_or_default(), title: response.title.clone() };
            events.push(event(response.at, what));
        }
        for line in &response.console {
            let what = What::Console { level: line.level, message: line.message.clone() };
            events.push(event(line.at.unwrap_or(response.at), what));
        }
        if response.status == Status::Error {
            let message = response.error.clone().unwrap_or_default();
            events.push(event(response.at, What::Error { message }));
        }
        events
    }

    /// The owner's blobs that still exist, newest first, each once.
    fn blobs_of(&self, owner: &Owner) -> Vec<BlobRef> {
        let mut found: Vec<BlobRef> = Vec::new();
        for (request, response) in self.records.iter().rev() {
            let named = response.iter().flat_map(|response| response.blobs.iter().rev());
            for blob in named.filter(|_| request.owner == *owner) {
                if self.blobs.contains_key(&blob.id) && found.iter().all(|known| known.id != blob.id) {
                    found.push(blob.clone());
                }
            }
        }
        found
    }
}

impl Records for MemoryRecords {
    fn begin(&self, request: Request) -> BoxFuture<'static, Result<(), NotRecorded>> {
        self.write(|state| match state.place(&request.ref_id) {
            // A claimed call has found its session.
            Some(place) => state.records[place].0.session = request.session,
            None => state.begin(request),
        })
    }

    fn claim(&self, request: Request) -> BoxFuture<'static, Result<Claim, NotRecorded>> {
        self.write(|state| match state.place(&request.ref_id) {
            None => {
                state.begin(request);
                Claim::New
            }
            Some(place) if state.records[place].0.owner == request.owner => {
                Claim::Repeat(Box::new(state.record(place)))
            }
            Some(_) => Claim::Taken,
        })
    }

    fn end(&self, response: Response) -> BoxFuture<'static, Result<(), NotRecorded>> {
        self.write(|state| {
            if let Some(place) = state.place(&response.ref_id) {
                state.records[place].1 = Some(response);
            }
        })
    }

    fn session_began(
        &self,
        owner: &Owner,
        session: &SessionRef,
    ) -> BoxFuture<'static, Result<(), NotRecorded>> {
        self.write(|state| state.session(owner, session, SystemTime::now()))
    }

    fn session_ended(&self, uid: &SessionUid, ended: SessionState) {
        for (_, row) in &mut self.lock().sessions {
            if row.session.uid == *uid {
                row.state = ended;
            }
        }
    }

    fn health(&self) -> Result<(), Arc<str>> {
        if self.is_broken() { Err("the disk is full".into()) } else { Ok(()) }
    }

    fn record<'a>(
        &'a self,
        owner: &'a Owner,
        id: &'a RefId,
    ) -> BoxFuture<'a, Result<Option<Record>, Unreadable>> {
        self.read(|state| state.own(owner, id).map(|place| state.record(place)))
    }

    fn list<'a>(
        &'a self,
        owner: &'a Owner,
        filter: RecordFilter,
    ) -> BoxFuture<'a, Result<Listed, Unreadable>> {
        self.read(|state| {
            let own = (0..state.records.len()).rev().filter(|place| state.records[*place].0.owner == *owner);
            let summaries = own
                .map(|place| state.summary(place))
                .filter(|one| filter.before.is_none_or(|before| one.position < before))
                .filter(|one| filter.tool.as_ref().is_none_or(|tool| one.tool == *tool))
                .filter(|one| {
                    let ended = one.outcome.as_ref().map(|outcome| outcome.status);
                    filter.status.is_none_or(|status| ended == Some(status))
                })
                .filter(|one| {
                    let runs_in = one.session.as_ref().map(|session| &session.uid);
                    filter.session.as_ref().is_none_or(|session| runs_in == Some(session))
                })
                .take(filter.limit)
                .collect();
            Listed { summaries, is_cut: false }
        })
    }

    fn console_part<'a>(
        &'a self,
        owner: &'a Owner,
        id: &'a RefId,
        range: ConsoleRange,
    ) -> BoxFuture<'a, Result<Option<ConsolePart>, Unreadable>> {
        self.read(|state| {
            let place = state.own(owner, id)?;
            let lines = state.records[place].1.iter().flat_map(|response| &response.console);
            let lines = lines.filter(|line| range.level.is_none_or(|level| line.level == level));
            Some(ConsolePart { lines: lines.skip(range.offset).cloned().collect(), next: None })
        })
    }

    fn console<'a>(
        &'a self,
        owner: &'a Owner,
        id: &'a RefId,
        level: Option<Level>,
    ) -> BoxFuture<'a, Result<Option<Vec<ConsoleLine>>, Unreadable>> {
        self.read(|state| {
            let place = state.own(owner, id)?;
            let lines = state.records[place].1.iter().flat_map(|response| &response.console);
            Some(lines.filter(|line| level.is_none_or(|level| line.level == level)).cloned().collect())
        })
    }

    fn snapshot_before<'a>(
        &'a self,
        owner: &'a Owner,
        id: &'a RefId,
    ) -> BoxFuture<'a, Result<Option<(RefId, String)>, Unreadable>> {
        self.read(|state| {
            let place = state.own(owner, id)?;
            let session = state.summary(place).session?.uid;
            (0..place).rev().filter(|earlier| state.runs_in(*earlier, &session)).find_map(|earlier| {
                let (request, response) = &state.records[earlier];
                Some((request.ref_id.clone(), response.as_ref()?.snapshot.as_deref()?.to_owned()))
            })
        })
    }

    fn session<'a>(
        &'a self,
        owner: &'a Owner,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<SessionRow>, Unreadable>> {
        self.read(|state| {
            let uid = SessionUid::parse(name);
            let own = || state.sessions.iter().rev().filter(|(of, _)| of == owner).map(|(_, row)| row);
            let by_uid = own().find(|row| uid.as_ref() == Some(&row.session.uid));
            by_uid.or_else(|| own().find(|row| &*row.session.name == name)).cloned()
        })
    }

    fn timeline<'a>(
        &'a self,
        owner: &'a Owner,
        session: &'a SessionUid,
        from: u64,
        calls_max: usize,
    ) -> BoxFuture<'a, Result<Timeline, Unreadable>> {
        self.read(|state| {
            let own =
                |place: &usize| state.records[*place].0.owner == *owner && state.runs_in(*place, session);
            let mut timeline = Timeline { events: Vec::new(), next: from };
            let mut url = None;
            let mut calls = 0;
            for place in (0..state.records.len()).filter(own) {
                let events = state.events(place, &mut url);
                let position = place as u64 + 1;
                if position >= from && calls < calls_max {
                    timeline.events.extend(events);
                    timeline.next = position + 1;
                    calls += 1;
                }
            }
            timeline
        })
    }

    fn cursor<'a>(&'a self, id: &'a RefId) -> BoxFuture<'a, Result<Option<Cursor>, Unreadable>> {
        self.read(|state| state.cursors.get(id).cloned())
    }

    fn set_cursor(&self, id: &RefId, cursor: Cursor) -> BoxFuture<'static, Result<(), NotRecorded>> {
        self.write(|state| drop(state.cursors.insert(id.clone(), cursor)))
    }

    fn keep(&self, _: &str, data: Vec<u8>) -> BoxFuture<'static, Result<BlobId, NotRecorded>> {
        self.write(|state| {
            let id = name_of(&data);
            state.blobs.insert(id.clone(), data);
            id
        })
    }

    fn blob<'a>(
        &'a self,
        owner: &'a Owner,
        id: &'a BlobId,
    ) -> BoxFuture<'a, Result<Option<Blob>, Unreadable>> {
        self.read(|state| {
            let about = state.blobs_of(owner).into_iter().find(|blob| blob.id == *id)?;
            Some(Blob { about, data: state.blobs.get(id)?.clone() })
        })
    }

    fn blobs<'a>(
        &'a self,
        owner: &'a Owner,
        skip: usize,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<BlobRef>, Unreadable>> {
        self.read(|state| state.blobs_of(owner).into_iter().skip(skip).take(limit).collect())
    }
}

/// Records a call of an owner with this file, `TEXT.file`; returns the ids of the blob and the call.
pub(crate) async fn store_blob(
    records: &MemoryRecords,
    owner: &str,
    text: &str,
    mime: &str,
) -> (BlobId, RefId) {
    let count = records.lock().records.len();
    let ref_id = RefId::new(SystemTime::UNIX_EPOCH, (count as u128).to_be_bytes());
    let id = records.keep("DEFAULT", text.as_bytes().to_vec()).await.unwrap();
    let at = SystemTime::UNIX_EPOCH;
    let request = Request {
        ref_id: ref_id.clone(),
        owner: Owner::new(owner),
        session: None,
        tool: "t".into(),
        params: raw::encode(&serde_json::json!({})),
        at,
    };
    records.begin(request).await.unwrap();
    let mime = mime.to_owned();
    let name = Some(format!("{text}.file"));
    let blob = BlobRef { id: id.clone(), mime, name, bytes: text.len() as u64 };
    let response = Response {
        ref_id: ref_id.clone(),
        session: None,
        status: Status::Success,
        result: "{}".into(),
        snapshot: Some("- page".into()),
        console: Vec::new(),
        error: None,
        blobs: vec![blob],
        url: None,
        title: None,
        at,
        took: Duration::ZERO,
    };
    records.end(response).await.unwrap();
    (id, ref_id)
}

/// A name that equal bytes share. It has the form of a SHA-256, and is good enough for a test.
fn name_of(data: &[u8]) -> BlobId {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let part = |seed: u64| {
        let mut hasher = DefaultHasher::new();
        (seed, data).hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    };
    BlobId::parse(&(0..4).map(part).collect::<String>()).unwrap()
}
