//! `greenroom browsers`, where no browser is attached: the list, and the errors of commands.

use serde_json::json;

use super::run_verb::run_verb;
use crate::front::fixture::FakeEngineSetup;

/// Without attached browsers every verb says so; the error for an unknown name says where to look.
#[tokio::test]
async fn verbs_without_attached_browsers_say_so() {
    let setup = FakeEngineSetup::new();
    run_verb(&setup, &["browsers"]).await.check("no_greenroom_runs", &setup);
    let output = run_verb(&setup, &["browsers", "reconnect", "1"]).await;
    assert!(output.code == 1 && output.stderr.contains("hint: no greenroom is running"), "{output:?}");
    let _client = setup.client().await;
    for arguments in [&["browsers"][..], &["browsers", "list"]] {
        let output = run_verb(&setup, arguments).await;
        assert_eq!((output.code, &*output.stdout), (0, "no attached browsers\n"));
    }
    for arguments in [&["browsers", "--json"][..], &["browsers", "list", "--json"]] {
        assert_eq!(run_verb(&setup, arguments).await.json(), json!([]));
    }
    run_verb(&setup, &["browsers", "reconnect", "work"]).await.check("no_browser", &setup);
    run_verb(&setup, &["browsers", "disconnect", "1"]).await.check("no_browser_index", &setup);
    assert_eq!(run_verb(&setup, &["browsers", "connect"]).await.code, 2, "it needs an address");
}

/// Where several greenrooms run, the user has to choose the one that attaches a browser.
#[tokio::test]
async fn attach_needs_a_process_when_several_run() {
    let setup = FakeEngineSetup::new();
    let _one = setup.client().await;
    let _two = setup.client().await;
    let output = run_verb(&setup, &["browsers", "connect", "http://127.0.0.1:1"]).await;
    assert_eq!(output.code, 1);
    assert!(output.stderr.starts_with("error: several greenrooms run:\n  pid "), "{output:?}");
    assert!(output.stderr.ends_with("\nhint: choose one with `--pid`\n"), "{output:?}");
}
