//! What the demo's shop sells, and its customers: enough of both for every agent to buy something else.

use crate::view::terminal::TextStyle;

/// Teas, with the price of 100 g in cents. There are as many as agents, and each agent buys another tea.
pub const TEAS: [(&str, u32); 16] = [
    ("Sencha", 780),
    ("Assam", 450),
    ("Rooibos", 390),
    ("Oolong", 920),
    ("Darjeeling", 860),
    ("Earl Grey", 520),
    ("Genmaicha", 640),
    ("Matcha", 1450),
    ("Chai", 480),
    ("Jasmine", 690),
    ("Lapsang", 710),
    ("Mint", 290),
    ("Chamomile", 310),
    ("Pu-erh", 1120),
    ("Mate", 350),
    ("Ceylon", 470),
];

/// Sold with tea.
pub const BISCUITS: &str = "Biscuits";

/// How many agents there can be: as many as share a Chromium, unless the settings say otherwise.
pub const AGENTS_MAX: u8 = 16;

const NAMES: [&str; AGENTS_MAX as usize] = [
    "Ada", "Ben", "Cleo", "Dev", "Elif", "Finn", "Gia", "Hugo", "Iris", "Jun", "Kofi", "Lena", "Milo",
    "Nora", "Omar", "Pia",
];

/// Red is reserved for failures.
const STYLES: [TextStyle; 5] =
    [TextStyle::Green, TextStyle::Yellow, TextStyle::Cyan, TextStyle::Magenta, TextStyle::Blue];

/// What an agent wants to buy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShoppingTask {
    /// Takes tea and biscuits.
    Snack,
    /// Looks at the price list first.
    Compare,
    /// Fills in a form, for another person.
    Gift,
    /// Takes a screenshot of the page.
    Picture,
}

/// One agent: its name and what it wants. No two agents have the same name, tea or session.
#[derive(Debug, Clone, Copy)]
pub struct Role {
    pub name: &'static str,
    pub style: TextStyle,
    pub tea: &'static str,
    pub task: ShoppingTask,
}

impl Role {
    /// The session's id: its purpose, as an agent would choose it.
    pub fn session(&self) -> String {
        self.tea.to_lowercase().replace(' ', "-")
    }

    /// What is in the basket when the task is done.
    pub fn basket(&self) -> String {
        match self.task {
            ShoppingTask::Snack => format!("{}, {BISCUITS}", self.tea),
            ShoppingTask::Compare | ShoppingTask::Picture => self.tea.to_owned(),
            ShoppingTask::Gift => gift(self.tea, "Grandma", true),
        }
    }
}

/// The name of a gift in a basket.
pub fn gift(tea: &str, person: &str, wrapped: bool) -> String {
    format!("{tea} for {person}{}", if wrapped { " (wrapped)" } else { "" })
}

/// The first agents, this many.
pub fn roles(count: u8) -> Vec<Role> {
    let tasks = [ShoppingTask::Snack, ShoppingTask::Compare, ShoppingTask::Gift, ShoppingTask::Picture];
    NAMES
        .iter()
        .zip(TEAS)
        .enumerate()
        .map(|(n, (name, (tea, _)))| Role {
            name,
            style: STYLES[n % STYLES.len()],
            tea,
            task: tasks[n % tasks.len()],
        })
        .take(usize::from(count))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// No two agents have a name, a session or a basket in common, however many there are.
    #[test]
    fn agents_differ_in_name_session_and_basket() {
        let roles = roles(AGENTS_MAX);
        let count = |of: fn(&Role) -> String| roles.iter().map(of).collect::<BTreeSet<_>>().len();
        assert_eq!(count(|role| role.name.to_owned()), usize::from(AGENTS_MAX));
        assert_eq!(count(Role::session), usize::from(AGENTS_MAX));
        assert_eq!(count(Role::basket), usize::from(AGENTS_MAX));
    }
}
