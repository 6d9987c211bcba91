//! Which page each session's agent was sent last, so that `responses = auto` can send the changes alone.
//!
//! An agent can apply changes only to a page that it still has. A client may shorten its history at any time, and does
//! not say so. So greenroom sends a page whole when another agent called in between, when the document is another one,
//! and again after [`ANSWERS_MAX`] answers or [`AGE_MAX`]. Entries are per session: a session that was restarted has
//! none. They are in memory only, and limited: the entry that was used longest ago is removed first.

use std::{collections::HashMap, time::Duration};

use greenroom_core::{RefId, SessionUid};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::caller::Reader;

/// After this many answers the page is sent whole again. Clients drop old tool answers first, and keep about this many.
const ANSWERS_MAX: usize = 10;

/// After this time the page is sent whole again: the prompt caches of the large providers last as long, so a
/// conversation that pauses longer is often summarised before it goes on.
const AGE_MAX: Duration = Duration::from_secs(5 * 60);

/// How many sessions are remembered: several times what a machine can run at once.
const SESSIONS_MAX: usize = 4_096;

/// The pages that agents were sent.
#[derive(Default)]
pub struct SentPages(Mutex<HashMap<SessionUid, SentPage>>);

/// The page that the last agent of a session has.
struct SentPage {
    reader: Reader,
    /// The record with the page's snapshot.
    ref_id: RefId,
    document: Option<String>,
    /// When the agent was last sent a whole page.
    whole_at: Instant,
    /// Answers to the agent since then.
    answers: usize,
}

/// How much of a page an answer carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageForm {
    /// All of it, or all that the token budget allows.
    Whole,
    /// What has changed since an earlier page.
    Changes,
}

impl SentPages {
    /// Notes that a call of this session was answered. A caller that greenroom cannot tell from others is `None`.
    pub(crate) fn answered(&self, session: &SessionUid, reader: Option<Reader>) {
        let mut pages = self.0.lock();
        let Some(page) = pages.get_mut(session) else { return };
        if reader == Some(page.reader) {
            page.answers += 1;
        } else {
            pages.remove(session);
        }
    }

    /// Forgets the page of this session: the browser has replaced it without a call.
    pub(crate) fn forget(&self, session: &SessionUid) {
        self.0.lock().remove(session);
    }

    /// The record of the page that this agent has, if an answer about this document can be its changes.
    pub(crate) fn base(
        &self,
        session: &SessionUid,
        reader: Option<Reader>,
        document: Option<&str>,
    ) -> Option<RefId> {
        let pages = self.0.lock();
        let page = pages.get(session)?;
        let is_fresh = page.answers <= ANSWERS_MAX && page.whole_at.elapsed() <= AGE_MAX;
        let is_same = reader == Some(page.reader) && document == page.document.as_deref();
        (is_fresh && is_same).then(|| page.ref_id.clone())
    }

    /// Notes that the agent was sent the page of this record.
    pub(crate) fn sent(
        &self,
        session: &SessionUid,
        reader: Reader,
        ref_id: &RefId,
        document: Option<String>,
        form: PageForm,
    ) {
        let mut pages = self.0.lock();
        let ref_id = ref_id.clone();
        match pages.get_mut(session).filter(|page| page.reader == reader) {
            Some(page) if form == PageForm::Changes => {
                page.ref_id = ref_id;
                page.document = document;
            }
            // An agent that was sent changes without having the page still has no page, so the next answer
            // cannot be changes either.
            None if form == PageForm::Changes => {}
            _ => {
                if pages.len() >= SESSIONS_MAX && !pages.contains_key(session) {
                    let oldest =
                        pages.iter().min_by_key(|(_, page)| page.whole_at).map(|(uid, _)| uid.clone());
                    oldest.map(|uid| pages.remove(&uid));
                }
                let page = SentPage { reader, ref_id, document, whole_at: Instant::now(), answers: 0 };
                pages.insert(session.clone(), page);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use greenroom_core::ConnectionId;

    fn reader(number: u64) -> Reader {
        Reader::Connection(ConnectionId(number))
    }

    fn ref_id(number: u8) -> RefId {
        RefId::new(SystemTime::UNIX_EPOCH, [number; 16])
    }

    fn session(number: u8) -> SessionUid {
        SessionUid::new(SystemTime::UNIX_EPOCH, [number; 16])
    }

    /// Sends this agent the whole page 1 of session 1, document `d`.
    fn begun() -> SentPages {
        let pages = SentPages::default();
        pages.sent(&session(1), reader(1), &ref_id(1), Some("d".to_owned()), PageForm::Whole);
        pages
    }

    fn base(pages: &SentPages, number: u64) -> Option<RefId> {
        pages.base(&session(1), Some(reader(number)), Some("d"))
    }

    /// An agent gets changes of the page it has: not of another session's, another document's or another agent's.
    #[tokio::test]
    async fn changes_are_sent_only_for_the_known_page() {
        let pages = begun();
        assert_eq!(base(&pages, 1), Some(ref_id(1)));
        assert_eq!(base(&pages, 2), None);
        assert_eq!(pages.base(&session(1), None, Some("d")), None);
        assert_eq!(pages.base(&session(1), Some(reader(1)), Some("e")), None);
        assert_eq!(pages.base(&session(1), Some(reader(1)), None), None);
        assert_eq!(pages.base(&session(2), Some(reader(1)), Some("d")), None);
        pages.sent(&session(1), reader(1), &ref_id(2), Some("d".to_owned()), PageForm::Changes);
        assert_eq!(base(&pages, 1), Some(ref_id(2)), "the next changes are since the last ones");
        pages.sent(&session(2), reader(1), &ref_id(3), None, PageForm::Changes);
        assert_eq!(pages.base(&session(2), Some(reader(1)), None), None, "changes alone are no page");
    }

    /// Another caller's call in between makes the page unknown, also one of a caller that has no name.
    #[tokio::test]
    async fn call_of_another_caller_makes_the_page_unknown() {
        for other in [Some(reader(2)), None] {
            let pages = begun();
            pages.answered(&session(1), Some(reader(1)));
            assert_eq!(base(&pages, 1), Some(ref_id(1)));
            pages.answered(&session(1), other);
            assert_eq!(base(&pages, 1), None);
        }
        let pages = begun();
        pages.forget(&session(1));
        assert_eq!(base(&pages, 1), None);
    }

    /// Commands of a session count as one agent's, whichever process each comes from, and apart from a connection.
    #[tokio::test]
    async fn commands_of_a_session_count_as_one_agent() {
        let caller = || crate::caller::Caller::command_line(std::sync::Arc::new(greenroom_core::NoAgent));
        let pages = SentPages::default();
        let document = Some("d".to_owned());
        pages.sent(&session(1), caller().reader().unwrap(), &ref_id(1), document, PageForm::Whole);
        assert_eq!(pages.base(&session(1), caller().reader(), Some("d")), Some(ref_id(1)));
        assert_eq!(base(&pages, 1), None);
    }

    /// The page is sent whole again after enough answers, and after long enough; a whole one begins the count anew.
    #[tokio::test(start_paused = true)]
    async fn whole_page_is_sent_again_after_a_while() {
        let pages = begun();
        for _ in 0..ANSWERS_MAX {
            pages.answered(&session(1), Some(reader(1)));
            assert_eq!(base(&pages, 1), Some(ref_id(1)));
        }
        pages.answered(&session(1), Some(reader(1)));
        assert_eq!(base(&pages, 1), None);
        pages.sent(&session(1), reader(1), &ref_id(2), Some("d".to_owned()), PageForm::Whole);
        assert_eq!(base(&pages, 1), Some(ref_id(2)));
        tokio::time::advance(AGE_MAX).await;
        assert_eq!(base(&pages, 1), Some(ref_id(2)));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(base(&pages, 1), None);
    }

    /// The number of sessions is limited; the session with the oldest page is removed.
    #[tokio::test(start_paused = true)]
    async fn sessions_are_limited() {
        let pages = SentPages::default();
        for number in 0..=SESSIONS_MAX {
            let uid = SessionUid::new(SystemTime::UNIX_EPOCH + Duration::from_millis(number as u64), [0; 16]);
            pages.sent(&uid, reader(1), &ref_id(1), None, PageForm::Whole);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(pages.0.lock().len(), SESSIONS_MAX);
        assert_eq!(pages.base(&session(0), Some(reader(1)), None), None);
    }
}
