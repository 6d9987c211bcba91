//! Very many records: calls cost as much as without them.

use std::time::{Duration, Instant};

use greenroom_testkit::Client;
use serde_json::json;

use super::database::RecordsDb;
use crate::front::{fixture::FakeEngineSetup, recall::ref_id};

/// How many calls are timed, each with a read of its record.
const CALLS: usize = 2_000;

/// How many times longer the calls may take. This is loose, since the machine does other work too: a query that reads
/// every row takes hundreds of times longer.
const LONGER_MAX: f64 = 3.0;

/// The time of the calls, the faster of two rounds.
async fn timed(client: &Client) -> Duration {
    let mut best = Duration::MAX;
    for _ in 0..2 {
        let began = Instant::now();
        for n in 0..CALLS {
            let id =
                ref_id(&client.call("echo", json!({"text": format!("text {n}"), "sessionId": "a"})).await);
            let read = client.call("get_content", json!({"ref_id": id})).await;
            assert_eq!(read["result"]["content"][0]["text"], format!("text {n}"));
        }
        best = best.min(began.elapsed());
    }
    best
}

/// Calls with this many records in the database take about as long as with none.
pub async fn time_calls_with_records(records: usize) {
    let setup = FakeEngineSetup::new().set("records.bytes_max", "1TiB");
    let client = setup.client().await;
    let before = timed(&client).await;
    client.close_stdin().await;
    assert!(client.wait().await.success());

    let db = RecordsDb::at(&setup.data());
    let owner: String = db.one("SELECT owner FROM requests LIMIT 1");
    db.run(&format!(
        "PRAGMA synchronous = OFF;
         BEGIN;
         CREATE TEMP TABLE numbers AS
             WITH RECURSIVE up (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM up WHERE n < {records}) SELECT n FROM up;
         INSERT INTO sessions (session_id, created_at, last_activity, state, owner, name, pool, run)
             SELECT printf('%08x-0000-4000-8000-000000000000', n), now, now, 'closed', '{owner}', 'old ' || n, 'DEFAULT', 'old'
             FROM numbers, (SELECT strftime('%Y-%m-%dT%H:%M:%S.000Z', 'now') now) WHERE n % 1000 = 0;
         INSERT INTO requests (position, ref_id, session_id, tool_name, timestamp, owner, params)
             SELECT 1000000 + n, printf('%08x-0000-4000-9000-000000000000', n),
                    printf('%08x-0000-4000-8000-000000000000', n - n % 1000 + 1000), 'echo', now, '{owner}', '{{}}'
             FROM numbers, (SELECT strftime('%Y-%m-%dT%H:%M:%S.000Z', 'now') now) WHERE n < {records};
         INSERT INTO responses (position, ref_id, status, timestamp, took_ms, has_snapshot, console_count, console_errors,
                                page_snapshot, result, owner)
             SELECT position, ref_id, 'success', timestamp, 1, 1, 0, 0, '- page ' || position, '{{\"content\":[]}}', owner
             FROM requests WHERE position > 1000000;
         COMMIT;
         PRAGMA wal_checkpoint(TRUNCATE);"
    ));
    let count: i64 = db.one("SELECT count(*) FROM responses");
    assert!(count as usize >= records, "{count} records");
    drop(db);

    let client = setup.client().await;
    let after = timed(&client).await;
    let ratio = after.as_secs_f64() / before.as_secs_f64();
    println!("{CALLS} calls: {before:?} with few records, {after:?} with {count}: {ratio:.2} times as long");
    assert!(ratio < LONGER_MAX, "{ratio:.2} times as long");
}
