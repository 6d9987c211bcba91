//! The store: records, cursors and blobs, in SQLite and in files beside it.
