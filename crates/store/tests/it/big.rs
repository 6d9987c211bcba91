//! Records with texts of megabytes: lists show their beginnings, in parts of bounded size, and the records keep the whole.

use greenroom_core::{
    Owner, Records as _, RefId,
    record::{ConsoleLine, ConsoleRange, Level, Location, RecordFilter, Response, Status, What},
};
use greenroom_store::Store;

use crate::kit::{folder, open, request, response, session, soon};

const MIB: usize = 1 << 20;

/// A failed call of a session, with a text of `bytes` bytes as its error, URL, title and one console line.
async fn failed(store: &Store, owner: &Owner, bytes: usize) -> RefId {
    let begun = request(owner, Some(&session("shop")));
    soon(store.begin(begun.clone())).await.unwrap();
    let text = |letter: &str| letter.repeat(bytes);
    let line = ConsoleLine { level: Level::Error, message: text("c"), at: None, location: None };
    let ended = Response {
        status: Status::Error,
        error: Some(text("e")),
        url: Some(text("u")),
        title: Some(text("t")),
        console: vec![line],
        ..response(&begun.ref_id)
    };
    soon(store.end(ended)).await.unwrap();
    begun.ref_id
}

fn all(before: Option<u64>) -> RecordFilter {
    RecordFilter { before, limit: 1_000, ..RecordFilter::default() }
}

/// A list cuts every text and says how long it was; the record has the whole.
#[tokio::test]
async fn lists_cut_every_text() {
    let folder = folder();
    let owner = Owner::local();
    let store = open(folder.path());
    let id = failed(&store, &owner, MIB).await;
    let listed = soon(store.list(&owner, all(None))).await.unwrap();
    let outcome = listed[0].outcome.clone().unwrap();
    for text in [outcome.error, outcome.url, outcome.title].map(Option::unwrap) {
        assert!(text.len() < 4096, "{}", text.len());
        assert!(
            text.ends_with("… (1048576 bytes in all; read the call by its ref_id for the whole)"),
            "{text}"
        );
    }
    let record = soon(store.record(&owner, &id)).await.unwrap().unwrap();
    assert_eq!(record.summary.outcome.unwrap().error.unwrap().len(), MIB);
    soon(store.close()).await;
}

/// A list ends early when its texts are large, says so, and the next parts reach every call once.
#[tokio::test]
async fn lists_read_a_bounded_number_of_bytes() {
    let folder = folder();
    let owner = Owner::local();
    let store = open(folder.path());
    let mut made = Vec::new();
    for _ in 0..8 {
        made.push(failed(&store, &owner, 2 * MIB).await);
    }
    let mut found = Vec::new();
    let mut before = None;
    let mut parts = 0;
    loop {
        let part = soon(store.list(&owner, all(before))).await.unwrap();
        // Each call has 6 MiB of texts, and a list reads up to 16 MiB.
        assert!(part.len() <= 3, "{}", part.len());
        before = part.last().map(|last| last.position);
        found.extend(part.iter().map(|summary| summary.ref_id.clone()));
        parts += 1;
        if !part.is_cut {
            break;
        }
    }
    found.reverse();
    assert!(found == made && parts >= 3, "{parts}");
    soon(store.close()).await;
}

/// A list of many calls whose texts are as long as lists show them ends early too.
#[tokio::test]
async fn lists_show_a_bounded_number_of_bytes() {
    let folder = folder();
    let owner = Owner::local();
    let store = open(folder.path());
    for _ in 0..300 {
        failed(&store, &owner, 2_048).await;
    }
    let listed = soon(store.list(&owner, all(None))).await.unwrap();
    assert!(listed.is_cut && (150..200).contains(&listed.len()), "{}", listed.len());
    let rest = soon(store.list(&owner, all(listed.last().map(|last| last.position)))).await.unwrap();
    assert!(!rest.is_cut && listed.len() + rest.len() == 300, "{}", rest.len());
    soon(store.close()).await;
}

/// Parts of a timeline and of a console are bounded in bytes too, and the next parts reach everything once.
#[tokio::test]
async fn timelines_and_consoles_come_in_parts() {
    let folder = folder();
    let owner = Owner::local();
    let store = open(folder.path());
    let session = session("shop");
    let line = |n: usize| {
        let message = format!("{n} {}", "x".repeat(20 * 1024));
        ConsoleLine { level: Level::Info, message, at: None, location: None }
    };
    let mut calls = Vec::new();
    for _ in 0..4 {
        let begun = request(&owner, Some(&session));
        soon(store.begin(begun.clone())).await.unwrap();
        let ended = Response { console: (0..1_500).map(line).collect(), ..response(&begun.ref_id) };
        soon(store.end(ended)).await.unwrap();
        calls.push(begun.ref_id);
    }
    let mut from = 0;
    let mut parts = 0;
    let mut seen = 0;
    loop {
        let part = soon(store.timeline(&owner, &session.uid, from, 1_000)).await.unwrap();
        if part.next == from {
            break;
        }
        let bytes = |what: &What| if let What::Console { message, .. } = what { message.len() } else { 0 };
        let bytes: usize = part.events.iter().map(|event| bytes(&event.what)).sum();
        assert!(bytes < 8 * MIB, "{bytes}");
        let more = part.events.iter().filter(|event| {
            matches!(&event.what, What::Console { message, .. } if message == "… 500 more lines: read the console of the call")
        });
        seen += more.count();
        from = part.next;
        parts += 1;
    }
    assert_eq!(seen, 4, "each call says what was left out");
    assert!(parts > 1, "{parts}");

    let mut range = ConsoleRange::default();
    let mut numbers = Vec::new();
    let mut parts = 0;
    loop {
        let part = soon(store.console_part(&owner, &calls[0], range)).await.unwrap().unwrap();
        let bytes: usize = part.lines.iter().map(|line| line.message.len()).sum();
        assert!(bytes < 2 * MIB, "{bytes}");
        numbers.extend(part.lines.iter().map(|line| line.message.split(' ').next().unwrap().to_owned()));
        parts += 1;
        match part.next {
            Some(next) => range.offset = next,
            None => break,
        }
    }
    assert!(parts > 10, "{parts}");
    assert_eq!(numbers, (0..1_500).map(|n| n.to_string()).collect::<Vec<_>>());
    let errors = ConsoleRange { level: Some(Level::Error), ..ConsoleRange::default() };
    assert_eq!(soon(store.console_part(&owner, &calls[0], errors)).await.unwrap().unwrap().lines, []);
    let stranger = Owner::new("stranger");
    assert!(soon(store.console_part(&stranger, &calls[0], range)).await.unwrap().is_none());
    soon(store.close()).await;
}

/// Lines without a message count too: by their locations, and by a constant for each line.
#[tokio::test]
async fn console_lines_without_messages_come_in_parts() {
    let folder = folder();
    let owner = Owner::local();
    let store = open(folder.path());
    for (url_bytes, lines, lines_max) in [(4_000, 1_500, 300), (0, 20_000, 8_200)] {
        let begun = request(&owner, None);
        soon(store.begin(begun.clone())).await.unwrap();
        let location = Location { url: "u".repeat(url_bytes), line_number: Some(1), column_number: Some(2) };
        let location = Some(location).filter(|_| url_bytes > 0);
        let line = ConsoleLine { level: Level::Info, message: String::new(), at: None, location };
        let ended = Response { console: vec![line; lines], ..response(&begun.ref_id) };
        soon(store.end(ended)).await.unwrap();
        let mut range = ConsoleRange::default();
        let mut seen = 0;
        loop {
            let part = soon(store.console_part(&owner, &begun.ref_id, range)).await.unwrap().unwrap();
            assert!(part.lines.len() <= lines_max, "{} lines", part.lines.len());
            seen += part.lines.len();
            match part.next {
                Some(next) => range.offset = next,
                None => break,
            }
        }
        assert_eq!(seen, lines);
    }
    soon(store.close()).await;
}
