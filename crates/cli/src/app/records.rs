//! Opens the store for the records of calls, unless the settings turn records off.

use std::{path::Path, sync::Arc, time::SystemTime};

use greenroom_core::settings::Settings;
use greenroom_engine::run_folder;
use greenroom_store::{Store, StoreSettings};

/// Opens the store without waiting for it: another thread opens the file.
pub fn open(settings: &Settings, run: &str) -> Option<Arc<Store>> {
    let records = &settings.records;
    let blobs = &settings.blobs;
    records.enabled.then(|| {
        // First: sessions of a greenroom that starts after the list is read are younger than this.
        let began = SystemTime::now();
        Arc::new(Store::open(StoreSettings {
            folder: folder(settings).to_owned(),
            run: run.to_owned(),
            running_tags: running_tags(&settings.data_dir),
            began,
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

/// The names of all living processes, whose sessions go on.
fn running_tags(data: &Path) -> Vec<String> {
    let name = |running: run_folder::RunningGreenroom| Some(running.path.file_name()?.to_str()?.to_owned());
    run_folder::running_greenrooms(data).into_iter().filter_map(name).collect()
}
