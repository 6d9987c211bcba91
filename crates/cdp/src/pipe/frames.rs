//! The bytes of a pipe taken apart into messages: each ends with a NUL byte, which no JSON text contains.

use memchr::memchr;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::{Closed, MESSAGE_BYTES_MAX};

/// How much is read at once: as much as a pipe holds.
const READ_BYTES: usize = 64 << 10;

/// Reads messages from a pipe.
pub(super) struct Frames<R> {
    pipe: R,
    /// Bytes that were read. Those before `start` have been returned; those between `start` and `searched` contain no NUL.
    buffer: Vec<u8>,
    start: usize,
    searched: usize,
    bytes_max: usize,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    pub(super) fn new(pipe: R) -> Self {
        Self { pipe, buffer: Vec::new(), start: 0, searched: 0, bytes_max: MESSAGE_BYTES_MAX }
    }

    /// The next message, or why there are no more.
    pub(super) async fn next(&mut self) -> Result<String, Closed> {
        loop {
            if let Some(message) = self.take_message() {
                return String::from_utf8(message)
                    .map_err(|_| Closed::Protocol("a message is not UTF-8".into()));
            }
            if self.buffer.len() > self.bytes_max {
                let why = format!("a message has more than {} bytes", self.bytes_max);
                return Err(Closed::Broken(why.into()));
            }
            self.buffer.reserve(READ_BYTES);
            match self.pipe.read_buf(&mut self.buffer).await {
                Ok(0) => return Err(Closed::ByBrowser),
                Ok(_) => {}
                Err(error) => return Err(Closed::Broken(error.to_string().into())),
            }
        }
    }

    /// The next message if all of it has been read. Otherwise the buffer begins with the part that has.
    fn take_message(&mut self) -> Option<Vec<u8>> {
        let Some(found) = memchr(0, self.buffer.get(self.searched..).unwrap_or_default()) else {
            self.buffer.drain(..self.start);
            // A long message may have made the buffer large.
            self.buffer.shrink_to(2 * READ_BYTES);
            self.start = 0;
            self.searched = self.buffer.len();
            return None;
        };
        let end = self.searched + found;
        let message = if self.start == 0 && end + 1 == self.buffer.len() && end >= READ_BYTES {
            // A long message usually has the buffer to itself. Then the buffer becomes the message, and nothing is copied. A
            // short one would keep a buffer that is much larger than the message.
            let mut message = std::mem::take(&mut self.buffer);
            message.truncate(end);
            self.searched = 0;
            message
        } else {
            self.searched = end + 1;
            self.buffer.get(self.start..end).unwrap_or_default().to_vec()
        };
        self.start = self.searched;
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages are taken apart wherever the pipe cuts them; the end of the pipe is reported after the last of them.
    #[tokio::test]
    async fn messages_end_with_nul() {
        let pipe = tokio_test_reader(&[b"{\"a\"", b":1}\0{}\0{\"b\":\"", "ü".as_bytes(), b"\"}\0half"]);
        let mut frames = Frames::new(pipe);
        for expected in [r#"{"a":1}"#, "{}", r#"{"b":"ü"}"#] {
            assert_eq!(frames.next().await.unwrap(), expected);
        }
        assert_eq!(frames.next().await, Err(Closed::ByBrowser));
    }

    /// A message over the limit, and one that is not UTF-8, end the connection with the reason.
    #[tokio::test]
    async fn bad_messages_end_the_connection() {
        let mut frames = Frames::new(tokio_test_reader(&[b"{}\0", &[b'x'; 200]]));
        frames.bytes_max = 100;
        assert_eq!(frames.next().await.unwrap(), "{}");
        assert_eq!(
            frames.next().await.unwrap_err().to_string(),
            "the DevTools connection broke: a message has more than 100 bytes"
        );
        let mut frames = Frames::new(tokio_test_reader(&[b"\xff\0"]));
        assert_eq!(frames.next().await, Err(Closed::Protocol("a message is not UTF-8".into())));
    }

    /// A reader that returns these pieces one by one.
    fn tokio_test_reader(pieces: &[&[u8]]) -> impl AsyncRead + Unpin + use<> {
        let pieces: Vec<Vec<u8>> = pieces.iter().map(|piece| piece.to_vec()).collect();
        let (mut writer, reader) = tokio::io::duplex(1 << 10);
        tokio::spawn(async move {
            for piece in pieces {
                tokio::io::AsyncWriteExt::write_all(&mut writer, &piece).await.unwrap();
                tokio::task::yield_now().await;
            }
        });
        reader
    }
}
