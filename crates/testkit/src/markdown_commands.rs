//! The commands of a program in a Markdown page: lines of `sh` blocks, and code spans in the text. Tests compare them with
//! what the program accepts.

/// Every command of the program on the page, as a shell would split it. Comments are left out.
pub fn markdown_commands(page: &str, program: &str) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    let mut block: Option<&str> = None;
    for line in page.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            block = block.is_none().then_some(language);
        } else if block == Some("sh") {
            commands.push(shell_words(line));
        } else if block.is_none() {
            commands.extend(line.split('`').skip(1).step_by(2).map(shell_words));
        }
    }
    commands.retain(|words| words.len() > 1 && words[0] == program);
    commands
}

/// Splits a line at its spaces, with quotes of both kinds, up to a comment.
fn shell_words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (None, '#') if word.is_none() => break,
            _ => word.get_or_insert_default().push(letter),
        }
    }
    assert!(quote.is_none(), "a quote is open: {line}");
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quotes, comments, other programs and other languages.
    #[test]
    fn commands_are_found_and_split() {
        let page = "Run `x open \"a b\" --to='c d'` or `y open`.\n```sh\nx go # far\ny go\n```\n```json\nx no\n```\n";
        assert_eq!(markdown_commands(page, "x"), [vec!["x", "open", "a b", "--to=c d"], vec!["x", "go"]]);
    }
}
