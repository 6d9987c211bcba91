//! Commands that a running server carries out.

use greenroom_testkit::{picture::Pixels, text_of};
use serde_json::json;

use super::{command, run};
use crate::{
    control::run_verb::VerbOutput,
    front::fixture::{FakeEngineSetup, pid_of},
    http::{http_client, until_in_flight},
};

/// A command and an MCP client that name the same session have the same browser; another name has another.
#[tokio::test]
async fn commands_and_mcp_clients_share_sessions() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = http_client(&server).await;
    run(&setup, &["call", "set", "key=tea", "value=green", "-s", "shared"]).await;
    let read = client.call("get", json!({"key": "tea", "sessionId": "shared"})).await;
    assert_eq!(text_of(&read), "green");
    let of_client = pid_of(&client.call("pid", json!({"sessionId": "shared"})).await);
    let same = run(&setup, &["call", "pid", "--session", "shared"]).await;
    assert_eq!((same.code, same.stdout), (0, format!("{of_client}\n")), "{}", same.stderr);
    let by_variable = command(&setup, &["call", "pid"]).env("GREENROOM_SESSION", "shared").output().await;
    assert_eq!(VerbOutput::new(by_variable.unwrap()).stdout, format!("{of_client}\n"));
    let other = run(&setup, &["call", "pid"]).await;
    assert_ne!(other.stdout, format!("{of_client}\n"));
    let again = run(&setup, &["call", "pid", "-s", "default"]).await;
    assert_eq!(again.stdout, other.stdout, "a command without a session has the session `default`");
}

/// The JSON names session, tool and outcome; arguments keep their types; text of a page cannot control the terminal.
#[tokio::test]
async fn json_output_names_session_tool_and_outcome() {
    let setup = FakeEngineSetup::new();
    let _server = setup.serve().await;
    let said = run(&setup, &["call", "echo", "text=hello", "--json"]).await;
    let json = said.json();
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(
        (&json["session"], &json["tool"], &json["ok"], &json["text"]),
        (&json!("default"), &json!("echo"), &json!(true), &json!("hello"))
    );
    assert!(json["ref_id"].as_str().is_some_and(|id| id.len() == 36), "{json}");
    let typed = run(&setup, &["call", "params", r#"{"any": 1.50}"#]).await;
    assert!(typed.stdout.contains("1.50"), "{typed:?}");
    let escapes = run(&setup, &["call", "echo", "text=\"\\u001b[2Jx\""]).await;
    assert_eq!(escapes.stdout, "\\u{1b}[2Jx\n");
    let picture = run(&setup, &["call", "picture", "--json"]).await.json();
    let file = picture["files"][0].as_str().unwrap_or_else(|| panic!("no file: {picture}")).to_owned();
    assert!(std::fs::metadata(&file).unwrap().len() > 0);
    std::fs::remove_file(file).unwrap();
}

/// A picture that an agent would get smaller, or as a link, is written whole, unless the command asks for another form.
#[tokio::test]
async fn screenshots_are_written_in_full_size() {
    let setup = FakeEngineSetup::new().set("pictures", "link");
    let _server = setup.serve().await;
    for (form, expected) in [("pictures=null", (3136, 4)), ("pictures=small", (1568, 2))] {
        let said = run(&setup, &["call", "picture", "width=3136", "height=4", form, "--json"]).await.json();
        let file = said["files"][0].as_str().unwrap_or_else(|| panic!("no file: {said}")).to_owned();
        let pixels = Pixels::decode(&std::fs::read(&file).unwrap());
        assert_eq!((pixels.width, pixels.height), expected, "{form}");
        std::fs::remove_file(file).unwrap();
    }
}

/// Commands answer as the setting `responses` says, unless they name a mode.
#[tokio::test]
async fn commands_follow_the_setting_responses() {
    let setup = FakeEngineSetup::new().set("responses", "refs");
    let _server = setup.serve().await;
    let said = run(&setup, &["call", "echo", "text=hello"]).await;
    assert!(said.code == 0 && said.stdout.starts_with("{\"ref_id\":"), "{said:?}");
    let whole = run(&setup, &["call", "echo", "text=hello", "--mode", "auto"]).await;
    assert_eq!(whole.stdout, "hello\n");
}

/// Exit codes and errors: a tool that fails, tools and commands that do not exist, wrong arguments.
#[tokio::test]
async fn failed_commands_have_exit_code_and_error() {
    let setup = FakeEngineSetup::new();
    let _server = setup.serve().await;
    let check = async |arguments: &[&str], code: i32, says: &str| {
        let said = run(&setup, arguments).await;
        assert_eq!((said.code, said.stdout.as_str()), (code, ""), "{arguments:?}: {said:?}");
        assert!(said.stderr.starts_with("error: ") && said.stderr.contains(says), "{arguments:?}: {said:?}");
    };
    check(&["call", "fail", "message=no luck"], 1, "no luck").await;
    check(&["call", "ecko", "text=x"], 1, "echo").await;
    check(&["call", "echo", "txt=x"], 1, "text").await;
    check(&["open", "example.com"], 2, "greenroom call").await;
    check(&["call", "echo", "text"], 2, "key=value").await;
    check(&["open", "/etc/passwd"], 2, "no address").await;
    check(&["call", "echo", "text=x", "-s", ""], 2, "session").await;
    check(&["wait"], 2, "--text").await;
    check(&["close", "-s", "nobody"], 1, "nobody").await;
    let failed = run(&setup, &["call", "fail", "message=no luck", "--json"]).await;
    assert_eq!((failed.code, &failed.json()["ok"], failed.stderr.as_str()), (1, &json!(false), ""));
}

/// Two commands of one session run one after the other; a command of another session does not wait.
#[tokio::test]
async fn commands_of_a_session_are_ordered() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = http_client(&server).await;
    let gate = setup.gate("gate");
    let file = format!("file={}", gate.path());
    let first =
        command(&setup, &["call", "wait", &file]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    gate.arrived(1).await;
    let mut second = command(&setup, &["call", "echo", "text=second"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    until_in_flight(&client, "default", 2).await;
    assert_eq!(run(&setup, &["call", "echo", "text=other", "-s", "other"]).await.stdout, "other\n");
    assert!(second.try_wait().unwrap().is_none(), "the second command ran before the first ended");
    gate.open();
    assert_eq!(VerbOutput::new(first.wait_with_output().await.unwrap()).code, 0);
    assert!(second.wait().await.unwrap().success());
}

/// `close` ends the session; the next command gets another browser and no note, since the user asked for the close.
#[tokio::test]
async fn close_ends_the_session() {
    let setup = FakeEngineSetup::new();
    let _server = setup.serve().await;
    let first = run(&setup, &["call", "pid"]).await;
    let closed = run(&setup, &["close"]).await;
    assert_eq!(closed.code, 0, "{closed:?}");
    let second = run(&setup, &["call", "pid"]).await;
    assert!(first.stdout != second.stdout && !second.stdout.contains("restarted"), "{second:?}");
}
