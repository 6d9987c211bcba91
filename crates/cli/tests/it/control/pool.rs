//! `greenroom pool`: the pools of every running greenroom, and commands to one of them.

use greenroom_testkit::until_some;
use serde_json::{Value, json};

use super::run_verb::run_verb;
use crate::front::{fixture::FakeEngineSetup, pools::two_pools};

/// Pools are listed and shown; the error for an unknown name lists the known ones, and the built-in pool cannot be scaled.
#[tokio::test]
async fn pools_are_listed_and_shown() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    client.call("echo", json!({"sessionId": "a", "text": "a"})).await;
    for list in [&["pool", "list"][..], &["pool"], &["pools"], &["pools", "list"]] {
        run_verb(&setup, list).await.check("pool_list", &setup);
    }
    let shown = run_verb(&setup, &["pool", "show", "DEFAULT"]).await;
    assert!(shown.code == 0 && shown.stdout.starts_with("pool         DEFAULT (default)\n"), "{shown:?}");
    let all = run_verb(&setup, &["pool", "list", "--json"]).await.json();
    let plural = run_verb(&setup, &["pools", "--json"]).await.json();
    // Compare names only: the ages of leases may differ by a second.
    let which =
        |list: &Value| (list.as_array().map(Vec::len), list[0]["pid"].clone(), list[0]["name"].clone());
    assert_eq!(which(&plural), which(&all));
    let one = run_verb(&setup, &["pool", "show", "DEFAULT", "--json"]).await.json();
    assert_eq!((&all[0]["name"], &one["name"]), (&json!("DEFAULT"), &json!("DEFAULT")));
    assert_eq!((&one["pid"], &one["leased"]), (&json!(client.pid()), &json!(1)));
    assert_eq!(one["members"].as_array().unwrap().len(), 1);
    run_verb(&setup, &["pool", "show", "default"]).await.check("no_pool_nearest", &setup);
    run_verb(&setup, &["pool", "restart", "XYZ"]).await.check("no_pool", &setup);
    run_verb(&setup, &["pool", "scale", "DEFAULT", "3"]).await.check("pool_not_fixed", &setup);
    assert_eq!(run_verb(&setup, &["pool", "scale", "DEFAULT", "0"]).await.code, 2);
}

/// The built-in pool can be drained and restarted; messages, status and slots agree with its state, also where nothing
/// runs.
#[tokio::test]
async fn built_in_pool_can_be_drained_and_restarted() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let drained = run_verb(&setup, &["pool", "drain", "DEFAULT"]).await.stdout;
    assert!(
        drained.ends_with(": no instance runs, and none starts until `greenroom pool restart`\n"),
        "{drained}"
    );
    let shows_drained =
        |pool: &Value| pool["drained"] == true && pool["slots"] == 0 && pool["instances"] == 0;
    until(&setup, "DEFAULT", shows_drained).await;
    let status = run_verb(&setup, &["status"]).await.stdout;
    let words = "pool DEFAULT  0 instances, 0 of 0 slots leased, 0 waiting; drained: it takes no calls until `greenroom pool restart DEFAULT`\n";
    assert!(status.contains(words), "{status}");
    let restarted = run_verb(&setup, &["pool", "restart", "DEFAULT"]).await.stdout;
    assert!(restarted.contains(": the pool takes calls again; "), "{restarted}");
    until(&setup, "DEFAULT", |pool| pool["drained"] == false && pool["slots"] == 128).await;
    client.call("echo", json!({"sessionId": "a", "text": "a"})).await;
    let drained = run_verb(&setup, &["pool", "drain", "DEFAULT"]).await.stdout;
    assert!(drained.contains(": draining 0; "), "{drained}");
}

/// Where several greenrooms have a pool of that name, the user has to choose one; where none runs, the error says so.
#[tokio::test]
async fn pool_verb_needs_a_process_when_several_run() {
    let setup = FakeEngineSetup::new();
    run_verb(&setup, &["pool", "list"]).await.check("no_greenroom_runs", &setup);
    let one = setup.client().await;
    let _two = setup.client().await;
    let output = run_verb(&setup, &["pool", "show", "DEFAULT"]).await;
    assert_eq!(output.code, 1);
    assert!(
        output.stderr.starts_with("error: several greenrooms have a pool \"DEFAULT\":\n  pid "),
        "{output:?}"
    );
    assert!(output.stderr.ends_with("\nhint: choose one with `--pid`\n"), "{output:?}");
    let pid = one.pid().to_string();
    let output = run_verb(&setup, &["pool", "show", "DEFAULT", "--json", "--pid", &pid]).await;
    assert_eq!((output.code, &output.json()["pid"]), (0, &json!(one.pid())));
    let only = run_verb(&setup, &["pool", "--json", "--pid", &pid]).await.json();
    assert_eq!((only.as_array().unwrap().len(), &only[0]["pid"]), (1, &json!(one.pid())));
}

/// Asks again until `wanted` accepts the pool.
async fn until(setup: &FakeEngineSetup, pool: &str, wanted: impl Fn(&Value) -> bool) {
    let poll =
        async || wanted(&run_verb(setup, &["pool", "show", pool, "--json"]).await.json()).then_some(());
    until_some(pool, poll).await;
}

/// Declared pools are a table, also in `status`; they are scaled, drained and restarted, and the output says what was done.
#[tokio::test]
async fn declared_pools_can_be_scaled_drained_restarted() {
    let setup = two_pools(FakeEngineSetup::new());
    let server = setup.serve().await;
    let size = |count: usize| move |pool: &Value| pool["healthy"] == count && pool["instances"] == count;
    until(&setup, "MAIN", size(3)).await;
    until(&setup, "SIDE_JOBS", size(1)).await;
    run_verb(&setup, &["pool", "list"]).await.check("declared_pools", &setup);
    let status = run_verb(&setup, &["status"]).await.stdout;
    let row = status.lines().find(|line| line.trim_start().starts_with("MAIN (default)")).unwrap();
    assert!(row.contains("3 of 3") && row.ends_with("General web scraping and navigation"), "{status}");
    let output = run_verb(&setup, &["pool", "scale", "SIDE_JOBS", "2"]).await.stdout;
    assert_eq!(output, format!("pool \"SIDE_JOBS\" (pid {}): 2 instances now, 1 before\n", server.pid()));
    until(&setup, "SIDE_JOBS", size(2)).await;
    let drained = run_verb(&setup, &["pool", "drain", "MAIN", "main_browser", "--json"]).await.json();
    assert_eq!(drained, json!({"pid": server.pid(), "pool": "MAIN", "instances": ["2"]}));
    until(&setup, "MAIN", |pool| pool["available"] == 2).await;
    let status = run_verb(&setup, &["status"]).await.stdout;
    let line =
        status.lines().find(|line| line.contains("MAIN instance 2 (main_browser)")).unwrap_or_default();
    assert!(line.contains("drain"), "{status}");
    let output = run_verb(&setup, &["pool", "restart", "MAIN"]).await;
    assert!(output.stdout.contains(": restarting 0, 1, 2; "), "{output:?}");
    until(&setup, "MAIN", |pool| pool["available"] == 3).await;
    run_verb(&setup, &["pool", "drain", "MAIN", "9"]).await.check("no_instance", &setup);
}
