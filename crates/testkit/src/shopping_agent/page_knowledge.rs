//! What an agent knows about its page: the texts that it received since it last received the whole page.

/// Where an answer of the engine links to its snapshot.
const LINK: &str = "- [Snapshot](";

/// The texts that an agent has about its page.
#[derive(Debug, Default)]
pub struct PageKnowledge {
    /// Oldest first.
    texts: Vec<String>,
    /// The index of the last answer's first text.
    newest: usize,
    link: Option<String>,
    ref_id: Option<String>,
}

impl PageKnowledge {
    /// Adds the answer to a call. `meta` is the ref_id in its `_meta`.
    pub fn add_answer(&mut self, text: &str, meta: Option<&str>) {
        let link = text.lines().find_map(|line| line.strip_prefix(LINK)?.strip_suffix(')'));
        // An answer tells nothing about the page unless it has a snapshot, a link to one, or a ref_id to recall one by.
        let only_changes = text.contains("```diff\n") || text.contains("no changes since ");
        let shows = link.is_some() || text.contains("```yaml\n") || text.contains("\"has_snapshot\":true");
        if shows && !only_changes {
            self.texts.clear();
        }
        if shows || only_changes {
            self.link = link.map(str::to_owned);
            self.ref_id = ref_id_in(text).or(meta).map(str::to_owned);
        }
        self.newest = self.texts.len();
        self.texts.push(text.to_owned());
    }

    /// Adds a text that the agent asked for.
    pub fn add_recalled(&mut self, text: &str) {
        self.texts.push(text.to_owned());
    }

    /// Newest first.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().rev().map(String::as_str)
    }

    /// The ref_id of the last call's answer, if the answer has nothing else.
    pub fn recallable_answer(&self) -> Option<String> {
        let newest = self.newest();
        newest.starts_with("{\"ref_id\":").then(|| ref_id_in(newest).map(str::to_owned)).flatten()
    }

    /// The text of the last call's answer.
    pub fn newest(&self) -> &str {
        self.texts.get(self.newest).map_or("", String::as_str)
    }

    pub fn link(&self) -> Option<&str> {
        self.link.as_deref()
    }

    pub fn ref_id(&self) -> Option<String> {
        self.ref_id.clone()
    }

    pub fn has_ref_id(&self) -> bool {
        self.ref_id.is_some()
    }
}

/// The ref_id in an answer's text: in a note, or in the few words that replace the answer (`refs`).
fn ref_id_in(text: &str) -> Option<&str> {
    let noted = text.lines().find_map(|line| line.strip_prefix("ref_id: "));
    noted.or_else(|| text.split_once("\"ref_id\":\"")?.1.split('"').next())
}

/// The ref of the element with these words, in a line of a snapshot or of a diff's additions.
pub fn ref_of(text: &str, words: &str) -> Option<String> {
    let mut in_diff = false;
    for line in text.lines() {
        match line {
            "```diff" => in_diff = true,
            "```" => in_diff = false,
            // A removed line is no longer on the page.
            gone if in_diff && gone.starts_with("- ") => {}
            line if line.contains(words) => {
                let found = line.split_once("[ref=").and_then(|(_, rest)| rest.split(']').next());
                if let Some(found) = found {
                    return Some(found.to_owned());
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Refs are found in snapshots and in added lines, never in removed ones.
    #[test]
    fn ref_is_found_in_present_lines_only() {
        let text = "```diff\n- - button \"Go\" [ref=e1]\n+ - button \"Go\" [active] [ref=e2]\n```";
        assert_eq!(ref_of(text, "button \"Go\"").as_deref(), Some("e2"));
        assert_eq!(ref_of("- button \"Go\" [ref=e1]", "button \"Go\"").as_deref(), Some("e1"));
        assert_eq!(ref_of("- button \"Go on\" [ref=e1]", "button \"Go\""), None);
    }

    /// A whole page replaces what was known; changes add to it; an answer without a page leaves it.
    #[test]
    fn whole_page_replaces_and_diff_extends_the_texts() {
        let mut page = PageKnowledge::default();
        page.add_answer("```yaml\none\n```\nref_id: a", None);
        page.add_answer("```diff\n+ two\n```\nref_id: b", None);
        assert_eq!((page.texts().count(), page.ref_id().as_deref()), (2, Some("b")));
        page.add_answer("### Result\n3", None);
        assert_eq!(page.ref_id().as_deref(), Some("b"));
        page.add_answer("{\"ref_id\":\"c\",\"metadata\":{\"has_snapshot\":true}}", None);
        assert_eq!((page.texts().count(), page.ref_id().as_deref()), (1, Some("c")));
    }
}
