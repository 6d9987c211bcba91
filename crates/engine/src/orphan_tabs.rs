//! Tabs and contexts that greenroom opened in attached browsers and could not close: it was killed, or could not reach the
//! browser any more.
//!
//! While an instance lives, its list of tabs is in its own folder. If the instance cannot close them, the list is moved to a
//! folder that all greenrooms of a data folder share, and the next greenroom that attaches to that browser closes them. A
//! tab's id is long and random: the browser that has a tab of that id is the one in which it was opened.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::{
    observer::Observer,
    run_folder::{RunFolder, make_private},
};

/// An instance's list, in its folder: a line for each tab and each context, a keyword and its id.
pub(crate) const LIST: &str = "tabs";

/// The folder of lists whose instance is gone, next to the run folders. Names of run folders begin with a number, so
/// greenroom does not take it for one.
const ORPHANS_FOLDER: &str = "left";

/// How long such a list is kept. A browser to which no greenroom attached for so long has mostly been restarted, and its
/// tabs have other ids then.
const KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 3600);

/// How many lists are read. Each is from one greenroom that was killed or could not reach a browser; more mean that
/// something else is wrong.
const LISTS_MAX: usize = 256;

/// A list is read up to this size: a line has 40 bytes, so this holds the tabs of a session that opens one every second for
/// more than a day.
const LIST_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The keyword of lines that name a context.
const CONTEXT: &str = "context";

/// The tabs of a list.
pub(crate) fn tab_ids(list: &str) -> Vec<String> {
    entries(list).filter(|(keyword, _)| *keyword != CONTEXT).map(|(_, id)| id.to_owned()).collect()
}

/// The contexts of a list, which the engine made for its tabs.
pub(crate) fn context_ids(list: &str) -> Vec<String> {
    entries(list).filter(|(keyword, _)| *keyword == CONTEXT).map(|(_, id)| id.to_owned()).collect()
}

fn entries(list: &str) -> impl Iterator<Item = (&str, &str)> {
    list.lines().filter_map(|line| line.split_once(' '))
}

/// A list's text; empty if there is none. If it cannot be read, the log says so: its tabs stay open.
pub(crate) async fn read(list: &Path) -> String {
    match greenroom_files::unblocked::read_text(list, LIST_BYTES_MAX).await {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => {
            tracing::warn!(%error, list = %list.display(), "cannot read a list of tabs");
            String::new()
        }
    }
}

/// Keeps the lists of a run folder whose owner is dead, before the folder is removed.
pub(crate) fn keep_lists_of_dead(run: &Path) {
    let Ok(instances) = fs::read_dir(run.join("instances")) else { return };
    for list in instances.flatten().map(|instance| instance.path().join(LIST)).filter(|list| list.is_file()) {
        keep_list(run, &list);
    }
}

/// Keeps a list whose tabs could not be closed.
pub(crate) fn keep_list(run: &Path, list: &Path) {
    let Some(folder) = run.parent().map(|runs| runs.join(ORPHANS_FOLDER)) else { return };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let moved = make_private(&folder)
        .and_then(|()| fs::rename(list, folder.join(format!("{now}-{}", std::process::id()))));
    if let Err(error) = moved {
        tracing::warn!(%error, list = %list.display(), "tabs stay open in a browser, and their list cannot be kept");
    }
}

/// Closes the tabs and contexts that other instances left in this browser.
pub(crate) async fn close_orphans(run: &RunFolder, observer: &Observer) {
    let Some(folder) = run.path().parent().map(|runs| runs.join(ORPHANS_FOLDER)) else { return };
    for list in orphan_lists(&folder) {
        match close_listed(observer, &read(&list).await).await {
            Ok(0) if !is_old(&list) => {}
            Ok(closed) => {
                tracing::info!(closed, "closed tabs and contexts that were left behind in a browser");
                let _ = fs::remove_file(&list);
            }
            Err(error) => tracing::debug!(%error, "cannot close tabs that were left behind"),
        }
    }
}

/// Closes the tabs and contexts of a list that are in this browser, contexts last, and returns how many these were.
pub(crate) async fn close_listed(observer: &Observer, list: &str) -> Result<usize, greenroom_cdp::Error> {
    let tabs = observer.close_orphan_tabs(&tab_ids(list)).await?;
    Ok(tabs + observer.dispose_orphan_contexts(&context_ids(list)).await?)
}

fn orphan_lists(folder: &Path) -> Vec<PathBuf> {
    let Ok(files) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = files.flatten().map(|entry| entry.path()).collect();
    // The names sort by time.
    paths.sort();
    paths.split_off(paths.len().saturating_sub(LISTS_MAX))
}

fn is_old(list: &Path) -> bool {
    let age = |time: SystemTime| time.elapsed().map_err(io::Error::other);
    fs::metadata(list).and_then(|data| data.modified()).and_then(age).is_ok_and(|age| age > KEPT_FOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lists of a dead greenroom outlive its folder, in a shared one; those of a living greenroom stay in place.
    #[test]
    fn lists_of_dead_greenrooms_are_kept() {
        let data = tempfile::tempdir().unwrap();
        let running = RunFolder::claim(data.path()).unwrap();
        let dead = data.path().join("run/4194304-1-0");
        for (run, instance) in [(running.path(), "0"), (&dead, "1"), (&dead, "2")] {
            let folder = run.join("instances").join(instance);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(LIST), format!("opened {instance}\nown {instance}\n")).unwrap();
        }
        crate::run_folder::reap(data.path());
        let kept_lists = orphan_lists(&data.path().join("run").join(ORPHANS_FOLDER));
        let tabs: Vec<_> =
            kept_lists.iter().map(|list| tab_ids(&fs::read_to_string(list).unwrap())[0].clone()).collect();
        assert_eq!(tabs.len(), 2);
        assert!(tabs.contains(&"1".to_owned()) && tabs.contains(&"2".to_owned()), "{tabs:?}");
        assert!(running.path().join("instances/0").join(LIST).is_file() && !dead.exists());
        assert_eq!(crate::run_folder::leftover_run_folders(data.path()), Vec::<PathBuf>::new());
        assert!(!is_old(&kept_lists[0]));
    }
}
