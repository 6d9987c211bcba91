//! Opens the store for the records of calls, unless the settings turn records off.

use std::{path::Path, sync::Arc, time::SystemTime};

use greenroom_core::settings::Settings;
use greenroom_engine::run_folder;
use greenroom_store::{Store, StoreSettings};

/// Opens the store without waiting for it: another thread opens the file.
pub fn open(settings: &Settings, process_tag: &str) -> Option<Arc<Store>> {
    let records = &settings.records;
    let blobs = &settings.blobs;
    records.enabled.then(|| {
        // Before `running_tags`: a greenroom that is missing in that list has only sessions that are younger than this.
        let processes_listed_after = SystemTime::now();
        Arc::new(Store::open(StoreSettings {
            folder: folder(settings).to_owned(),
            process_tag: process_tag.to_owned(),
            running_tags: running_tags(&settings.data_dir),
            processes_listed_after,
            max_age: records.max_age,
            bytes_max: records.bytes_max,
            blobs_ttl: blobs.ttl,
            blobs_bytes_max: blobs.bytes_max,
            blobs_per_pool: blobs.per_pool,
        }))
    })
}

/// Where records are kept.
pub fn folder(settings: &Settings) -> &Path {
    settings.records.dir.as_deref().unwrap_or(&settings.data_dir)
}

/// The run folders' names of all greenrooms that run. The store must not end their sessions.
fn running_tags(data: &Path) -> Vec<String> {
    let name = |running: run_folder::RunningGreenroom| Some(running.path.file_name()?.to_str()?.to_owned());
    run_folder::running_greenrooms(data).into_iter().filter_map(name).collect()
}
