//! The secrets that a session has seen: which fields of its page take them, and what was typed there.
//!
//! A call may name such a field by its ref only, and later snapshots show what was typed. So both are remembered as
//! long as the session is used, to keep them out of its records. They are in memory only, and limited: with too many
//! sessions the least recently used one is forgotten. A session with more secrets than the search can handle stays
//! marked: any of its pages may show a secret, so no text of the session is recorded until it is forgotten.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use greenroom_core::Owner;
use greenroom_fleet::SessionKey;
use parking_lot::{Mutex, MutexGuard};

use super::secret_values::SecretValues;

/// How many sessions are remembered: several times what a machine can run at once.
const SESSIONS_MAX: usize = 4_096;

/// The secrets of one session, which its records must not contain.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionSecrets {
    /// Refs of the fields that take secrets, on the last page that was seen.
    pub(crate) fields: Arc<HashSet<String>>,
    pub(crate) values: Arc<SecretValues>,
    used: u64,
}

#[derive(Default)]
pub struct Secrets(Mutex<SecretsBySession>);

#[derive(Default)]
struct SecretsBySession {
    known: HashMap<(Owner, SessionKey), SessionSecrets>,
    /// Counts uses.
    clock: u64,
}

impl Secrets {
    fn lock(&self) -> MutexGuard<'_, SecretsBySession> {
        self.0.lock()
    }

    /// Blocks every call that reads secrets, until this is dropped.
    #[cfg(test)]
    pub(crate) fn block(&self) -> impl Drop + '_ {
        self.lock()
    }

    pub(crate) fn of_session(&self, owner: &Owner, session_key: &SessionKey) -> SessionSecrets {
        let mut sessions = self.lock();
        if sessions.known.is_empty() {
            return SessionSecrets::default();
        }
        sessions.clock += 1;
        let now = sessions.clock;
        let Some(known) = sessions.known.get_mut(&(owner.clone(), session_key.clone())) else {
            return SessionSecrets::default();
        };
        known.used = now;
        let values = Arc::new(SecretValues::clone(&known.values));
        SessionSecrets { values, ..known.clone() }
    }

    /// Notes the page's fields for secrets, if a page was seen, and the secrets that a call brought.
    pub(crate) fn learn(
        &self,
        owner: &Owner,
        session_key: &SessionKey,
        fields: Option<Vec<String>>,
        values: &SecretValues,
    ) {
        if values.is_empty() && fields.as_ref().is_none_or(Vec::is_empty) {
            // Most pages have none. The fields of the previous page may be forgotten, but need not be.
            return;
        }
        let mut sessions = self.lock();
        sessions.clock += 1;
        let now = sessions.clock;
        if sessions.known.len() >= SESSIONS_MAX {
            let oldest =
                sessions.known.iter().min_by_key(|(_, known)| known.used).map(|(key, _)| key.clone());
            oldest.map(|key| sessions.known.remove(&key));
        }
        let known = sessions.known.entry((owner.clone(), session_key.clone())).or_default();
        known.used = now;
        if let Some(fields) = fields {
            known.fields = Arc::new(fields.into_iter().collect());
        }
        if !values.is_empty() {
            Arc::make_mut(&mut known.values).add_all(values);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenroom_core::SessionId;

    fn named(name: &str) -> SessionKey {
        SessionKey::Named(SessionId::new(name).unwrap())
    }

    /// A session's secrets are its own, stay while other sessions come and go, and are forgotten in the end.
    #[test]
    fn secrets_belong_to_their_session() {
        let secrets = Secrets::default();
        let owner = Owner::local();
        let learn = |name: &str, fields: Option<&[&str]>, values: &[&str]| {
            let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
            let mut given = SecretValues::default();
            texts(values).into_iter().for_each(|value| given.add(value));
            secrets.learn(&owner, &named(name), fields.map(texts), &given);
        };
        let knows = |name: &str, secret: &str| {
            secrets.of_session(&owner, &named(name)).values.scrub(secret).is_some()
        };
        learn("a", Some(&["e7"]), &[]);
        learn("a", None, &["hunter2"]);
        let known = secrets.of_session(&owner, &named("a"));
        assert!(known.fields.contains("e7") && knows("a", "hunter2"));
        learn("a", Some(&["e9"]), &["hunter2", "other"]);
        let known = secrets.of_session(&owner, &named("a"));
        assert!(!known.fields.contains("e7") && knows("a", "hunter2") && knows("a", "other"));
        assert!(secrets.of_session(&owner, &named("b")).values.is_empty());
        assert!(secrets.of_session(&Owner::new("else"), &named("a")).values.is_empty());
        for n in 0..SESSIONS_MAX - 1 {
            learn(&format!("s{n}"), None, &["secret"]);
            secrets.of_session(&owner, &named("a"));
        }
        learn("one more", None, &["secret"]);
        assert_eq!(secrets.lock().known.len(), SESSIONS_MAX);
        assert!(!secrets.of_session(&owner, &named("a")).values.is_empty(), "it was used in every round");
    }

    /// Every secret of one call is known in the next. If calls bring too many of them, no text counts as free of
    /// secrets, also in later calls that bring few.
    #[test]
    fn no_secret_is_forgotten_for_another() {
        let secrets = Secrets::default();
        let owner = Owner::local();
        let learn = |numbers: std::ops::Range<usize>| {
            let mut values = SecretValues::default();
            numbers.for_each(|n| values.add(format!("secret {n:03}")));
            secrets.learn(&owner, &named("a"), None, &values);
        };
        let scrubbed = |text: &str| secrets.of_session(&owner, &named("a")).values.scrub(text);
        learn(0..150);
        assert!((0..150).all(|n| scrubbed(&format!("secret {n:03}")).is_some()));
        assert_eq!(scrubbed("a text"), None);
        learn(100..200);
        assert_eq!(scrubbed("secret 000").as_deref(), Some("[redacted]"));
        learn(0..1);
        assert_eq!(scrubbed("a text").as_deref(), Some("[redacted]"));
    }
}
