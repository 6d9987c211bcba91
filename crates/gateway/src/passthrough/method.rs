//! The methods of MCP for what a server has beside tools: what each is about, and which revisions know it.

/// A method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Method {
    pub(crate) name: &'static str,
    /// The capability of servers that know it.
    pub(super) of: &'static str,
    /// The name of the list that it asks for.
    pub(super) list: Option<&'static str>,
    /// Whether it needs a session that stays, so that one is made. Others take the one there is, or none: nobody shall
    /// hold a slot for having looked at a list.
    pub(super) stays: bool,
    /// Whether revision 2026-07-28 has it, too. There `subscriptions/listen` replaces subscriptions, and tasks are an
    /// extension of another shape.
    is_lasting: bool,
}

const fn of(of: &'static str, name: &'static str) -> Method {
    Method { name, of, list: None, stays: false, is_lasting: true }
}

const fn list(of: &'static str, name: &'static str, list: &'static str) -> Method {
    Method { list: Some(list), ..self::of(of, name) }
}

const fn former(method: Method) -> Method {
    Method { is_lasting: false, ..method }
}

const METHODS: [Method; 12] = [
    of("completions", "completion/complete"),
    of("prompts", "prompts/get"),
    list("prompts", "prompts/list", "prompts"),
    list("resources", "resources/list", "resources"),
    of("resources", "resources/read"),
    list("resources", "resources/templates/list", "resourceTemplates"),
    former(Method { stays: true, ..of("resources", "resources/subscribe") }),
    former(Method { stays: true, ..of("resources", "resources/unsubscribe") }),
    former(of("tasks", "tasks/cancel")),
    former(of("tasks", "tasks/get")),
    former(list("tasks", "tasks/list", "tasks")),
    former(of("tasks", "tasks/result")),
];

/// What a client is told of in a handshake, and of these what revision 2026-07-28 knows.
pub(super) const CAPABILITIES: [&str; 4] = ["prompts", "resources", "completions", "tasks"];
pub(super) const LASTING: [&str; 3] = ["prompts", "resources", "completions"];

impl Method {
    /// As clients with a handshake name it.
    pub(crate) fn named(name: &str) -> Option<Self> {
        METHODS.into_iter().find(|method| method.name == name)
    }

    /// As revision 2026-07-28 names it.
    pub(crate) fn stateless(name: &str) -> Option<Self> {
        Self::named(name).filter(|method| method.is_lasting)
    }
}
