//! Finds what a caller probably meant: the name of a tool or a session, or a text on a page.

/// The likeness of a name with one or two typing mistakes.
const LIKE: f64 = 0.8;

/// Longer names are not compared: no tool's name is half as long, and the time to compare grows with the square of the
/// length.
const NAME_BYTES_MAX: usize = 128;

/// The name in `others` that is most like `name`, if it is like enough.
pub fn nearest<S: AsRef<str>>(name: &str, others: impl Iterator<Item = S>) -> Option<S> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let likeness = others.map(|other| (strsim::jaro_winkler(name, other.as_ref()), other));
    let (likeness, nearest) = likeness.max_by(|(one, _), (other, _)| one.total_cmp(other))?;
    (likeness > LIKE).then_some(nearest)
}

/// The likeness of a text that is worth showing: about half of its letters are the same.
const TEXT_LIKE: f64 = 0.6;

/// Only so many texts are compared, and only so many bytes of each: the time to compare grows with the square of the length.
const TEXTS_MAX: usize = 2_000;
const TEXT_BYTES_MAX: usize = 64;

/// The indexes of at most `count` texts that are most like `wanted`, the nearest first. A text also counts by the words in it
/// that are most like `wanted`. Upper and lower case are the same.
pub fn nearest_texts<'a>(wanted: &str, texts: impl Iterator<Item = &'a str>, count: usize) -> Vec<usize> {
    let head =
        |text: &str| text.get(..text.floor_char_boundary(TEXT_BYTES_MAX)).unwrap_or_default().to_lowercase();
    let wanted = head(wanted.trim());
    let words_wanted = wanted.split_whitespace().count().max(1);
    let likeness = |text: &str| {
        let text = head(text);
        let words: Vec<&str> = text.split_whitespace().collect();
        let parts = words.windows(words_wanted).map(|part| part.join(" "));
        let whole = std::iter::once(text.clone());
        parts
            .chain(whole)
            .map(|part| strsim::normalized_damerau_levenshtein(&wanted, &part))
            .fold(0.0, f64::max)
    };
    let mut likes: Vec<_> = texts
        .take(TEXTS_MAX)
        .enumerate()
        .map(|(index, text)| (likeness(text), index))
        .filter(|(likeness, _)| *likeness >= TEXT_LIKE)
        .collect();
    // The sort is stable: of equals, the first on the page comes first.
    likes.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    likes.into_iter().map(|(_, index)| index).take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A typing mistake finds its name; an unrelated name finds none.
    #[test]
    fn misspelt_name_finds_the_nearest() {
        let names = || ["browser_click", "browser_type"].into_iter();
        assert_eq!(nearest("browser_clikc", names()), Some("browser_click"));
        assert_eq!(nearest("xyz", names()), None);
        let long = "browser_click".repeat(10_000_000);
        assert_eq!(nearest(&long, names()), None, "at once");
    }

    /// The nearest texts come first, also by a few of their words; unrelated texts are left out, and long ones take no time.
    #[test]
    fn finds_texts_like_another() {
        let texts = ["Imprint", "Add to basket", "Your basket has 2 items", "ADD TO CARD", ""];
        let near = |wanted: &str, count| nearest_texts(wanted, texts.into_iter(), count);
        assert_eq!(near("Add to cart", 3), [3, 1]);
        assert_eq!(near("Add to cart", 1), [3]);
        assert_eq!(near("baskte", 3), [1, 2]);
        assert_eq!(near("xylophone", 3), Vec::<usize>::new());
        assert_eq!(near("", 3), [4]);
        let long = "ä".repeat(1 << 20);
        assert_eq!(nearest_texts(&long, std::iter::repeat_n(long.as_str(), 10_000), 2), [0, 1]);
    }
}
