//! `greenroom pool`: the pools of every greenroom that runs, and commands to one of them.

use serde_json::json;

use super::ask::ask;
use crate::front::stage::Stage;

/// Pools are listed and shown; a name that is none says what there is, and the built-in pool cannot be scaled.
#[tokio::test]
async fn pools_are_shown() {
    let stage = Stage::new();
    let client = stage.client().await;
    client.call("echo", json!({"sessionId": "a", "text": "a"})).await;
    ask(&stage, &["pool", "list"]).await.check("pool_list", &stage);
    let shown = ask(&stage, &["pool", "show", "DEFAULT"]).await;
    assert!(shown.code == 0 && shown.stdout.starts_with("pool         DEFAULT (default)\n"), "{shown:?}");
    let all = ask(&stage, &["pool", "list", "--json"]).await.json();
    let one = ask(&stage, &["pool", "show", "DEFAULT", "--json"]).await.json();
    assert_eq!((&all[0]["name"], &one["name"]), (&json!("DEFAULT"), &json!("DEFAULT")));
    assert_eq!((&one["pid"], &one["leased"]), (&json!(client.pid()), &json!(1)));
    assert_eq!(one["members"].as_array().unwrap().len(), 1);
    ask(&stage, &["pool", "show", "default"]).await.check("no_pool_nearest", &stage);
    ask(&stage, &["pool", "restart", "XYZ"]).await.check("no_pool", &stage);
    ask(&stage, &["pool", "scale", "DEFAULT", "3"]).await.check("pool_not_fixed", &stage);
    assert_eq!(ask(&stage, &["pool", "scale", "DEFAULT", "0"]).await.code, 2);
}

/// Where several greenrooms have a pool of that name, one has to be chosen; where none runs, that is said.
#[tokio::test]
async fn one_greenroom_is_chosen() {
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
}
