//! What a backup has, for people.

use greenroom_store::backup::BackupSummary;

use super::text::{bytes, count, escape};

pub fn made(summary: &BackupSummary) -> String {
    let folder = escape(&summary.folder.display().to_string());
    format!(
        "backed up {} to {folder}\n{}\nrestore it with `greenroom restore {folder}` into an empty data folder\n",
        contents(summary),
        left_out(summary)
    )
}

pub fn restored(summary: &BackupSummary) -> String {
    let folder = escape(&summary.folder.display().to_string());
    format!("restored {} of {} into {folder}\n", contents(summary), escape(&summary.made_at))
}

fn contents(summary: &BackupSummary) -> String {
    let number = |figure: u64, what: &str| count(usize::try_from(figure).unwrap_or(usize::MAX), what);
    let blobs = format!("{} ({})", number(summary.blobs, "blob"), bytes(summary.blob_bytes));
    let files: String = summary.files.iter().map(|file| format!(", {}", escape(file))).collect();
    format!("{}, {blobs}{files}", number(summary.records, "call"))
}

/// What a reader could expect in a backup, and is not there.
fn left_out(summary: &BackupSummary) -> String {
    let profiles = "not in it: installed engines, persistent profiles, configuration files";
    match summary.missing_blobs {
        0 => profiles.to_owned(),
        missing => format!("{profiles}, and {missing} blobs that retention has removed"),
    }
}
