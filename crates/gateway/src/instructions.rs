//! The `instructions` that a client's model reads first: generated from what is really configured.

use std::time::Duration;

use greenroom_core::{
    port::human,
    settings::{Responses, Scope},
};
use greenroom_fleet::PoolStatus;

use crate::Gateway;

/// How much of a pool's description is told here, in characters: a sentence. `browser_pool_status` has all of it.
const DESCRIPTION_MAX: usize = 100;

/// How to see much for few tokens.
const RECALL: &str = " Every call is kept: get_content with the ref_id of an answer finds lines in its page (search_for) or reads on where it was cut. mode on a call: diff answers with what changed on the page, refs with a ref_id only.";

/// Where answers are withheld unless asked for.
const REFS: &str =
    " Answers here are refs unless a call says mode: inline or diff: look into the page with get_content.";

/// What is configured, as far as others do not know it.
#[derive(Debug, Clone)]
pub struct Facts {
    pub idle_timeout: Duration,
    pub max_lifetime: Option<Duration>,
    pub headless: bool,
    /// Every session begins with an empty browser; otherwise some keep their profile for the next one.
    pub isolated: bool,
    /// Pools are declared one by one; otherwise there is the built-in one, which grows by itself.
    pub declared: bool,
}

pub(crate) fn text(gateway: &Gateway) -> String {
    let recalls = gateway.recall.records.is_some();
    let kept = (recalls, gateway.recall.responses);
    compose(gateway.scope, &gateway.facts, kept, &gateway.fleet.pools())
}

fn compose(
    scope: Scope,
    facts: &Facts,
    (recalls, responses): (bool, Responses),
    pools: &[PoolStatus],
) -> String {
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
        "greenroom lends {}{}browsers. Each sessionId (any text you choose) is a browser of its own: {}. {without} The first call with a new id starts it. Calls of one session run in order, sessions run in parallel. Up to {}; one idle for {} is closed",
        if facts.isolated { "isolated " } else { "" },
        if facts.headless { "headless " } else { "" },
        if facts.isolated {
            "cookies, storage, tabs and files are never shared"
        } else {
            "tabs and files are never shared, but cookies and storage stay in an instance's profile for whoever comes next"
        },
        sessions(pools.iter().map(|pool| pool.slots).sum()),
        human(facts.idle_timeout),
    );
    if let Some(lifetime) = facts.max_lifetime {
        text.push_str(&format!(", and each ends after {} unless session_renew is called", human(lifetime)));
    }
    text.push_str(". If an answer says `session restarted`, the page and logins are gone: begin again. session_close frees a browser you no longer need, and removes what it downloaded.");
    if recalls {
        text.push_str(RECALL);
        if responses == Responses::Refs {
            text.push_str(REFS);
        }
    }
    if facts.declared {
        let pools: Vec<_> = pools.iter().map(pool).collect();
        text.push_str(&format!(" Pools: {}.", pools.join("; ")));
    }
    text
}

fn sessions(count: usize) -> String {
    format!("{count} session{}", if count == 1 { "" } else { "s" })
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

    fn pool(name: &str, description: &str, is_default: bool, slots: usize) -> PoolStatus {
        let (name, description) = (name.to_owned(), description.to_owned());
        PoolStatus {
            name,
            description,
            is_default,
            elastic: false,
            instances: Vec::new(),
            slots,
            leased_slots: 0,
            spares: 0,
            waiting: 0,
        }
    }

    /// The text follows the configuration.
    #[test]
    fn instructions_follow_the_configuration() {
        let facts = Facts {
            idle_timeout: Duration::from_secs(300),
            max_lifetime: None,
            headless: true,
            isolated: true,
            declared: false,
        };
        let built_in = [pool("DEFAULT", "", true, 128)];
        let usual = compose(Scope::Connection, &facts, (true, Responses::Inline), &built_in);
        assert!(usual.contains("sub-agents on one connection must each give their own"));
        assert!(usual.contains("Up to 128 sessions; one idle for 5 min is closed. "));
        assert!(!usual.contains("Pools"));
        let limited = Facts { max_lifetime: Some(Duration::from_secs(3600)), ..facts.clone() };
        let limited = compose(Scope::Explicit, &limited, (false, Responses::Inline), &built_in);
        assert!(limited.contains("each ends after 60 min unless session_renew"));
        assert!(limited.contains("sessionId is required"));
        assert!(usual.contains("get_content") && !limited.contains("get_content"));
        let pools = [
            pool("CHROMIUM", "General-purpose web scraping and navigation.", true, 5),
            pool("FIREFOX", &"x".repeat(101), false, 3),
            pool("WEBKIT", "", false, 2),
        ];
        let kept = Facts { isolated: false, declared: true, ..facts.clone() };
        let kept = compose(Scope::Call, &kept, (true, Responses::Refs), &pools);
        assert!(
            kept.starts_with("greenroom lends headless browsers")
                && kept.contains("stay in an instance's profile")
        );
        assert!(kept.contains("mode: inline or diff") && !usual.contains("mode: inline or diff"), "{kept}");
        let declared =
            compose(Scope::Call, &Facts { declared: true, ..facts }, (false, Responses::Inline), &pools);
        assert!(declared.contains("Up to 10 sessions"), "{declared}");
        assert!(usual.contains("lends isolated headless") && usual.contains("are never shared. "));
        let expected = format!(
            " Pools: CHROMIUM (default): General-purpose web scraping and navigation; FIREFOX: {}…; WEBKIT.",
            "x".repeat(100)
        );
        assert!(declared.ends_with(&expected), "{declared}");
    }
}
