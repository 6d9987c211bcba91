//! MCP's methods for prompts, completions, resources and tasks: which capability each needs, and which revisions have
//! it.

/// An MCP method that the gateway passes on to custom servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PassthroughMethod {
    pub(crate) name: &'static str,
    /// The capability of servers that know the method.
    pub(super) capability: &'static str,
    /// The member of the result with the list, if the method asks for a list.
    pub(super) list: Option<&'static str>,
    /// Whether the request needs a session that stays, so that the gateway creates one. Other requests use the session
    /// that exists, or none: a client that only looks at a list must not hold a slot.
    pub(super) needs_session: bool,
    /// Whether revision 2026-07-28 has the method, too. There `subscriptions/listen` replaces subscriptions, and
    /// tasks are an extension of another shape.
    is_in_stateless_revision: bool,
}

const fn base(capability: &'static str, name: &'static str) -> PassthroughMethod {
    PassthroughMethod { name, capability, list: None, needs_session: false, is_in_stateless_revision: true }
}

const fn list(capability: &'static str, name: &'static str, list: &'static str) -> PassthroughMethod {
    PassthroughMethod { list: Some(list), ..base(capability, name) }
}

const fn before_2026(method: PassthroughMethod) -> PassthroughMethod {
    PassthroughMethod { is_in_stateless_revision: false, ..method }
}

const METHODS: [PassthroughMethod; 12] = [
    base("completions", "completion/complete"),
    base("prompts", "prompts/get"),
    list("prompts", "prompts/list", "prompts"),
    list("resources", "resources/list", "resources"),
    base("resources", "resources/read"),
    list("resources", "resources/templates/list", "resourceTemplates"),
    before_2026(PassthroughMethod { needs_session: true, ..base("resources", "resources/subscribe") }),
    before_2026(PassthroughMethod { needs_session: true, ..base("resources", "resources/unsubscribe") }),
    before_2026(base("tasks", "tasks/cancel")),
    before_2026(base("tasks", "tasks/get")),
    before_2026(list("tasks", "tasks/list", "tasks")),
    before_2026(base("tasks", "tasks/result")),
];

/// The capabilities that the gateway declares in a handshake, and those that it declares to clients of revision
/// 2026-07-28.
pub(super) const CAPABILITIES: [&str; 4] = ["prompts", "resources", "completions", "tasks"];
pub(super) const STATELESS_CAPABILITIES: [&str; 3] = ["prompts", "resources", "completions"];

impl PassthroughMethod {
    /// The method that clients with a handshake call by this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        METHODS.into_iter().find(|method| method.name == name)
    }

    /// The method that clients of revision 2026-07-28 call by this name.
    pub(crate) fn stateless(name: &str) -> Option<Self> {
        Self::named(name).filter(|method| method.is_in_stateless_revision)
    }
}
