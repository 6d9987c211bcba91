//! Which of several pages keeps a thread busy: a search by halves. Pure.

use crate::overload::usage::ProcessId;

/// All pages are stopped at first. In turn a group of them goes on, and the search is told whether the thread is busy then.
pub(super) struct Search {
    /// The least suspicious first, so that most pages go on early, and that the most suspicious one is found without being
    /// continued.
    suspects: Vec<ProcessId>,
}

impl Search {
    pub(super) fn new(suspects: Vec<ProcessId>) -> Self {
        Self { suspects }
    }

    /// The pages to continue next. `None` once the search is over.
    pub(super) fn group(&self) -> Option<Vec<ProcessId>> {
        (self.suspects.len() > 1).then(|| self.suspects[..self.suspects.len() / 2].to_vec())
    }

    /// The last group went on. If the thread was busy then, its pages have to be stopped again.
    pub(super) fn saw(&mut self, is_busy: bool) {
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

    /// Each page is found, whatever its place; the most suspicious one without being continued.
    #[test]
    fn finds_each() {
        for count in 1..12 {
            let pages: Vec<_> = (1..=count).map(|pid| ProcessId { pid, started: 1 }).collect();
            for guilty in &pages {
                let mut search = Search::new(pages.clone());
                let mut went_on = false;
                let mut steps = 0;
                while let Some(group) = search.group() {
                    assert_eq!(search.found(), None);
                    went_on |= group.contains(guilty);
                    search.saw(group.contains(guilty));
                    steps += 1;
                }
                assert_eq!(search.found(), Some(*guilty));
                assert_eq!(!went_on, guilty.pid == count, "page {} of {count}", guilty.pid);
                assert!(steps <= 4);
            }
        }
        assert!(Search::new(Vec::new()).group().is_none() && Search::new(Vec::new()).found().is_none());
    }
}
