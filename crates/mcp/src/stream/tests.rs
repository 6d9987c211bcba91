//! What a stream promises its readers and writers.

use super::*;

async fn texts(reader: &mut StreamReader, count: usize) -> Vec<String> {
    let mut texts = Vec::new();
    for _ in 0..count {
        let next = reader.next().await.unwrap();
        texts.push(format!("{} {}", next.number, String::from_utf8_lossy(&next.message)));
    }
    texts
}

/// Messages come in order, the last one says so, and nothing follows it.
#[tokio::test]
async fn messages_come_in_order() {
    let stream = Arc::new(MessageStream::default());
    assert!(stream.send(b"a".to_vec()) && stream.try_send(b"b".to_vec()));
    let mut reader = stream.read();
    assert_eq!(texts(&mut reader, 2).await, ["0 a", "1 b"]);
    stream.finish_with(b"c".to_vec());
    assert!(reader.next().await.unwrap().last);
    assert!(reader.next().await.is_none());
    assert!(!stream.send(b"d".to_vec()));
}

/// A second reader takes over: nothing is lost, nothing comes twice, and the first one ends.
#[tokio::test]
async fn the_newest_reader_is_served() {
    let stream = Arc::new(MessageStream::default());
    let mut first = stream.read();
    stream.send(b"a".to_vec());
    assert_eq!(texts(&mut first, 1).await, ["0 a"]);
    let waiting = tokio::spawn(async move { first.next().await.is_none() });
    let mut second = stream.read();
    assert!(waiting.await.unwrap(), "the first reader ends");
    stream.send(b"b".to_vec());
    assert_eq!(texts(&mut second, 1).await, ["1 b"]);
    drop(second);
    assert!(!stream.has_reader());
}

/// A reader that lost its connection resumes after the last message it has seen, if the next one is still kept.
#[tokio::test]
async fn a_reader_resumes_behind_what_it_saw() {
    let stream = Arc::new(MessageStream::default());
    for number in 0..RETAINED_MAX + 2 {
        stream.send(number.to_string().into_bytes());
    }
    let mut reader = stream.read();
    texts(&mut reader, RETAINED_MAX + 1).await;
    let mut resumed = stream.read_behind(5).unwrap();
    assert_eq!(texts(&mut resumed, 2).await, ["6 6", "7 7"]);
    texts(&mut resumed, RETAINED_MAX - 6).await;
    assert!(stream.read_behind(0).is_none(), "no longer kept");
    assert!(stream.read_behind(1).is_some());
    for never_given in [10_000, u64::MAX] {
        assert!(stream.read_behind(never_given).is_none());
    }
    assert!(stream.read_from_start().is_none());
}

/// Readers take over again and again, each after the last message that the previous one has seen: every message
/// comes once and in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_that_take_over_lose_nothing() {
    const MESSAGES: u64 = 20_000;
    let stream = Arc::new(MessageStream::default());
    let writer = tokio::spawn({
        let stream = stream.clone();
        async move {
            for number in 0..MESSAGES {
                while !stream.try_send(number.to_string().into_bytes()) {
                    tokio::task::yield_now().await;
                }
            }
            stream.finish_with(b"last".to_vec());
        }
    });
    let mut seen: Option<u64> = None;
    'streams: loop {
        let mut reader = match seen {
            None => stream.read_from_start().unwrap(),
            Some(seen) => stream.read_behind(seen).unwrap(),
        };
        for _ in 0..7 {
            let next = reader.next().await.unwrap();
            assert_eq!(next.number, seen.map_or(0, |seen| seen + 1));
            seen = Some(next.number);
            if next.last {
                assert_eq!((&*next.message, next.number), (&b"last"[..], MESSAGES));
                break 'streams;
            }
            assert_eq!(next.message, next.number.to_string());
        }
    }
    writer.await.unwrap();
}

/// Messages are counted until their last copy is gone, and streams of one client are counted together.
#[tokio::test]
async fn held_bytes_are_counted_per_client() {
    let held = HeldBytes::default();
    let one = Arc::new(MessageStream::counted_by(&held));
    let other = Arc::new(MessageStream::counted_by(&held));
    one.send(vec![0; 10]);
    other.finish_with(vec![0; 5]);
    let read = other.read().next().await.unwrap();
    drop(other);
    assert_eq!(held.bytes(), 15, "a copy is left");
    drop(read);
    assert_eq!(held.bytes(), 10);
    drop(one);
    assert_eq!(held.bytes(), 0);
}

/// A reminder is not repeated while it waits, and comes again once it was read.
#[tokio::test]
async fn reminders_are_not_repeated_while_unread() {
    let stream = Arc::new(MessageStream::default());
    let mut reader = stream.read();
    for _ in 0..3 {
        stream.send_unless_pending(b"changed".to_vec());
    }
    assert_eq!(texts(&mut reader, 1).await, ["0 changed"]);
    stream.send_unless_pending(b"changed".to_vec());
    assert_eq!(texts(&mut reader, 1).await, ["1 changed"]);
    stream.finish();
    assert!(reader.next().await.is_none());
}

/// Unread notifications are dropped at a limit, questions at a much higher one, and the answer never.
#[tokio::test]
async fn unread_messages_are_limited() {
    let stream = Arc::new(MessageStream::default());
    let sent = (0..UNREAD_MAX + 5).filter(|_| stream.try_send(b"n".to_vec())).count();
    assert_eq!(sent, UNREAD_MAX);
    let sent_questions = (0..URGENT_MAX).filter(|_| stream.send(b"q".to_vec())).count();
    assert_eq!(sent_questions, URGENT_MAX - UNREAD_MAX);
    stream.finish_with(b"answer".to_vec());
    let mut reader = stream.read();
    texts(&mut reader, URGENT_MAX).await;
    let last = reader.next().await.unwrap();
    assert!(last.last && last.message == b"answer"[..]);
}
