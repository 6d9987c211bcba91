//! How SQLite finds rows: through an index, in the order wanted, whatever the number of rows.

use greenroom_core::{
    SessionUid,
    record::{RecordFilter, Status},
};
use rusqlite::Connection;

use super::{blob_rows, find, schema, timeline};

/// The steps of a query's plan.
fn plan(connection: &Connection, query: &str) -> Vec<String> {
    let count = connection.prepare(query).unwrap().parameter_count();
    let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
    let steps = explain.query_map(rusqlite::params_from_iter(vec!["1"; count]), |row| row.get(3)).unwrap();
    steps.map(Result::unwrap).collect()
}

fn lists() -> Vec<RecordFilter> {
    let session = SessionUid::parse("0199f3a2-5b0c-4e1d-8f00-1c2d3e4f5a6b");
    let mut filters = Vec::new();
    for session in [None, session] {
        for tool in [None, Some("t".to_owned())] {
            for status in [None, Some(Status::Success), Some(Status::Error)] {
                filters.push(RecordFilter {
                    session: session.clone(),
                    tool: tool.clone(),
                    status,
                    ..RecordFilter::default()
                });
            }
        }
    }
    filters
}

/// No query of a reader scans a table or sorts its rows: a million records make none of them slower.
#[test]
fn nothing_is_scanned_or_sorted() {
    let mut connection = Connection::open_in_memory().unwrap();
    schema::migrate(&mut connection).unwrap();
    let mut queries = vec![
        find::record_sql(),
        find::SNAPSHOT_BEFORE.to_owned(),
        find::youngest_sql(),
        timeline::calls_sql(),
        timeline::url_before_sql(),
        blob_rows::blobs_sql(),
    ];
    queries.extend(lists().iter().map(find::list_sql));
    assert_eq!(queries.len(), 18);
    for query in queries {
        for step in plan(&connection, &query) {
            assert!(!step.starts_with("SCAN") && !step.contains("TEMP B-TREE"), "{step}\n{query}");
        }
    }
    // Only the owner's failures are searched.
    for tool in [None, Some("t".to_owned())] {
        let failed = RecordFilter { status: Some(Status::Error), tool, ..RecordFilter::default() };
        let steps = plan(&connection, &find::list_sql(&failed));
        assert!(steps[0].contains("responses_failed (owner=? AND rowid<?)"), "{steps:?}");
    }
    // A rare tool is found without reading the calls of all others.
    let rare = RecordFilter { tool: Some("t".to_owned()), ..RecordFilter::default() };
    let steps = plan(&connection, &find::list_sql(&rare));
    assert!(steps[0].contains("requests_by_tool (owner=? AND tool_name=? AND rowid<?)"), "{steps:?}");
}
