//! Server-sent events, as far as MCP uses them: the `data` of each event, and what a client needs to resume after a break.

use std::time::Duration;

/// The longest event id that the parser keeps. Usual ids have some forty bytes; after an event with a longer id a
/// stream cannot be resumed.
const ID_BYTES_MAX: usize = 1_024;

/// Splits a stream into the data of its events. Feed it chunks as they arrive.
pub struct SseParser {
    line: Vec<u8>,
    data: Vec<u8>,
    bytes_max: usize,
    last_id: Option<String>,
    retry: Option<Duration>,
}

/// An event over the limit. The reader must give up the stream: the rest of it belongs to that event.
#[derive(Debug, PartialEq, Eq)]
pub struct EventTooLarge;

impl SseParser {
    pub fn new(bytes_max: usize) -> Self {
        Self { line: Vec::new(), data: Vec::new(), bytes_max, last_id: None, retry: None }
    }

    /// The id of the last event that had one: after a break the client resumes the stream there.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// How long the server wants a client to wait after a break, if it said so.
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Call this when the stream broke off. Drops the unfinished event; the server sends it again.
    pub fn broke_off(&mut self) {
        self.line.clear();
        self.data.clear();
    }

    /// Takes a chunk and returns the data of every event that it completes.
    pub fn feed(&mut self, mut chunk: &[u8]) -> Result<Vec<Vec<u8>>, EventTooLarge> {
        let mut events = Vec::new();
        while let Some(end) = chunk.iter().position(|byte| *byte == b'\n') {
            let (head, rest) = chunk.split_at(end);
            self.take(head)?;
            chunk = rest.get(1..).unwrap_or_default();
            events.extend(self.end_line());
        }
        self.take(chunk)?;
        Ok(events)
    }

    fn take(&mut self, part: &[u8]) -> Result<(), EventTooLarge> {
        if self.data.len() + self.line.len() + part.len() > self.bytes_max {
            return Err(EventTooLarge);
        }
        self.line.extend_from_slice(part);
        Ok(())
    }

    fn end_line(&mut self) -> Option<Vec<u8>> {
        let mut line = std::mem::take(&mut self.line);
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        if line.is_empty() {
            return (!self.data.is_empty()).then(|| std::mem::take(&mut self.data));
        }
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (field, value) = line.split_at(colon);
        let value = value.strip_prefix(b": ").or_else(|| value.strip_prefix(b":")).unwrap_or(value);
        match field {
            b"data" => {
                if !self.data.is_empty() {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            b"id" => {
                let id = String::from_utf8(value.to_vec()).ok();
                self.last_id = id.filter(|id| !id.is_empty() && id.len() <= ID_BYTES_MAX);
            }
            b"retry" => {
                let ms = std::str::from_utf8(value).ok().and_then(|ms| ms.parse().ok());
                self.retry = ms.map(Duration::from_millis).or(self.retry);
            }
            _ => {}
        }
        None
    }
}

/// Encodes an event, optionally with how long a client waits after a break (`retry`). `retry` is part of an event,
/// never sent alone: some clients take the empty line after any field for the end of a message. A message is one line,
/// so it is one `data` line.
pub fn encode(id: Option<&str>, retry: Option<Duration>, data: &[u8]) -> Vec<u8> {
    let mut event = Vec::with_capacity(id.map_or(0, str::len) + data.len() + 40);
    if let Some(id) = id {
        event.extend_from_slice(b"id: ");
        event.extend_from_slice(id.as_bytes());
        event.push(b'\n');
    }
    if let Some(retry) = retry {
        event.extend_from_slice(format!("retry: {}\n", retry.as_millis()).as_bytes());
    }
    event.extend_from_slice(b"data: ");
    event.extend_from_slice(data);
    event.extend_from_slice(b"\n\n");
    event
}

/// A comment that shows that the stream is alive. No empty line follows: after an event with an id, the Python SDKs
/// take that line for another, empty message.
pub const KEEP_ALIVE: &[u8] = b": alive\n";

#[cfg(test)]
mod tests {
    use super::*;

    /// Data lines are joined, other fields and comments ignored, empty events skipped, however the stream is split into
    /// chunks.
    #[test]
    fn chunk_boundaries_do_not_change_events() {
        let text = b"event: message\r\ndata: a\ndata:b\nid: 1\n\n: ping\n\ndata: c\n\n";
        for cut in 0..text.len() {
            let mut events = SseParser::new(100);
            let (head, tail) = text.split_at(cut);
            let mut out = events.feed(head).unwrap();
            out.extend(events.feed(tail).unwrap());
            assert_eq!(out, [b"a\nb".to_vec(), b"c".to_vec()]);
        }
    }

    /// After a break the parser knows where and when to resume, and has dropped the unfinished event.
    #[test]
    fn broken_stream_knows_where_to_resume() {
        let mut events = SseParser::new(100);
        assert_eq!(events.feed(b"id: 7\nretry: 250\ndata: a\n\ndata: hal").unwrap(), [b"a".to_vec()]);
        assert_eq!((events.last_id(), events.retry()), (Some("7"), Some(Duration::from_millis(250))));
        events.broke_off();
        assert_eq!(events.feed(b"data: half\nid: 8\n\n").unwrap(), [b"half".to_vec()]);
        assert_eq!(events.last_id(), Some("8"));
        events.feed(format!("id: {}\n\n", "x".repeat(99)).as_bytes()).unwrap_err();
    }

    /// An event over the limit is an error, not a growing buffer.
    #[test]
    fn events_are_bounded() {
        assert_eq!(SseParser::new(9).feed(b"data: 12345"), Err(EventTooLarge));
    }
}
