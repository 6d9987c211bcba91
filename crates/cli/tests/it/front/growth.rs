//! greenroom frees all resources of a session: a thousand sessions leave nothing behind.

use greenroom_testkit::{
    Client, eventually,
    process::{children, open_fds, rss},
};
use serde_json::json;

use super::fixture::{FakeEngineSetup, sessions};

/// Sessions before the first measurement: allocators, caches and thread pools have their final size then.
const WARM_UP: usize = 100;

/// How much the memory of greenroom may grow over all measured sessions, in bytes. If each session leaked only its id,
/// its queue and its task, a thousand sessions would exceed this.
const GROWTH_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// How many sessions are closed at once, as agents would.
const WIDTH: usize = 4;

/// Makes and ends this many sessions: most are closed, some die, some are never used.
async fn churn(client: &Client, count: usize) {
    for round in 0..count / WIDTH {
        let id = |n: usize| json!({"sessionId": format!("s{round}-{n}")});
        let mut calls = Vec::new();
        for n in 0..WIDTH - 1 {
            calls.push(client.start_call("pid", id(n)).await);
        }
        calls.push(client.start_call("create_new_session", id(WIDTH - 1)).await);
        for call in calls {
            assert!(call.response().await["result"]["isError"].is_null());
        }
        let mut ends = vec![client.start_call("die", id(0)).await];
        for n in 1..WIDTH {
            ends.push(client.start_call("session_close", id(n)).await);
        }
        for end in ends {
            end.response().await;
        }
    }
    assert_eq!(sessions(client).await.len(), 0);
}

/// Returns when nothing is left of the sessions: those that died end after their answers.
async fn until_given_back(setup: &FakeEngineSetup, client: &Client) {
    let nothing = || children(client.pid()).is_empty() && setup.seats().is_empty();
    eventually("the end of every process and folder", || nothing().then_some(())).await;
}

async fn nothing_grows(count: usize) {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    churn(&client, WARM_UP).await;
    until_given_back(&setup, &client).await;
    let memory = rss(client.pid());
    let handles = open_fds(client.pid());
    churn(&client, count).await;
    until_given_back(&setup, &client).await;
    let grown = rss(client.pid()).saturating_sub(memory);
    assert!(grown <= GROWTH_BYTES_MAX, "{grown} bytes more than before");
    // A process's pipes are closed shortly after its end.
    eventually("no more handles than before", || (open_fds(client.pid()) <= handles).then_some(())).await;
}

/// A thousand sessions leave no memory, process, file handle or folder behind.
#[tokio::test]
async fn a_thousand_sessions_leave_nothing() {
    nothing_grows(1_000).await;
}

mod soak {
    /// Twenty thousand sessions stay within the same bounds: a growth of a few bytes each shows here.
    #[tokio::test]
    async fn twenty_thousand_sessions_leave_nothing() {
        greenroom_testkit::require_long_tests();
        super::nothing_grows(20_000).await;
    }
}
