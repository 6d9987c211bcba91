//! Custom engines: with one slot the instance is its process, with more its seats are.

use std::{sync::Arc, time::Duration};

use greenroom_core::{Call, Engine, InstanceId, Lost, OpenError};
use greenroom_engine::{CustomEngine, CustomServer};
use greenroom_testkit::{
    TEST_TIMEOUT, eventually,
    process::{Signal, alive, signal, wait_gone},
    within,
};
use serde_json::json;
use tokio::time::timeout;

use super::fixture::{AskableAgent, FakeEngineFixture, call, open, pid, start};

/// A script with the arguments that the fake engine would get.
fn with_log(fixture: &FakeEngineFixture, name: &str, script: &str) -> CustomServer {
    let CustomServer::Command { args, .. } = fixture.custom(1, &[]).server else { panic!("by command") };
    CustomServer::Command { program: fixture.script(name, script), args }
}

/// With one slot the process starts with the instance and serves the first seat; the next seat has another.
#[tokio::test]
async fn with_one_slot_the_instance_is_its_process() {
    let fixture = FakeEngineFixture::new();
    let instance = fixture.start(1, &[]).await;
    assert_eq!(fixture.log().count("start"), 1);
    let ready = instance.process_ids();

    let mut seat = open(&instance).await;
    assert_eq!(ready, [pid(&mut seat).await]);
    assert_eq!(fixture.log().count("start"), 1, "the seat has the process that was there");
    seat.close().await;
    assert!(!alive(ready[0]) && instance.process_ids().is_empty());
    assert_eq!(*instance.lost().borrow(), None, "its end was asked for");

    let mut seat = open(&instance).await;
    assert_eq!(instance.process_ids(), [pid(&mut seat).await]);
    seat.close().await;
    instance.stop(Duration::from_secs(2)).await;
    assert_eq!(fixture.log().count("start"), 2);
}

/// The fingerprint of a server on disk distinguishes addresses, and does not show their secrets.
#[test]
fn fingerprints_contain_no_secrets() {
    let fixture = FakeEngineFixture::new();
    let fingerprint = |url: &str| {
        let server = CustomServer::Url(url.to_owned());
        CustomEngine { server, ..fixture.custom(1, &[]) }.fingerprint()
    };
    let one = fingerprint("http://ann:pw1@a:1/mcp?key=s3cret");
    let other = fingerprint("http://ann:pw1@a:1/mcp?key=0ther");
    assert_ne!(one, other);
    assert_eq!(one, fingerprint("http://ann:pw1@a:1/mcp?key=s3cret"));
    assert!(one.contains("a:1/mcp") && !one.contains("s3cret") && !one.contains("pw1"), "{one}");
}

/// A process that was started without an agent does not serve an agent that can answer questions: it is replaced.
#[tokio::test]
async fn agent_that_can_answer_questions_gets_its_own_process() {
    let fixture = FakeEngineFixture::new();
    let instance = fixture.start(1, &[]).await;
    let ready = instance.process_ids();
    let mut seat = instance.open(Arc::new(AskableAgent)).await.unwrap();
    let own = pid(&mut seat).await;
    assert_ne!(ready, [own]);
    assert!(!alive(ready[0]));
    assert_eq!(*instance.lost().borrow(), None);
    instance.stop(Duration::from_secs(2)).await;
    assert!(!alive(own), "a stopped instance leaves nothing");
}

/// A command that does not work fails the start, and says why.
#[tokio::test]
async fn a_broken_command_fails_the_start() {
    let fixture = FakeEngineFixture::new();
    let dying = fixture.custom(1, &["--die-at-start", "--stderr", "no license"]);
    let error = dying.start(InstanceId(0)).await.err().unwrap();
    assert!(error.message.contains("exit status: 1") && error.message.contains("no license"), "{error}");

    let server = CustomServer::Command { program: "/nowhere/engine".into(), args: Vec::new() };
    let missing = CustomEngine { server, ..dying };
    let error = missing.start(InstanceId(0)).await.err().unwrap();
    assert!(error.message.contains("cannot start `/nowhere/engine`") && error.hint.is_some(), "{error}");
}

/// With one slot the unexpected end of a process is the instance's loss, with the process's last output; with more
/// slots only the seat's.
#[tokio::test]
async fn unexpected_end_is_a_loss() {
    let fixture = FakeEngineFixture::new();
    let instance = fixture.start(1, &[]).await;
    let mut seat = open(&instance).await;
    call(&mut seat, "die_after", json!({ "code": 3, "stderr": "out of memory" })).await;
    let mut lost = instance.lost();
    let why = within(TEST_TIMEOUT, lost.wait_for(Option::is_some)).await.unwrap().clone();
    let stderr_tail = "out of memory".into();
    assert_eq!(why, Some(Lost::Process { status: "exit status: 3".into(), stderr_tail }));
    assert!(matches!(instance.open(Arc::new(AskableAgent)).await, Err(OpenError::Lost(_))));
    seat.close().await;
    instance.stop(Duration::ZERO).await;

    let instance = fixture.start(2, &[]).await;
    let mut one = open(&instance).await;
    let mut other = open(&instance).await;
    let first = pid(&mut one).await;
    let second = pid(&mut other).await;
    assert_eq!(instance.process_ids(), [first, second]);
    signal(first, Signal::KILL);
    let mut seat_lost = one.lost();
    within(TEST_TIMEOUT, seat_lost.wait_for(Option::is_some)).await.unwrap();
    assert_eq!(instance.process_ids(), [second]);
    assert_eq!(*instance.lost().borrow(), None);
    assert_eq!(pid(&mut other).await, second);
    instance.stop(Duration::from_secs(2)).await;
    wait_gone(second).await;
}

/// A ping asks every process without a running call, and names a silent one. A process in a call is not asked.
#[tokio::test]
async fn ping_names_a_silent_process() {
    let fixture = FakeEngineFixture::new();
    let instance = fixture.start(2, &[]).await;
    instance.ping().await.unwrap();
    let mut busy = open(&instance).await;
    let mut idle = open(&instance).await;
    instance.ping().await.unwrap();
    assert_eq!(fixture.log().count("ping"), 2);

    let gate = fixture.gate();
    let idle_pid = pid(&mut idle).await;
    let file = gate.path().to_owned();
    let waiting = tokio::spawn(async move {
        call(&mut busy, "wait", json!({ "file": file })).await;
        busy
    });
    gate.arrived(1).await;
    instance.ping().await.unwrap();
    assert_eq!(fixture.log().count("ping"), 3, "only the idle one was asked");

    signal(idle_pid, Signal::STOP);
    assert!(timeout(Duration::from_millis(300), instance.ping()).await.is_err());
    assert_eq!(
        instance.silent().as_deref(),
        Some(&*format!("the engine did not answer: process {idle_pid}"))
    );
    signal(idle_pid, Signal::CONT);
    instance.ping().await.unwrap();
    assert_eq!(instance.silent(), None);

    gate.open();
    waiting.await.unwrap().close().await;
    idle.close().await;
    instance.ping().await.unwrap();
    instance.stop(Duration::from_secs(2)).await;
}

/// A seat that is being opened while its instance stops is refused with the loss, and leaves no process.
#[tokio::test]
async fn stop_ends_a_seat_that_is_being_opened() {
    let fixture = FakeEngineFixture::new();
    let pid_file = fixture.path("pid");
    let fake = greenroom_testkit::fake_engine_path();
    let script = format!(
        "echo $$ >{0}.part; mv {0}.part {0}\nexec {1} --hang-at-start",
        pid_file.display(),
        fake.display()
    );
    let engine = CustomEngine { server: with_log(&fixture, "engine", &script), ..fixture.custom(2, &[]) };
    let instance = start(&engine).await;
    let opening = tokio::spawn({
        let instance = instance.clone();
        async move { instance.open(Arc::new(AskableAgent)).await.err() }
    });
    let pid = eventually("a process", || std::fs::read_to_string(&pid_file).ok()?.trim().parse().ok()).await;
    within(TEST_TIMEOUT, instance.stop(Duration::from_secs(2))).await;
    wait_gone(pid).await;
    let refused = within(TEST_TIMEOUT, opening).await.unwrap();
    assert!(matches!(refused, Some(OpenError::Lost(Lost::Shutdown))), "{refused:?}");
}

/// The seats of a lost instance get the reason of its loss, in their calls too, and not that their processes were
/// killed.
#[tokio::test]
async fn seats_of_a_lost_instance_get_its_reason() {
    let fixture = FakeEngineFixture::new();
    let instance = fixture.start(2, &[]).await;
    let mut busy = open(&instance).await;
    let idle = open(&instance).await;
    let gate = fixture.gate();
    let params =
        greenroom_core::raw::encode(&json!({ "name": "wait", "arguments": { "file": gate.path() } }));
    let running = tokio::spawn(async move {
        let call = Call::new("wait", params);
        busy.call(call, Arc::new(AskableAgent)).await.err()
    });
    gate.arrived(1).await;

    let why = Lost::HealthCheckFailed("three checks unanswered".into());
    instance.mark_lost(why.clone());
    instance.stop(Duration::ZERO).await;
    assert_eq!(within(TEST_TIMEOUT, running).await.unwrap(), Some(why.clone()));
    assert_eq!(*idle.lost().borrow(), Some(why.clone()));
    assert_eq!(*instance.lost().borrow(), Some(why));
}

/// With one slot a command that no longer works is the instance's loss, so that the instance does not count as healthy; with
/// more it is only the seat's failure.
#[tokio::test]
async fn broken_command_loses_a_one_slot_instance() {
    for slots in [1, 2] {
        let fixture = FakeEngineFixture::new();
        let script = format!("exec {}", greenroom_testkit::fake_engine_path().display());
        let program = fixture.script("engine", &script);
        let server = CustomServer::Command { program, args: Vec::new() };
        let engine = CustomEngine { server, ..fixture.custom(slots, &[]) };
        let instance = start(&engine).await;
        open(&instance).await.close().await;
        fixture.script("engine", "echo 'no license' >&2; exit 1");

        let refused = instance.open(Arc::new(AskableAgent)).await.err().unwrap();
        assert!(refused.to_string().contains("no license"), "{refused}");
        let lost = instance.lost().borrow().clone();
        match refused {
            OpenError::Lost(why) => assert_eq!((slots, lost), (1, Some(why))),
            OpenError::Failed(_) | OpenError::Late(_) => assert_eq!((slots, lost), (2, None)),
        }
        instance.stop(Duration::ZERO).await;
    }
}
