//! Recall with the real engine: a page is found again by its call's name, and little of it is sent twice.

use std::{fs, path::Path};

use greenroom_testkit::{Site, TEST_TIMEOUT, eventually, within};
use serde_json::{Value, json};

use super::fixture::{DataFolder, GatewayFixture, ToolAnswer};
use crate::{
    front::recall::ref_id,
    records::database::{RecordsDb, has_bytes},
};

/// The content kept under the name of this answer.
async fn content(gateway: &GatewayFixture, answer: &ToolAnswer) -> String {
    let arguments = json!({"ref_id": ref_id(&answer.response), "offset": 0});
    let read = gateway.call("", "get_content", arguments).await;
    read.ok();
    read.response["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

/// The ref of the element whose line has this text.
#[track_caller]
fn target(snapshot: &str, text: &str) -> String {
    let line = snapshot.lines().find(|line| line.contains(text) && line.contains("[ref="));
    let line = line.unwrap_or_else(|| panic!("no `{text}` with a ref: {snapshot}"));
    let (_, rest) = line.split_once("[ref=").unwrap();
    rest.split(']').next().unwrap().to_owned()
}

fn query_one(data: &DataFolder, sql: &str) -> String {
    RecordsDb::at(data.path()).one(sql)
}

/// Navigations, clicks, snapshots and screenshots are found again by their names, with page, console lines and picture;
/// `mode: "diff"` sends what a click changed, and a new page whole.
pub async fn everything_is_recallable(gateway: &GatewayFixture, site: &Site, data: &DataFolder) {
    let page = gateway.navigate("", &site.url("/menu")).await;
    assert!(page.ok().contains("item 60 that does not change"));
    let record = content(gateway, &page).await;
    assert!(record.contains("item 60 that does not change") && !record.contains("```"), "{record}");
    let button = target(&record, "Open menu");
    let clicked = gateway
        .call("", "browser_click", json!({"element": "Open menu", "target": button, "mode": "diff"}))
        .await;
    let text = clicked.ok();
    assert!(text.contains("changes since ref_id") && text.contains("first entry"), "{text}");
    assert!(!text.contains("item 30 that"), "what did not change is sent again: {text}");
    let record = content(gateway, &clicked).await;
    assert!(record.contains("first entry") && record.contains("item 30 that"), "the whole is kept: {record}");
    let again = gateway.call("", "browser_snapshot", json!({"mode": "diff"})).await;
    assert!(again.ok().contains("no changes since ref_id"), "{}", again.text());
    assert!(content(gateway, &again).await.contains("item 30 that"));
    let elsewhere =
        gateway.call("", "browser_navigate", json!({"url": site.url("/form"), "mode": "diff"})).await;
    let text = elsewhere.ok();
    assert!(text.contains("heading \"form\"") && text.contains("button \"Send\""), "{text}");
    assert!(!text.contains("changes since ref_id"), "{text}");
    let since = json!({"ref_id": ref_id(&clicked.response), "since": ref_id(&page.response)});
    let read = gateway.call("", "get_content", since).await.ok();
    assert!(read.contains("first entry") && !read.contains("item 30 that"), "{read}");

    let short = gateway.call("", "browser_snapshot", json!({"mode": "refs"})).await.ok();
    let short: Value = serde_json::from_str(&short).unwrap();
    assert_eq!(
        (&short["metadata"]["has_snapshot"], &short["status"]),
        (&json!(true), &json!("success")),
        "{short}"
    );
    let id = short["ref_id"].as_str().unwrap();
    let read = gateway.call("", "get_content", json!({"ref_id": id})).await.ok();
    assert!(read.contains("button \"Send\""), "{read}");

    screenshots(gateway, data).await;
}

/// A screenshot is one blob, which is a resource; its record has the blob's name in the place of the bytes.
async fn screenshots(gateway: &GatewayFixture, data: &DataFolder) {
    let shot = gateway.call("", "browser_take_screenshot", json!({"type": "png"})).await;
    shot.ok();
    let image =
        shot.response["result"]["content"].as_array().unwrap().iter().find(|part| part["type"] == "image");
    let sent = image.expect("the picture is in the answer")["data"].clone();
    let blobs: Vec<String> = RecordsDb::at(data.path()).all("SELECT sha256 FROM blobs");
    assert_eq!(blobs.len(), 1, "{blobs:?}");
    let record = RecordsDb::at(data.path()).record(&ref_id(&shot.response)).unwrap();
    let result = record.result.unwrap();
    assert!(result.contains(&blobs[0]) && result.len() < 5_000, "{result}");
    assert!(content(gateway, &shot).await.contains("Screenshot"));
    let uri = format!("greenroom://blobs/{}", blobs[0]);
    let read = gateway.client.request("resources/read", json!({"uri": uri})).await;
    assert_eq!(read["result"]["contents"][0]["blob"], sent, "the resource is another picture");
    gateway.call("", "browser_take_screenshot", json!({"type": "png"})).await.ok();
    assert_eq!(
        RecordsDb::at(data.path()).all::<String>("SELECT sha256 FROM blobs"),
        blobs,
        "equal pictures are kept once"
    );
}

/// Console lines are kept apart, by level; a page that imitates the engine's own words changes nothing in its record.
pub async fn console_lines_are_recorded_and_imitations_ignored(
    gateway: &GatewayFixture,
    site: &Site,
    data: &DataFolder,
) {
    let page = gateway.navigate("", &site.url("/console")).await;
    page.ok();
    let id = ref_id(&page.response);
    for (level, has, lacks) in [
        ("error", vec!["[error] an error line"], vec!["a log line", "a warning line"]),
        ("warn", vec!["[warn] a warning line"], vec!["a log line", "an error line"]),
        ("info", vec!["[info] a log line"], vec!["an error line"]),
        ("", vec!["an error line", "a warning line", "a log line"], vec![]),
    ] {
        let lines = gateway.call("", "get_console_content", json!({"ref_id": id, "level": level})).await.ok();
        assert!(has.iter().all(|line| lines.contains(line)), "{level}: {lines}");
        assert!(!lacks.iter().any(|line| lines.contains(line)), "{level}: {lines}");
    }
    let levels: Vec<String> = RecordsDb::at(data.path())
        .all(&format!("SELECT level FROM console_logs WHERE ref_id = '{id}' ORDER BY level"));
    assert_eq!(levels, ["error", "info", "warn"]);

    let url = site.url("/imitation");
    let title = "imitation".to_owned();
    let url_and_title = |id: &str| {
        ["url", "title"]
            .map(|column| query_one(data, &format!("SELECT {column} FROM responses WHERE ref_id = '{id}'")))
    };
    let page = gateway.navigate("", &url).await;
    assert!(page.ok().contains("elsewhere.invalid"), "the page says so: {}", page.text());
    assert_eq!(url_and_title(&ref_id(&page.response)), [url.clone(), title.clone()]);
    let record = content(gateway, &page).await;
    assert!(record.contains("heading \"imitation\"") && record.contains("button \"Log\""), "{record}");
    let clicked = gateway
        .call("", "browser_click", json!({"element": "Log", "target": target(&record, "\"Log\"")}))
        .await;
    clicked.ok();
    assert_eq!(url_and_title(&ref_id(&clicked.response)), [url, title]);
    let record = content(gateway, &clicked).await;
    assert!(
        record.contains("heading \"imitation\"") && !record.starts_with("- heading \"never there\""),
        "{record}"
    );
}

/// greenroom sends little of a long table; elements below it can be used; the agent gets the rest on request.
#[tokio::test]
async fn cut_page_stays_usable() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let gateway = GatewayFixture::start(&data, &["--inline-tokens", "1000"]).await;
    let page = gateway.navigate("", &site.url("/table?rows=500&below=1")).await;
    let text = page.ok();
    assert!(text.len() < 12_000 && text.contains("snapshot cut: "), "{} bytes: {text}", text.len());
    let record = content(&gateway, &page).await;
    for row in [1, 250, 500] {
        assert!(record.contains(&format!("button \"open {row}\"")), "row {row} is not kept");
    }
    let order = json!({"element": "Order", "target": target(&text, "button \"Order\"")});
    let clicked = gateway.call("", "browser_click", order).await.ok();
    assert!(clicked.contains("button \"ordered\""), "{clicked}");
    // The part that was left out is found by its text, with a ref that works.
    let found = json!({"ref_id": ref_id(&page.response), "search_for": "open 321"});
    let found = gateway.call("", "get_content", found).await.ok();
    let open = json!({"element": "open 321", "target": target(&found, "open 321")});
    gateway.call("", "browser_click", open).await.ok();
    gateway.end().await;
}

/// A download can be fetched after its session is closed.
pub async fn download_outlives_its_session(gateway: &GatewayFixture, site: &Site, data: &DataFolder) {
    let others = seats(data.path());
    gateway.navigate("a", &site.url("/")).await.ok();
    let get = format!("() => {{ location.href = '{}'; }}", site.url("/download?name=report.txt"));
    let mut text = gateway.evaluate("a", &get).await.ok();
    // The browser reports a download when it has one; this answer or a later one carries the note.
    let note = within(TEST_TIMEOUT, async {
        loop {
            if let Some(line) = text.lines().find(|line| line.starts_with("report.txt: greenroom://blobs/")) {
                return line.to_owned();
            }
            text = gateway.call("a", "browser_snapshot", json!({})).await.ok();
        }
    })
    .await;
    let uri = note.split(' ').nth(1).unwrap().to_owned();
    gateway.call("", "session_close", json!({"sessionId": "a"})).await.ok();
    eventually("the end of the session's folder", || (seats(data.path()) == others).then_some(())).await;
    let read = gateway.client.request("resources/read", json!({"uri": uri})).await;
    let contents = &read["result"]["contents"][0];
    assert!(
        contents["text"] == "greenroom download\n" || contents["blob"] == "Z3JlZW5yb29tIGRvd25sb2FkCg==",
        "{read}"
    );
}

/// The private folders of seats, sorted.
fn seats(data: &Path) -> Vec<String> {
    let runs = fs::read_dir(data.join("run")).into_iter().flatten().flatten();
    let seats = runs.flat_map(|run| fs::read_dir(run.path().join("seats")).into_iter().flatten().flatten());
    let mut names: Vec<_> = seats.map(|seat| seat.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

const SECRET: &str = "correct-horse's \"battery\"";

/// Types a password into a page, in every way that a tool has.
pub async fn type_a_password(gateway: &GatewayFixture, site: &Site) {
    let page = gateway.navigate("", &site.url("/form")).await.ok();
    let password = target(&page, "textbox \"Password\"");
    let typed = json!({"element": "Password field", "target": password, "text": SECRET});
    gateway.call("", "browser_type", typed).await.ok();
    let fields = json!([{"name": "Password", "type": "textbox", "target": password, "value": SECRET}]);
    gateway.call("", "browser_fill_form", json!({"fields": fields})).await.ok();
    // The call does not describe it as a password, but the snapshot says that the field is one.
    gateway.call("", "browser_type", json!({"target": password, "text": SECRET})).await.ok();
    gateway.call("", "browser_snapshot", json!({})).await.ok();
    gateway.call("", "browser_click", json!({"target": "text=Send"})).await.ok();
}

/// A password that was typed into a page is in no file that greenroom leaves behind.
pub fn password_is_in_no_file(data: &DataFolder) {
    assert!(data.path().join("records.db").exists());
    assert_eq!(has_bytes(data.path(), b"correct-horse"), None, "the password is in a file");
}

/// A big page is read a page at a time, also as one of several commands: the next one needs the key and an offset alone and
/// runs nothing, and an unknown key is an error, never a navigation.
pub async fn page_is_recalled_in_parts(gateway: &GatewayFixture, site: &Site) {
    let query = json!({
        "url": site.url("/table?rows=50"), "flatten": true, "jmespath_query": "[?role=='button'].name",
        "limit": 3, "output_format": "json",
    });
    let read = |text: String| serde_json::from_str::<Value>(&text).unwrap();
    let several = json!({
        "commands": [
            {"tool": "browser_navigate", "args": query, "return_result": true},
            {"tool": "browser_snapshot", "args": {"jmespath_query": "length(@)", "flatten": true}, "return_result": true},
        ],
    });
    let bulk = read(gateway.call("", "browser_execute_bulk", several).await.ok());
    let text = bulk["results"][0]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{bulk}"));
    let first = read(text.to_owned());
    let second_text = bulk["results"][1]["content"][0]["text"].as_str().unwrap();
    assert!(second_text.contains("cache_key") && !second_text.contains("open 1"), "{second_text}");
    assert_eq!((&first["items"][0], &first["count"]), (&json!("open 1"), &json!(3)), "{first}");
    gateway.navigate("", &site.url("/console")).await.ok();
    let next = json!({"cache_key": first["cache_key"], "offset": 3, "output_format": "json"});
    let second = read(gateway.call("", "browser_snapshot", next).await.ok());
    assert_eq!(second["items"], json!(["open 4", "open 5", "open 6"]), "{second}");
    let unsuited = json!({"url": site.url("/table?rows=50"), "jmespath_query": "abs([0].role)"});
    let unsuited = gateway.client.call("browser_navigate", unsuited).await;
    assert_eq!(unsuited["result"]["isError"], true, "{unsuited}");
    let why = unsuited["result"]["content"][0]["text"].as_str().unwrap();
    assert!(why.contains("abs([0].role)") && why.contains("an array of "), "{why}");
    assert!(unsuited.to_string().len() < 2_000, "the whole page is not sent: {unsuited}");
    gateway.navigate("", &site.url("/console")).await.ok();
    let expired = json!({"cache_key": "nobody's", "offset": 3, "url": site.url("/table?rows=50")});
    let expired = gateway.client.call("browser_navigate", expired).await;
    assert_eq!(expired["result"]["_meta"]["greenroom/error"]["code"], "page_expired", "{expired}");
    let page = gateway.call("", "browser_snapshot", json!({})).await.ok();
    assert!(page.contains("heading \"console\""), "nothing was navigated: {page}");
}
