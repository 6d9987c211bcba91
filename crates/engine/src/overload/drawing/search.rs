//! Which of several pages keeps a thread busy: a search by halves. Pure.

use crate::overload::usage::ProcessId;

/// The caller has stopped all pages. It continues one group after the other, and tells the search whether the thread
/// was busy then.
pub(super) struct Search {
    /// The least suspicious first, so that most pages go on early, and the search finds the most suspicious one without
    /// continuing it.
    suspects: Vec<ProcessId>,
}

impl Search {
    pub(super) fn new(suspects: Vec<ProcessId>) -> Self {
        Self { suspects }
    }

    /// The pages to continue next. `None` once the search is over.
    pub(super) fn next_group(&self) -> Option<Vec<ProcessId>> {
        (self.suspects.len() > 1).then(|| self.suspects[..self.suspects.len() / 2].to_vec())
    }

    /// The caller has continued the last group. If the thread was busy then, its pages have to be stopped again.
    pub(super) fn record_result(&mut self, is_busy: bool) {
        let others = self.suspects.split_off(self.suspects.len() / 2);
        if !is_busy {
            self.suspects = others;
        }
    }

    /// The page that keeps the thread busy, once the search is over.
    pub(super) fn found(&self) -> Option<ProcessId> {
        if let [found] = self.suspects[..] { Some(found) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The search finds each page, whatever its position; the most suspicious one without continuing it.
    #[test]
    fn finds_each_page() {
        for count in 1..12 {
            let pages: Vec<_> = (1..=count).map(|pid| ProcessId { pid, started: 1 }).collect();
            for guilty in &pages {
                let mut search = Search::new(pages.clone());
                let mut was_continued = false;
                let mut steps = 0;
                while let Some(group) = search.next_group() {
                    assert_eq!(search.found(), None);
                    was_continued |= group.contains(guilty);
                    search.record_result(group.contains(guilty));
                    steps += 1;
                }
                assert_eq!(search.found(), Some(*guilty));
                assert_eq!(!was_continued, guilty.pid == count, "page {} of {count}", guilty.pid);
                assert!(steps <= 4);
            }
        }
        assert!(Search::new(Vec::new()).next_group().is_none() && Search::new(Vec::new()).found().is_none());
    }
}
