//! Downloads that the browser does not announce: those whose frame is gone when they begin, as when a page removes the frame
//! in which it clicked on a link. The engine does not know them, so no agent ever gets them; their files would only fill the
//! disk, outside of every account. greenroom finds them by their files, and cancels them.

use std::{
    collections::{HashMap, HashSet},
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::time::sleep;

use super::instance::PlaywrightState;
use crate::{disk_use::MEASURE_EVERY, downloads::Downloads};

/// How many files of the folder one scan reads. The next scan reads others, since these are removed.
const FILES_MAX: usize = 1024;

/// In how many scans in a row a download must be missing from every account. On a busy machine its event may come
/// seconds after its file.
const SIGHTINGS_MIN: u32 = 4;

/// The suffix of a file while it is being written.
const UNFINISHED: &str = ".crdownload";

impl PlaywrightState {
    /// Removes unannounced downloads as long as the instance lives.
    pub(super) async fn remove_unannounced_downloads(self: Arc<Self>) {
        let Some(downloads) = &self.downloads else { return };
        let mut sightings: HashMap<UnannouncedDownload, u32> = HashMap::new();
        loop {
            sleep(MEASURE_EVERY).await;
            let known = downloads.clone();
            let listed_blocking =
                tokio::task::spawn_blocking(move || unannounced_in_folders(known.folders(), &known));
            let Ok(found) = listed_blocking.await else { continue };
            let counted = found.into_iter().map(|unannounced| {
                let before = sightings.get(&unannounced).copied().unwrap_or_default();
                (unannounced, before + 1)
            });
            sightings = counted.collect();
            for (unannounced, _) in sightings.iter().filter(|(_, count)| **count >= SIGHTINGS_MIN) {
                tracing::warn!(
                    guid = unannounced.guid,
                    "removing a download that the browser did not announce"
                );
                self.observer().cancel_download(&unannounced.guid).await;
                unannounced.remove().await;
            }
        }
    }
}

/// A download that is missing from every account.
#[derive(Debug, PartialEq, Eq, Hash)]
struct UnannouncedDownload {
    folder: PathBuf,
    guid: String,
}

impl UnannouncedDownload {
    /// Removes its file, complete or not. The browser may have removed it when it cancelled the download.
    async fn remove(&self) {
        for name in [self.guid.clone(), format!("{}{UNFINISHED}", self.guid)] {
            if let Err(error) = tokio::fs::remove_file(self.folder.join(name)).await
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(guid = self.guid, %error, "cannot remove the file of an unannounced download");
            }
        }
    }
}

/// The downloads in these folders that are missing from every account. An unreadable folder counts as empty.
fn unannounced_in_folders(
    folders: impl IntoIterator<Item = PathBuf>,
    downloads: &Downloads,
) -> HashSet<UnannouncedDownload> {
    let mut found = HashSet::new();
    for folder in folders {
        match unannounced_in_folder(&folder, downloads) {
            Ok(guids) => {
                found.extend(
                    guids.into_iter().map(|guid| UnannouncedDownload { folder: folder.clone(), guid }),
                );
            }
            Err(error) => tracing::debug!(%error, "cannot read a folder of downloads"),
        }
    }
    found
}

/// The downloads in a folder that are missing from every account.
fn unannounced_in_folder(folder: &Path, downloads: &Downloads) -> io::Result<HashSet<String>> {
    let mut found = HashSet::new();
    let listed = match fs::read_dir(folder) {
        Ok(listed) => listed,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(error),
    };
    for entry in listed {
        let name = entry?.file_name();
        let Some(guid) = name.to_str().and_then(guid_of) else { continue };
        if !downloads.is_announced(guid) {
            found.insert(guid.to_owned());
        }
        if found.len() == FILES_MAX {
            break;
        }
    }
    Ok(found)
}

/// The GUID of a download by the name of its file. The engine's other files have other names.
fn guid_of(name: &str) -> Option<&str> {
    let guid = name.strip_suffix(UNFINISHED).unwrap_or(name);
    let is_guid = guid.len() == 36 && uuid::Uuid::try_parse(guid).is_ok();
    is_guid.then_some(guid)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of announced downloads, and all other files, are left alone.
    #[test]
    fn only_unannounced_downloads_are_found() {
        const KNOWN: &str = "c36d6cea-013e-46be-b8fa-644da7f07f34";
        const UNKNOWN: &str = "a9cb6592-9d0c-4f0d-8ba2-d919b3b4a152";
        let folder = tempfile::tempdir().unwrap();
        let downloads = Downloads::new(1 << 20);
        downloads.on_begin(KNOWN, &None);
        for name in [KNOWN, "trace-1.trace", "c36d6cea013e46beb8fa644da7f07f34", "resources"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(unannounced_in_folder(folder.path(), &downloads).unwrap(), HashSet::new());
        fs::write(folder.path().join(format!("{UNKNOWN}{UNFINISHED}")), "").unwrap();
        assert_eq!(
            unannounced_in_folder(folder.path(), &downloads).unwrap(),
            HashSet::from([UNKNOWN.to_owned()])
        );
        assert_eq!(
            unannounced_in_folder(&folder.path().join("nothing"), &downloads).unwrap(),
            HashSet::new()
        );
    }
    /// They are found in every folder, even if another one cannot be read, and removed without touching other files.
    #[tokio::test]
    async fn unannounced_downloads_are_found_in_every_folder() {
        const GUIDS: [&str; 2] =
            ["c36d6cea-013e-46be-b8fa-644da7f07f34", "a9cb6592-9d0c-4f0d-8ba2-d919b3b4a152"];
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let file = tempfile::NamedTempFile::new().unwrap();
        let downloads = Downloads::new(1 << 20);
        downloads.set_folder(Some("0".to_owned()), file.path());
        for (context, (folder, guid)) in ["1", "2"].into_iter().zip(folders.iter().zip(GUIDS)) {
            downloads.set_folder(Some(context.to_owned()), folder.path());
            fs::write(folder.path().join(format!("{guid}{UNFINISHED}")), "").unwrap();
            fs::write(folder.path().join("other"), "").unwrap();
        }
        let found = unannounced_in_folders(downloads.folders(), &downloads);
        let expected = folders.iter().zip(GUIDS);
        let expected = expected.map(|(folder, guid)| UnannouncedDownload {
            folder: folder.path().to_owned(),
            guid: guid.to_owned(),
        });
        assert_eq!(found, expected.collect());
        for unannounced in found {
            unannounced.remove().await;
        }
        for folder in &folders {
            let left: Vec<_> =
                fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(left, ["other"]);
        }
    }
}
