//! Maintenance: figures, and exported records.

use std::{sync::Arc, time::Duration};

use greenroom_core::{
    Owner, Records as _, raw,
    record::{ConsoleLine, Level},
};
use greenroom_store::maintenance::{self, MaintenanceError, Wanted};
use serde_json::Value;

use crate::kit::{folder, now, open, request, response, session, soon};

fn export(folder: &std::path::Path, wanted: &Wanted) -> Result<Vec<Value>, MaintenanceError> {
    let mut lines = Vec::new();
    maintenance::export(folder, wanted, |record| {
        let line = serde_json::to_string(record).unwrap();
        assert!(!line.contains('\n'), "{line}");
        lines.push(serde_json::from_str(&line).unwrap());
        Ok::<_, MaintenanceError>(())
    })?;
    Ok(lines)
}

/// Figures are those of the rows, for each owner, while the store is open.
#[tokio::test]
async fn figures_are_those_of_the_rows() {
    let folder = folder();
    assert!(!maintenance::exists(folder.path()));
    let store = open(folder.path());
    for (name, count) in [("local", 3), ("other", 1)] {
        let owner = Owner::new(name);
        let session = session("one");
        for _ in 0..count {
            let begun = request(&owner, Some(&session));
            let ended = response(&begun.ref_id);
            soon(store.begin(begun)).await.unwrap();
            soon(store.end(ended)).await.unwrap();
        }
    }
    soon(store.keep("A", vec![7; 1000])).await.unwrap();
    let stats = maintenance::stats(folder.path()).unwrap();
    assert_eq!((stats.rows["requests"], stats.rows["responses"], stats.rows["sessions"]), (4, 4, 2));
    assert_eq!((stats.rows["blobs"], stats.blob_bytes), (1, 1000));
    assert!(stats.bytes > 4096 && stats.oldest <= stats.newest);
    let owners: Vec<_> =
        stats.owners.iter().map(|one| (one.owner.as_str(), one.records, one.sessions)).collect();
    assert_eq!(owners, [("local", 3, 1), ("other", 1, 1)]);
    soon(store.close()).await;
}

/// Records are exported whole and on one line each: all, those of a session, or those since a time.
#[tokio::test]
async fn records_are_taken_out_whole() {
    let folder = folder();
    let owner = Owner::local();
    let store = open(folder.path());
    let one = session("one");
    let other = session("other");
    for number in 0..40 {
        let mut begun = request(&owner, Some(if number < 30 { &one } else { &other }));
        if number < 10 {
            begun.at -= Duration::from_secs(3600);
        }
        begun.params = raw::parse("{\n  \"n\": 1.0\r\n}".to_owned()).unwrap();
        let mut ended = response(&begun.ref_id);
        ended.result = Arc::from("{\n\"text\": \"a\\nb\"}");
        ended.console = vec![ConsoleLine {
            level: Level::Warn,
            message: "hm".to_owned(),
            at: Some(now()),
            location: None,
        }];
        soon(store.begin(begun)).await.unwrap();
        if number != 39 {
            soon(store.end(ended)).await.unwrap();
        }
    }
    let all = export(folder.path(), &Wanted::default()).unwrap();
    assert_eq!(all.len(), 40);
    assert_eq!(all[0]["outcome"]["result"]["text"], "a\nb");
    assert_eq!(all[0]["params"]["n"], 1.0);
    assert_eq!(all[0]["outcome"]["console"][0]["level"], "warn");
    assert_eq!(all[0]["session"]["name"], "one");
    assert_eq!(all[39]["outcome"], Value::Null);
    let of = |session: &str| Wanted { session: Some(session.to_owned()), since: None };
    assert_eq!(export(folder.path(), &of("other")).unwrap().len(), 10);
    assert_eq!(export(folder.path(), &of(one.uid.as_str())).unwrap().len(), 30);
    let unknown = export(folder.path(), &of("nobody")).unwrap_err();
    assert_eq!(unknown.to_string(), "no records of a session \"nobody\"");
    let since = Wanted { session: None, since: Some(now() - Duration::from_secs(60)) };
    assert_eq!(export(folder.path(), &since).unwrap().len(), 30);
    soon(store.close()).await;
}
