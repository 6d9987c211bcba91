//! Which fronts have joined, by the secret that each sends when it joins.
//!
//! The server gives each front a random number: it appears in lists, records and logs, and names the front's own
//! session. Only the secret leads to the number again, so a reader of a log cannot take over the session. The server
//! remembers a front that left as long as its session lives, and longer while there is room, so that the front can
//! learn what became of its session.

use std::collections::HashMap;

use greenroom_core::{ConnectionId, Owner};
use parking_lot::{Mutex, MutexGuard};
use uuid::Uuid;

use crate::front::secret::{Digest, Secret};

/// How many fronts without a session are remembered after they left. Each costs about a hundred bytes.
const LEFT_MAX: usize = 4096;

#[derive(Default)]
pub(super) struct Fronts(Mutex<FrontsState>);

#[derive(Default)]
struct FrontsState {
    /// By the secret's digest, its owner, and whether the front joined from this machine: the secret of a local front does
    /// not work over the network, nor the other way round, nor for another owner.
    known: HashMap<FrontKey, KnownFront>,
    departures: u64,
}

/// The digest of its secret, its owner, and whether it joined from this machine.
type FrontKey = (Digest, Owner, bool);

struct KnownFront {
    id: ConnectionId,
    /// Its open connections. A front whose connection broke may be back before the server notices the break.
    joined: usize,
    /// The number of its last departure; orders fronts by when they left.
    left: u64,
}

/// A front that has joined. Dropping this means that it has left.
pub(super) struct Membership<'a> {
    fronts: &'a Fronts,
    /// `None` for a front without a secret, which cannot come back.
    key: Option<FrontKey>,
    pub(super) id: ConnectionId,
}

impl Fronts {
    fn lock(&self) -> MutexGuard<'_, FrontsState> {
        self.0.lock()
    }

    /// Whether a front has an open connection.
    pub(super) fn any_joined(&self) -> bool {
        self.lock().known.values().any(|known| known.joined > 0)
    }

    /// Adds a front: the known one with this secret, or a new one. A front without a secret is always new.
    pub(super) fn join(
        &self,
        secret: Option<&Secret>,
        owner: &Owner,
        is_local: bool,
        has_session: impl Fn(ConnectionId) -> bool,
    ) -> Membership<'_> {
        let Some(secret) = secret else {
            return Membership { fronts: self, key: None, id: unused() };
        };
        let key = (secret.digest(), owner.clone(), is_local);
        let mut state = self.lock();
        if !state.known.contains_key(&key) {
            state.make_room(has_session);
        }
        let known =
            state.known.entry(key.clone()).or_insert_with(|| KnownFront { id: unused(), joined: 0, left: 0 });
        known.joined += 1;
        Membership { fronts: self, key: Some(key), id: known.id }
    }
}

impl FrontsState {
    fn make_room(&mut self, has_session: impl Fn(ConnectionId) -> bool) {
        let left = |known: &KnownFront| known.joined == 0;
        if self.known.values().filter(|known| left(known)).count() < LEFT_MAX {
            return;
        }
        let oldest = self.known.iter().filter(|(_, known)| left(known) && !has_session(known.id));
        if let Some(key) = oldest.min_by_key(|(_, known)| known.left).map(|(key, _)| key.clone()) {
            self.known.remove(&key);
        }
    }
}

impl Membership<'_> {
    /// Whether this front has no other connection.
    pub(super) fn is_only(&self) -> bool {
        let state = self.fronts.lock();
        self.key.as_ref().and_then(|key| state.known.get(key)).is_none_or(|known| known.joined <= 1)
    }
}

impl Drop for Membership<'_> {
    fn drop(&mut self) {
        let Some(key) = &self.key else { return };
        let mut state = self.fronts.lock();
        state.departures += 1;
        let departure = state.departures;
        if let Some(known) = state.known.get_mut(key) {
            known.joined = known.joined.saturating_sub(1);
            known.left = departure;
        }
    }
}

/// A number that no other connection has: see [`ConnectionId::from_random`].
fn unused() -> ConnectionId {
    ConnectionId::from_random(Uuid::new_v4().as_u64_pair().0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A front is found again by its secret alone, local or over the network as before; a front without a secret never
    /// is.
    #[test]
    fn fronts_rejoin_by_secret_only() {
        let fronts = Fronts::default();
        let secret = Secret::random();
        let id =
            |secret: Option<&Secret>, is_local| fronts.join(secret, &Owner::local(), is_local, |_| false).id;
        let first = id(Some(&secret), false);
        assert_eq!(id(Some(&secret), false), first);
        assert_ne!(id(Some(&secret), true), first, "from the machine itself");
        assert_ne!(id(Some(&Secret::random()), false), first);
        assert_ne!(id(None, false), id(None, false));
        let foreign = fronts.join(Some(&secret), &Owner::new("ann"), false, |_| false).id;
        assert_ne!(foreign, first, "of another owner");
    }

    /// A front that is back before the server noticed its broken connection has two connections; once the broken one is
    /// gone, it has one.
    #[test]
    fn connections_of_a_front_are_counted() {
        let fronts = Fronts::default();
        let secret = Secret::random();
        let join = || fronts.join(Some(&secret), &Owner::local(), true, |_| false);
        let broken = join();
        let back = join();
        assert!(!broken.is_only());
        drop(broken);
        assert!(back.is_only());
    }

    /// Fronts that left make room for others, oldest first, but those with a session stay.
    #[test]
    fn oldest_departed_fronts_are_evicted() {
        let fronts = Fronts::default();
        let secrets = [(); 3].map(|()| Secret::random());
        let ids =
            secrets.each_ref().map(|secret| fronts.join(Some(secret), &Owner::local(), false, |_| false).id);
        let has_session = |id| id == ids[0];
        for _ in 0..LEFT_MAX {
            fronts.join(Some(&Secret::random()), &Owner::local(), false, has_session);
        }
        assert!(fronts.lock().known.len() <= LEFT_MAX + 1);
        let again = secrets
            .each_ref()
            .map(|secret| fronts.join(Some(secret), &Owner::local(), false, has_session).id);
        assert_eq!(again[0], ids[0]);
        assert!(again[1] != ids[1] && again[2] != ids[2]);
    }
}
