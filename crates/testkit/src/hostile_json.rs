//! Arguments as a hostile client writes them: JSON that every parser accepts and not every parser reads alike. The same
//! seed makes the same arguments.

/// Generates hostile JSON, always the same from the same seed.
pub struct HostileJson(u64);

/// Characters that browsers drop from URLs, or that end strings in other languages.
const DROPPED: [char; 12] =
    ['\t', '\n', '\r', ' ', '\0', '\u{1}', '\u{1f}', '\u{7f}', '\u{a0}', '\u{feff}', '\u{200b}', '\u{2028}'];

impl HostileJson {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end.max(1) as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    /// A string, with its quotes: one of these texts, changed and spelt in odd ways.
    pub fn string(&mut self, texts: &[&str]) -> String {
        let mut text: Vec<char> = self.pick(texts).chars().collect();
        for _ in 0..self.below(4) {
            self.change(&mut text);
        }
        let mut json = String::from("\"");
        let odd_spelling = self.one_in(3);
        for c in text {
            let escaped = odd_spelling && self.one_in(4);
            json.push_str(&spelt(c, escaped, self.one_in(2)));
        }
        if self.one_in(5) {
            json.push_str(self.pick(&[
                "\\ud800",
                "\\uDC00",
                "#\\udfff",
                "\\ud83d\\ude00",
                "\\udc00\\ud800",
                "\\u0000",
            ]));
        }
        json.push('"');
        json
    }

    fn change(&mut self, text: &mut Vec<char>) {
        let at = self.below(text.len() + 1);
        match self.below(7) {
            0 => text.insert(at, DROPPED[self.below(DROPPED.len())]),
            1 => text.insert(0, DROPPED[self.below(DROPPED.len())]),
            2 => text.iter_mut().for_each(|c| {
                *c = if self.one_in(2) { c.to_ascii_uppercase() } else { *c };
            }),
            3 if at < text.len() => {
                let encoded = format!("%{:02x}", text[at] as u32 & 0xff);
                text.splice(at..=at, encoded.chars());
            }
            4 => {
                let prefix =
                    self.pick(&["view-source:", "blob:", "filesystem:", "./", "//", "https://", "file:"]);
                text.splice(0..0, prefix.chars());
            }
            5 if self.one_in(20) => text.extend(std::iter::repeat_n('a', 50_000)),
            _ => {
                let suffix = self.pick(&["#x", "?y", "/..", "/../..", "\\..\\x", ":80", "/."]);
                text.extend(suffix.chars());
            }
        }
    }

    /// A value: mostly such a string, sometimes of an unexpected type.
    pub fn value(&mut self, texts: &[&str]) -> String {
        match self.below(14) {
            0 => self.pick(&["5", "1e400", "-0", "true", "null", "{}", "[]", "1.0"]).to_owned(),
            1 | 2 => {
                let items: Vec<_> = (0..self.below(3)).map(|_| self.value(texts)).collect();
                format!("[{}]", items.join(","))
            }
            3 => format!("{{\"toString\":{},\"0\":{}}}", self.string(texts), self.string(texts)),
            4 => {
                let depth = [3, 99, 130, 3_000][self.below(4)];
                format!("{}{}{}", "[".repeat(depth), self.string(texts), "]".repeat(depth))
            }
            _ => self.string(texts),
        }
    }

    /// A text as it is, with its quotes, spelt in odd ways.
    pub fn spelling(&mut self, text: &str) -> String {
        let odd_spelling = self.one_in(4);
        let letters = text.chars().map(|c| spelt(c, odd_spelling && self.one_in(3), self.one_in(2)));
        format!("\"{}\"", letters.collect::<String>())
    }

    /// A name, with its quotes; seldom with half a surrogate pair.
    pub fn name(&mut self, name: &str) -> String {
        let mut json = self.spelling(name);
        if self.one_in(40) {
            json.insert_str(json.len() - 1, "\\ud800");
        }
        json
    }

    /// An object with these members, some of them twice, and some unexpected ones.
    pub fn object(&mut self, members: &[(&str, String)]) -> String {
        let mut written = Vec::new();
        for (name, value) in members {
            written.push(format!("{}:{value}", self.name(name)));
            if self.one_in(12) {
                written.push(format!("{}:{value}", self.name(name)));
            }
        }
        if self.one_in(12) {
            let inherited: String =
                members.iter().map(|(name, value)| format!("\"{name}\":{value},")).collect();
            let name = self.pick(&["__proto__", "_meta", "constructor"]);
            let name = self.name(name);
            written.push(format!("{name}:{{{inherited}\"cwd\":\"/\"}}"));
        }
        let turn = self.below(written.len() + 1).min(written.len());
        written.rotate_left(turn);
        format!("{{{}}}", written.join(","))
    }
}

/// How a character is written in a JSON string.
fn spelt(c: char, escaped: bool, upper: bool) -> String {
    if escaped || (c as u32) < 0x20 {
        let mut units = [0; 2];
        let units = c.encode_utf16(&mut units).iter();
        let escapes =
            units.map(|unit| if upper { format!("\\u{unit:04X}") } else { format!("\\u{unit:04x}") });
        return escapes.collect();
    }
    match c {
        '"' | '\\' => format!("\\{c}"),
        other => other.to_string(),
    }
}
