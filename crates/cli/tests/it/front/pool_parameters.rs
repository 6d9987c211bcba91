//! The pool and the instance of a call, where there is no choice: the built-in pool alone.

use greenroom_testkit::text_of;
use serde_json::{Value, json};

use super::fixture::{FakeEngineSetup, failure, tools};

/// Where there is no choice no parameter is shown, and a call may name the only pool; other names are refused with the
/// known ones.
#[tokio::test]
async fn single_pool_shows_no_pool_parameter() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let listed = Value::from(tools(&client).await).to_string();
    assert!(!listed.contains("browser_pool") && !listed.contains("browser_instance"));
    for place in [json!({"browser_pool": "DEFAULT"}), json!({"browser_pool": null, "browser_instance": null})]
    {
        let mut arguments = json!({"text": "a"});
        arguments.as_object_mut().unwrap().extend(place.as_object().unwrap().clone());
        assert_eq!(text_of(&client.call("echo", arguments).await), "a");
    }
    let (code, text) = failure(&client.call("echo", json!({"text": "a", "browser_pool": 7})).await);
    assert_eq!(
        (code.as_str(), text.as_str()),
        ("no_such_pool", "`browser_pool` must be the name of a pool, as text")
    );
}

/// `browser_pool_status` answers even where it is not listed, with every pool or the requested one.
#[tokio::test]
async fn pool_status_is_answered_when_not_listed() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    client.call("echo", json!({"text": "a"})).await;
    for arguments in [json!({}), json!({"pool_name": "DEFAULT"})] {
        let status: Value =
            serde_json::from_str(&text_of(&client.call("browser_pool_status", arguments).await)).unwrap();
        assert_eq!(
            (&status["pools"][0]["name"], &status["summary"]["total_pools"]),
            (&json!("DEFAULT"), &json!(1))
        );
    }
    let (code, text) = failure(&client.call("browser_pool_status", json!({"pool_name": "X"})).await);
    assert_eq!(code, "no_such_pool");
    assert!(
        text.starts_with(r#"Invalid pool name in browser_pool: no such pool: "X"; there is "DEFAULT""#),
        "{text}"
    );
    let (code, text) = failure(&client.call("browser_pool_status", json!({"pool": "X"})).await);
    assert_eq!(code, "invalid_arguments");
    assert!(text.ends_with("hint: this tool takes `pool_name`"), "{text}");
}
