//! The figures of the records, for people.

use std::fmt::Write as _;

use greenroom_store::maintenance::{OwnerStats, Stats, Vacuumed};

use super::{
    table::{Cell, table},
    terminal::Terminal,
    text::{bytes, count, escape, id},
};

/// How many records and blobs there are, how large they are, and since when.
pub fn stats(stats: &Stats, terminal: Terminal) -> String {
    let kept = |table: &str, one: &str| {
        let rows = stats.rows.get(table).copied().unwrap_or_default();
        count(usize::try_from(rows).unwrap_or(usize::MAX), one)
    };
    let mut text = format!("records   {}, {}\n", stats.database.display(), bytes(stats.bytes));
    let _ = writeln!(text, "calls     {} in {}", kept("requests", "call"), kept("sessions", "session"));
    if let (Some(oldest), Some(newest)) = (&stats.oldest, &stats.newest) {
        let _ = writeln!(text, "from      {}\nto        {}", escape(oldest), escape(newest));
    }
    let _ = writeln!(text, "console   {}", kept("console_logs", "line"));
    let files = kept("blobs", "file");
    let _ = writeln!(
        text,
        "files     {files} (screenshots, downloads and long texts), {}",
        bytes(stats.blob_bytes)
    );
    if stats.owners.iter().any(|of| of.owner != "local") {
        text.push('\n');
        text += &owners(&stats.owners, terminal);
    }
    text
}

/// Whose records there are.
pub fn owners(owners: &[OwnerStats], terminal: Terminal) -> String {
    let rows: Vec<_> = owners
        .iter()
        .map(|of| {
            vec![
                Cell::plain(id(&of.owner)),
                Cell::Number(of.records.to_string()),
                Cell::Number(of.sessions.to_string()),
                Cell::plain(""),
            ]
        })
        .collect();
    table(&["OWNER", "CALLS", "SESSIONS", ""], &rows, "", terminal)
}

/// What was removed, and how much that freed. `others` are the greenrooms that run on the same data folder.
pub fn vacuumed(vacuumed: &Vacuumed, others: &[u32]) -> String {
    let removed = vacuumed.removed;
    let mut text = format!(
        "removed {}, {} and {} ({})\n",
        count(removed.records, "call"),
        count(removed.sessions, "session"),
        count(removed.blobs, "blob"),
        bytes(removed.blob_bytes)
    );
    let before = vacuumed.bytes_before;
    let after = vacuumed.bytes_after;
    let _ = match before.checked_sub(after).filter(|freed| *freed > 0) {
        Some(freed) => writeln!(text, "the database has {}, {} less than before", bytes(after), bytes(freed)),
        None => writeln!(text, "the database has {}, no less than before", bytes(after)),
    };
    if !vacuumed.whole {
        let others: Vec<_> = others.iter().map(|pid| format!("pid {pid}")).collect();
        let _ = writeln!(
            text,
            "greenroom runs ({}), so the file was not rewritten; SQLite will reuse its free pages",
            others.join(", ")
        );
    }
    text
}
