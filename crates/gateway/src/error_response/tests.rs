//! The texts of errors.

use super::*;
use std::time::Duration;

fn timeout(holders: &[&str], waiting: usize) -> LeaseTimeout {
    LeaseTimeout {
        is_owners_apart: false,
        pool: "TESTING".to_owned(),
        browser: None,
        waited: Duration::from_secs(30),
        leased: holders.len(),
        slots: holders.len(),
        waiting,
        silent: 0,
        instance: None,
        holders: holders.iter().map(|name| (*name).to_owned()).collect(),
    }
}

/// A timeout names the holders and the number of waiting callers, and the settings of the full pool.
#[test]
fn lease_timeout_names_the_holders() {
    let few = timeout(&["\"a\"", "another owner"], 1);
    assert_eq!(
        pool_full_hint(&few, true),
        "2 of 2 slots are leased by \"a\", another owner, 1 other caller waits; close a session with session_close, or raise INSTANCES or SLOTS of pool \"TESTING\""
    );
    let hint = pool_full_hint(&timeout(&["\"a\""], 0), true);
    assert!(hint.starts_with("1 of 1 slot is leased by \"a\";"), "{hint}");
    let hint = pool_full_hint(&timeout(&["x"; 8], 3), false);
    assert!(hint.contains("by x, x, x, x, x and 3 more, 3 other callers wait"), "{hint}");
    assert!(hint.ends_with("raise `pool.slots` or `pool.instances_max`"), "{hint}");
    let hint = pool_full_hint(&LeaseTimeout { silent: 1, ..timeout(&[], 0) }, true);
    assert!(hint.contains("1 instance does not answer and gets no sessions until it does"), "{hint}");
    let one = LeaseTimeout { instance: Some(greenroom_core::InstanceId(2)), ..timeout(&[], 0) };
    assert!(pool_full_hint(&one, true).contains("leave `browser_instance` out"));
    let browser = Some(std::sync::Arc::new(greenroom_fleet::BrowserName { index: 2, label: None }));
    let hint = pool_full_hint(&LeaseTimeout { browser, ..timeout(&["\"a\""], 0) }, true);
    assert!(
        hint.ends_with("or wait: an attached browser has one slot, or `slots` of them if it is `isolated`"),
        "{hint}"
    );
}

/// The error for a missing `browserIndex` also names `browser_pool`, if there are pools.
#[test]
fn missing_browser_index_error_names_pools() {
    let known = vec!["1".to_owned(), "2 (\"lab\")".to_owned()];
    let error = FleetError::NotChosen(NotChosen::Required { known });
    let hint = |declared| ErrorResponse::fleet(&error, declared).hint.unwrap();
    assert_eq!(hint(false), "`browserIndex` is one of 1, 2 (\"lab\"); list_browsers shows them");
    assert_eq!(hint(true), format!("{}; `browser_pool` names a pool instead", hint(false)));
}
