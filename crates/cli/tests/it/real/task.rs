//! One task of twenty calls, run with the engine alone and in the forms of answers that save tokens: it succeeds in each, at
//! the promised cost. The long tests run it in the other forms.

use std::path::Path;

use greenroom_engine::{
    browser::{self, BrowserChoice, InstallPaths},
    install,
};
use greenroom_testkit::{Client, Launch, ShoppingAgent, Site, SnapshotDelivery, http::Server};
use serde_json::json;
use tiktoken_rs::o200k_base_singleton;

use super::fixture::{DataFolder, REVISION, launch};

/// The allowed part of the engine's tokens: as greenroom decides, with changes on request, and with names only.
const AUTO_MAX: f64 = 0.12;
const DIFF_MAX: f64 = 0.25;
const REFS_MAX: f64 = 0.05;

/// The engine alone, as one would start it.
pub fn engine(data: &Path) -> Launch {
    let install_paths = InstallPaths::new(std::env::home_dir(), std::env::var_os("PATH").unwrap_or_default());
    let browser = browser::find(&install_paths, true, BrowserChoice::Any, None).unwrap();
    let cli = install::PLAYWRIGHT.locate(data).unwrap().cli;
    let flags = ["--headless", "--isolated", "--no-sandbox", "--timeout-settle", "0", "--executable-path"];
    Launch::new("node").arg(cli).args(flags).arg(browser.path)
}

/// The tokens of everything that an agent received in its task.
async fn tokens(client: &Client, delivery: SnapshotDelivery, site: &Site) -> f64 {
    client.initialize(REVISION, json!({})).await;
    let cost = ShoppingAgent::new(client, delivery).run(site).await;
    let count = cost.received.iter().map(|text| o200k_base_singleton().count_ordinary(text)).sum::<usize>();
    count as f64
}

/// An order is placed in the forms of answers that save tokens, by an agent that has only what it received: for at most the
/// promised part of the tokens that the engine alone costs.
#[tokio::test]
async fn shopping_task_succeeds_with_few_tokens() {
    let forms = [
        (SnapshotDelivery::Auto, "auto", AUTO_MAX),
        (SnapshotDelivery::Diff, "inline", DIFF_MAX),
        (SnapshotDelivery::Refs, "refs", REFS_MAX),
    ];
    place_orders(&forms).await;
}

/// Places an order with the engine alone, and then one in each form, with at most the given part of the engine's tokens.
pub async fn place_orders(forms: &[(SnapshotDelivery, &str, f64)]) {
    let data = DataFolder::new();
    let site = Site::start().await;
    let alone = engine(data.path()).spawn();
    let folder = alone.home().to_owned();
    let all = tokens(&alone, SnapshotDelivery::Files(folder), &site).await;
    drop(alone);
    for (delivery, responses, most) in forms {
        let client = launch(data.path(), &["--responses", responses]).spawn();
        let ratio = tokens(&client, delivery.clone(), &site).await / all;
        assert!(ratio <= *most, "{delivery:?}: {ratio:.3} of the engine's tokens");
        client.close_stdin().await;
        client.wait().await;
    }
}

/// With `auto` and `tools.profile = "core"`, the task succeeds for an agent that keeps to the listed tools and asks `more_tools`
/// for the others: tools and instructions included, for at most the promised part of what the engine alone costs with its own.
#[tokio::test]
async fn shopping_task_with_core_tools_costs_few_tokens() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let alone = engine(data.path()).spawn();
    let folder = alone.home().to_owned();
    let all = tokens_with_tools(&alone, SnapshotDelivery::Files(folder), &site).await;
    drop(alone);
    let client = launch(data.path(), &["--tools-profile", "core"]).spawn();
    let core = tokens_with_tools(&client, SnapshotDelivery::Auto, &site).await;
    let ratio = core / all;
    assert!(ratio <= AUTO_MAX, "{core} of {all} tokens: {ratio:.4}");
    client.close_stdin().await;
    client.wait().await;
}

/// The tokens of everything that an agent received in its task and before it: tools, instructions, answers.
async fn tokens_with_tools(client: &Client, delivery: SnapshotDelivery, site: &Site) -> f64 {
    let hello = client.initialize(REVISION, json!({})).await;
    let listed = client.request("tools/list", json!({})).await;
    let cost = ShoppingAgent::new(client, delivery).with_listed_tools(&listed).run(site).await;
    let tools = listed["result"]["tools"].as_array().unwrap().iter().map(ToString::to_string);
    let instructions = hello["result"]["instructions"].as_str().unwrap_or_default().to_owned();
    let texts = cost.received.into_iter().chain(tools).chain([instructions]);
    texts.map(|text| o200k_base_singleton().count_ordinary(&text)).sum::<usize>() as f64
}

/// The task succeeds with `auto` also for an agent that forgets everything after eight calls, and for two agents that
/// take turns in one session.
#[tokio::test]
async fn shopping_task_succeeds_for_agents_that_lack_the_page() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let forgetful = launch(data.path(), &[]).spawn();
    forgetful.initialize(REVISION, json!({})).await;
    ShoppingAgent::new(&forgetful, SnapshotDelivery::Auto).forgets_after(8).run(&site).await;
    forgetful.close_stdin().await;
    forgetful.wait().await;

    // Both agents join one server, each with a connection of its own.
    let flags = ["serve", "--listen", "127.0.0.1:0", "--pool-timeout-settle", "0", "--data-dir"];
    let _server =
        Server::start(Launch::new(env!("CARGO_BIN_EXE_greenroom")).args(flags).arg(data.path())).await;
    let agents = [launch(data.path(), &[]).spawn(), launch(data.path(), &[]).spawn()];
    for agent in &agents {
        agent.initialize(REVISION, json!({})).await;
    }
    ShoppingAgent::new(&agents[0], SnapshotDelivery::Auto)
        .takes_turns_with(&agents[1], "shared")
        .run(&site)
        .await;
}
