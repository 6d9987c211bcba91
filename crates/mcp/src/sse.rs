//! Server-sent events, as far as MCP uses them: the `data` of each event.

/// Takes a stream apart into the data of its events. Feed it chunks as they arrive.
pub struct Events {
    line: Vec<u8>,
    data: Vec<u8>,
    bytes_max: usize,
}

/// An event over the limit. The stream cannot be read on: its rest belongs to that event.
#[derive(Debug, PartialEq, Eq)]
pub struct TooBig;

impl Events {
    pub fn new(bytes_max: usize) -> Self {
        Self { line: Vec::new(), data: Vec::new(), bytes_max }
    }

    /// Takes a chunk and returns the data of every event that it completes.
    pub fn feed(&mut self, mut chunk: &[u8]) -> Result<Vec<Vec<u8>>, TooBig> {
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

    fn take(&mut self, part: &[u8]) -> Result<(), TooBig> {
        if self.data.len() + self.line.len() + part.len() > self.bytes_max {
            return Err(TooBig);
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
        let data = line.strip_prefix(b"data:")?;
        let data = data.strip_prefix(b" ").unwrap_or(data);
        if !self.data.is_empty() {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(data);
        None
    }
}

/// Encodes an event. A message is one line, so it is one `data` line.
pub fn encode(id: Option<&str>, data: &[u8]) -> Vec<u8> {
    let mut event = Vec::with_capacity(id.map_or(0, str::len) + data.len() + 16);
    if let Some(id) = id {
        event.extend_from_slice(b"id: ");
        event.extend_from_slice(id.as_bytes());
        event.push(b'\n');
    }
    event.extend_from_slice(b"data: ");
    event.extend_from_slice(data);
    event.extend_from_slice(b"\n\n");
    event
}

/// A comment, which only shows that the stream is alive.
pub const KEEP_ALIVE: &[u8] = b": alive\n\n";

#[cfg(test)]
mod tests {
    use super::*;

    /// Data lines are joined, other fields and comments ignored, empty events skipped, however it is cut.
    #[test]
    fn any_cut_gives_the_same_events() {
        let text = b"event: message\r\ndata: a\ndata:b\nid: 1\n\n: ping\n\ndata: c\n\n";
        for cut in 0..text.len() {
            let mut events = Events::new(100);
            let (head, tail) = text.split_at(cut);
            let mut out = events.feed(head).unwrap();
            out.extend(events.feed(tail).unwrap());
            assert_eq!(out, [b"a\nb".to_vec(), b"c".to_vec()]);
        }
    }

    /// An event over the limit is an error, not a growing buffer.
    #[test]
    fn events_are_bounded() {
        assert_eq!(Events::new(9).feed(b"data: 12345"), Err(TooBig));
    }
}
