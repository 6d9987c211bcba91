//! The properties of stdout: a terminal or not, its size, its colours; and the alternate screen for a live view.

use std::io::{self, IsTerminal, Write};

use crate::config::ProcessEnv;

/// The properties of stdout.
#[derive(Debug, Clone, Copy, Default)]
pub struct Terminal {
    pub colour: bool,
    /// `None` where line length is unlimited: a pipe, a file.
    pub columns: Option<usize>,
    pub rows: Option<usize>,
}

impl Terminal {
    /// Reads the properties of stdout as they are now.
    pub fn stdout(env: &ProcessEnv) -> Self {
        let stdout = io::stdout();
        if !stdout.is_terminal() {
            return Self::default();
        }
        let size = rustix::termios::tcgetwinsize(&stdout).ok();
        // A terminal that does not know its size reports 0.
        let some = |size: u16| (size > 0).then_some(usize::from(size));
        Self {
            colour: wants_colour(env),
            columns: size.and_then(|size| some(size.ws_col)),
            rows: size.and_then(|size| some(size.ws_row)),
        }
    }

    pub fn is_stdout() -> bool {
        io::stdout().is_terminal()
    }

    pub fn styled(self, style: TextStyle, text: &str) -> String {
        let code = match style {
            TextStyle::Plain => return text.to_owned(),
            _ if !self.colour => return text.to_owned(),
            TextStyle::Bold => 1,
            TextStyle::Dim => 2,
            TextStyle::Red => 31,
            TextStyle::Green => 32,
            TextStyle::Yellow => 33,
            TextStyle::Blue => 34,
            TextStyle::Magenta => 35,
            TextStyle::Cyan => 36,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

fn wants_colour(env: &ProcessEnv) -> bool {
    let forbidden = env.variable("NO_COLOR").is_some_and(|value| !value.is_empty());
    !forbidden && env.variable("TERM").is_none_or(|term| term != "dumb")
}

/// A text's style on a terminal with colours. No information is in the colour alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextStyle {
    Plain,
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Blue,
    Magenta,
    Cyan,
}

/// The terminal's alternate screen, without a cursor. Dropping it restores the former content.
pub struct Screen(());

impl Screen {
    pub fn open() -> io::Result<Self> {
        write("\x1b[?1049h\x1b[?25l")?;
        Ok(Self(()))
    }

    /// Draws over the old content, line by line, so that nothing flickers. Lines that do not fit are left out and counted.
    pub fn draw(&self, text: &str, rows: Option<usize>) -> io::Result<()> {
        let lines: Vec<&str> = text.lines().collect();
        let fitting = rows.unwrap_or(usize::MAX).max(2);
        let mut drawn = String::from("\x1b[H");
        let shown = if lines.len() > fitting { fitting - 1 } else { lines.len() };
        for (n, line) in lines[..shown].iter().enumerate() {
            drawn += if n > 0 { "\r\n" } else { "" };
            drawn += &format!("{line}\x1b[K");
        }
        if shown < lines.len() {
            drawn += &format!("\r\n… {} more lines\x1b[K", lines.len() - shown);
        }
        write(&(drawn + "\x1b[J"))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = write("\x1b[?25h\x1b[?1049l");
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}
