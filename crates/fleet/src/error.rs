//! Why the fleet could not carry out a call.

use std::{sync::Arc, time::Duration};

use greenroom_core::{
    InstanceId, Lost, SessionId, StartError, excerpt::echoed, network::SessionNetworkError, plural,
    port::human,
};

use crate::attached_browsers::{BrowserName, NotChosen};

/// No slot came free within the time that the caller wanted to wait.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", timeout_message(self))]
pub struct LeaseTimeout {
    pub pool: String,
    /// The name of the attached browser, if the pool is one.
    pub browser: Option<Arc<BrowserName>>,
    pub waited: Duration,
    pub leased: usize,
    pub slots: usize,
    /// Callers still waiting, without this one.
    pub waiting: usize,
    /// How many instances the pool withholds because they do not answer.
    pub silent: usize,
    /// An instance serves one owner at a time, so free slots may be of no use to the caller.
    pub is_owners_apart: bool,
    /// The instance that the caller waited for, if it had to be a certain one.
    pub instance: Option<InstanceId>,
    /// The names of the caller's own sessions that hold slots, and the number of other owners' sessions.
    pub holders: Vec<String>,
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum FleetError {
    #[error(transparent)]
    Lease(#[from] LeaseTimeout),
    /// No instance started, or no seat opened. The fleet forgets the attempt; the next call tries again.
    #[error("cannot start a browser: {0}")]
    Start(#[from] StartError),
    /// A browser runs, but did not open a seat in time. The browser stays; the fleet forgets the session.
    #[error("no session could be opened in time: {0}")]
    Late(StartError),
    /// The session died under this call. Whether the call had an effect is not known.
    #[error("the session was lost during this call: {0}")]
    Lost(Lost),
    /// The session died before this call's turn. The call did not run.
    #[error("the session was lost before this call ran: {0}")]
    NotRun(Lost),
    #[error("the session was closed during this call")]
    Closed,
    /// The owner has as many sessions as it may have. Those it has stay.
    #[error("too many sessions: you have {used}, and at most {max} are allowed")]
    TooManySessions { used: usize, max: usize },
    /// The owner has as many calls in flight as it may have. The call did not run.
    #[error("too many calls at once: {used} of yours wait or run, and at most {max} are allowed")]
    TooManyCalls { used: usize, max: usize },
    /// The owner has as many waiting calls as it may have. The call did not run.
    #[error("too many waiting calls: {used} of yours wait, and at most {max} are allowed")]
    TooManyWaitingCalls { used: usize, max: usize },
    #[error("too many calls wait for this session: {max} are queued already")]
    QueueFull { max: usize },
    #[error("too many callers wait for {}: {max}", .browser.as_ref().map_or_else(|| format!("a browser of pool \"{pool}\""), ToString::to_string))]
    LineFull { pool: String, browser: Option<Arc<BrowserName>>, max: usize },
    #[error("no such session: \"{0}\"")]
    NoSession(SessionId),
    #[error("this connection has no session yet")]
    NoConnectionSession,
    #[error("the session exists already: \"{0}\"")]
    Exists(SessionId),
    #[error("no such pool: \"{}\"; {}", echoed(.name), known_names(.known))]
    NoPool { name: String, known: Vec<String> },
    #[error("no such instance in {}: \"{}\"; {}", pool_or_browser(.pool, .browser.as_deref()), echoed(.name), known_names(.known))]
    NoInstance { pool: String, browser: Option<Arc<BrowserName>>, name: String, known: Vec<String> },
    /// Every instance of the pool has failed, and the pool starts none again on its own.
    #[error("{} '{pool}' has no healthy instances. Specify explicit pool or restart failed instances.", if *.is_default { "Default pool" } else { "Pool" })]
    NoHealthy { pool: String, is_default: bool, why: Option<String> },
    /// A caller waited for exactly this instance, and it failed or left the pool.
    #[error("instance {instance} of pool \"{pool}\" is not available: {why}")]
    InstanceDown { pool: String, instance: InstanceId, why: String },
    #[error("{session} lives in {}{}", pool_or_browser(.pool, .browser.as_deref()), instance.filter(|_| .browser.is_none()).map(|id| format!(", instance {id}")).unwrap_or_default())]
    Elsewhere {
        session: String,
        pool: String,
        browser: Option<Arc<BrowserName>>,
        instance: Option<InstanceId>,
    },
    #[error("pool \"{pool}\" cannot be scaled: it adds and stops instances by itself")]
    NotFixed { pool: String },
    /// A pool that keeps its browsers' profiles serves one owner, and so does a browser with its user's logins.
    #[error("{} and belongs to another owner", .browser.as_ref().map_or_else(|| format!("pool \"{pool}\" keeps its browsers' profiles"), |browser| format!("{browser} has its user's logins")))]
    NotYours { pool: String, browser: Option<Arc<BrowserName>> },
    /// The call does not say which attached browser it means, or names one where there is no choice.
    #[error(transparent)]
    NotChosen(#[from] NotChosen),
    /// An attached browser cannot be reached.
    #[error("browser {index} cannot be reached: {}", address_and_why(.url, .why.as_deref()))]
    BrowserDown { index: u32, url: String, why: Option<String>, retry_in: Option<Duration> },
    #[error("\"{}\" is attached already, as browser {index}", echoed(.name))]
    BrowserExists { name: String, index: u32 },
    /// The browser was removed from the fleet while this call ran or waited there.
    #[error("{browser} was removed: greenroom does not drive it any more")]
    BrowserRemoved { browser: Arc<BrowserName> },
    #[error("\"{}\" cannot be a browser's label: it is {}", echoed(.label), if .label.trim().is_empty() { "empty" } else { "a number, and would be taken for an index" })]
    BadLabel { label: String },
    /// A session may not have the network policy that was asked for.
    #[error("the session cannot have this `network`: {0}")]
    Network(#[from] SessionNetworkError),
    /// A session has a network policy, or asks for one, where greenroom cannot enforce it.
    #[error("a session in {} can have no `network` of its own: greenroom does not stand between this browser and the network", pool_or_browser(.pool, .browser.as_deref()))]
    NoNetworkPolicy { pool: String, browser: Option<Arc<BrowserName>> },
    #[error("greenroom is shutting down")]
    ShuttingDown,
}

fn timeout_message(LeaseTimeout { pool, browser, waited, .. }: &LeaseTimeout) -> String {
    match browser {
        Some(browser) => format!("{browser} was not free within {}", human(*waited)),
        None => format!("no browser free within {}: pool \"{pool}\"", human(*waited)),
    }
}

/// A browser's address, and why greenroom cannot reach it. If the reason contains the address, this does not
/// repeat it.
fn address_and_why(url: &str, why: Option<&str>) -> String {
    match why {
        None => url.to_owned(),
        Some(why) if why.contains(url) => why.to_owned(),
        Some(why) => format!("{url}: {why}"),
    }
}

/// The name of a pool or an attached browser in messages.
fn pool_or_browser(pool: &str, browser: Option<&BrowserName>) -> String {
    browser.map_or_else(|| format!("pool \"{pool}\""), ToString::to_string)
}

/// The list of existing names that a message ends with.
fn known_names(names: &[String]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
    plural::there(&quoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message has a browser's address once, whether or not the reason contains it.
    #[test]
    fn message_contains_the_address_once() {
        let url = "http://127.0.0.1:9222";
        let message = |why: Option<&str>| {
            let url = url.to_owned();
            let why = why.map(ToOwned::to_owned);
            FleetError::BrowserDown { index: 1, url, why, retry_in: None }.to_string()
        };
        assert_eq!(message(None), format!("browser 1 cannot be reached: {url}"));
        assert_eq!(message(Some("refused")), format!("browser 1 cannot be reached: {url}: refused"));
        let named = format!("nothing answers at `{url}`: refused");
        assert_eq!(message(Some(&named)), format!("browser 1 cannot be reached: {named}"));
    }
}
