//! `greenroom pool`: the pools of every running greenroom, and commands to one of them.

use greenroom_testkit::until_some;
use serde_json::{Value, json};

use super::ask::ask;
use crate::front::{pools::two_pools, stage::Stage};

/// Pools are listed and shown; the error for an unknown name lists the known ones, and the built-in pool cannot be scaled.
#[tokio::test]
async fn pools_are_listed_and_shown() {
    let stage = Stage::new();
    let client = stage.client().await;
    client.call("echo", json!({"sessionId": "a", "text": "a"})).await;
    for list in [&["pool", "list"][..], &["pool"], &["pools"], &["pools", "list"]] {
        ask(&stage, list).await.check("pool_list", &stage);
    }
    let shown = ask(&stage, &["pool", "show", "DEFAULT"]).await;
    assert!(shown.code == 0 && shown.stdout.starts_with("pool         DEFAULT (default)\n"), "{shown:?}");
    let all = ask(&stage, &["pool", "list", "--json"]).await.json();
    let plural = ask(&stage, &["pools", "--json"]).await.json();
    // Whole lists differ by the age of a lease in seconds.
    let which =
        |list: &Value| (list.as_array().map(Vec::len), list[0]["pid"].clone(), list[0]["name"].clone());
    assert_eq!(which(&plural), which(&all));
    let one = ask(&stage, &["pool", "show", "DEFAULT", "--json"]).await.json();
    assert_eq!((&all[0]["name"], &one["name"]), (&json!("DEFAULT"), &json!("DEFAULT")));
    assert_eq!((&one["pid"], &one["leased"]), (&json!(client.pid()), &json!(1)));
    assert_eq!(one["members"].as_array().unwrap().len(), 1);
    ask(&stage, &["pool", "show", "default"]).await.check("no_pool_nearest", &stage);
    ask(&stage, &["pool", "restart", "XYZ"]).await.check("no_pool", &stage);
    ask(&stage, &["pool", "scale", "DEFAULT", "3"]).await.check("pool_not_fixed", &stage);
    assert_eq!(ask(&stage, &["pool", "scale", "DEFAULT", "0"]).await.code, 2);
}

/// The built-in pool can be drained and restarted; messages, status and slots agree with its state, also where nothing
/// runs.
#[tokio::test]
async fn built_in_pool_can_be_drained_and_restarted() {
    let stage = Stage::new();
    let client = stage.client().await;
    let drained = ask(&stage, &["pool", "drain", "DEFAULT"]).await.stdout;
    assert!(
        drained.ends_with(": no instance runs, and none starts until `greenroom pool restart`\n"),
        "{drained}"
    );
    let shows_drained =
        |pool: &Value| pool["drained"] == true && pool["slots"] == 0 && pool["instances"] == 0;
    until(&stage, "DEFAULT", shows_drained).await;
    let status = ask(&stage, &["status"]).await.stdout;
    let words = "pool DEFAULT  0 instances, 0 of 0 slots leased, 0 waiting; drained: it takes no calls until `greenroom pool restart DEFAULT`\n";
    assert!(status.contains(words), "{status}");
    let restarted = ask(&stage, &["pool", "restart", "DEFAULT"]).await.stdout;
    assert!(restarted.contains(": the pool takes calls again; "), "{restarted}");
    until(&stage, "DEFAULT", |pool| pool["drained"] == false && pool["slots"] == 128).await;
    client.call("echo", json!({"sessionId": "a", "text": "a"})).await;
    let drained = ask(&stage, &["pool", "drain", "DEFAULT"]).await.stdout;
    assert!(drained.contains(": draining 0; "), "{drained}");
}

/// Where several greenrooms have a pool of that name, the user has to choose one; where none runs, the error says so.
#[tokio::test]
async fn pool_verb_needs_a_process_when_several_run() {
    let stage = Stage::new();
    ask(&stage, &["pool", "list"]).await.check("nobody", &stage);
    let (one, _two) = (stage.client().await, stage.client().await);
    let said = ask(&stage, &["pool", "show", "DEFAULT"]).await;
    assert_eq!(said.code, 1);
    assert!(
        said.stderr.starts_with("error: several greenrooms have a pool \"DEFAULT\":\n  pid "),
        "{said:?}"
    );
    assert!(said.stderr.ends_with("\nhint: choose one with `--pid`\n"), "{said:?}");
    let pid = one.pid().to_string();
    let said = ask(&stage, &["pool", "show", "DEFAULT", "--json", "--pid", &pid]).await;
    assert_eq!((said.code, &said.json()["pid"]), (0, &json!(one.pid())));
    let only = ask(&stage, &["pool", "--json", "--pid", &pid]).await.json();
    assert_eq!((only.as_array().unwrap().len(), &only[0]["pid"]), (1, &json!(one.pid())));
}

/// Asks again until a pool looks like this.
async fn until(stage: &Stage, pool: &str, wanted: impl Fn(&Value) -> bool) {
    let look = async || wanted(&ask(stage, &["pool", "show", pool, "--json"]).await.json()).then_some(());
    until_some(pool, look).await;
}

/// Declared pools are a table, also in `status`; they are scaled, drained and restarted, and the output says what was done.
#[tokio::test]
async fn declared_pools_can_be_scaled_drained_restarted() {
    let stage = two_pools(Stage::new());
    let server = stage.serve().await;
    let size = |count: usize| move |pool: &Value| pool["healthy"] == count && pool["instances"] == count;
    until(&stage, "MAIN", size(3)).await;
    until(&stage, "SIDE_JOBS", size(1)).await;
    ask(&stage, &["pool", "list"]).await.check("declared_pools", &stage);
    let status = ask(&stage, &["status"]).await.stdout;
    let row = status.lines().find(|line| line.trim_start().starts_with("MAIN (default)")).unwrap();
    assert!(row.contains("3 of 3") && row.ends_with("General web scraping and navigation"), "{status}");
    let said = ask(&stage, &["pool", "scale", "SIDE_JOBS", "2"]).await.stdout;
    assert_eq!(said, format!("pool \"SIDE_JOBS\" (pid {}): 2 instances now, 1 before\n", server.pid()));
    until(&stage, "SIDE_JOBS", size(2)).await;
    let drained = ask(&stage, &["pool", "drain", "MAIN", "main_browser", "--json"]).await.json();
    assert_eq!(drained, json!({"pid": server.pid(), "pool": "MAIN", "instances": ["2"]}));
    until(&stage, "MAIN", |pool| pool["available"] == 2).await;
    let status = ask(&stage, &["status"]).await.stdout;
    let line =
        status.lines().find(|line| line.contains("MAIN instance 2 (main_browser)")).unwrap_or_default();
    assert!(line.contains("drain"), "{status}");
    let said = ask(&stage, &["pool", "restart", "MAIN"]).await;
    assert!(said.stdout.contains(": restarting 0, 1, 2; "), "{said:?}");
    until(&stage, "MAIN", |pool| pool["available"] == 3).await;
    ask(&stage, &["pool", "drain", "MAIN", "9"]).await.check("no_instance", &stage);
}
