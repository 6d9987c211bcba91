//! Which elements are marked and where, and what becomes of the answer.

use greenroom_core::{ArtifactKind, raw::parse};

use super::*;

/// A snapshot with boxes, in the form of engine version 0.0.83.
const SNAPSHOT: &str = r#"- generic [active] [ref=e1] [box=0,0,800,600]:
  - heading "Shop" [level=1] [ref=e2] [box=8,8,784,40]
  - button "Add" [ref=e3] [box=10,60,80,30]
  - button "Sold out" [disabled] [ref=e4] [box=10,100,80,30]
  - textbox "Name" [ref=e5] [box=10,140,200,30]: secret
  - generic [ref=e6] [cursor=pointer] [box=10,180,200,30]: Details
  - link "Below" [ref=e7] [cursor=pointer] [box=10,900,80,30]:
    - /url: /x
  - button "Hidden" [ref=e8] [box=0,0,0,0]
  - iframe [ref=e9] [box=300,100,200,100]:
    - generic [ref=f1e1] [box=0,0,196,400]:
      - checkbox "Agree" [ref=f1e2] [box=5,5,20,20]
      - button "Scrolled away" [ref=f1e3] [box=5,300,50,20]
"#;

fn rect(x: f64, y: f64, width: f64, height: f64) -> CssRect {
    CssRect { x, y, width, height }
}

/// What can be clicked or filled is marked, with its name and never with what was entered; what is disabled, has no area or is
/// outside of its frame is not.
#[test]
fn only_visible_usable_elements_are_marked() {
    let Marks(marks) = Marks::from_snapshot(SNAPSHOT);
    let found: Vec<_> =
        marks.iter().map(|mark| (&*mark.reference, &*mark.role, &*mark.name, mark.rect)).collect();
    assert_eq!(
        found,
        [
            ("e3", "button", "Add", rect(10.0, 60.0, 80.0, 30.0)),
            ("e5", "textbox", "Name", rect(10.0, 140.0, 200.0, 30.0)),
            ("e6", "generic", "Details", rect(10.0, 180.0, 200.0, 30.0)),
            ("e7", "link", "Below", rect(10.0, 900.0, 80.0, 30.0)),
            ("f1e2", "checkbox", "Agree", rect(305.0, 105.0, 20.0, 20.0)),
        ]
    );
    let long = format!("- button \"{}\" [ref=e1] [box=0,0,1,1]", "ä".repeat(100));
    let Marks(marks) = Marks::from_snapshot(&long);
    assert_eq!(marks[0].name, format!("{}…", "ä".repeat(NAME_BYTES_MAX / 2)));
}

/// A reply with a picture of this size.
fn picture(width: u32, height: u32, link: &str) -> Reply {
    let data = greenroom_testkit::picture::png(width, height);
    let data = BASE64_STANDARD.encode(data);
    let body = format!(
        r#"{{"content": [ {{"type":"text","text":"[1]({link})"}} , {{"type":"image","data":"{data}","mimeType":"image/png","x":1.50}}, {{"type":"text","text":"behind"}}],"y":[ ]}}"#
    );
    let at = |text: &str| {
        let start = body.find(text).unwrap();
        Artifact {
            kind: ArtifactKind::Path,
            range: start..start + text.len(),
            instead: None,
            content: Content::Nothing,
        }
    };
    let artifacts = vec![at(link), at("behind")];
    Reply { artifacts, ..Reply::from(Ok(parse(body).unwrap())) }
}

fn snapshot(text: &str) -> Reply {
    let artifact = Artifact {
        kind: ArtifactKind::Snapshot,
        range: 0..0,
        instead: None,
        content: Content::Text(text.into()),
    };
    Reply { artifacts: vec![artifact], ..Reply::from(Ok(encode(&json!({ "content": [] })))) }
}

fn view(numbers: &str) -> Reply {
    let text = format!("### Result\n{numbers}\n### Ran Playwright code\n```js\n```");
    Ok(encode(&json!({ "content": [{ "type": "text", "text": text }] }))).into()
}

fn content(reply: &Reply) -> Vec<Value> {
    let body: Value = serde_json::from_str(reply.body.as_ref().unwrap().get()).unwrap();
    assert_eq!(body["y"], json!([]));
    body["content"].as_array().unwrap().clone()
}

/// The picture has boxes where its pixels show the elements: at another scale, and in a picture of the whole page by the
/// scroll position. The list has what is in the picture. Artifacts keep their places.
#[tokio::test]
async fn boxes_surround_their_elements() {
    let viewport =
        "- e3: button \"Add\"\n- e5: textbox \"Name\"\n- e6: generic \"Details\"\n- f1e2: checkbox \"Agree\"";
    let whole = "- e3: button \"Add\"\n- e5: textbox \"Name\"\n- e6: generic \"Details\"\n- e7: link \"Below\"\n- f1e2: checkbox \"Agree\"";
    for (size, full_page, numbers, add, list) in [
        ((800, 600), false, "[0, 0, 800, 800]", (10, 60), viewport),
        ((1600, 1200), false, "[0, 250, 800, 800]", (20, 120), viewport),
        ((800, 2000), true, "[0, 250, 785, 800]", (10, 310), whole),
        ((1600, 4000), true, "[5, 250, 785, 800]", (30, 620), whole),
    ] {
        let plain = picture(size.0, size.1, "x");
        let reply = annotated(plain, full_page, snapshot(SNAPSHOT), view(numbers)).await;
        let parts = content(&reply);
        assert_eq!(parts[2]["text"], format!("### Marked elements\n{list}"));
        assert_eq!((&parts[1]["x"], &parts[3]["text"]), (&json!(1.5), &json!("behind")));
        let places: Vec<_> = reply
            .artifacts
            .iter()
            .map(|artifact| &reply.body.as_ref().unwrap().get()[artifact.range.clone()])
            .collect();
        assert_eq!(places, ["x", "behind"]);
        let data = BASE64_STANDARD.decode(parts[1]["data"].as_str().unwrap()).unwrap();
        let pixels = greenroom_testkit::picture::Pixels::decode(&data);
        assert_eq!((pixels.width, pixels.height), size);
        let (x, y) = add;
        let colour = pixels.at(x, y);
        assert_ne!(colour, pixels.at(x - 1, y + 30), "nothing is drawn left of the box");
        assert_eq!(colour, pixels.at(x, y + 20), "the left edge");
        assert_eq!(colour, pixels.at(x + 60, y), "the upper edge");
    }
}

/// An answer without a picture, a page without a snapshot, and a page whose numbers are wrong: the answer says why there are
/// no marks, and keeps its picture.
#[tokio::test]
async fn answer_says_why_there_are_no_marks() {
    for (snapshot, numbers, why) in [
        (Ok(encode(&json!({ "content": [] }))).into(), "[0, 0, 800, 800]", "the page has no snapshot"),
        (snapshot(SNAPSHOT), "[0, 0, null, 800]", "the size of the page is unknown"),
        (snapshot(SNAPSHOT), "[0, 0, 0, 800]", "the size of the page is unknown"),
        (snapshot(SNAPSHOT), "[0, 0, -800, 800]", "the size of the page is unknown"),
        (snapshot(SNAPSHOT), "undefined", "the size of the page is unknown"),
    ] {
        let reply = annotated(picture(800, 600, "x"), false, snapshot, view(numbers)).await;
        let parts = content(&reply);
        assert_eq!(parts[1], content(&picture(800, 600, "x"))[1]);
        assert_eq!(parts[3]["text"], format!("not annotated: {why}"), "{numbers}");
    }
    for (data, why) in [
        ("", "the picture cannot be read: it is neither PNG nor JPEG nor WebP"),
        ("%", "the picture cannot be read"),
    ] {
        let body = json!({ "content": [{ "type": "image", "data": data }], "y": [] });
        let bad = Reply::from(Ok(encode(&body)));
        let reply = annotated(bad, false, snapshot(SNAPSHOT), view("[0, 0, 800, 800]")).await;
        assert_eq!(content(&reply)[1]["text"], format!("not annotated: {why}"));
    }
    let text = Reply::from(Ok(encode(&json!({ "content": [{ "type": "text", "text": "a" }], "y": [] }))));
    let reply = annotated(text, false, snapshot(SNAPSHOT), view("[0, 0, 800, 800]")).await;
    let why = "not annotated: the answer has no picture: see `pool.image_responses`";
    assert_eq!(content(&reply)[1]["text"], why);
    let empty = annotated(picture(80, 60, "x"), false, snapshot("- text: a"), view("[0, 0, 80, 80]")).await;
    let nothing = "### Marked elements\nnothing in this picture can be clicked or filled";
    assert_eq!(content(&empty)[2]["text"], nothing);
}

/// A page with many elements gets some hundred boxes, and the answer says how many are left out.
#[tokio::test]
async fn marks_are_limited() {
    let buttons: Vec<_> = (0..1000).map(|n| format!("- button \"b\" [ref=e{n}] [box=0,0,9,9]")).collect();
    let reply =
        annotated(picture(80, 60, "x"), false, snapshot(&buttons.join("\n")), view("[0, 0, 80, 80]")).await;
    let parts = content(&reply);
    let list: Vec<_> = parts[2]["text"].as_str().unwrap().lines().collect();
    assert_eq!(list.len(), MARKS_MAX + 2);
    assert_eq!(list[MARKS_MAX + 1], "800 more are not marked; browser_snapshot has them");
}

/// The agent gets console lines and downloads of greenroom's own calls.
#[tokio::test]
async fn events_of_own_calls_are_kept() {
    let file = Content::File { name: "a".to_owned(), mime: "text/csv", data: vec![1] };
    let download =
        Artifact { kind: ArtifactKind::Path, range: 3..9, instead: Some("p".to_owned()), content: file };
    let mut taken = snapshot(SNAPSHOT);
    taken.artifacts.push(download);
    let reply = annotated(picture(80, 60, "x"), false, taken, view("[0, 0, 80, 80]")).await;
    let [first, ..] = &reply.artifacts[..] else { panic!("{reply:?}") };
    assert!(matches!(first.content, Content::File { .. }) && first.range.is_empty());
    assert!(reply.snapshot().is_none(), "the snapshot is not sent");
}

/// Pictures of elements and files are refused; what the engine takes for absent is absent.
#[test]
fn element_pictures_and_files_are_refused() {
    let checked = |arguments: &str| {
        let params = parse(format!(r#"{{"name":"t","arguments":{arguments}}}"#)).unwrap();
        check(&Call::new("t", params)).map_err(|refused| refused.to_string())
    };
    assert_eq!(checked("{}"), Ok(false));
    assert_eq!(checked(r#"{"fullPage":true,"target":null,"filename":""}"#), Ok(true));
    for (arguments, says) in [
        (r#"{"target":"e5"}"#, "leave out `target`"),
        (r#"{"filename":"a.png"}"#, "leave out `filename`"),
        (r#"{"target":["e5"]}"#, "leave out `target`"),
        ("[]", "`arguments` must be an object"),
    ] {
        let refused = checked(arguments).unwrap_err();
        assert!(refused.contains(says), "{arguments}: {refused}");
    }
}
