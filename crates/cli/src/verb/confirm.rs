//! The question before a file of the user's is written, or before something is removed.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::report::CliError;

/// Asks on the terminal whether to write. Without a terminal it is an error, whose hint names `what` `--print` would show.
pub fn ask(question: &str, what: &str) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(CliError::usage("there is no terminal to ask on; nothing was written")
            .hint(format!("add --yes to write without a question, or --print to see {what}"))
            .into());
    }
    Ok(confirm(question, &mut io::stdin().lock(), &mut io::stderr().lock())?)
}

/// Asks on the terminal whether to remove. Without a terminal it is an error.
pub fn ask_to_remove(question: &str) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(CliError::usage("there is no terminal to ask on; nothing was removed")
            .hint("add --yes to remove without a question")
            .into());
    }
    Ok(confirm(question, &mut io::stdin().lock(), &mut io::stderr().lock())?)
}

/// Asks once. Only a yes counts; the end of the input is a no.
fn confirm(question: &str, reports: &mut impl BufRead, screen: &mut impl Write) -> io::Result<bool> {
    write!(screen, "{question} [y/N] ")?;
    screen.flush()?;
    let mut answer = String::new();
    if reports.read_line(&mut answer)? == 0 {
        writeln!(screen)?;
    }
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Yes is yes in any spelling; everything else is no, the end of the input too.
    #[test]
    fn only_yes_confirms() {
        for (answer, yes) in [
            ("y\n", true),
            (" YES \n", true),
            ("yes", true),
            ("\n", false),
            ("", false),
            ("yep\n", false),
            ("n\n", false),
        ] {
            let mut screen = Vec::new();
            assert_eq!(
                confirm("Write this?", &mut answer.as_bytes(), &mut screen).unwrap(),
                yes,
                "{answer:?}"
            );
            assert!(String::from_utf8(screen).unwrap().starts_with("Write this? [y/N] "));
        }
    }
}
