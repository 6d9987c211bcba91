//! Shows what would change in a file: the removed and the added lines, and no others. A client's file may hold secrets of
//! other servers, which must not reach a screen or a log.

/// Of a line longer than this only the text around its change is shown: some programs write their whole file
/// on one line.
const LINE_CHARS_MAX: usize = 160;

/// How much of such a line is shown on either side of its change.
const AROUND_CHARS: usize = 16;

/// The changed lines, each with `- ` or `+ ` before it, below the number of the first one.
pub fn show(old: &str, new: &str) -> String {
    let old: Vec<_> = old.lines().collect();
    let new: Vec<_> = new.lines().collect();
    let head = common(old.iter(), new.iter());
    let mut tail = common(old[head..].iter().rev(), new[head..].iter().rev());
    // An added member puts a comma behind the closing brace of the member before it. That line counts as
    // changed: otherwise the old brace would be matched with the brace of the added member.
    if let (Some(was), Some(is)) = (old.get(head), new.get(head))
        && tail == old.len() - head
        && is.strip_suffix(',') == Some(was)
    {
        tail -= 1;
    }
    let removed = &old[head..old.len() - tail];
    let added = &new[head..new.len() - tail];
    let mut shown = if old.is_empty() { String::new() } else { format!("line {}\n", head + 1) };
    for (n, line) in removed.iter().enumerate() {
        shown += &format!("- {}\n", clipped(line, added.get(n)));
    }
    for (n, line) in added.iter().enumerate() {
        shown += &format!("+ {}\n", clipped(line, removed.get(n)));
    }
    shown
}

fn common<T: PartialEq>(one: impl Iterator<Item = T>, other: impl Iterator<Item = T>) -> usize {
    one.zip(other).take_while(|(one, other)| one == other).count()
}

/// A line; if it is long, only the part that differs.
fn clipped(line: &str, counterpart: Option<&&str>) -> String {
    let chars: Vec<_> = line.chars().collect();
    if chars.len() <= LINE_CHARS_MAX {
        return line.to_owned();
    }
    let other: Vec<_> = counterpart.map_or_else(Vec::new, |line| line.chars().collect());
    let head = common(chars.iter(), other.iter());
    let tail = common(chars[head..].iter().rev(), other[head..].iter().rev());
    let from = head.saturating_sub(AROUND_CHARS);
    let to = (chars.len() - tail + AROUND_CHARS).min(chars.len());
    let dots = |there: bool| if there { "…" } else { "" };
    let middle: String = chars[from..to].iter().collect();
    format!("{}{middle}{}", dots(from > 0), dots(to < chars.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only what differs is shown.
    #[test]
    fn diff_shows_only_changed_lines() {
        assert_eq!(show("", "a\nb\n"), "+ a\n+ b\n");
        assert_eq!(show("a\nsecret\nc\n", "a\nsecret\nb\nc\n"), "line 3\n+ b\n");
        assert_eq!(show("a\nb\nc", "a\nx\ny\nc"), "line 2\n- b\n+ x\n+ y\n");
        assert_eq!(show("a {\n}\n", "a {\n},\nb {\n}\n"), "line 2\n- }\n+ },\n+ b {\n+ }\n");
    }

    /// Of a long line only the surroundings of the change are shown.
    #[test]
    fn long_lines_are_clipped() {
        let head = "h".repeat(1000);
        let tail = "t".repeat(1000);
        assert_eq!(
            show(&format!("{head}{tail}"), &format!("{head}NEW{tail}")),
            format!("line 1\n- …{0}{1}…\n+ …{0}NEW{1}…\n", "h".repeat(16), "t".repeat(16))
        );
    }
}
