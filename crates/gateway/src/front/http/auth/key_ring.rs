//! The keys that this server accepts now, by the SHA-256 of their secrets.
//!
//! The cli reads the keys and passes them to [`KeyRing::replace`] whenever they change, and calls [`KeyRing::expire`]
//! several times a second. Both end the open streams of keys that are no longer valid, and return the owners that have no
//! valid key left, whose sessions the server then closes.
//!
//! A server that has had a key needs one for good, even if all keys are removed: nobody must gain access by the removal
//! of a key.

use std::{
    collections::{HashMap, HashSet},
    time::SystemTime,
};

use greenroom_core::{ApiKey, ApiKeyHash, ApiScopes, Owner};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::requester::{RequestEnd, Requester};

pub struct KeyRing {
    server: CancellationToken,
    /// Ends the requests that were accepted without a key, once there are keys.
    keyless: RequestEnd,
    state: Mutex<RingState>,
}

struct RingState {
    is_required: bool,
    keys: HashMap<ApiKeyHash, LiveKey>,
    /// The latest time that the clock has shown. If the clock is set back, an expired key does not become valid again.
    latest: SystemTime,
}

struct LiveKey {
    owner: Owner,
    scopes: ApiScopes,
    valid_until: Option<SystemTime>,
    end: RequestEnd,
}

/// Which keys have become invalid.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct EndedKeys {
    /// The owners that have no valid key left.
    pub owners: Vec<Owner>,
    /// Whether the server has got its first key, so that requests need one from now on.
    pub are_first: bool,
}

impl KeyRing {
    /// Keys of a server that stops when `server` is cancelled.
    pub fn new(server: CancellationToken) -> Self {
        let state = RingState { is_required: false, keys: HashMap::new(), latest: SystemTime::UNIX_EPOCH };
        Self { keyless: RequestEnd::before_server(&server), server, state: Mutex::new(state) }
    }

    /// Whether requests need a key.
    pub fn is_required(&self) -> bool {
        self.state.lock().is_required
    }

    /// Replaces all keys. A key that stays as it was keeps its streams.
    pub fn replace(&self, keys: &[ApiKey], now: SystemTime) -> EndedKeys {
        let mut state = self.state.lock();
        // The entries' own times count too: the clock may have been set back before this server started.
        let past = keys.iter().map(ApiKey::last_change).max();
        state.latest = state.latest.max(now).max(past.unwrap_or(now));
        let now = state.latest;
        let are_first = !state.is_required && !keys.is_empty();
        if are_first {
            state.is_required = true;
            self.keyless.end_now();
        }
        let mut before = std::mem::take(&mut state.keys);
        for key in keys {
            for (hash, valid_until) in key.hashes(now) {
                let is_same = |live: &LiveKey| live.owner == *key.name.owner() && live.scopes == key.scopes;
                // A key that has changed stays in `before`, so that its streams end.
                let end = match before.get(&hash).is_some_and(is_same) {
                    true => before.remove(&hash).map(|live| live.end),
                    false => None,
                };
                let end = end.unwrap_or_else(|| RequestEnd::before_server(&self.server));
                let live = LiveKey { owner: key.name.owner().clone(), scopes: key.scopes, valid_until, end };
                state.keys.insert(hash, live);
            }
        }
        EndedKeys { owners: state.end(before.into_values()), are_first }
    }

    /// Removes the keys that have expired.
    pub fn expire(&self, now: SystemTime) -> EndedKeys {
        let mut state = self.state.lock();
        state.latest = state.latest.max(now);
        let now = state.latest;
        let expired: Vec<_> =
            state.keys.extract_if(|_, live| !live.is_valid(now)).map(|(_, live)| live).collect();
        EndedKeys { owners: state.end(expired.into_iter()), are_first: false }
    }

    /// The requester with this secret.
    pub(super) fn find(&self, secret: &str, now: SystemTime) -> Option<Requester> {
        let hash = ApiKeyHash::of(secret);
        let state = self.state.lock();
        let now = state.latest.max(now);
        let live = state.keys.get(&hash).filter(|live| live.is_valid(now))?;
        Some(Requester { owner: live.owner.clone(), scopes: live.scopes, end: live.end.clone() })
    }

    /// A requester without a key, unless one is needed.
    pub(super) fn keyless(&self) -> Option<Requester> {
        (!self.is_required()).then(|| Requester::local(self.keyless.clone()))
    }
}

impl LiveKey {
    fn is_valid(&self, now: SystemTime) -> bool {
        self.valid_until.is_none_or(|until| until > now)
    }
}

impl RingState {
    /// Ends the streams of keys that were removed. Returns the owners that have no key left.
    fn end(&self, removed: impl Iterator<Item = LiveKey>) -> Vec<Owner> {
        let mut owners = HashSet::new();
        for live in removed {
            live.end.end_now();
            owners.insert(live.owner);
        }
        owners.retain(|owner| !self.keys.values().any(|live| live.owner == *owner));
        owners.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use greenroom_core::ApiKeyName;

    use super::{super::requester::KEY_ENDED, *};

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn key(name: &str, secret: &str) -> ApiKey {
        ApiKey::new(ApiKeyName::new(name).unwrap(), ApiKeyHash::of(secret), ApiScopes::default(), at(1))
    }

    fn ring() -> (KeyRing, CancellationToken) {
        let server = CancellationToken::new();
        (KeyRing::new(server.clone()), server)
    }

    fn owners(ended: &EndedKeys) -> Vec<&str> {
        ended.owners.iter().map(Owner::as_str).collect()
    }

    /// Without keys a request is `local`; with the first key its streams end, and no request is `local` again, even if all
    /// keys are removed.
    #[test]
    fn removed_keys_do_not_open_the_server() {
        let (ring, _server) = ring();
        let local = ring.keyless().unwrap();
        assert!(local.owner.is_local() && !local.end.has_ended());
        assert!(ring.replace(&[key("ann", "a")], at(2)).are_first);
        assert!(local.end.is_of_key() && ring.keyless().is_none());
        assert_eq!(ring.find("a", at(2)).unwrap().owner.as_str(), "ann");
        assert!(ring.find("", at(2)).is_none() && ring.find("b", at(2)).is_none());
        assert_eq!(owners(&ring.replace(&[], at(3))), ["ann"]);
        assert!(ring.keyless().is_none() && ring.find("a", at(3)).is_none());
    }

    /// A revoked key ends its own streams and nobody else's, and an owner with another key keeps its sessions.
    #[test]
    fn revoked_keys_end_their_own_streams() {
        let (ring, _server) = ring();
        let mut keys = [key("ann", "a"), key("bob", "b"), key("ann", "c")];
        ring.replace(&keys, at(2));
        let streams = ["a", "b", "c"].map(|secret| ring.find(secret, at(2)).unwrap().end);
        keys[0].revoked = Some(at(3));
        assert_eq!(owners(&ring.replace(&keys, at(3))), [""; 0]);
        assert_eq!(streams.each_ref().map(RequestEnd::has_ended), [true, false, false]);
        assert_eq!(streams[0].message(), KEY_ENDED);
        keys[2].revoked = Some(at(4));
        assert_eq!(owners(&ring.replace(&keys, at(4))), ["ann"]);
        assert_eq!(streams.each_ref().map(RequestEnd::has_ended), [true, false, true]);
    }

    /// A key whose scopes change ends its streams, which began with the old ones; its owner stays.
    #[test]
    fn changed_scopes_end_streams() {
        let (ring, _server) = ring();
        ring.replace(&[key("ann", "a")], at(2));
        let stream = ring.find("a", at(2)).unwrap().end;
        let all = ApiKey { scopes: ApiScopes::all(), ..key("ann", "a") };
        assert_eq!(ring.replace(&[all], at(2)), EndedKeys::default());
        assert!(stream.is_of_key() && ring.find("a", at(2)).unwrap().is_admin());
    }

    /// An expired key is refused at once, also before the next check, and stays refused when the clock is set back: while
    /// the server runs, and after a restart as far as the entries' own times tell.
    #[test]
    fn expired_keys_stay_expired() {
        let (ring, _server) = ring();
        let short = ApiKey { expires: Some(at(10)), ..key("ann", "a") };
        ring.replace(std::slice::from_ref(&short), at(2));
        let stream = ring.find("a", at(9)).unwrap().end;
        assert!(ring.find("a", at(10)).is_none(), "before the next check");
        assert_eq!(owners(&ring.expire(at(10))), ["ann"]);
        assert!(stream.has_ended());
        assert_eq!(ring.expire(at(5)), EndedKeys::default());
        ring.replace(std::slice::from_ref(&short), at(5));
        assert!(ring.find("a", at(5)).is_none(), "the clock was set back");
        let (ring, _server) = self::ring();
        let later = ApiKey { created: at(20), ..key("bob", "b") };
        ring.replace(&[short, later], at(5));
        assert!(ring.find("a", at(5)).is_none(), "an entry is from after the expiry");
        assert!(ring.find("b", at(5)).is_some());
    }

    /// The end of the server ends every stream, and the message says so.
    #[test]
    fn server_end_is_told_apart() {
        let (ring, server) = ring();
        ring.replace(&[key("ann", "a")], at(2));
        let stream = ring.find("a", at(2)).unwrap().end;
        server.cancel();
        assert!(stream.has_ended() && !stream.is_of_key());
        assert_eq!(stream.message(), crate::error_response::STOPPING);
    }
}
