//! Agents that know greenroom's skill and nothing else of it place an order in the shop: one by commands alone, one that
//! also has MCP tools and uses both in one session.

use std::{collections::BTreeSet, path::Path};

use greenroom_testkit::{
    Site,
    http::HttpMcpClient,
    markdown_commands,
    shopping_agent::{Element, ORDER, PageKnowledge, STEPS, ShoppingAction, ShoppingStep, ref_of},
    text_of,
};
use serde_json::{Value, json};

use super::{
    command_line::serve,
    fixture::{DataFolder, REVISION},
};
use crate::control::run_verb::run_verb_in;

const SKILL: &str = include_str!("../../../../../packaging/plugin/skills/greenroom/SKILL.md");

/// The verbs of the skill's examples, and all flags that it names.
fn documented() -> BTreeSet<String> {
    let verbs = markdown_commands(SKILL, "greenroom").into_iter().map(|words| words[1].clone());
    let words = SKILL.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
    verbs.chain(words.filter(|word| word.starts_with("--")).map(str::to_owned)).collect()
}

/// An agent in a shell. It follows a fixed script, and knows of the page what its commands and calls have given it.
struct SkillAgent<'a> {
    data: &'a Path,
    site: &'a Site,
    documented: BTreeSet<String>,
    /// The session that it names in its commands; without one it leaves the name out.
    session: Option<&'static str>,
    /// The MCP tools that the agent has in addition to the commands.
    mcp: Option<&'a HttpMcpClient>,
    page: PageKnowledge,
    printed_bytes: usize,
}

impl SkillAgent<'_> {
    /// Runs a command that the skill documents, which must succeed.
    async fn run(&mut self, arguments: &[&str]) -> String {
        let mut line = arguments.to_vec();
        if let Some(session) = self.session {
            line.extend(["--session", session]);
        }
        for word in line.iter().take(1).chain(line.iter().filter(|word| word.starts_with("--"))) {
            assert!(self.documented.contains(*word), "the skill does not tell an agent of `{word}`");
        }
        let said = run_verb_in(self.data, &line).await;
        assert_eq!(said.code, 0, "{line:?}: {said:?}");
        self.printed_bytes += said.stdout.len();
        said.stdout
    }

    /// Calls a tool over MCP, in the same session.
    async fn call(&mut self, client: &HttpMcpClient, tool: &str, mut arguments: Value) -> String {
        arguments["sessionId"] = json!(self.session);
        let answer = client.call(tool, arguments).await;
        assert!(answer["result"]["isError"] != true, "{tool}: {answer}");
        text_of(&answer)
    }

    /// The ref of an element: from what was printed of the page, or else by `find`.
    async fn find(&mut self, Element(role, name): &Element) -> String {
        let words = format!("{role} \"{name}\"");
        if let Some(found) = self.page.texts().find_map(|text| ref_of(text, &words)) {
            return found;
        }
        let more = self.run(&["find", name]).await;
        self.page.add_recalled(&more);
        ref_of(&more, &words).unwrap_or_else(|| panic!("no {words}: {more}"))
    }

    async fn by_command(&mut self, action: &ShoppingAction) -> String {
        match action {
            ShoppingAction::Navigate => {
                self.run(&["open", self.site.url("/shop").trim_start_matches("http://")]).await
            }
            ShoppingAction::Click(element) => {
                let target = self.find(element).await;
                self.run(&["click", &target]).await
            }
            ShoppingAction::Type(element, text) => {
                let target = self.find(element).await;
                self.run(&["type", &target, text]).await
            }
            ShoppingAction::Submit(element, text) => {
                let target = self.find(element).await;
                self.run(&["type", &target, text, "--submit"]).await
            }
            ShoppingAction::Select(element, value) => {
                let target = self.find(element).await;
                self.run(&["select", &target, value]).await
            }
            ShoppingAction::FillForm(fields) => {
                let mut command = vec!["fill".to_owned()];
                for (element, value) in *fields {
                    let target = self.find(element).await;
                    match element.0 {
                        "combobox" => drop(self.run(&["select", &target, value]).await),
                        _ => command.push(format!("{target}={value}")),
                    }
                }
                self.run(&command.iter().map(String::as_str).collect::<Vec<_>>()).await
            }
            ShoppingAction::Snapshot => self.run(&["snapshot"]).await,
            ShoppingAction::Evaluate(function) => self.run(&["eval", function]).await,
            ShoppingAction::ListTabs => self.run(&["tabs"]).await,
        }
    }

    /// The same by a tool; actions that have no tool here are left to commands.
    async fn by_tool(&mut self, client: &HttpMcpClient, action: &ShoppingAction) -> Option<String> {
        let (tool, arguments) = match action {
            ShoppingAction::Click(element) => {
                ("browser_click", json!({ "target": self.find(element).await }))
            }
            ShoppingAction::Type(element, text) => {
                ("browser_type", json!({ "target": self.find(element).await, "text": text }))
            }
            ShoppingAction::Select(element, value) => {
                ("browser_select_option", json!({ "target": self.find(element).await, "values": [value] }))
            }
            ShoppingAction::Snapshot => ("browser_snapshot", json!({})),
            ShoppingAction::Evaluate(function) => ("browser_evaluate", json!({ "function": function })),
            _ => return None,
        };
        Some(self.call(client, tool, arguments).await)
    }

    /// Takes all steps, every second one over MCP if the agent has it. The order must be the right one. Returns how many
    /// steps were calls over MCP.
    async fn shop(&mut self) -> usize {
        let mut calls = 0;
        for (number, ShoppingStep(action, expected)) in STEPS.iter().enumerate() {
            let called = match self.mcp.filter(|_| number % 2 == 1) {
                Some(client) => self.by_tool(client, action).await,
                None => None,
            };
            calls += usize::from(called.is_some());
            let answer = match called {
                Some(answer) => answer,
                None => self.by_command(action).await,
            };
            self.page.add_answer(&answer, None);
            let seen = self.page.newest().contains(expected)
                || self.run(&["find", expected]).await.contains(expected);
            assert!(seen, "step {}: `{expected}` is nowhere after {action:?}: {answer}", number + 1);
        }
        let requests = self.site.requests().into_iter();
        let placed: Vec<_> = requests.filter(|seen| seen.path == "/shop/order").collect();
        let query = placed.last().and_then(|seen| seen.query.clone()).unwrap_or_default();
        assert!(placed.len() == 1 && query.starts_with(ORDER), "another order was placed: {query}");
        calls
    }
}

/// The twenty steps of the shop task, by the skill's commands alone: the order is the right one.
#[tokio::test]
async fn skill_agent_shops_by_commands() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let server = serve(&data).await;
    let mut agent = SkillAgent {
        data: data.path(),
        site: &site,
        documented: documented(),
        session: None,
        mcp: None,
        page: PageKnowledge::default(),
        printed_bytes: 0,
    };
    assert_eq!(agent.shop().await, 0);
    println!("the task printed {} bytes", agent.printed_bytes);
    agent.run(&["close"]).await;
    server.stop().await;
}

/// The same by an agent that uses commands and MCP tools in turn, on one session: refs of one are good for the other.
#[tokio::test]
async fn skill_agent_shops_by_commands_and_mcp() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let server = serve(&data).await;
    let client = HttpMcpClient::open(&server, REVISION, json!({})).await;
    let mut agent = SkillAgent {
        data: data.path(),
        site: &site,
        documented: documented(),
        session: Some("shop"),
        mcp: Some(&client),
        page: PageKnowledge::default(),
        printed_bytes: 0,
    };
    let calls = agent.shop().await;
    assert!((6..=STEPS.len() - 6).contains(&calls), "{calls} of the steps were calls over MCP");
    let sessions = text_of(&client.call("session_list", json!({})).await);
    assert_eq!(sessions.matches("\"id\"").count(), 1, "both have one session: {sessions}");
    agent.run(&["close"]).await;
    server.stop().await;
}

/// What the skill says of refs, of long pages, of dialogs, of other tools, of files and of a restart holds.
#[tokio::test]
async fn claims_of_the_skill_hold() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let server = serve(&data).await;
    let run = async |arguments: &[&str]| {
        let said = run_verb_in(data.path(), arguments).await;
        assert_eq!(said.code, 0, "{arguments:?}: {said:?}");
        said.stdout
    };
    let opened = run(&["open", &site.url("/menu")]).await;
    let button = ref_of(&opened, "button \"Open menu\"").unwrap();
    run(&["call", "browser_hover", &format!("target={button}")]).await;
    let clicked = run(&["click", "text=Open menu"]).await;
    let record = clicked.lines().find_map(|line| line.trim().strip_prefix("ref_id: ")).unwrap();
    let id = record.split_whitespace().next().unwrap();
    let read = run(&["call", "get_content", &format!("ref_id={id}"), "search_for=first"]).await;
    assert!(read.contains("first entry"), "{read}");
    assert!(run(&["eval", "document.title"]).await.contains("### Result"));
    run(&["tabs", "new", site.url("/form").trim_start_matches("http://")]).await;
    run(&["tabs", "select", "0"]).await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("cv.pdf"), "%PDF-1.4").unwrap();
    run(&["open", &site.url("/upload")]).await;
    run(&["click", "#file"]).await;
    // The working directory of the other commands is greenroom's data folder, from which nothing is uploaded.
    let upload = tokio::process::Command::new(env!("CARGO_BIN_EXE_greenroom"))
        .args(["call", "browser_file_upload", "paths=[\"cv.pdf\"]", "--data-dir"])
        .arg(data.path())
        .current_dir(folder.path())
        .output();
    let uploaded = upload.await.unwrap();
    assert!(uploaded.status.success(), "{uploaded:?}");
    let name = run(&["eval", "document.querySelector('#file').files[0].name"]).await;
    assert!(name.contains("cv.pdf"), "{name}");

    // An answer that comes after the end of a download gives its path.
    run(&["open", &site.url("/")]).await;
    let mut said = run(&["click", "a[href='/download']"]).await;
    while !said.contains("Downloaded file report.txt to \"") {
        said = run(&["eval", "0"]).await;
    }
    let path = said.split("Downloaded file report.txt to \"").nth(1).unwrap().split('"').next().unwrap();
    assert_eq!(std::fs::read_to_string(path).unwrap(), "greenroom download\n");

    let long = run(&["open", &site.url("/table?rows=900")]).await;
    assert!(long.contains("snapshot cut: ") && !long.contains("button \"open 450\""), "{long}");
    assert!(run(&["find", "open 450"]).await.contains("button \"open 450\" [ref="));
    let record = long.lines().find_map(|line| line.trim().strip_prefix("ref_id: ")).unwrap();
    let id = format!("ref_id={}", record.split_whitespace().next().unwrap());
    assert!(run(&["call", "get_content", &id, "search_for=open 450"]).await.contains("button \"open 450\""));

    run(&["open", &site.url("/dialog")]).await;
    let asked = run(&["click", "text=Confirm"]).await;
    assert!(asked.contains("### Modal state") && asked.contains("are you sure?"), "{asked}");
    run(&["call", "browser_handle_dialog", "accept=true"]).await;
    assert!(run(&["snapshot"]).await.contains("confirmed true"));
    // A picture goes to any path, also outside of the folder in which the command runs.
    let picture = folder.path().join("page.png");
    run(&["screenshot", picture.to_str().unwrap()]).await;
    assert!(std::fs::read(&picture).unwrap().starts_with(b"\x89PNG"));

    let said = run_verb_in(data.path(), &["sessions"]).await;
    assert!(said.stdout.contains("default"), "{said:?}");
    run(&["sessions", "close", "default"]).await;
    let restarted = run(&["open", &site.url("/form")]).await;
    assert!(restarted.contains("session restarted: "), "{restarted}");
    server.stop().await;
}
