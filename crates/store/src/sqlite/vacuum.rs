//! `greenroom db vacuum`: removes old records and blobs, and makes the file small.

use serde::Serialize;

use super::{Failure, checkpoint, figures, open};
use crate::{
    blob_files::BlobFiles,
    retention::{Removed, Round},
    settings::StoreSettings,
};

/// What a vacuum has done.
#[derive(Debug, Serialize)]
pub struct Vacuumed {
    #[serde(flatten)]
    pub removed: Removed,
    pub bytes_before: u64,
    pub bytes_after: u64,
    /// Whether the whole file was rewritten.
    pub whole: bool,
}

pub(crate) fn vacuum(settings: &StoreSettings, alone: bool) -> Result<Vacuumed, Failure> {
    let bytes_before = figures::bytes(&settings.folder);
    let mut opened = open::open(&settings.folder)?;
    let files = BlobFiles::new(&settings.folder, &settings.process_tag);
    let mut round = Round::default();
    while round.slice(&mut opened.connection, &files, settings)? {}
    if alone {
        opened.connection.execute_batch("VACUUM")?;
    }
    checkpoint::whole(&open::checkpointer(&settings.folder)?)?;
    drop(opened);
    let bytes_after = figures::bytes(&settings.folder);
    Ok(Vacuumed { removed: round.removed, bytes_before, bytes_after, whole: alone })
}
