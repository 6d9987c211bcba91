//! MCP's methods for what a server has besides tools: what each asks for, and which revisions have it.

/// A method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PassthroughMethod {
    pub(crate) name: &'static str,
    /// The capability of servers that know it.
    pub(super) of: &'static str,
    /// The name of the list that it asks for.
    pub(super) list: Option<&'static str>,
    /// Whether the request needs a session that stays, so that the gateway creates one. Other requests use the session
    /// that exists, or none: a client that only looks at a list must not hold a slot.
    pub(super) stays: bool,
    /// Whether revision 2026-07-28 has it, too. There `subscriptions/listen` replaces subscriptions, and tasks are an
    /// extension of another shape.
    is_lasting: bool,
}

const fn of(of: &'static str, name: &'static str) -> PassthroughMethod {
    PassthroughMethod { name, of, list: None, stays: false, is_lasting: true }
}

const fn list(of: &'static str, name: &'static str, list: &'static str) -> PassthroughMethod {
    PassthroughMethod { list: Some(list), ..self::of(of, name) }
}

const fn former(method: PassthroughMethod) -> PassthroughMethod {
    PassthroughMethod { is_lasting: false, ..method }
}

const METHODS: [PassthroughMethod; 12] = [
    of("completions", "completion/complete"),
    of("prompts", "prompts/get"),
    list("prompts", "prompts/list", "prompts"),
    list("resources", "resources/list", "resources"),
    of("resources", "resources/read"),
    list("resources", "resources/templates/list", "resourceTemplates"),
    former(PassthroughMethod { stays: true, ..of("resources", "resources/subscribe") }),
    former(PassthroughMethod { stays: true, ..of("resources", "resources/unsubscribe") }),
    former(of("tasks", "tasks/cancel")),
    former(of("tasks", "tasks/get")),
    former(list("tasks", "tasks/list", "tasks")),
    former(of("tasks", "tasks/result")),
];

/// The capabilities that the gateway declares in a handshake, and to clients of revision 2026-07-28 those that it
/// knows.
pub(super) const CAPABILITIES: [&str; 4] = ["prompts", "resources", "completions", "tasks"];
pub(super) const LASTING: [&str; 3] = ["prompts", "resources", "completions"];

impl PassthroughMethod {
    /// The method that clients with a handshake call by this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        METHODS.into_iter().find(|method| method.name == name)
    }

    /// The method that clients of revision 2026-07-28 call by this name.
    pub(crate) fn stateless(name: &str) -> Option<Self> {
        Self::named(name).filter(|method| method.is_lasting)
    }
}
