//! The records in figures, as people read them.

use std::fmt::Write as _;

use greenroom_store::maintenance::{Stats, Vacuumed};

use super::{
    table::{Cell, table},
    terminal::Terminal,
    words::{bytes, clean, count, id},
};

pub fn stats(stats: &Stats, terminal: Terminal) -> String {
    let mut text = format!("{}, {}\n", stats.database.display(), bytes(stats.bytes));
    let blobs = usize::try_from(stats.rows.get("blobs").copied().unwrap_or_default()).unwrap_or(usize::MAX);
    let _ = writeln!(text, "{}, {}", count(blobs, "blob"), bytes(stats.blob_bytes));
    if let (Some(oldest), Some(newest)) = (&stats.oldest, &stats.newest) {
        let _ = writeln!(text, "calls from {} to {}", clean(oldest), clean(newest));
    }
    let rows: Vec<_> = stats
        .rows
        .iter()
        .map(|(table, rows)| vec![Cell::plain(*table), Cell::Number(rows.to_string()), Cell::plain("")])
        .collect();
    text.push('\n');
    text += &table(&["TABLE", "ROWS", ""], &rows, "", terminal);
    if !stats.owners.is_empty() {
        let owners: Vec<_> = stats
            .owners
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
        text.push('\n');
        text += &table(&["OWNER", "CALLS", "SESSIONS", ""], &owners, "", terminal);
    }
    text
}

/// What was removed, and what that freed. `others` are the greenrooms that run on the same data folder.
pub fn vacuumed(vacuumed: &Vacuumed, others: &[u32]) -> String {
    let removed = vacuumed.removed;
    let mut text = format!(
        "removed {}, {} and {} ({})\n",
        count(removed.records, "call"),
        count(removed.sessions, "session"),
        count(removed.blobs, "blob"),
        bytes(removed.blob_bytes)
    );
    let (before, after) = (vacuumed.bytes_before, vacuumed.bytes_after);
    let _ = match before.checked_sub(after).filter(|freed| *freed > 0) {
        Some(freed) => writeln!(text, "the database has {}, {} less than before", bytes(after), bytes(freed)),
        None => writeln!(text, "the database has {}, no less than before", bytes(after)),
    };
    if !vacuumed.whole {
        let others: Vec<_> = others.iter().map(|pid| format!("pid {pid}")).collect();
        let _ = writeln!(
            text,
            "it was not written anew, since greenroom runs ({}); free pages within it are used again",
            others.join(", ")
        );
    }
    text
}
