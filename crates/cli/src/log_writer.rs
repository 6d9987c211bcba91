//! Where log lines go: to stderr, one event a line, with every character escaped that could forge another line or
//! control a terminal. Session ids, titles, URLs and errors in events come from agents and pages. This writer escapes
//! whole lines, so that the code that logs does not have to.

use std::io::{self, Write};

use greenroom_core::printable::printable;
use tracing_subscriber::fmt::MakeWriter;

/// Makes a writer for each event.
pub struct LogWriter;

/// Collects the parts of one event. `Drop` writes them to stderr as a whole, so that lines of two events never mix.
pub struct EventLine(Vec<u8>);

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = EventLine;

    fn make_writer(&'a self) -> EventLine {
        EventLine(Vec::new())
    }
}

impl Write for EventLine {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for EventLine {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            // If stderr is closed, there is nowhere to report it.
            let _ = io::stderr().lock().write_all(one_line(&self.0).as_bytes());
        }
    }
}

/// An event as one line, whatever it contains.
fn one_line(event: &[u8]) -> String {
    let text = String::from_utf8_lossy(event);
    let text = text.strip_suffix('\n').unwrap_or(&text);
    format!("{}\n", printable(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An event is one line, whatever its parts contain.
    #[test]
    fn event_is_one_line() {
        assert_eq!(
            one_line(b"INFO session ended session=a\r\nERROR forged\x1b[2J\n"),
            "INFO session ended session=a\\r\\nERROR forged\\u{1b}[2J\n"
        );
    }
}
