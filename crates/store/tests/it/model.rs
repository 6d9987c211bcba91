//! Random operations, compared with a model in memory: the store answers as the model does, before and after a reopen.

use std::{collections::HashMap, sync::Arc, time::Duration};

use greenroom_core::{
    Owner, Records as _, RefId,
    record::{Claim, ConsoleLine, Cursor, Level, RecordFilter, Request, Response, SessionRef, Status},
};
use greenroom_store::Store;
use proptest::prelude::*;

use crate::kit::{folder, name, now, open, request, response, session, soon};

/// How many names, owners and sessions the random operations choose from: few enough that they collide.
const NAMES: usize = 6;
const OWNERS: usize = 2;
const SESSIONS: usize = 2;

#[derive(Debug, Clone)]
enum Step {
    Claim { name: usize, owner: usize, session: Option<usize> },
    Begin { name: usize, owner: usize },
    End { name: usize, session: Option<usize>, failed: bool, snapshot: Option<u8>, lines: u8 },
    Cursor { name: usize, position: u64 },
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let names = 0..NAMES;
    let owners = 0..OWNERS;
    let session = proptest::option::of(0..SESSIONS);
    prop_oneof![
        4 => (names.clone(), owners.clone(), session.clone())
            .prop_map(|(name, owner, session)| Step::Claim { name, owner, session }),
        2 => (names.clone(), owners).prop_map(|(name, owner)| Step::Begin { name, owner }),
        5 => (names.clone(), session, any::<bool>(), proptest::option::of(any::<u8>()), 0..3_u8)
            .prop_map(|(name, session, failed, snapshot, lines)| Step::End { name, session, failed, snapshot, lines }),
        2 => (names, 0..9_u64).prop_map(|(name, position)| Step::Cursor { name, position }),
        1 => Just(Step::Reopen),
    ]
}

/// A record in the model.
struct ModelRecord {
    request: Request,
    session: Option<SessionRef>,
    response: Option<Response>,
    cursor: Option<Cursor>,
}

struct StoreModel {
    names: Vec<RefId>,
    owners: Vec<Owner>,
    sessions: Vec<SessionRef>,
    kept: HashMap<RefId, ModelRecord>,
    /// In the order in which they began.
    order: Vec<RefId>,
}

impl StoreModel {
    fn new() -> Self {
        Self {
            names: (0..NAMES).map(|_| name()).collect(),
            owners: (0..OWNERS).map(|number| Owner::new(&format!("owner {number}"))).collect(),
            sessions: (0..SESSIONS).map(|number| session(&format!("session {number}"))).collect(),
            kept: HashMap::new(),
            order: Vec::new(),
        }
    }

    fn begin(&mut self, request: Request) {
        self.order.push(request.ref_id.clone());
        let kept = ModelRecord { session: request.session.clone(), request, response: None, cursor: None };
        self.kept.insert(kept.request.ref_id.clone(), kept);
    }

    async fn take(&mut self, step: Step, store: &Store) {
        match step {
            Step::Claim { name, owner, session } => {
                let session = session.map(|session| self.sessions[session].clone());
                let request = Request {
                    ref_id: self.names[name].clone(),
                    ..request(&self.owners[owner], session.as_ref())
                };
                let claim = soon(store.claim(request.clone())).await.unwrap();
                match (claim, self.kept.get(&request.ref_id)) {
                    (Claim::New, None) => self.begin(request),
                    (Claim::Repeat(record), Some(kept)) if kept.request.owner == request.owner => {
                        let result = kept.response.as_ref().map(|response| response.result.to_string());
                        assert_eq!(record.result, result);
                    }
                    (Claim::Taken, Some(kept)) if kept.request.owner != request.owner => {}
                    (claim, _) => panic!("{claim:?}"),
                }
            }
            Step::Begin { name, owner } => {
                let request =
                    Request { ref_id: self.names[name].clone(), ..request(&self.owners[owner], None) };
                // Only new names begin without a claim.
                if !self.kept.contains_key(&request.ref_id) {
                    soon(store.begin(request.clone())).await.unwrap();
                    self.begin(request);
                }
            }
            Step::End { name, session, failed, snapshot, lines } => {
                let mut ended = response(&self.names[name]);
                ended.session = session.map(|session| self.sessions[session].clone());
                ended.status = if failed { Status::Error } else { Status::Success };
                ended.error = failed.then(|| "failed".to_owned());
                ended.result = Arc::from(format!("{{\"by\":{name}}}"));
                ended.snapshot = snapshot.map(|letter| Arc::from(format!("page {letter}")));
                ended.console = (0..lines).map(line).collect();
                let outcome = soon(store.end(ended.clone())).await;
                let kept = self.kept.get_mut(&ended.ref_id).filter(|kept| kept.response.is_none());
                assert_eq!(outcome.is_ok(), kept.is_some());
                if let Some(kept) = kept {
                    kept.session = ended.session.clone().or(kept.session.take());
                    kept.response = Some(ended);
                }
            }
            Step::Cursor { name, position } => {
                let cursor = Cursor { position, hash: position.to_string() };
                let set = soon(store.set_cursor(&self.names[name], cursor.clone())).await;
                let kept = self.kept.get_mut(&self.names[name]);
                assert_eq!(set.is_ok(), kept.is_some());
                if let Some(kept) = kept {
                    kept.cursor = Some(cursor);
                }
            }
            Step::Reopen => {}
        }
    }

    /// Compares everything that can be read with the model, for every owner.
    async fn compare(&self, store: &Store) {
        for owner in &self.owners {
            for id in &self.names {
                let kept = self.kept.get(id).filter(|kept| kept.request.owner == *owner);
                let record = soon(store.record(owner, id)).await.unwrap();
                assert_eq!(record.is_some(), kept.is_some());
                let (Some(kept), Some(record)) = (kept, record) else { continue };
                assert_eq!(record.summary.session, kept.session);
                assert_eq!(record.params.get(), kept.request.params.get());
                let response = kept.response.as_ref();
                assert_eq!(record.snapshot.as_deref(), response.and_then(|one| one.snapshot.as_deref()));
                assert_eq!(record.summary.outcome.map(|one| one.status), response.map(|one| one.status));
                let console = soon(store.console(owner, id, None)).await.unwrap().unwrap();
                assert_eq!(console, response.map(|one| one.console.clone()).unwrap_or_default());
                assert_eq!(soon(store.cursor(id)).await.unwrap(), kept.cursor);
                let before = soon(store.snapshot_before(owner, id)).await.unwrap();
                assert_eq!(before, self.snapshot_before(id));
            }
            for session in std::iter::once(None).chain(self.sessions.iter().map(Some)) {
                for status in [None, Some(Status::Success), Some(Status::Error)] {
                    let filter = RecordFilter {
                        session: session.map(|one| one.uid.clone()),
                        status,
                        limit: 99,
                        ..RecordFilter::default()
                    };
                    let listed = soon(store.list(owner, filter)).await.unwrap();
                    let listed: Vec<_> = listed.summaries.into_iter().map(|summary| summary.ref_id).collect();
                    assert_eq!(listed, self.list(owner, session, status));
                }
            }
        }
    }

    fn list(&self, owner: &Owner, session: Option<&SessionRef>, status: Option<Status>) -> Vec<RefId> {
        let newest = self.order.iter().rev().filter(|id| {
            let kept = &self.kept[id];
            kept.request.owner == *owner
                && session.is_none_or(|session| kept.session.as_ref() == Some(session))
                && status.is_none_or(|status| kept.response.as_ref().map(|one| one.status) == Some(status))
        });
        newest.cloned().collect()
    }

    fn snapshot_before(&self, id: &RefId) -> Option<(RefId, String)> {
        let kept = &self.kept[id];
        let of_session = kept.session.as_ref()?;
        let earlier = self.order.iter().take_while(|one| *one != id).collect::<Vec<_>>();
        earlier.into_iter().rev().find_map(|id| {
            let one = &self.kept[id];
            let same = one.request.owner == kept.request.owner && one.session.as_ref() == Some(of_session);
            let snapshot = one.response.as_ref().filter(|_| same)?.snapshot.as_ref()?;
            Some((id.clone(), snapshot.to_string()))
        })
    }
}

fn line(number: u8) -> ConsoleLine {
    let level = Level::ALL[usize::from(number) % 4];
    let at = Some(now() - Duration::from_secs(u64::from(number)));
    ConsoleLine { level, message: format!("line {number}"), at, location: None }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// After any operations in any order, the store has what the model has.
    #[test]
    fn the_store_is_as_the_model(steps in proptest::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let folder = folder();
            let mut store = open(folder.path());
            let mut world = StoreModel::new();
            for step in steps {
                if matches!(step, Step::Reopen) {
                    world.compare(&store).await;
                    soon(store.close()).await;
                    store = open(folder.path());
                }
                world.take(step, &store).await;
            }
            world.compare(&store).await;
            soon(store.close()).await;
        });
    }
}
