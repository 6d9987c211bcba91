//! The `instructions` that a client's model reads first, generated from the configuration in effect.

use std::time::Duration;

use greenroom_core::{
    plural,
    port::human,
    settings::{Responses, Scope},
};
use greenroom_fleet::{BrowserStatus, PoolStatus};

use crate::Gateway;

/// How much of a pool's description the instructions contain, in characters: a sentence. `browser_pool_status` has
/// all of it.
const DESCRIPTION_MAX: usize = 100;

/// How much of a server's own instructions is passed on, in characters: some 4,000 tokens. Clients cut sooner.
const SERVER_INSTRUCTIONS_MAX: usize = 16_000;

/// How to read much for few tokens.
const RECALL: &str = " Every call is kept: get_content with the ref_id of an answer finds lines in its page (search_for) or reads on where it was cut. mode on a call: inline answers with the whole page, diff with what changed on it, refs with a ref_id only.";

/// Added if answers have only the changes of a page that the agent already has.
const AUTO: &str = " A page you have just been sent is answered with what changed on it.";

/// Added if answers are a `ref_id` only unless a call asks for more.
const REFS: &str =
    " Answers here are refs unless a call says mode: inline or diff: look into the page with get_content.";

/// Added for attached browsers, which people use themselves.
const ATTACHED: &str = " Attached browsers are people's own: list_browsers shows them. With several, name one by browserIndex in every call that begins there; with one, never give it. Work in your own tab and leave other tabs alone unless told otherwise.";

/// The configured facts that neither the fleet nor the catalog knows.
#[derive(Debug, Clone)]
pub struct InstructionFacts {
    pub idle_timeout: Duration,
    pub max_lifetime: Option<Duration>,
    pub headless: bool,
    /// Every session begins with an empty browser; otherwise some instances keep their profile for the next session.
    pub isolated: bool,
    /// Pools are declared one by one; otherwise there is the built-in pool, which grows by itself.
    pub declared: bool,
}

/// `scope` is what a call without `sessionId` means to the reader.
pub(crate) fn text(gateway: &Gateway, scope: Scope) -> String {
    let recalls = gateway.recall.records.is_some();
    let responses = gateway.recall.responses;
    let pools = gateway.fleet.pools();
    let browsers = gateway.fleet.browsers();
    let mut text = compose(scope, &gateway.facts, recalls, responses, &pools, &browsers);
    for server in gateway.catalog.servers() {
        let server_instructions = server.introduction.and_then(|introduction| introduction.instructions);
        text.extend(
            server_instructions
                .map(|server_instructions| server_instructions_text(&server.pool, &server_instructions)),
        );
    }
    text
}

/// A custom server's own instructions for its users.
fn server_instructions_text(pool: &str, server_instructions: &str) -> String {
    let head: String = server_instructions.chars().take(SERVER_INSTRUCTIONS_MAX).collect();
    let more = if head.len() < server_instructions.len() { "…" } else { "" };
    format!("\n\nThe server behind pool {pool} says:\n\n{head}{more}")
}

fn compose(
    scope: Scope,
    facts: &InstructionFacts,
    recalls: bool,
    responses: Responses,
    pools: &[PoolStatus],
    browsers: &[BrowserStatus],
) -> String {
    let without = match scope {
        Scope::Connection => {
            "Calls without sessionId share this connection's one browser, so sub-agents on one connection must each give their own."
        }
        Scope::Call if pools.is_empty() => {
            "A call without sessionId borrows its browser for itself and finds its tab again next time; an id holds the browser until session_close."
        }
        Scope::Call => {
            "A call without sessionId borrows any free browser, which may be another one next time; give an id to keep pages and logins."
        }
        Scope::Explicit => "sessionId is required.",
    };
    let slots = pools.iter().map(|pool| pool.slots).chain(browsers.iter().map(|browser| browser.slots)).sum();
    let mut text = match pools {
        // There are attached browsers only.
        [] => "greenroom drives browsers that people already run. Each sessionId (any text you choose) holds one of them: its tabs are its own, cookies and logins are the browser's.".to_owned(),
        _ => format!(
            "greenroom leases {}{}browsers. Each sessionId (any text you choose) is a browser of its own: {}.",
            if facts.isolated { "isolated " } else { "" },
            if facts.headless { "headless " } else { "" },
            if facts.isolated {
                "cookies, storage, tabs and files are never shared"
            } else {
                "tabs and files are never shared, but cookies and storage stay in an instance's profile for the next session"
            },
        ),
    };
    text.push_str(&format!(
        " {without} The first call with a new id starts it. Calls of one session run in order, sessions run in parallel. Up to {}; one idle for {} is closed",
        sessions(slots),
        human(facts.idle_timeout),
    ));
    if let Some(lifetime) = facts.max_lifetime {
        text.push_str(&format!(", and each ends after {} unless session_renew is called", human(lifetime)));
    }
    text.push_str(". If an answer says `session restarted`, ");
    text.push_str(if pools.is_empty() { "its tabs are gone" } else { "the page and logins are gone" });
    text.push_str(match pools {
        // Attached browsers keep their own downloads.
        [] => ": begin again. session_close frees a browser you no longer need.",
        _ => {
            ": begin again. session_close frees a browser you no longer need, and removes what it downloaded."
        }
    });
    if recalls {
        text.push_str(RECALL);
        match responses {
            Responses::Auto => text.push_str(AUTO),
            Responses::Refs => text.push_str(REFS),
            Responses::Inline | Responses::Raw => {}
        }
    }
    if !browsers.is_empty() {
        text.push_str(ATTACHED);
    }
    if facts.declared {
        let pools: Vec<_> = pools.iter().map(pool).collect();
        text.push_str(&format!(" Pools: {}.", pools.join("; ")));
    }
    text
}

fn sessions(count: usize) -> String {
    plural::count(count, "session")
}

/// `CHROMIUM (default): general browsing`.
fn pool(pool: &PoolStatus) -> String {
    let default = if pool.is_default { " (default)" } else { "" };
    let description = pool.description.trim().trim_end_matches('.');
    if description.is_empty() {
        return format!("{}{default}", pool.name);
    }
    let head: String = description.chars().take(DESCRIPTION_MAX).collect();
    let more = if head.len() < description.len() { "…" } else { "" };
    format!("{}{default}: {head}{more}", pool.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::MODE_WORDS;

    fn pool(name: &str, description: &str, is_default: bool, slots: usize) -> PoolStatus {
        let name = name.to_owned();
        let description = description.to_owned();
        PoolStatus {
            name,
            description,
            is_default,
            elastic: false,
            drained: false,
            instances: Vec::new(),
            slots,
            leased_slots: 0,
            spares: 0,
            waiting: 0,
            unproxied: false,
        }
    }

    /// A server's own instructions follow, whole unless they are too long.
    #[test]
    fn server_instructions_are_appended() {
        assert_eq!(
            server_instructions_text("S", "Be *kind*.\n"),
            "\n\nThe server behind pool S says:\n\nBe *kind*.\n"
        );
        let book = server_instructions_text("S", &"ä".repeat(SERVER_INSTRUCTIONS_MAX + 1));
        assert!(
            book.ends_with("ä…") && book.chars().filter(|one| *one == 'ä').count() == SERVER_INSTRUCTIONS_MAX
        );
    }

    /// The text follows the configuration.
    #[test]
    fn instructions_follow_the_configuration() {
        let facts = InstructionFacts {
            idle_timeout: Duration::from_secs(300),
            max_lifetime: None,
            headless: true,
            isolated: true,
            declared: false,
        };
        let built_in = [pool("DEFAULT", "", true, 128)];
        let usual = compose(Scope::Connection, &facts, true, Responses::Auto, &built_in, &[]);
        assert!(usual.contains("sub-agents on one connection must each give their own"));
        assert!(usual.contains("Up to 128 sessions; one idle for 5 min is closed. "));
        assert!(!usual.contains("Pools"));
        let limited = InstructionFacts { max_lifetime: Some(Duration::from_secs(3600)), ..facts.clone() };
        let limited = compose(Scope::Explicit, &limited, false, Responses::Inline, &built_in, &[]);
        assert!(limited.contains("each ends after 60 min unless session_renew"));
        assert!(limited.contains("sessionId is required"));
        for word in MODE_WORDS {
            assert!(usual.contains(&format!("{word} ")), "`mode: {word}` is explained");
        }
        assert!(usual.contains("get_content") && !limited.contains("get_content"));
        let pools = [
            pool("CHROMIUM", "General-purpose web scraping and navigation.", true, 5),
            pool("FIREFOX", &"x".repeat(101), false, 3),
            pool("WEBKIT", "", false, 2),
        ];
        let persistent = InstructionFacts { isolated: false, declared: true, ..facts.clone() };
        let text = compose(Scope::Call, &persistent, true, Responses::Refs, &pools, &[]);
        assert!(
            text.starts_with("greenroom leases headless browsers")
                && text.contains("stay in an instance's profile")
        );
        assert!(text.contains("mode: inline or diff") && !usual.contains("mode: inline or diff"), "{text}");
        let declared = compose(
            Scope::Call,
            &InstructionFacts { declared: true, ..facts },
            false,
            Responses::Inline,
            &pools,
            &[],
        );
        assert!(declared.contains("Up to 10 sessions"), "{declared}");
        assert!(usual.contains("leases isolated headless") && usual.contains("are never shared. "));
        let expected = format!(
            " Pools: CHROMIUM (default): General-purpose web scraping and navigation; FIREFOX: {}…; WEBKIT.",
            "x".repeat(100)
        );
        assert!(declared.ends_with(&expected), "{declared}");
    }
}
