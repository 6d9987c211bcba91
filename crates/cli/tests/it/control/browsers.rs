//! `greenroom browsers`, where no browser is attached: the list, and the errors of commands.

use serde_json::json;

use super::ask::ask;
use crate::front::stage::Stage;

/// Without attached browsers every verb says so; the error for an unknown name says where to look.
#[tokio::test]
async fn verbs_without_attached_browsers_say_so() {
    let stage = Stage::new();
    ask(&stage, &["browsers"]).await.check("nobody", &stage);
    let said = ask(&stage, &["browsers", "reconnect", "1"]).await;
    assert!(said.code == 1 && said.stderr.contains("hint: no greenroom is running"), "{said:?}");
    let _client = stage.client().await;
    for arguments in [&["browsers"][..], &["browsers", "list"]] {
        let said = ask(&stage, arguments).await;
        assert_eq!((said.code, &*said.stdout), (0, "no attached browsers\n"));
    }
    for arguments in [&["browsers", "--json"][..], &["browsers", "list", "--json"]] {
        assert_eq!(ask(&stage, arguments).await.json(), json!([]));
    }
    ask(&stage, &["browsers", "reconnect", "work"]).await.check("no_browser", &stage);
    ask(&stage, &["browsers", "disconnect", "1"]).await.check("no_browser_index", &stage);
    assert_eq!(ask(&stage, &["browsers", "connect"]).await.code, 2, "it needs an address");
}

/// Where several greenrooms run, the user has to choose the one that attaches a browser.
#[tokio::test]
async fn attach_needs_a_process_when_several_run() {
    let stage = Stage::new();
    let (_one, _two) = (stage.client().await, stage.client().await);
    let said = ask(&stage, &["browsers", "connect", "http://127.0.0.1:1"]).await;
    assert_eq!(said.code, 1);
    assert!(said.stderr.starts_with("error: several greenrooms run:\n  pid "), "{said:?}");
    assert!(said.stderr.ends_with("\nhint: choose one with `--pid`\n"), "{said:?}");
}
