//! Reads the database from outside, without greenroom's code.

use std::{fs, path::Path, time::Duration};

use rusqlite::{Connection, OpenFlags, params};
use serde_json::Value;

/// The database in a data folder.
pub struct RecordsDb(Connection);

/// The record of one call.
#[derive(Debug, PartialEq)]
pub struct RecordedCall {
    pub tool: String,
    pub params: Value,
    /// `None` for a call that has not ended.
    pub status: Option<String>,
    pub result: Option<String>,
    pub error: Option<String>,
}

/// Whether any file of a data folder contains these bytes. Links are skipped.
pub fn has_bytes(folder: &Path, bytes: &[u8]) -> Option<std::path::PathBuf> {
    fs::read_dir(folder).unwrap().flatten().find_map(|entry| {
        let path = entry.path();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            return has_bytes(&path, bytes);
        }
        let has = || fs::read(&path).unwrap().windows(bytes.len()).any(|window| window == bytes);
        (kind.is_file() && has()).then_some(path)
    })
}

impl RecordsDb {
    /// The database with all that was acknowledged so far.
    pub fn at(data: &Path) -> Self {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let path = data.join("records.db");
        let connection = Connection::open_with_flags(&path, flags)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        connection.busy_timeout(Duration::from_secs(10)).unwrap();
        Self(connection)
    }

    /// The first column of the first row.
    #[track_caller]
    pub fn one<T: rusqlite::types::FromSql>(&self, sql: &str) -> T {
        self.0.query_row(sql, [], |row| row.get(0)).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// The first column of every row.
    #[track_caller]
    pub fn all<T: rusqlite::types::FromSql>(&self, sql: &str) -> Vec<T> {
        let mut select = self.0.prepare(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let rows = select.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    }

    pub fn run(&self, sql: &str) {
        self.0.execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// The record of this name, if there is one.
    pub fn record(&self, ref_id: &str) -> Option<RecordedCall> {
        let mut select = self
            .0
            .prepare_cached(
                "SELECT q.tool_name, q.params, r.status, r.result, r.error_message
                 FROM requests q LEFT JOIN responses r ON r.ref_id = q.ref_id WHERE q.ref_id = ?1",
            )
            .unwrap();
        let mut rows = select.query(params![ref_id]).unwrap();
        let row = rows.next().unwrap()?;
        let text: String = row.get(1).unwrap();
        Some(RecordedCall {
            tool: row.get(0).unwrap(),
            params: serde_json::from_str(&text).unwrap(),
            status: row.get(2).unwrap(),
            result: row.get(3).unwrap(),
            error: row.get(4).unwrap(),
        })
    }
}
