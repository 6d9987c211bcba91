//! Numbers with their nouns and verbs, for messages.

/// `1 instance`, `2 instances`.
pub fn count(number: usize, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

/// `1 of 1 slot`, `1 of 8 slots`: `whole` decides the form of the noun.
pub fn count_of(part: usize, whole: usize, one: &str) -> String {
    format!("{part} of {}", count(whole, one))
}

/// The form of a verb after this number: `waits` or `wait`.
pub fn verb<'a>(number: usize, one: &'a str, several: &'a str) -> &'a str {
    if number == 1 { one } else { several }
}

/// `is` or `are`, after this number.
pub fn is(number: usize) -> &'static str {
    verb(number, "is", "are")
}

/// A list of names: `there is a`, `there are a, b`.
pub fn there(names: &[String]) -> String {
    match names {
        [] => "there is none".to_owned(),
        _ => format!("there {} {}", is(names.len()), names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One has the singular, none and several the plural.
    #[test]
    fn only_one_takes_the_singular() {
        assert_eq!([0, 1, 2].map(|number| count(number, "slot")), ["0 slots", "1 slot", "2 slots"]);
        assert_eq!(count_of(1, 1, "slot"), "1 of 1 slot");
        assert_eq!((count_of(1, 8, "slot").as_str(), is(1)), ("1 of 8 slots", "is"));
        assert_eq!((count_of(0, 1, "agent").as_str(), is(0)), ("0 of 1 agent", "are"));
        assert_eq!([0, 1, 2].map(|number| verb(number, "waits", "wait")), ["wait", "waits", "wait"]);
    }

    #[test]
    fn there_agrees_with_the_count() {
        let names = ["a".to_owned(), "b".to_owned()];
        assert_eq!(there(&names[..0]), "there is none");
        assert_eq!(there(&names[..1]), "there is a");
        assert_eq!(there(&names), "there are a, b");
    }
}
