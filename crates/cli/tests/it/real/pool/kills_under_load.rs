//! A dozen agents in three browsers, while one instance after the other is killed.
//!
//! Every call must end, in a result or in an error with one of the [`KNOWN`] codes. The pool's status must be
//! consistent at every poll: [`status_invariants`](super::status_invariants) checks that.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    time::Duration,
};

use greenroom_testkit::{Site, http::HttpMcpClient, within};
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};

use super::{KillTarget, PoolFixture, status_invariants};
use crate::real::fixture::{ToolAnswer, all};

const AGENTS: usize = 12;

const POOL: [(&str, &str); 5] = [
    ("PW_MCP_PROXY__SOAK_INSTANCES", "3"),
    ("PW_MCP_PROXY__SOAK_IS_DEFAULT", "true"),
    ("PW_MCP_PROXY__SOAK_RESTARTS", "100"),
    ("PW_MCP_PROXY__SOAK_LEASE_TIMEOUT", "20000"),
    ("PW_MCP_PROXY__SOAK__2_ALIAS", "last"),
];

/// How long a call may take: 20 s in the queue and 30 s in a browser are over by then.
const DEADLINE: Duration = Duration::from_secs(55);

/// Errors of a call whose browser was killed, before or during it, or that waited too long for one.
const KNOWN: [&str; 5] = ["session_lost", "not_run", "instance_down", "lease_timeout", "no_session"];

/// The pause between two polls of the pool: short enough to see every state that an instance goes through.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Two instances are killed while a dozen agents are at work; see [`kills_under_load`].
#[tokio::test]
async fn pool_survives_killed_instances_under_load() {
    kill_under_load(2, Duration::from_secs(3)).await;
}

/// Kills an instance of three this many times, its browser and its engine in turns, while agents of every kind call: every
/// call ends, the pool's status is right throughout, and all instances are back afterwards.
pub async fn kill_under_load(kills: usize, every: Duration) {
    let site = Site::start().await;
    let fixture = PoolFixture::open("SOAK", &POOL).await;
    let run = LoadRun { site, fixture, finished: Cell::new(false), tally: RefCell::default() };
    let killing = async {
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        for kill in 0..kills {
            ticks.tick().await;
            run.kill(kill % 3, [KillTarget::Browser, KillTarget::Node][kill % 2]).await;
        }
        ticks.tick().await;
        run.finished.set(true);
    };
    tokio::join!(killing, run.watch(), all((0..AGENTS).map(|number| run.run_agent(number))));

    let LoadRun { site, fixture, tally, .. } = run;
    println!("{:#?}", tally.borrow());
    let successes = tally.borrow().keys().filter(|what| what.ends_with(": ok")).count();
    assert_eq!(successes, 4, "agents of every kind had some success");
    let calm = fixture.until(|pool| pool["available_instances"] == 3).await;
    assert_eq!((&calm["leased_instances"], &calm["total_instances"]), (&json!(0), &json!(3)), "{calm}");
    let agent = fixture.agent().await;
    for instance in ["0", "1", "last"] {
        super::navigate(&agent, &site.url("/title"), Some(instance)).await.ok();
    }
    fixture.close().await;
}

struct LoadRun {
    site: Site,
    fixture: PoolFixture,
    finished: Cell<bool>,
    /// The counts of calls by kind and outcome.
    tally: RefCell<BTreeMap<String, usize>>,
}

impl LoadRun {
    /// Kills a part of an instance, sees it leave the pool, and waits until it is back.
    async fn kill(&self, instance: usize, target: KillTarget) {
        let before = self.fixture.pool().await["instances"][instance]["process_id"].clone();
        let killed = self.fixture.kill(instance, target).await;
        println!("killed the {target:?} of instance {instance}, process {killed}");
        let gone = self.fixture.until(|pool| pool["instances"][instance]["status"] != "healthy").await;
        assert_eq!(gone["total_instances"], 3, "{gone}");
        let back = |pool: &Value| pool["instances"][instance]["status"] == "healthy";
        let pool = self.fixture.until(back).await;
        assert_ne!(pool["instances"][instance]["process_id"], before, "another process: {pool}");
    }

    /// Checks the pool's status until the test is over.
    async fn watch(&self) {
        let agent = self.fixture.agent().await;
        while !self.finished.get() {
            status_invariants::status(&self.fixture.status(&agent).await, 3);
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// An agent, of one of four kinds.
    async fn run_agent(&self, number: usize) {
        let agent = self.fixture.agent().await;
        for round in 0.. {
            if self.finished.get() {
                return;
            }
            let title = format!("agent-{number}-{round}");
            match number % 4 {
                0 => self.without_session(&agent, &title).await,
                1 => self.with_session(&agent, &title).await,
                2 => self.by_name(&agent, &title, ["0", "1", "last"][round % 3]).await,
                _ => self.several_at_once(&agent, &title).await,
            }
        }
    }

    /// Makes a call and counts its outcome. `None` if it failed as calls may here.
    async fn call(
        &self,
        kind: &str,
        agent: &HttpMcpClient,
        tool: &str,
        arguments: Value,
    ) -> Option<ToolAnswer> {
        let answer = within(DEADLINE, agent.call(tool, arguments)).await;
        assert!(answer["result"].is_object(), "{kind}: {answer}");
        let answer = ToolAnswer::new(answer);
        let outcome = match (answer.is_error(), answer.code()) {
            (false, _) => "ok",
            (true, code) if KNOWN.contains(&code) => code,
            (true, _) if is_lost_command(&answer) => "a command's browser was lost",
            (true, _) => panic!("{kind}: {tool} failed without a known code: {}", answer.response),
        };
        *self.tally.borrow_mut().entry(format!("{kind}: {outcome}")).or_default() += 1;
        (!answer.is_error()).then_some(answer)
    }

    fn page(&self, title: &str) -> String {
        self.site.url(&format!("/title?t={title}"))
    }

    async fn without_session(&self, agent: &HttpMcpClient, title: &str) {
        let navigation = json!({ "url": self.page(title) });
        if let Some(answer) = self.call("without session", agent, "browser_navigate", navigation).await {
            assert!(answer.text().contains(title), "another page: {}", answer.text());
        }
    }

    async fn by_name(&self, agent: &HttpMcpClient, title: &str, instance: &str) {
        let navigation = json!({ "url": self.page(title), "browser_instance": instance });
        if let Some(answer) = self.call("by name", agent, "browser_navigate", navigation).await {
            assert!(answer.text().contains(title), "another page: {}", answer.text());
        }
    }

    /// A session of two calls. Its instance is leased between them, unless it was lost.
    async fn with_session(&self, agent: &HttpMcpClient, title: &str) {
        let kind = "with session";
        let navigation = json!({ "url": self.page(title), "sessionId": title });
        let arrived = self.call(kind, agent, "browser_navigate", navigation).await;
        let instance = if arrived.is_some() { self.instance_of(agent, title).await } else { None };
        let leased = match instance {
            Some(instance) => self.fixture.pool().await["instances"][instance]["leased"] == true,
            None => false,
        };
        let again = self.call(kind, agent, "browser_snapshot", json!({ "sessionId": title })).await;
        let again = again.filter(|answer| arrived.is_some() && !answer.text().contains("session restarted"));
        if let Some(answer) = again {
            assert!(answer.text().contains(title), "another page: {}", answer.text());
            assert!(leased, "session {title} was in {instance:?}, which was not leased");
        }
        self.call(kind, agent, "session_close", json!({ "sessionId": title })).await;
    }

    /// Where a session lives, if it exists.
    async fn instance_of(&self, agent: &HttpMcpClient, session: &str) -> Option<usize> {
        let list = ToolAnswer::new(agent.call("session_list", json!({})).await).ok();
        let list: Value = serde_json::from_str(&list).unwrap();
        let found = list["sessions"].as_array().unwrap().iter().find(|listed| listed["id"] == session)?;
        found["instance"].as_str()?.parse().ok()
    }

    async fn several_at_once(&self, agent: &HttpMcpClient, title: &str) {
        let commands = json!([
            { "tool": "browser_navigate", "args": { "url": self.page(title) } },
            { "tool": "browser_evaluate", "args": { "function": "() => document.title" }, "return_result": true },
        ]);
        let bulk = json!({ "commands": commands });
        if let Some(answer) = self.call("several at once", agent, "browser_execute_bulk", bulk).await {
            let bulk_result: Value = serde_json::from_str(&answer.text()).unwrap();
            let result = bulk_result["results"][1]["content"][0]["text"].as_str().unwrap();
            assert!(result.contains(title), "another page: {bulk_result}");
        }
    }
}

/// Whether one of several commands failed because its browser was killed during it, which ends the rest.
fn is_lost_command(answer: &ToolAnswer) -> bool {
    let bulk_result = &answer.response["result"]["structuredContent"];
    let at = bulk_result["stopped_at"].as_u64().and_then(|at| usize::try_from(at).ok());
    let error = at.and_then(|at| bulk_result["errors"][at].as_str());
    error.is_some_and(|error| error.starts_with("the session was lost during this call: "))
}
