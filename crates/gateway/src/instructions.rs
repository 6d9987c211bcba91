//! The `instructions` that a client's model reads first: generated from what is really configured.

use std::time::Duration;

use greenroom_core::{port::human, settings::Scope};

/// What the instructions speak of.
#[derive(Debug, Clone)]
pub struct Facts {
    pub slots: usize,
    pub instances_max: usize,
    pub idle_timeout: Duration,
    pub max_lifetime: Option<Duration>,
    pub headless: bool,
}

pub(crate) fn text(scope: Scope, facts: &Facts) -> String {
    let without = match scope {
        Scope::Connection => {
            "Calls without sessionId share this connection's one browser, so sub-agents on one connection must each give their own."
        }
        Scope::Call => {
            "A call without sessionId borrows any free browser, which may be another one next time; give an id to keep pages and logins."
        }
        Scope::Explicit => "sessionId is required.",
    };
    let mut text = format!(
        "greenroom lends isolated {}browsers. Each sessionId (any text you choose) is a browser of its own: cookies, storage, tabs and files are never shared. {without} The first call with a new id starts it. Calls of one session run in order, sessions run in parallel. Up to {} sessions; one idle for {} is closed",
        if facts.headless { "headless " } else { "" },
        facts.slots * facts.instances_max,
        human(facts.idle_timeout),
    );
    if let Some(lifetime) = facts.max_lifetime {
        text.push_str(&format!(", and each ends after {} unless session_renew is called", human(lifetime)));
    }
    text.push_str(". If an answer says `session restarted`, the page and logins are gone: begin again. session_close frees a browser you no longer need, and removes what it downloaded.");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text follows the configuration.
    #[test]
    fn instructions_follow_the_configuration() {
        let facts = Facts {
            slots: 16,
            instances_max: 8,
            idle_timeout: Duration::from_secs(300),
            max_lifetime: None,
            headless: true,
        };
        let usual = text(Scope::Connection, &facts);
        assert!(usual.contains("sub-agents on one connection must each give their own"));
        assert!(usual.contains("Up to 128 sessions; one idle for 5 min is closed. "));
        let limited = Facts { max_lifetime: Some(Duration::from_secs(3600)), ..facts };
        assert!(text(Scope::Explicit, &limited).contains("each ends after 60 min unless session_renew"));
        assert!(text(Scope::Explicit, &limited).contains("sessionId is required"));
    }
}
