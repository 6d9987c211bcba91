//! The store: it implements the port `Records` with a queue, a writer, readers and blob files.
//!
//! Every method that writes puts its operation into the queue before it returns, so the operations are in the order of the
//! calls. Opening returns at once: the writer's thread opens the database, and earlier requests wait for it.

use std::{path::Path, sync::Arc, thread::JoinHandle, time::SystemTime};

use greenroom_core::{
    BlobId, Owner, Records, RefId, SessionUid,
    port::BoxFuture,
    record::{
        Blob, BlobRef, Claim, ConsoleLine, ConsolePart, ConsoleRange, Cursor, Level, Listed, NotRecorded,
        Record, RecordFilter, Request, Response, SessionRef, SessionRow, SessionState, Timeline, Unreadable,
    },
};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::{
    blob_files::{self, BlobFiles},
    op::{BlobUse, Op, ResultSender},
    settings::StoreSettings,
    shared::{DatabasePhase, StoreShared},
    sqlite::{blob_rows, find, open, readers::Readers, timeline::timeline, writer::DatabaseWriter},
};

/// The store of records of this process. Dropping it lets the writer finish what is queued, without waiting for that;
/// [`Store::close`] waits.
pub struct Store {
    shared: Arc<StoreShared>,
    readers: Readers,
    files: Arc<BlobFiles>,
    per_pool: bool,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Store {
    /// Begins to open the store in a data folder. [`Records::health`] tells whether that succeeds.
    pub fn open(settings: StoreSettings) -> Self {
        let shared = Arc::new(StoreShared::new());
        let readers = Readers::new(settings.folder.clone(), shared.clone());
        let files = Arc::new(BlobFiles::new(&settings.folder, &settings.process_tag));
        let per_pool = settings.blobs_per_pool;
        let of_writer = shared.clone();
        let blobs = files.clone();
        let writer = std::thread::Builder::new()
            .name("greenroom-store".to_owned())
            .spawn(move || DatabaseWriter::run(of_writer, settings, blobs))
            .inspect_err(|error| {
                shared.abandon(&format!("no thread for the records: {error}"));
            })
            .ok();
        Self { shared, readers, files, per_pool, writer: Mutex::new(writer) }
    }

    /// The records in a data folder, read-only: for a reader while no process writes there. `None` if the folder has
    /// no database.
    pub fn open_read_only(folder: &Path) -> Option<Self> {
        if !open::exists(folder) {
            return None;
        }
        let shared = Arc::new(StoreShared::for_reading());
        let readers = Readers::new(folder.to_owned(), shared.clone());
        let files = Arc::new(BlobFiles::new(folder, ""));
        Some(Self { shared, readers, files, per_pool: false, writer: Mutex::new(None) })
    }

    /// Writes what is queued, accepts no more, and returns when the database is closed.
    pub async fn close(&self) {
        self.shared.queue.close();
        self.readers.close();
        let writer = self.writer.lock().take();
        let Some(writer) = writer else { return };
        let mut phase = self.shared.phase.subscribe();
        // `shared` holds the sender, so this waits until the writer reports its end.
        let _ = phase.wait_for(|phase| *phase == DatabasePhase::Ended).await;
        // The writer has reported its end, so its thread ends within a few lines.
        let _ = tokio::task::spawn_blocking(move || writer.join()).await;
    }

    fn ask<T: Send + 'static>(
        &self,
        op: impl FnOnce(ResultSender<T>) -> Op,
    ) -> BoxFuture<'static, Result<T, NotRecorded>> {
        let (waiter, answer) = oneshot::channel();
        match self.shared.queue.push(op(waiter)) {
            Err(refused) => Box::pin(std::future::ready(Err(refused))),
            Ok(()) => {
                let shared = self.shared.clone();
                Box::pin(async move { answer.await.unwrap_or_else(|_| Err(shared.ended())) })
            }
        }
    }

    fn pool_of(&self, pool: &str) -> Arc<str> {
        Arc::from(if self.per_pool { pool } else { "" })
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.shared.queue.close();
    }
}

impl Records for Store {
    fn begin(&self, request: Request) -> BoxFuture<'static, Result<(), NotRecorded>> {
        self.ask(|waiter| Op::Begin(request, waiter))
    }

    fn claim(&self, request: Request) -> BoxFuture<'static, Result<Claim, NotRecorded>> {
        self.ask(|waiter| Op::Claim(request, waiter))
    }

    fn end(&self, response: Response) -> BoxFuture<'static, Result<(), NotRecorded>> {
        self.ask(|waiter| Op::End(Box::new(response), waiter))
    }

    fn session_began(
        &self,
        owner: &Owner,
        session: &SessionRef,
    ) -> BoxFuture<'static, Result<(), NotRecorded>> {
        let owner = owner.clone();
        let session = session.clone();
        self.ask(|waiter| Op::SessionBegan(owner, session, SystemTime::now(), waiter))
    }

    fn session_ended(&self, uid: &SessionUid, state: SessionState) {
        if let Err(why) = self.shared.queue.push(Op::SessionEnded(uid.clone(), state, SystemTime::now())) {
            tracing::warn!(%uid, %why, "the end of a session is not recorded");
        }
    }

    fn health(&self) -> Result<(), Arc<str>> {
        self.shared.health()
    }

    fn record<'a>(
        &'a self,
        owner: &'a Owner,
        id: &'a RefId,
    ) -> BoxFuture<'a, Result<Option<Record>, Unreadable>> {
        let owner = owner.clone();
        let id = id.clone();
        Box::pin(self.readers.read(move |connection| find::record(connection, &owner, &id)))
    }

    fn list<'a>(
        &'a self,
        owner: &'a Owner,
        filter: RecordFilter,
    ) -> BoxFuture<'a, Result<Listed, Unreadable>> {
        let owner = owner.clone();
        Box::pin(self.readers.read(move |connection| find::list(connection, &owner, &filter)))
    }

    fn console_part<'a>(
        &'a self,
        owner: &'a Owner,
        id: &'a RefId,
        range: ConsoleRange,
    ) -> BoxFuture<'a, Result<Option<ConsolePart>, Unreadable>> {
        let owner = owner.clone();
        let id = id.clone();
        Box::pin(self.readers.read(move |connection| find::console_part(connection, &owner, &id, range)))
    }

    fn console<'a>(
        &'a self,
        owner: &'a Owner,
        id: &'a RefId,
        level: Option<Level>,
    ) -> BoxFuture<'a, Result<Option<Vec<ConsoleLine>>, Unreadable>> {
        let owner = owner.clone();
        let id = id.clone();
        Box::pin(self.readers.read(move |connection| find::console(connection, &owner, &id, level)))
    }

    fn snapshot_before<'a>(
        &'a self,
        owner: &'a Owner,
        id: &'a RefId,
    ) -> BoxFuture<'a, Result<Option<(RefId, String)>, Unreadable>> {
        let owner = owner.clone();
        let id = id.clone();
        Box::pin(self.readers.read(move |connection| find::snapshot_before(connection, &owner, &id)))
    }

    fn session<'a>(
        &'a self,
        owner: &'a Owner,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<SessionRow>, Unreadable>> {
        let owner = owner.clone();
        let name = name.to_owned();
        Box::pin(self.readers.read(move |connection| find::session(connection, &owner, &name)))
    }

    fn timeline<'a>(
        &'a self,
        owner: &'a Owner,
        session: &'a SessionUid,
        from: u64,
        calls_max: usize,
    ) -> BoxFuture<'a, Result<Timeline, Unreadable>> {
        let owner = owner.clone();
        let session = session.clone();
        Box::pin(self.readers.read(move |connection| timeline(connection, &owner, &session, from, calls_max)))
    }

    fn cursor<'a>(&'a self, id: &'a RefId) -> BoxFuture<'a, Result<Option<Cursor>, Unreadable>> {
        let id = id.clone();
        Box::pin(self.readers.read(move |connection| find::cursor(connection, &id)))
    }

    fn set_cursor(&self, id: &RefId, cursor: Cursor) -> BoxFuture<'static, Result<(), NotRecorded>> {
        let id = id.clone();
        self.ask(|waiter| Op::SetCursor(id, cursor, SystemTime::now(), waiter))
    }

    /// The blob's row is written first, then its file. From then on no process removes the blob, since it was used just
    /// now; in the other order another process could remove a file that this one has found in place, before its row is
    /// written.
    fn keep(&self, pool: &str, data: Vec<u8>) -> BoxFuture<'static, Result<BlobId, NotRecorded>> {
        let shared = self.shared.clone();
        let files = self.files.clone();
        let pool = self.pool_of(pool);
        Box::pin(async move {
            let hashed = tokio::task::spawn_blocking(move || (blob_files::name(&data), data));
            let (Some(id), data) = hashed.await.map_err(|_| shared.ended())? else {
                return Err(shared.ended());
            };
            let bytes = u64::try_from(data.len()).unwrap_or(u64::MAX);
            let used = BlobUse { id: id.clone(), pool: pool.clone(), bytes, at: SystemTime::now() };
            let (waiter, answer) = oneshot::channel();
            shared.queue.push(Op::UseBlob(used, Some(waiter)))?;
            answer.await.unwrap_or_else(|_| Err(shared.ended()))?;
            let named = id.clone();
            let written = tokio::task::spawn_blocking(move || files.write(&pool, &named, &data));
            let written = written.await.map_err(|_| shared.ended())?;
            written
                .map_err(|error| NotRecorded(Arc::from(format!("cannot write the blob {id}: {error}"))))?;
            Ok(id)
        })
    }

    fn blob<'a>(
        &'a self,
        owner: &'a Owner,
        id: &'a BlobId,
    ) -> BoxFuture<'a, Result<Option<Blob>, Unreadable>> {
        Box::pin(async move {
            let whose = owner.clone();
            let named = id.clone();
            let found =
                self.readers.read(move |connection| blob_rows::blob(connection, &whose, &named)).await?;
            let Some((about, pools)) = found else { return Ok(None) };
            let files = self.files.clone();
            let named = id.clone();
            let read = tokio::task::spawn_blocking(move || {
                for pool in pools {
                    if let Some(data) = files.read(&pool, &named)? {
                        return Ok(Some((pool, data)));
                    }
                }
                Ok(None)
            });
            let read: Result<_, std::io::Error> = read.await.map_err(|error| unreadable(id, &error))?;
            let Some((pool, data)) = read.map_err(|error| unreadable(id, &error))? else { return Ok(None) };
            let used = BlobUse { id: id.clone(), pool, bytes: about.bytes, at: SystemTime::now() };
            if let Err(why) = self.shared.queue.push(Op::UseBlob(used, None)) {
                tracing::debug!(%why, "the use of a blob is not recorded");
            }
            Ok(Some(Blob { about, data }))
        })
    }

    fn blobs<'a>(
        &'a self,
        owner: &'a Owner,
        skip: usize,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<BlobRef>, Unreadable>> {
        let owner = owner.clone();
        Box::pin(self.readers.read(move |connection| blob_rows::blobs(connection, &owner, skip, limit)))
    }
}

fn unreadable(id: &BlobId, error: &dyn std::error::Error) -> Unreadable {
    Unreadable(Arc::from(format!("blob {id}: {error}")))
}
