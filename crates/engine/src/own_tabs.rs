//! The tabs of a seat in a browser whose other tabs belong to its user.
//!
//! greenroom opens a tab for such a seat first. The engine drives only that tab and those it opens, unless its agent selects
//! another, and closes no others. No engine has an option for that, so a script in its process, the tab guard, restricts
//! it to these tabs. Both sides list the tabs in a file: greenroom writes `opened ID`, the script `own ID`, and
//! `context ID` for a context that the engine made. A later greenroom finds the file if this one was killed
//! ([`orphan_tabs`]).

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use greenroom_core::StartError;

use crate::{
    observer::{Observer, ReplacementTab, Scope, TabPosition},
    orphan_tabs::{self, LIST, context_ids, tab_ids},
    run_folder::{RunFolder, private_file},
};

/// The tabs of one seat.
pub(crate) struct OwnTabs {
    list: PathBuf,
    scope: u64,
    /// How many bytes of the list have been read.
    read: u64,
    replacement: ReplacementTab,
}

impl OwnTabs {
    /// Opens the first tab at an address. The engine finds it there when it connects to the browser.
    pub(crate) async fn open(
        observer: &Observer,
        instance: &Path,
        url: &str,
        position: TabPosition,
    ) -> Result<(Self, String), StartError> {
        let failed = |error: greenroom_cdp::Error| StartError::new(format!("cannot open a tab: {error}"));
        let scope = observer.new_scope();
        let others = observer.count_other_tabs(&Scope::SeatTabs(scope)).await.map_err(failed)?;
        // If the browser had no tab before, greenroom leaves it without one.
        let replacement = if others == 0 { ReplacementTab::Never } else { ReplacementTab::IfNoOther };
        let tab = observer.open_tab(url, position).await.map_err(failed)?;
        observer.claim_tabs(scope, vec![tab.clone()]).await;
        let mut own = Self { list: instance.join(LIST), scope, read: 0, replacement };
        if let Err(error) = own.append_to_list(&tab) {
            own.close(observer).await.map_err(failed)?;
            return Err(StartError::new(format!("cannot write to the data folder: {error}")));
        }
        Ok((own, tab))
    }

    fn append_to_list(&self, tab: &str) -> io::Result<()> {
        let mut list = private_file().create(true).append(true).open(&self.list)?;
        list.write_all(format!("opened {tab}\n").as_bytes())
    }

    pub(crate) fn scope(&self) -> Scope {
        Scope::SeatTabs(self.scope)
    }

    /// Whether the engine keeps to this tab.
    pub(crate) async fn is_claimed_by_engine(&self, tab: &str) -> bool {
        let list = orphan_tabs::read(&self.list).await;
        list.lines().any(|line| line.strip_prefix("own ") == Some(tab))
    }

    /// Notes tabs that the engine has made. Cheap if there are none.
    pub(crate) async fn note_new_tabs(&mut self, observer: &Observer) {
        let length = fs::metadata(&self.list).map_or(0, |list| list.len());
        if length == self.read {
            return;
        }
        self.read = length;
        let list = orphan_tabs::read(&self.list).await;
        observer.claim_tabs(self.scope, tab_ids(&list)).await;
    }

    /// Closes the tabs, and returns when they are closed. Disposes of contexts that the engine made for them, too.
    pub(crate) async fn close(&mut self, observer: &Observer) -> Result<(), greenroom_cdp::Error> {
        self.note_new_tabs(observer).await;
        observer.close_tabs(&self.scope(), self.replacement).await?;
        for context in context_ids(&orphan_tabs::read(&self.list).await) {
            observer.dispose(&context).await;
        }
        Ok(())
    }
}

/// Makes sure, at the end of an instance, that no tab or context of any seat stays open; or that the next instance closes
/// it.
pub(crate) async fn close_remaining_tabs(observer: &Observer, run: &RunFolder, instance: &Path) {
    let list = instance.join(LIST);
    let text = orphan_tabs::read(&list).await;
    if text.is_empty() {
        return;
    }
    if let Err(error) = orphan_tabs::close_listed(observer, &text).await {
        tracing::debug!(%error, "tabs stay open in a browser");
        orphan_tabs::keep_list(run.path(), &list);
    }
}
