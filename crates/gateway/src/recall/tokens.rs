//! Estimates how many tokens a text costs its reader.
//!
//! A model's own tokenizer is exact and needs megabytes of tables; budgets do not need that. This counts the units of
//! today's tokenizers: words, groups of digits, runs of signs, indentation. One pass, no allocation. All code of the
//! gateway that counts tokens calls this, so that its figures are comparable.

/// Estimates are made in hundredths of a token, so that sums stay whole numbers.
const ONE: usize = 100;

/// Letters in the first token of a word; a longer word is split. Most English words are one token.
const WORD: usize = 8;

/// Letters in each further token of a long word. Tokenizers cut the rest of a compound finer than its beginning.
const WORD_REST: usize = 4;

/// Digits come in groups of three.
const DIGITS: usize = 3;

/// Adjacent signs come in pairs: `":`, `]:`, `--`.
const SIGNS: usize = 2;

/// The cost of a letter beyond ASCII, by its length in bytes: European, Greek, Cyrillic, Arabic letters share tokens;
/// few Chinese, Japanese and Korean signs do; a pictogram takes more than one.
const TWO_BYTES: usize = 30;
const THREE_BYTES: usize = 72;
const FOUR_BYTES: usize = 200;

/// About how many tokens `text` is: within 15 % for snapshots, and not more than 10 % too few for anything usual.
pub(crate) fn estimate(text: &str) -> usize {
    cost(text, usize::MAX).div_ceil(ONE)
}

/// Whether `text` has more than `tokens_max` tokens. Reads no more of the text than necessary.
pub(crate) fn exceeds(text: &str, tokens_max: usize) -> bool {
    let cost_max = tokens_max.saturating_mul(ONE);
    cost(text, cost_max) > cost_max
}

/// The cost of a text, or a value above `enough`.
fn cost(text: &str, enough: usize) -> usize {
    let bytes = text.as_bytes();
    let mut cost = 0;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at)
        && cost <= enough
    {
        let kind = CharClass::of_byte(byte);
        let from = at;
        at += 1;
        // A capital letter after a small one begins a new word, as in `camelCase`; random letters do so often.
        while bytes.get(at).is_some_and(|next| {
            CharClass::of_byte(*next) == kind
                && !(next.is_ascii_uppercase() && bytes[at - 1].is_ascii_lowercase())
        }) {
            at += 1;
        }
        cost += kind.cost(&bytes[from..at]);
    }
    cost
}

/// The classes of characters that share a token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CharClass {
    Word,
    Number,
    Blank,
    Sign,
    Foreign,
}

impl CharClass {
    fn of_byte(byte: u8) -> Self {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => Self::Word,
            b'0'..=b'9' => Self::Number,
            b' ' | b'\t' | b'\n' | b'\r' => Self::Blank,
            0x80.. => Self::Foreign,
            _ => Self::Sign,
        }
    }

    fn cost(self, run: &[u8]) -> usize {
        match self {
            Self::Word => {
                ONE * (1 + run.len().saturating_sub(WORD).div_ceil(WORD_REST) + leading_capitals(run))
            }
            Self::Number => run.len().div_ceil(DIGITS) * ONE,
            // One blank belongs to the word after it, and a newline to the sign before it; indentation is a token.
            Self::Blank => ONE * usize::from(run.len() > 2),
            Self::Sign => ONE * run.len().div_ceil(SIGNS),
            Self::Foreign => run.iter().map(|&byte| foreign(byte)).sum(),
        }
    }
}

/// How many capitals a word begins with, if there are several and small letters follow. Languages have no such words,
/// but base64 is made of them, and no tokenizer has a token for one.
fn leading_capitals(word: &[u8]) -> usize {
    let capitals = word.iter().take_while(|letter| letter.is_ascii_uppercase()).count();
    if capitals > 1 && capitals < word.len() { capitals } else { 0 }
}

/// The cost of a character, known from its first byte.
fn foreign(byte: u8) -> usize {
    match byte {
        0xf0.. => FOUR_BYTES,
        0xe0.. => THREE_BYTES,
        0xc0.. => TWO_BYTES,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use tiktoken_rs::o200k_base_singleton;

    use super::*;

    /// How far the estimate is off, in percent.
    fn off(text: &str) -> f64 {
        let real = o200k_base_singleton().encode_ordinary(text).len();
        (estimate(text) as f64 / real as f64 - 1.0) * 100.0
    }

    /// Recorded snapshots are estimated within 15 %.
    #[test]
    fn snapshot_estimates_are_within_15_percent() {
        for (name, text) in [
            ("orders", include_str!("recorded/orders.yml")),
            ("article", include_str!("recorded/article.yml")),
            ("languages", include_str!("recorded/languages.yml")),
            ("board", include_str!("recorded/board.yml")),
        ] {
            let off = off(text);
            assert!(off.abs() <= 15.0, "{name}: {off:.1} %");
        }
    }

    /// No usual text costs much more than estimated: prose, JSON, other scripts, keys, URLs.
    #[test]
    fn estimates_are_not_far_too_low() {
        let base64 = "q83vEjRWeJq83v/tyBCiPZkMfrWQzAx1oTfU2ynLbHsVgE5pXjK0duwY9Gi6RqhSNIc4Z8tJ7mFOaDvBPl3QeA";
        let licence = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../LICENSE")).unwrap();
        for text in [
            &*licence,
            include_str!("recorded/board.json"),
            "演员休息室在舞台后面。演员们在这里等待上场，听着扩音器里的声音。请确认收货地址和付款方式。",
            "楽屋は舞台の裏にあります。出演者はここで着替えて、出番を待ちます。静かにお待ちください。",
            "Гримёрная находится за сценой. Пожалуйста, подтвердите адрес доставки и способ оплаты.",
            "Bezahlvorgang abgeschlossen; Rechnungsadresse bestätigen und Bestellung verbindlich abschicken.",
            base64,
            "0199f3a2-5b0c-4e1d-8f00-1c2d3e4f5a6b 7c9e6679-7425-40de-944b-e07fc1f90ae7",
            "- /url: https://cdn.example.com/assets/9f1c2b7a/img_12.png?sig=aGVsbG8tMTIz&utm_source=mail",
            "[37ms] [ERROR] Failed to load resource: the server responded with a status of 404 (Not Found)",
        ] {
            let off = off(text);
            assert!(off >= -10.0, "{off:.1} %: {}", text.chars().take(60).collect::<String>());
        }
    }

    /// An empty text costs nothing, and any other text something.
    #[test]
    fn only_the_empty_text_costs_nothing() {
        assert_eq!(estimate(""), 0);
        for text in ["a", "7", "é", "-", "   "] {
            assert_eq!(estimate(text), 1, "{text:?}");
            assert!(exceeds(text, 0) && !exceeds(text, 1), "{text:?}");
        }
    }
}
