//! Renders answers in every mode.

use std::{sync::Arc, time::SystemTime};

use greenroom_core::record::{BlobRef, Status};

use super::*;

fn call() -> EndedCall {
    EndedCall {
        tool: "browser_click".into(),
        ref_id: Some(RefId::parse("0199f3a2-5b0c-4e1d-8f00-1c2d3e4f5a6b").unwrap()),
        not_recorded: None,
        session: None,
        status: Status::Success,
        error: None,
        at: SystemTime::UNIX_EPOCH,
        has_snapshot: false,
        snapshot: None,
        console: 0,
        console_errors: 0,
        blobs: Vec::new(),
        embedded: Vec::new(),
    }
}

fn unkept() -> EndedCall {
    EndedCall { ref_id: None, ..call() }
}

fn options(call: &EndedCall, mode: ResponseMode) -> RenderOptions<'_> {
    RenderOptions { mode, call, inline_tokens: 8_000, before: None, pictures: Vec::new(), base_url: None }
}

const INLINE: ResponseMode = ResponseMode::As(Responses::Inline);

fn reply(body: &str, links: &[(&str, &str)]) -> Reply {
    let artifacts = links
        .iter()
        .map(|(link, text)| {
            let at = body.find(link).unwrap();
            Artifact {
                kind: ArtifactKind::Snapshot,
                range: at..at + link.len(),
                instead: Some(format!("```yaml\n{text}\n```")),
                content: Content::Text(Arc::from(*text)),
            }
        })
        .collect();
    Reply { artifacts, ..Reply::from(Ok(greenroom_core::raw::parse(body.to_owned()).unwrap())) }
}

/// The body of an answer in this form.
fn answer(reply: Reply, notes: &[String], options: &RenderOptions<'_>) -> Result<Raw, Raw> {
    super::answer(reply, notes, options).body
}

fn text(body: &Raw) -> String {
    serde_json::from_str::<Value>(body.get()).unwrap()["content"][0]["text"].as_str().unwrap().to_owned()
}

/// Replacements are escaped for JSON, and the text around them stays.
#[test]
fn artifacts_replace_their_links() {
    let reply = reply(
        r#"{"content":[{"type":"text","text":"a [1](x) b"}],"x-new": 1.50}"#,
        &[("[1](x)", "\"quoted\"\\")],
    );
    let body = answer(reply, &[], &options(&unkept(), INLINE)).unwrap();
    assert_eq!(
        body.get(),
        r#"{"content":[{"type":"text","text":"a ```yaml\n\"quoted\"\\\n``` b"}],"x-new": 1.50}"#
    );
}

/// Notes are a last part of their own; other members keep their place.
#[test]
fn notes_come_last() {
    let body = r#"{"content":[{"type":"x"}],"isError":true}"#;
    let notes = ["n1".to_owned(), "n2".to_owned()];
    assert_eq!(
        answer(reply(body, &[]), &notes, &options(&unkept(), INLINE)).unwrap().get(),
        r#"{"content":[{"type":"x"},{"type":"text","text":"n1\nn2"}],"isError":true}"#
    );
    let error = Reply::from(Err(encode(&json!({ "code": 1, "message": "m" }))));
    let error = answer(error, &notes[..1], &options(&unkept(), INLINE)).unwrap_err();
    assert_eq!(error.get(), r#"{"code":1,"message":"m\nn1"}"#);
}

/// `raw` changes no byte of the answer, and adds `_meta` after all other members, or members to an existing `_meta`;
/// `inline` also names the record in a text if there is something to recall.
#[test]
fn record_is_named_in_meta() {
    let call = call();
    let body = r#"{"content":[ {"type":"text","text":"a [1](x)"}], "n": 1.50 }"#;
    let raw = answer(
        reply(body, &[("[1](x)", "s")]),
        &["n".to_owned()],
        &options(&call, ResponseMode::As(Responses::Raw)),
    );
    let name = r#""greenroom/ref_id":"0199f3a2-5b0c-4e1d-8f00-1c2d3e4f5a6b""#;
    let before = body.strip_suffix("}").unwrap();
    assert_eq!(raw.unwrap().get(), format!(r#"{before},"_meta":{{{name},"greenroom/notes":["n"]}}}}"#));
    let linked = Reply { folder: Some("/run/seat".into()), ..reply(r#"{"content":[]}"#, &[]) };
    let raw = answer(linked, &[], &options(&call, ResponseMode::As(Responses::Raw))).unwrap();
    assert_eq!(raw.get(), format!(r#"{{"content":[],"_meta":{{{name},"greenroom/folder":"/run/seat"}}}}"#));
    for (has_meta, expected) in [
        (
            r#"{ "a" : "_meta","_meta" : {"a": 1 } ,"b":2}"#,
            r#"{ "a" : "_meta","_meta" : {"a": 1 ,NAME} ,"b":2}"#,
        ),
        (r#"{"_meta":{}}"#, r#"{"_meta":{NAME}}"#),
        (r#"{}"#, r#"{"_meta":{NAME}}"#),
    ] {
        let named =
            answer(reply(has_meta, &[]), &[], &options(&call, ResponseMode::As(Responses::Raw))).unwrap();
        assert_eq!(named.get(), expected.replace("NAME", name));
    }
    let plain = answer(reply(r#"{"content":[]}"#, &[]), &[], &options(&call, INLINE)).unwrap();
    assert_eq!(plain.get(), format!(r#"{{"content":[],"_meta":{{{name}}}}}"#));
    let with_page = EndedCall { has_snapshot: true, ..call };
    let named = answer(reply(r#"{"content":[]}"#, &[]), &[], &options(&with_page, INLINE)).unwrap();
    assert_eq!(text(&named), "ref_id: 0199f3a2-5b0c-4e1d-8f00-1c2d3e4f5a6b");
}

/// `refs` has the call's status and `ref_id`, and nothing of the answer; an answer without a record is sent as it is.
#[test]
fn refs_mode_sends_only_status_and_ref_id() {
    let body = r#"{"content":[{"type":"text","text":"long"}],"isError":true,"structuredContent":{}}"#;
    let call = EndedCall {
        status: Status::Error,
        error: Some("no such element".to_owned()),
        console: 2,
        console_errors: 1,
        ..call()
    };
    let refs = ResponseMode::As(Responses::Refs);
    let body_of = |call: &EndedCall| answer(reply(body, &[]), &[], &options(call, refs)).unwrap();
    let short: Value = serde_json::from_str(&text(&body_of(&call))).unwrap();
    assert_eq!(
        short,
        json!({
            "ref_id": "0199f3a2-5b0c-4e1d-8f00-1c2d3e4f5a6b",
            "session_id": null,
            "status": "error",
            "timestamp": "1970-01-01T00:00:00.000Z",
            "metadata": { "tool": "browser_click", "has_snapshot": false, "has_console_logs": true, "console_error_count": 1 },
            "error": "no such element",
        })
    );
    let whole: Value = serde_json::from_str(body_of(&call).get()).unwrap();
    assert_eq!((&whole["isError"], whole.get("structuredContent")), (&json!(true), None));
    let lost = EndedCall { not_recorded: Some("the disk is full".into()), ..call };
    let lost = body_of(&lost);
    assert_eq!(text(&lost), "long");
    assert!(lost.get().contains("not recorded: the disk is full"), "{lost}");
}

/// A snapshot in a file that the agent named stays there: in every budget and mode, the answer has the link.
#[test]
fn snapshots_in_named_files_stay_linked() {
    let call = EndedCall { has_snapshot: true, ..call() };
    let page = "- button \"Go\" [ref=e1]\n".repeat(100);
    let body = r#"{"content":[{"type":"text","text":"[Snapshot](./outbox/a.yml)"}]}"#;
    for before in [None, Some((call.ref_id.clone().unwrap(), "- button".to_owned()))] {
        let link = body.find("outbox/a.yml").unwrap();
        let artifact = |kind, range, instead, content| Artifact { kind, range, instead, content };
        let artifacts = vec![
            artifact(ArtifactKind::Snapshot, 0..0, None, Content::Text(Arc::from(&*page))),
            artifact(ArtifactKind::Path, link..link + 12, Some("a.yml".to_owned()), Content::Nothing),
        ];
        let reply = Reply { artifacts, ..reply(body, &[]) };
        let options = RenderOptions { inline_tokens: 30, before, ..options(&call, ResponseMode::Diff) };
        assert_eq!(text(&answer(reply, &[], &options).unwrap()), "[Snapshot](./a.yml)");
    }
}

/// A call that asks for changes gets only those; a completely different page is sent whole.
#[test]
fn diff_mode_sends_only_changes() {
    let call = EndedCall { has_snapshot: true, ..call() };
    let since = RefId::parse("00000000-0000-4000-8000-000000000001").unwrap();
    let of = |before: &str, now: &str| {
        let reply = reply(r#"{"content":[{"type":"text","text":"[1](x)"}]}"#, &[("[1](x)", now)]);
        let before = Some((since.clone(), before.to_owned()));
        text(&answer(reply, &[], &RenderOptions { before, ..options(&call, ResponseMode::Diff) }).unwrap())
    };
    let page = |n: usize| {
        (0..100).map(|row| format!("- row {row} {}\n", if row == 50 { n } else { 0 })).collect::<String>()
    };
    assert_eq!(of(&page(1), &page(1)), format!("no changes since ref_id {since} (whole page: mode inline)"));
    let changed = of(&page(1), &page(2));
    assert!(changed.contains("- - row 50 1\n") && changed.contains("+ - row 50 2\n"), "{changed}");
    assert!(
        changed.starts_with(&format!("changes since ref_id {since} (whole page: mode inline):\n```diff\n")),
        "{changed}"
    );
    assert!(!changed.contains("row 10"), "{changed}");
    assert!(of("- something else\n", &page(2)).starts_with("```yaml\n- row 0 0\n"));
}

/// Changes beyond the budget are not sent: the cut page is.
#[test]
fn changes_beyond_the_budget_send_the_cut_page() {
    let call = EndedCall { has_snapshot: true, ..call() };
    let page = |n: usize| {
        let row =
            |row: usize| format!("- row \"number {row}\" {}\n", if row.is_multiple_of(4) { n } else { 0 });
        (0..4_000).map(row).collect::<String>()
    };
    let now = page(2);
    let reply = reply(r#"{"content":[{"type":"text","text":"[1](x)"}]}"#, &[("[1](x)", &now)]);
    let before = Some((RefId::parse("00000000-0000-4000-8000-000000000001").unwrap(), page(1)));
    let options = RenderOptions { before, inline_tokens: 500, ..options(&call, ResponseMode::Diff) };
    let sent = text(&answer(reply, &[], &options).unwrap());
    assert!(sent.starts_with("```yaml\n") && estimate(&sent) <= 600, "{} tokens: {sent}", estimate(&sent));
}

/// A text that is too long is cut at lines, whatever kind it is, and a note says how to get the rest; an answer without
/// a record is not cut.
#[test]
fn long_texts_are_cut_to_the_budget() {
    let with_page = EndedCall { has_snapshot: true, ..call() };
    let page: String = (0..5_000).map(|row| format!("- row \"number {row}\" [ref=e{row}]\n")).collect();
    let send = |call: &EndedCall, links: &[(&str, &str)], body: &str| {
        answer(reply(body, links), &[], &RenderOptions { inline_tokens: 500, ..options(call, INLINE) })
            .unwrap()
    };
    let body = r##"{"content":[{"type":"text","text":"# Page\n[1](x)"}]}"##;
    let cut = send(&with_page, &[("[1](x)", &page)], body);
    assert!(estimate(&text(&cut)) <= 600, "{}", estimate(&text(&cut)));
    assert!(text(&cut).starts_with("# Page\n```yaml\n- row \"number 0\" [ref=e0]\n"), "{cut}");
    assert!(cut.get().contains("snapshot cut: ") && cut.get().contains(" of 5000 lines"), "{cut}");
    assert!(cut.get().contains("0199f3a2-5b0c-4e1d-8f00-1c2d3e4f5a6b"));
    let whole = send(&unkept(), &[("[1](x)", &page)], body);
    assert!(text(&whole).contains("number 4999"));
    let long = encode(&json!({ "content": [{ "type": "text", "text": page }] }));
    let cut = send(&call(), &[], long.get());
    assert!(estimate(&text(&cut)) <= 600 && text(&cut).ends_with(']'), "{cut}");
    assert!(cut.get().contains("answer cut: about "), "{cut}");
}

/// A page without content is reported as empty, instead of an empty block; `raw` changes nothing.
#[test]
fn empty_pages_are_reported() {
    let body = r#"{"content":[{"type":"text","text":"[1](x)"}]}"#;
    let of = |mode| text(&answer(reply(body, &[("[1](x)", "\n")]), &[], &options(&unkept(), mode)).unwrap());
    assert_eq!(of(INLINE), "(no elements: the page is empty, or a dialog is open)");
    assert_eq!(of(ResponseMode::As(Responses::Raw)), "[1](x)");
}

/// An image that is both in the answer and a file is named once, by its URI; `refs` lists it once.
#[test]
fn images_are_listed_once() {
    let id = greenroom_core::BlobId::parse(&"cd".repeat(32)).unwrap();
    let picture = |name: Option<&str>| BlobRef {
        id: id.clone(),
        mime: "image/png".to_owned(),
        name: name.map(ToOwned::to_owned),
        bytes: 9,
    };
    let embedded = vec![crate::recall::result::EmbeddedBytes {
        part: 0,
        mime: "image/png".to_owned(),
        data: Vec::new(),
    }];
    let blobs = vec![picture(None), picture(Some("page.png"))];
    let call = EndedCall { blobs, embedded, ..call() };
    let answered = |mode| text(&answer(reply(r#"{"content":[]}"#, &[]), &[], &options(&call, mode)).unwrap());
    let address = format!("greenroom://blobs/{}", "cd".repeat(32));
    let inline = answered(INLINE);
    assert!(inline.contains(&format!("page.png: {address} (image/png, 9 bytes)")), "{inline}");
    assert_eq!(inline.matches(&address).count(), 1, "{inline}");
    let refs = answered(ResponseMode::As(Responses::Refs));
    assert_eq!(refs.matches(&address).count(), 1, "{refs}");
}

/// The notes name an answer's files and where to fetch them.
#[test]
fn notes_list_files() {
    let id = greenroom_core::BlobId::parse(&"ab".repeat(32)).unwrap();
    let file = BlobRef { id, mime: "text/plain".to_owned(), name: Some("a.txt".to_owned()), bytes: 7 };
    let call = EndedCall { blobs: vec![file], ..call() };
    let base_url = Some("http://127.0.0.1:1");
    let body =
        answer(reply(r#"{"content":[]}"#, &[]), &[], &RenderOptions { base_url, ..options(&call, INLINE) })
            .unwrap();
    let sha = "ab".repeat(32);
    assert_eq!(
        text(&body).lines().nth(1).unwrap(),
        format!("a.txt: greenroom://blobs/{sha} (text/plain, 7 bytes), http://127.0.0.1:1/api/blobs/{sha}")
    );
}
