//! Finds the name that a caller probably meant when it gave an unknown one: of a tool, or of a session.

/// The likeness of a name with one or two typing mistakes.
const LIKE: f64 = 0.8;

/// Longer names are not compared: no name of ours is half as long, and comparing takes time with the square of the length.
const NAME_BYTES_MAX: usize = 128;

/// The known name that is most like this one, if one is like it.
pub fn nearest<S: AsRef<str>>(name: &str, others: impl Iterator<Item = S>) -> Option<S> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let likeness = others.map(|other| (strsim::jaro_winkler(name, other.as_ref()), other));
    let (likeness, nearest) = likeness.max_by(|(one, _), (other, _)| one.total_cmp(other))?;
    (likeness > LIKE).then_some(nearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A typing mistake finds its name; an unrelated name finds none.
    #[test]
    fn finds_what_was_meant() {
        let names = || ["browser_click", "browser_type"].into_iter();
        assert_eq!(nearest("browser_clikc", names()), Some("browser_click"));
        assert_eq!(nearest("xyz", names()), None);
        let long = "browser_click".repeat(10_000_000);
        assert_eq!(nearest(&long, names()), None, "at once");
    }
}
