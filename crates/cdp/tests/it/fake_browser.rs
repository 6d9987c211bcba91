//! The client against a browser that the test plays, message by message.

use futures_util::{SinkExt, StreamExt};
use greenroom_cdp::{CdpClient, Closed, EVENTS_MAX, Error, Events};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::{
    WebSocketStream, accept_async_with_config,
    tungstenite::{Message, protocol::WebSocketConfig},
};

use crate::within;

/// The browser's end of a connection.
struct Browser(WebSocketStream<TcpStream>);

impl Browser {
    async fn receive(&mut self) -> Value {
        let message = self.0.next().await.expect("the client hung up").unwrap();
        serde_json::from_str(message.to_text().unwrap()).unwrap()
    }

    async fn send(&mut self, message: impl std::fmt::Display) {
        self.0.send(Message::text(message.to_string())).await.unwrap();
    }

    /// Waits until the client has hung up.
    async fn wait_until_closed(mut self) {
        while let Some(Ok(_)) = self.0.next().await {}
    }
}

async fn connected() -> (CdpClient, Events, Browser) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/devtools/browser/x", listener.local_addr().unwrap());
    let unlimited = WebSocketConfig::default().max_frame_size(None).max_message_size(None);
    let accept = async {
        let (stream, _) = listener.accept().await.unwrap();
        Browser(accept_async_with_config(stream, Some(unlimited)).await.unwrap())
    };
    let (client, browser) = tokio::join!(CdpClient::connect(&url), accept);
    let (client, events) = client.unwrap();
    (client, events, browser)
}

/// Replies find their calls by id, whatever their order, and come back exactly as they were written.
#[tokio::test]
async fn replies_find_their_calls() {
    within(async {
        let (client, _events, mut browser) = connected().await;
        let params = json!({"x": 1});
        let first = client.call("A.first", &params);
        let second = client.call_in("S1", "A.second", &());
        let play = async {
            let a = browser.receive().await;
            let b = browser.receive().await;
            assert_eq!(a, json!({"id": a["id"], "method": "A.first", "params": {"x": 1}}));
            assert_eq!(b, json!({"id": b["id"], "method": "A.second", "sessionId": "S1"}));
            browser.send(format!(r#"{{"id":{},"sessionId":"S1","result":{{"n":  1.50}}}}"#, b["id"])).await;
            browser.send(json!({"id": a["id"], "result": {"first": true}})).await;
        };
        let (first, second, ()) = tokio::join!(first, second, play);
        assert_eq!(first.unwrap().get(), r#"{"first":true}"#);
        assert_eq!(second.unwrap().get(), r#"{"n":  1.50}"#);
    })
    .await;
}

/// Giving a call up removes its entry: its late reply reaches no caller and shifts nothing.
#[tokio::test]
async fn cancelled_call_shifts_no_replies() {
    within(async {
        let (client, _events, mut browser) = connected().await;
        let given_up = tokio::spawn({
            let client = client.clone();
            async move { client.call("A.slow", &()).await.map(drop) }
        });
        let slow = browser.receive().await;
        given_up.abort();
        assert!(given_up.await.unwrap_err().is_cancelled());

        let play = async {
            let next = browser.receive().await;
            assert_ne!(next["id"], slow["id"]);
            browser.send(json!({"id": slow["id"], "result": "late"})).await;
            browser.send(json!({"id": next["id"], "result": "mine"})).await;
        };
        let (next, ()) = tokio::join!(client.call("A.next", &()), play);
        assert_eq!(next.unwrap().get(), r#""mine""#);
    })
    .await;
}

/// When the browser hangs up, every call that waits fails, the events end, and later calls fail at once.
#[tokio::test]
async fn closing_fails_pending_calls() {
    within(async {
        let (client, mut events, mut browser) = connected().await;
        let closed = client.closed();
        let play = async {
            browser.receive().await;
            browser.receive().await;
            browser.send(json!({"method": "A.lastWords", "params": {}})).await;
            drop(browser);
        };
        let (first, second, ()) = tokio::join!(client.call("A.one", &()), client.call("A.two", &()), play);
        for result in [first, second] {
            assert!(matches!(result, Err(Error::Closed(Closed::ByBrowser))), "{result:?}");
        }
        assert_eq!(closed.await, Closed::ByBrowser);
        assert_eq!(events.next().await.unwrap().method, "A.lastWords");
        assert_eq!(events.next().await.unwrap_err(), Closed::ByBrowser);
        assert!(matches!(client.call("A.three", &()).await, Err(Error::Closed(Closed::ByBrowser))));
    })
    .await;
}

/// An error object becomes a refusal with its code, its message and what the browser added.
#[tokio::test]
async fn error_objects_are_refusals() {
    within(async {
        let (client, _events, mut browser) = connected().await;
        let play = async {
            let id = browser.receive().await["id"].clone();
            let error =
                json!({"code": -32602, "message": "Invalid parameters", "data": "url: string expected"});
            browser.send(json!({"id": id, "error": error})).await;
        };
        let params = json!({"url": 7});
        let (result, ()) = tokio::join!(client.call("Page.navigate", &params), play);
        let error = result.unwrap_err();
        assert!(matches!(&error, Error::Refused { code: -32602, .. }));
        assert_eq!(
            error.to_string(),
            "the browser refused Page.navigate: Invalid parameters: url: string expected (-32602)"
        );
    })
    .await;
}

/// A message of 20 MB, more than the library's own limit for a frame, passes whole, in both directions.
#[tokio::test]
async fn big_messages_pass() {
    within(async {
        let (client, _events, mut browser) = connected().await;
        let big = "x".repeat(20 << 20);
        let echo = tokio::spawn(async move {
            let call = browser.receive().await;
            browser.send(json!({"id": call["id"], "result": call["params"]})).await;
            browser
        });
        let result = client.call("A.big", &big).await.unwrap();
        assert_eq!(result.get().len(), big.len() + 2);
        echo.await.unwrap();
    })
    .await;
}

/// Events come in order, with their session, raw.
#[tokio::test]
async fn events_come_as_they_were_sent() {
    within(async {
        let (_client, mut events, mut browser) = connected().await;
        browser.send(r#"{"method":"A.b","params":{"n":  1e400},"sessionId":"S"}"#).await;
        browser.send(r#"{"method":"A.c"}"#).await;
        let first = events.next().await.unwrap();
        let second = events.next().await.unwrap();
        assert_eq!((first.method.as_str(), first.session.as_deref()), ("A.b", Some("S")));
        assert_eq!(first.params.get(), r#"{"n":  1e400}"#);
        assert_eq!((second.method.as_str(), second.session, second.params.get()), ("A.c", None, "{}"));
    })
    .await;
}

/// A consumer that takes nothing loses the connection, loudly, and can still read what had come before.
#[tokio::test]
async fn overflow_ends_the_connection() {
    within(async {
        let (client, mut events, mut browser) = connected().await;
        for n in 0..=EVENTS_MAX {
            browser.send(json!({"method": "A.flood", "params": n})).await;
        }
        assert_eq!(client.closed().await, Closed::Overflow);
        for n in 0..EVENTS_MAX {
            assert_eq!(events.next().await.unwrap().params.get(), n.to_string());
        }
        assert_eq!(events.next().await.unwrap_err(), Closed::Overflow);
        assert!(matches!(client.call("A.b", &()).await, Err(Error::Closed(Closed::Overflow))));
    })
    .await;
}

/// Endless changes of one thing while the consumer is busy do not end the connection: the consumer finds the last of them,
/// and all other events.
#[tokio::test]
async fn many_changes_leave_the_latest() {
    within(async {
        let (client, mut events, mut browser) = connected().await;
        events.keep_latest(|event| (event.method == "A.changed").then(|| event.method.clone()));
        let play = async {
            let id = browser.receive().await["id"].clone();
            for n in 0..=2 * EVENTS_MAX {
                browser.send(json!({"method": "A.changed", "params": n})).await;
                if n % EVENTS_MAX == 0 {
                    browser.send(json!({"method": "A.other", "params": n})).await;
                }
            }
            browser.send(json!({"id": id, "result": {}})).await;
        };
        // Takes no event before it is answered.
        let (result, ()) = tokio::join!(client.call("A.b", &()), play);
        result.unwrap();
        let seen = events.take_arrived();
        let seen: Vec<_> = seen.iter().map(|event| (event.method.as_str(), event.params.get())).collect();
        let last = (2 * EVENTS_MAX).to_string();
        let middle = EVENTS_MAX.to_string();
        let expected = [("A.other", "0"), ("A.other", &*middle), ("A.changed", &*last), ("A.other", &*last)];
        assert_eq!(seen, expected);
    })
    .await;
}

/// Without a consumer, events are discarded, however many, and calls go on.
#[tokio::test]
async fn events_can_be_dropped() {
    within(async {
        let (client, events, mut browser) = connected().await;
        drop(events);
        let play = async {
            let id = browser.receive().await["id"].clone();
            for n in 0..=EVENTS_MAX {
                browser.send(json!({"method": "A.flood", "params": n})).await;
            }
            browser.send(json!({"id": id, "result": {}})).await;
        };
        let (result, ()) = tokio::join!(client.call("A.b", &()), play);
        result.unwrap();
    })
    .await;
}

/// A message that is no JSON, or no envelope, ends the connection with the reason.
#[tokio::test]
async fn invalid_message_ends_the_connection() {
    within(async {
        for nonsense in ["{", "[]", "{}", r#"{"id":1}"#, r#"{"error":{"code":-32700,"message":"not JSON"}}"#]
        {
            let (client, _events, mut browser) = connected().await;
            browser.send(nonsense).await;
            let why = client.closed().await;
            assert!(matches!(why, Closed::Protocol(_)), "{nonsense}: {why}");
        }
    })
    .await;
}

/// The connection lives as long as a client or the events do, and ends with the last of them.
#[tokio::test]
async fn dropping_the_last_handle_ends_the_connection() {
    within(async {
        let (client, mut events, mut browser) = connected().await;
        let closed = client.closed();
        drop(client);
        browser.send(json!({"method": "A.still"})).await;
        assert_eq!(events.next().await.unwrap().method, "A.still");
        drop(events);
        assert_eq!(closed.await, Closed::Unused);
        browser.wait_until_closed().await;

        let (client, events, browser) = connected().await;
        drop(events);
        let clone = client.clone();
        drop(client);
        drop(clone);
        browser.wait_until_closed().await;
    })
    .await;
}

/// The error for an address where nothing listens names the address.
#[tokio::test]
async fn connecting_to_a_closed_port_fails() {
    within(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}/", listener.local_addr().unwrap());
        drop(listener);
        let error = CdpClient::connect(&url).await.err().unwrap();
        assert!(matches!(&error, Error::Connect { .. }) && error.to_string().contains(&url), "{error}");
    })
    .await;
}

/// A call to a browser that never answers ends after a bounded wait, and the connection stays usable.
#[tokio::test]
async fn call_to_a_hung_browser_times_out() {
    within(async {
        let (client, _events, mut browser) = connected().await;
        let play = async {
            browser.receive().await;
            tokio::time::pause();
        };
        let (result, ()) = tokio::join!(client.call("A.hang", &()), play);
        let error = result.unwrap_err();
        assert_eq!(error.to_string(), "the browser did not answer A.hang within 30 s");
        tokio::time::resume();
        let play = async {
            let id = browser.receive().await["id"].clone();
            browser.send(json!({"id": id, "result": {}})).await;
        };
        let (result, ()) = tokio::join!(client.call("A.fine", &()), play);
        result.unwrap();
    })
    .await;
}
