//! Whether a call takes longer when many others have been recorded.

use std::{
    path::Path,
    time::{Duration, Instant, SystemTime},
};

use greenroom_core::{
    Owner, Records, RefId, SessionUid,
    raw::encode,
    record::{Request, Response, SessionRef, Status},
};
use greenroom_store::{Store, StoreSettings};
use serde_json::json;

use crate::{
    agent::BenchAgent,
    latency::{CALLS, WARM_UP, round},
    programs::Programs,
    report::{Goal, Row, Section},
    stats::{greatest, least, median, percentile},
};

/// Records of one session, as of an agent that works for an hour or two.
const RECORDS_PER_SESSION: usize = 1_000;

/// Records in the store's queue at once: fewer than its limit.
const BATCH: usize = 1_000;

const RATIO_MAX: f64 = 1.2;

/// The database's size limit: so high that the store removes no record during the measurement.
const NO_LIMIT: u64 = 1 << 40;

pub fn measure(programs: &Programs, quick: bool) -> Section {
    let (records, rounds) = if quick { (20_000, 4) } else { (1_000_000, 40) };
    let full = programs.home().join("full");
    let empty = programs.home().join("empty");
    let filled_in = fill(&full, records);
    let start = |data: &Path| {
        let mut command = programs.greenroom_fake_in(data, 1);
        command.args(["--records-bytes-max", "1024GiB"]);
        BenchAgent::start(command)
    };
    let mut on_full = start(&full);
    let mut on_empty = start(&empty);
    round(&mut on_full, WARM_UP);
    round(&mut on_empty, WARM_UP);
    let p50 = |calls: &[f64]| percentile(calls, 50.0);
    let (of_full, of_empty): (Vec<f64>, Vec<f64>) =
        (0..rounds).map(|_| (p50(&round(&mut on_full, CALLS)), p50(&round(&mut on_empty, CALLS)))).unzip();
    let ratios: Vec<f64> = of_full.iter().zip(&of_empty).map(|(full, empty)| full / empty).collect();
    let ratio = median(&ratios);
    let row = Row::new(
        format!("one call with {records} records kept, p50, compared with none"),
        format!("{:.0} µs", median(&of_full)),
        format!("{:.0} µs", median(&of_empty)),
    );
    let how = format!(
        "Two times `greenroom mcp` with a fake engine, on a data folder with {records} records of {} sessions, and on an empty one; \
         the second column is not the engine alone but that one. {rounds} rounds of {CALLS} calls each, in turns, medians. \
         The ratio is the median over pairs of rounds, which went from {:.2} to {:.2}. The records were written through the \
         store itself, {:.0} a second.",
        records.div_ceil(RECORDS_PER_SESSION),
        least(&ratios),
        greatest(&ratios),
        records as f64 / filled_in.as_secs_f64(),
    );
    let goal = Goal::check("≤ 1.2", ratio <= RATIO_MAX);
    Section { title: "Many records", rows: vec![row.ratio(ratio).goal(goal)], how }
}

/// Writes so many records into a data folder; returns how long that took.
fn fill(data: &Path, records: usize) -> Duration {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    let store = Store::open(StoreSettings {
        folder: data.to_owned(),
        process_tag: "bench".to_owned(),
        running_tags: Vec::new(),
        processes_listed_after: SystemTime::now(),
        max_age: Duration::from_secs(3600),
        bytes_max: NO_LIMIT,
        blobs_ttl: Duration::from_secs(3600),
        blobs_bytes_max: NO_LIMIT,
        blobs_per_pool: false,
    });
    let begun = Instant::now();
    runtime.block_on(async {
        for first in (0..records).step_by(BATCH) {
            let numbers = first..records.min(first + BATCH);
            let written: Vec<_> = numbers
                .flat_map(|number| {
                    let (request, response) = record(number);
                    [store.begin(request), store.end(response)]
                })
                .collect();
            for one in written {
                one.await.expect("a record is written");
            }
        }
        store.close().await;
    });
    begun.elapsed()
}

/// A record as a call of `echo` leaves it.
fn record(number: usize) -> (Request, Response) {
    let at = SystemTime::now();
    let session = Some(SessionRef {
        uid: SessionUid::new(SystemTime::UNIX_EPOCH, bits(number / RECORDS_PER_SESSION)),
        name: format!("s{}", number / RECORDS_PER_SESSION).into(),
        pool: "DEFAULT".into(),
    });
    let ref_id = RefId::new(at, bits(number));
    let params = encode(&json!({ "text": "hello" }));
    let request = Request {
        ref_id: ref_id.clone(),
        owner: Owner::local(),
        session: session.clone(),
        tool: "echo".into(),
        params,
        at,
    };
    let response = Response {
        ref_id,
        session,
        status: Status::Success,
        result: r#"{"content":[{"type":"text","text":"hello"}]}"#.into(),
        snapshot: None,
        console: Vec::new(),
        error: None,
        blobs: Vec::new(),
        url: None,
        title: None,
        at,
        took: Duration::from_millis(1),
    };
    (request, response)
}

/// Pseudorandom bits, the same for the same number.
fn bits(number: usize) -> [u8; 16] {
    // The steps of splitmix64.
    let mut mixed = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (u128::from(mixed) << 64 | u128::from(number as u64)).to_be_bytes()
}
