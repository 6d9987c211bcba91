//! Recall from outside: what greenroom records of calls, what agents receive of it, and how they ask for the rest.

mod cursor;
mod disabled;
mod pictures;
mod recording;
mod redaction;
mod responses;

use greenroom_testkit::Client;
use serde_json::Value;

/// The name of a call's record, in its `_meta`.
#[track_caller]
pub fn ref_id(answer: &Value) -> String {
    let found = answer["result"]["_meta"]["greenroom/ref_id"].as_str();
    found.unwrap_or_else(|| panic!("no ref_id: {answer}")).to_owned()
}

/// The content that `get_content` returns, and its notes.
async fn read(client: &Client, arguments: Value) -> (String, String) {
    let answer = client.call("get_content", arguments).await;
    assert_ne!(answer["result"]["isError"], true, "{answer}");
    let part = |n: usize| answer["result"]["content"][n]["text"].as_str().map(str::to_owned);
    (part(0).unwrap_or_else(|| panic!("no content: {answer}")), part(1).unwrap_or_default())
}
