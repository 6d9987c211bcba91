//! Splits a byte stream into lines of bounded length. A pure state machine, shared by the agent's stdin (read
//! by a thread) and an engine's stdout (read by a task).

/// One line of a stream.
#[derive(Debug, PartialEq, Eq)]
pub enum StreamLine {
    /// A line without its end. Never empty.
    Whole(Vec<u8>),
    /// A line over the limit. The splitter drops its content and continues with the next line.
    TooLong { bytes: usize },
}

/// The splitter. Feed it chunks as they arrive.
pub struct LineSplitter {
    line: Vec<u8>,
    bytes_max: usize,
    /// Bytes of an over-long line seen so far, while it is being skipped.
    skipped: Option<usize>,
}

impl LineSplitter {
    pub fn new(bytes_max: usize) -> Self {
        Self { line: Vec::new(), bytes_max, skipped: None }
    }

    /// Takes a chunk and passes on every line that it completes.
    pub fn feed(&mut self, mut chunk: &[u8], mut out: impl FnMut(StreamLine)) {
        while let Some(end) = chunk.iter().position(|byte| *byte == b'\n') {
            let (head, rest) = chunk.split_at(end);
            self.take(head);
            chunk = rest.get(1..).unwrap_or_default();
            if let Some(line) = self.finish() {
                out(line);
            }
        }
        self.take(chunk);
    }

    /// The last line of a stream that ended without a newline.
    pub fn finish(&mut self) -> Option<StreamLine> {
        if let Some(bytes) = self.skipped.take() {
            return Some(StreamLine::TooLong { bytes });
        }
        let mut line = std::mem::take(&mut self.line);
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        (!line.iter().all(u8::is_ascii_whitespace)).then_some(StreamLine::Whole(line))
    }

    fn take(&mut self, part: &[u8]) {
        if let Some(bytes) = &mut self.skipped {
            *bytes += part.len();
        } else if self.line.len() + part.len() > self.bytes_max {
            self.skipped = Some(self.line.len() + part.len());
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&str], max: usize) -> Vec<StreamLine> {
        let mut splitter = LineSplitter::new(max);
        let mut out = Vec::new();
        for chunk in chunks {
            splitter.feed(chunk.as_bytes(), |line| out.push(line));
        }
        out.extend(splitter.finish());
        out
    }

    fn whole(text: &str) -> StreamLine {
        StreamLine::Whole(text.as_bytes().to_vec())
    }

    /// Lines come out whole however the stream is split into chunks; blank lines and carriage returns are
    /// dropped.
    #[test]
    fn chunk_boundaries_do_not_change_lines() {
        assert_eq!(lines(&["a", "b\r\n\n \nc", "\n", "d"], 9), [whole("ab"), whole("c"), whole("d")]);
    }

    /// An over-long line is counted and skipped; the next line is whole.
    #[test]
    fn long_lines_are_skipped() {
        assert_eq!(lines(&["12345", "6\nok\n"], 5), [StreamLine::TooLong { bytes: 6 }, whole("ok")]);
        assert_eq!(lines(&["12345\n", "1"], 5), [whole("12345"), whole("1")]);
    }
}
