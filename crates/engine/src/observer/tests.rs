//! The observer against a browser that the test simulates.

use greenroom_cdp::{
    EVENTS_MAX,
    message_stream::{self, MessageReader, MessageWriter},
};
use serde_json::Value;
use tokio::net::TcpListener;

use super::{task::changed_page, *};

/// The longest a test may take.
const DEADLINE: Duration = Duration::from_secs(60);

/// The browser's end of a connection.
struct FakeBrowser(MessageWriter, MessageReader);

impl FakeBrowser {
    async fn send(&mut self, message: &Value) {
        assert!(self.0.send(message.to_string().into()).await, "the observer has hung up");
    }

    /// Announces a page, or its new address.
    async fn announce_page(&mut self, event: &str, id: &str, url: &str) {
        let info =
            json!({ "targetId": id, "type": "page", "title": "", "url": url, "browserContextId": "C" });
        let method = format!("Target.{event}");
        self.send(&json!({ "method": method, "params": { "targetInfo": info } })).await;
    }

    /// Waits for a call of this method, and returns its number.
    async fn expect_call(&mut self, method: &str) -> u64 {
        let text = self.1.next().await.expect("the observer has hung up");
        let call: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(call["method"], method);
        call["id"].as_u64().unwrap()
    }

    async fn reply(&mut self, id: u64, result: &Value) {
        self.send(&json!({ "id": id, "result": result })).await;
    }
}

/// An observer, and the browser that it observes.
async fn observer_with_fake_browser() -> (Observer, FakeBrowser) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("ws://{}/browser", listener.local_addr().unwrap());
    let simulation = async {
        let (stream, _) = listener.accept().await.unwrap();
        let (writer, reader) = message_stream::accept(stream, "/browser").await.unwrap();
        let mut browser = FakeBrowser(writer, reader);
        for method in ["Fetch.enable", "Target.setDiscoverTargets"] {
            let id = browser.expect_call(method).await;
            browser.reply(id, &json!({})).await;
        }
        browser
    };
    let observer = async {
        let (client, events) = CdpClient::connect(&address).await.unwrap();
        Observer::observe_started(client, events, None).await
    };
    let (observer, browser) = tokio::join!(observer, simulation);
    (observer.unwrap(), browser)
}

/// A page changes its address without end, and tabs come and go, while the browser is too busy to answer: the observer keeps
/// up, and knows the final state when the browser answers.
#[tokio::test]
async fn observer_keeps_up_with_events_of_a_busy_browser() {
    let test = async {
        let (observer, mut browser) = observer_with_fake_browser().await;
        browser.announce_page("targetCreated", "A", "http://a/").await;
        let watched = observer.watch(&Scope::Context("C".to_owned())).await.unwrap();
        let simulation = async {
            let id = browser.expect_call("Target.getBrowserContexts").await;
            for number in 0..2 * EVENTS_MAX {
                browser.announce_page("targetInfoChanged", "A", &format!("http://a/#{number}")).await;
                let tab = number.to_string();
                browser.announce_page("targetCreated", &tab, "http://a/").await;
                browser
                    .send(&json!({ "method": "Target.targetDestroyed", "params": { "targetId": tab } }))
                    .await;
            }
            browser.announce_page("targetInfoChanged", "A", "http://a/#last").await;
            browser.reply(id, &json!({ "browserContextIds": ["C"] })).await;
        };
        let (contexts, ()) = tokio::join!(observer.sync(), simulation);
        assert!(contexts.unwrap().created.contains("C"));
        let view = watched.view.borrow().clone();
        assert_eq!((view.url.as_str(), view.tabs), ("http://a/#last", 1));
    };
    timeout(DEADLINE, test).await.unwrap();
}

/// The titles in a browser's answer are newer than the events before it, and older than those after it: a page that
/// navigates at the moment of the answer is not shown in its former state.
#[tokio::test]
async fn titles_in_an_answer_are_ordered_with_events() {
    let test = async {
        let (observer, mut browser) = observer_with_fake_browser().await;
        for tab in ["A", "B"] {
            browser.announce_page("targetCreated", tab, "http://a/#0").await;
        }
        let scopes = [observer.new_scope(), observer.new_scope()];
        let mut views = Vec::new();
        for (scope, tab) in scopes.into_iter().zip(["A", "B"]) {
            observer.claim_tabs(scope, vec![tab.to_owned()]).await;
            views.push(observer.watch(&Scope::SeatTabs(scope)).await.unwrap().view);
        }
        let simulation = async {
            let id = browser.expect_call("Target.getTargets").await;
            for tab in ["A", "B"] {
                browser.announce_page("targetInfoChanged", tab, "http://a/#1").await;
            }
            let info = |id| json!({ "targetId": id, "type": "page", "title": "said", "url": "http://a/#1", "browserContextId": "C" });
            browser.reply(id, &json!({ "targetInfos": [info("A"), info("B")] })).await;
            browser.announce_page("targetInfoChanged", "B", "http://a/#2").await;
            let id = browser.expect_call("Target.getBrowserContexts").await;
            browser.reply(id, &json!({ "browserContextIds": ["C"] })).await;
        };
        let ask = async {
            observer.refresh().await;
            observer.sync().await.unwrap();
        };
        tokio::join!(ask, simulation);
        let shown = views.iter().map(|view| view.borrow().clone()).map(|view| (view.url, view.title));
        let expected = [("http://a/#1", "said"), ("http://a/#2", "")];
        assert_eq!(
            shown.collect::<Vec<_>>(),
            expected.map(|(url, title)| (url.to_owned(), title.to_owned()))
        );
    };
    timeout(DEADLINE, test).await.unwrap();
}

/// The observer gives the reason why its connection ended.
#[tokio::test]
async fn end_of_connection_has_its_reason() {
    let test = async {
        let (observer, mut browser) = observer_with_fake_browser().await;
        assert!(browser.0.send("no JSON".into()).await);
        assert!(matches!(observer.ended().await, Some(Closed::Protocol(_))));
        let (observer, browser) = observer_with_fake_browser().await;
        drop(browser);
        assert_eq!(observer.ended().await, Some(Closed::ByBrowser));
    };
    timeout(DEADLINE, test).await.unwrap();
}

/// Of one page's addresses the observer's queue keeps the last one; it keeps each event of pages that come, go or crash.
#[test]
fn only_page_changes_are_coalesced() {
    let key = |method: &str, params: Value| {
        let params = greenroom_core::raw::encode(&params);
        let method = format!("Target.{method}");
        changed_page(&greenroom_cdp::Event { method, session: None, params, number: 1 })
    };
    let info = || json!({ "targetInfo": { "type": "page", "url": "http://a/", "targetId": "A" } });
    assert_eq!(key("targetInfoChanged", info()).as_deref(), Some("A"));
    assert_eq!(key("targetCreated", info()), None);
    assert_eq!(key("targetDestroyed", json!({ "targetId": "A" })), None);
    assert_eq!(key("targetCrashed", json!({ "targetId": "A" })), None);
}
