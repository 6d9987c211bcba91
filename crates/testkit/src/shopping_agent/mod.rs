//! An agent that places an order in the shop of the test site, and counts what it receives meanwhile.
//!
//! It uses nothing but the texts that it receives: it finds refs in them by role and name, and sees whether a call has had
//! its effect. Where an answer does not show that, it asks for more as the answer says: it reads the linked file, or
//! searches with `get_content`. So the same steps show what each form of answers costs. [`steps`] lists the calls.

mod page_knowledge;
mod steps;

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::{
    client::{Client, text_of},
    site::Site,
};
pub use page_knowledge::{PageKnowledge, ref_of};
pub use steps::{Element, ORDER, STEPS, ShoppingAction, ShoppingStep};

/// How the agent receives pages.
#[derive(Debug, Clone)]
pub enum SnapshotDelivery {
    /// Answers link to snapshots: the agent reads their files, relative to this folder.
    Files(PathBuf),
    /// Answers have snapshots in them, perhaps cut.
    Inline,
    /// Answers have snapshots, or only the changes of a page that the agent was sent before, as greenroom decides.
    Auto,
    /// Answers have snapshots, but the agent asks for changes alone once it knows the page.
    Diff,
    /// Answers have a ref_id only, by which the agent searches the record.
    Refs,
    /// Answers link to files that are elsewhere: the agent recalls whole snapshots.
    Raw,
}

/// A scripted agent, or several, that place one order.
pub struct ShoppingAgent<'a> {
    /// The agents that share the task, each with what it knows. They take turns, in one session.
    agents: Vec<(&'a Client, PageKnowledge)>,
    /// The index of the agent whose turn it is.
    turn: usize,
    /// The session that the agents name in every call.
    session: Option<&'static str>,
    /// An agent forgets everything that it was sent after this many calls.
    memory: usize,
    /// The tools that the agent was listed, if it keeps to them; it reaches all others through `more_tools`.
    listed: Option<Vec<String>>,
    /// The tools that `more_tools` has described to it.
    described: Vec<String>,
    delivery: SnapshotDelivery,
    received: Vec<String>,
    /// How often an agent had to ask for more.
    follow_ups: usize,
}

/// What the agents received and how many calls they needed.
#[derive(Debug)]
pub struct ShoppingCost {
    /// Every text that the agent received, in order.
    pub received: Vec<String>,
    /// Calls that drove the browser.
    pub calls: usize,
    /// Files read, and calls that recalled something.
    pub follow_ups: usize,
}

impl<'a> ShoppingAgent<'a> {
    pub fn new(client: &'a Client, delivery: SnapshotDelivery) -> Self {
        let agents = vec![(client, PageKnowledge::default())];
        Self {
            agents,
            turn: 0,
            session: None,
            memory: usize::MAX,
            listed: None,
            described: Vec::new(),
            delivery,
            received: Vec::new(),
            follow_ups: 0,
        }
    }

    /// The agent forgets everything that it was sent after so many calls, as a client does that shortens its history.
    pub fn forgets_after(mut self, calls: usize) -> Self {
        self.memory = calls;
        self
    }

    /// The agent knows only the tools in this answer of `tools/list`. It asks `more_tools` for the names of the others and
    /// for the parameters of each that it needs, and runs it through `more_tools`, as a model has to.
    pub fn with_listed_tools(mut self, listed: &Value) -> Self {
        let tools = listed["result"]["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
        self.listed =
            Some(tools.iter().filter_map(|tool| tool["name"].as_str()).map(ToOwned::to_owned).collect());
        self
    }

    /// Another agent makes every second call, in the same session.
    pub fn takes_turns_with(mut self, other: &'a Client, session: &'static str) -> Self {
        self.agents.push((other, PageKnowledge::default()));
        self.session = Some(session);
        self
    }

    fn page(&mut self) -> &mut PageKnowledge {
        let turn = self.turn;
        &mut self.agents[turn].1
    }

    /// Runs all steps. Panics if an answer shows no next element, or if the shop received another order.
    pub async fn run(mut self, site: &Site) -> ShoppingCost {
        let orders = site.hits("/shop/order");
        for (number, ShoppingStep(action, expected)) in STEPS.iter().enumerate() {
            self.turn = number % self.agents.len();
            if number > 0 && number % self.memory == 0 {
                *self.page() = PageKnowledge::default();
            }
            self.perform(action, site).await;
            let seen = self.page_shows(expected).await;
            let last = self.received.last().map_or("", String::as_str);
            assert!(seen, "step {}: `{expected}` is nowhere after {action:?}: {last}", number + 1);
        }
        let placed: Vec<_> = site.requests().into_iter().filter(|seen| seen.path == "/shop/order").collect();
        assert_eq!(placed.len(), orders + 1, "one order is placed");
        let query = placed.last().and_then(|seen| seen.query.clone()).unwrap_or_default();
        assert!(query.starts_with(ORDER), "another order was placed: {query}");
        ShoppingCost { received: self.received, calls: STEPS.len(), follow_ups: self.follow_ups }
    }

    async fn perform(&mut self, action: &ShoppingAction, site: &Site) {
        let (tool, mut arguments) = match action {
            ShoppingAction::Navigate => ("browser_navigate", json!({ "url": site.url("/shop") })),
            ShoppingAction::Click(element) => ("browser_click", self.target(element).await),
            ShoppingAction::Type(element, text) => {
                ("browser_type", with(self.target(element).await, "text", json!(text)))
            }
            ShoppingAction::Submit(element, text) => {
                let arguments = with(self.target(element).await, "text", json!(text));
                ("browser_type", with(arguments, "submit", json!(true)))
            }
            ShoppingAction::Select(element, value) => {
                ("browser_select_option", with(self.target(element).await, "values", json!([value])))
            }
            ShoppingAction::FillForm(fields) => {
                let mut filled = Vec::new();
                for (element, value) in *fields {
                    let Element(role, name) = element;
                    let target = self.find(element).await;
                    filled.push(json!({ "target": target, "name": name, "type": role, "value": value }));
                }
                ("browser_fill_form", json!({ "fields": filled }))
            }
            ShoppingAction::Snapshot => ("browser_snapshot", json!({})),
            ShoppingAction::Evaluate(function) => ("browser_evaluate", json!({ "function": function })),
            ShoppingAction::ListTabs => ("browser_tabs", json!({ "action": "list" })),
        };
        if matches!(self.delivery, SnapshotDelivery::Diff) && self.page().has_ref_id() {
            arguments["mode"] = json!("diff");
        }
        let response = self.call(tool, arguments).await;
        let text = self.received.last().cloned().unwrap_or_default();
        self.page().add_answer(&text, response["result"]["_meta"]["greenroom/ref_id"].as_str());
    }

    /// The arguments that name an element.
    async fn target(&mut self, element: &Element) -> Value {
        json!({ "target": self.find(element).await, "element": element.1 })
    }

    /// The ref of an element: from what is known of the page, or else by asking for more.
    async fn find(&mut self, element: &Element) -> String {
        let Element(role, name) = element;
        let words = format!("{role} \"{name}\"");
        let known = self.page().texts().find_map(|text| ref_of(text, &words));
        match known {
            Some(found) => found,
            None => {
                let more = self.read_more(&words).await;
                ref_of(&more, &words).unwrap_or_else(|| panic!("no {words} on the page: {more}"))
            }
        }
    }

    /// Whether the last call shows this text.
    async fn page_shows(&mut self, expected: &str) -> bool {
        if self.page().newest().contains(expected) {
            return true;
        }
        // The answer itself may have the text, such as the value of an evaluation.
        let answer = self.page().recallable_answer();
        if has_line(&self.read_more(expected).await, expected) {
            return true;
        }
        let Some(ref_id) = answer else { return false };
        self.follow_ups += 1;
        has_line(&self.recall(json!({ "ref_id": ref_id, "search_for": expected })).await, expected)
    }

    /// Asks for more of the page than the answer had: all of it, or the lines with these words.
    async fn read_more(&mut self, words: &str) -> String {
        let link = self.page().link().map(str::to_owned);
        let ref_id = self.page().ref_id();
        let text = match (&self.delivery, link, ref_id) {
            // An agent without a page takes a snapshot.
            (SnapshotDelivery::Auto, _, None) => return self.take_snapshot(words).await,
            (SnapshotDelivery::Files(folder), Some(link), _) => {
                let path = folder.join(link);
                let text = std::fs::read_to_string(&path);
                let text = text.unwrap_or_else(|error| panic!("`{}`: {error}", path.display()));
                self.received.push(text.clone());
                text
            }
            (SnapshotDelivery::Raw, _, Some(ref_id)) => self.recall(json!({ "ref_id": ref_id })).await,
            (
                SnapshotDelivery::Inline
                | SnapshotDelivery::Auto
                | SnapshotDelivery::Diff
                | SnapshotDelivery::Refs,
                _,
                Some(ref_id),
            ) => self.recall(json!({ "ref_id": ref_id, "search_for": words })).await,
            _ => return String::new(),
        };
        self.follow_ups += 1;
        self.page().add_recalled(&text);
        // Another agent may have changed the page since this one was sent it.
        if matches!(self.delivery, SnapshotDelivery::Auto) && self.agents.len() > 1 && !has_line(&text, words)
        {
            return self.take_snapshot(words).await;
        }
        text
    }

    /// Takes a snapshot, and searches it if it was cut.
    async fn take_snapshot(&mut self, words: &str) -> String {
        let response = self.call("browser_snapshot", json!({})).await;
        let text = self.received.last().cloned().unwrap_or_default();
        let ref_id = response["result"]["_meta"]["greenroom/ref_id"].as_str();
        self.page().add_answer(&text, ref_id);
        self.follow_ups += 1;
        if has_line(&text, words) {
            return text;
        }
        let text = self.recall(json!({ "ref_id": ref_id, "search_for": words })).await;
        self.page().add_recalled(&text);
        text
    }

    async fn recall(&mut self, arguments: Value) -> String {
        self.call("get_content", arguments).await;
        self.received.last().cloned().unwrap_or_default()
    }

    /// Calls a tool, if need be through `more_tools`.
    async fn call(&mut self, tool: &str, mut arguments: Value) -> Value {
        if let Some(session) = self.session.filter(|_| tool != "get_content") {
            arguments["sessionId"] = json!(session);
        }
        let is_listed = |listed: &Vec<String>| listed.iter().any(|name| name == tool);
        if self.listed.as_ref().is_none_or(is_listed) {
            return self.call_listed(tool, arguments).await;
        }
        if self.described.is_empty() {
            self.call_listed("more_tools", json!({})).await;
            let names = self.received.last().map_or("", String::as_str);
            let named = names.lines().any(|line| line.split(':').next() == Some(tool));
            assert!(named, "`more_tools` does not name `{tool}`: {names}");
        }
        if !self.described.iter().any(|name| name == tool) {
            self.call_listed("more_tools", json!({ "tool": tool })).await;
            self.described.push(tool.to_owned());
        }
        self.call_listed("more_tools", json!({ "tool": tool, "arguments": arguments })).await
    }

    /// Calls a tool, which must succeed, and keeps what a model would be given of its answer.
    async fn call_listed(&mut self, tool: &str, arguments: Value) -> Value {
        let response = self.agents[self.turn].0.call(tool, arguments.clone()).await;
        let text = text_of(&response);
        assert!(response["result"]["isError"] != true, "`{tool}` failed with {arguments}: {text}");
        self.received.push(text);
        response
    }
}

/// Whether a line of a page has these words. The note of a search without a hit repeats them.
fn has_line(text: &str, words: &str) -> bool {
    text.lines().any(|line| line.contains(words) && !line.starts_with("no line of "))
}

fn with(mut arguments: Value, name: &str, value: Value) -> Value {
    arguments[name] = value;
    arguments
}
