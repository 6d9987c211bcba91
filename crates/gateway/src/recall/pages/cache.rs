//! Keeps results for their next pages.
//!
//! A result is kept flattened and queried, under a short key, for the owner whose call made it: to other owners the key
//! is unknown. It expires five minutes after its last use. An unknown or expired key is an error that says to make the
//! call again. The gateway does not make that call itself, so that turning a page never makes a browser navigate.
//! Results are in memory only and limited; a result that has to make room counts as expired.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use greenroom_core::{Owner, RefId};
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use uuid::Uuid;

use super::{PageError, PageParameters};

/// How long a result is kept after it was last read.
pub(crate) const RESULT_TTL: Duration = Duration::from_secs(5 * 60);

/// How many results are kept. Twenty agents that each read a dozen results at once have room.
pub(crate) const RESULTS_MAX: usize = 256;

/// About how many bytes they may take in memory. A page of 1 MB takes some 10 MB as a list of nodes. The newest result
/// is kept even if it alone is larger: its answer has just promised the next page.
pub(crate) const BYTES_MAX: usize = 128 << 20;

/// Letters of a key. An owner can only find its own results, so a key must be rare, not secret.
const KEY_LETTERS: usize = 12;

/// A kept result.
#[derive(Debug, Clone)]
pub(crate) struct CachedResult {
    /// The record of the call that made it, if there is one.
    pub(crate) ref_id: Option<RefId>,
    pub(crate) flatten: bool,
    pub(crate) jmespath_query: Option<String>,
    /// How many items its first page had room for.
    pub(crate) limit: usize,
    /// The whole result, flattened and queried.
    pub(crate) value: Arc<Value>,
}

/// All kept results.
pub struct PageCache {
    results: Mutex<HashMap<String, CacheEntry>>,
    clock: Box<dyn Fn() -> Instant + Send + Sync>,
}

struct CacheEntry {
    owner: Owner,
    cached: CachedResult,
    bytes: usize,
    used: Instant,
}

impl Default for PageCache {
    fn default() -> Self {
        Self::new(Instant::now)
    }
}

impl PageCache {
    pub(crate) fn new(clock: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        Self { results: Mutex::default(), clock: Box::new(clock) }
    }

    /// Keeps a result and returns its key.
    pub(crate) fn keep(&self, owner: &Owner, cached: CachedResult) -> String {
        let mut key = Uuid::new_v4().simple().to_string();
        key.truncate(KEY_LETTERS);
        let bytes = bytes(&cached.value);
        let mut results = self.lock_unexpired();
        make_room(&mut results, bytes);
        let used = (self.clock)();
        results.insert(key.clone(), CacheEntry { owner: owner.clone(), cached, bytes, used });
        key
    }

    /// The result of a key, for the owner whose call made it. Other parameters must equal those it was made with.
    pub(crate) fn find(
        &self,
        owner: &Owner,
        key: &str,
        parameters: &PageParameters,
    ) -> Result<CachedResult, PageError> {
        let mut results = self.lock_unexpired();
        let entry = results.get_mut(key).filter(|entry| entry.owner == *owner);
        let entry = entry.ok_or_else(|| PageError::Expired(key.to_owned()))?;
        let other = |what, cached| PageError::OtherQuery { key: key.to_owned(), what, cached };
        let cached = &entry.cached;
        if parameters.flatten.is_some_and(|flatten| flatten != cached.flatten) {
            return Err(other("flatten", cached.flatten.to_string()));
        }
        if parameters.jmespath_query.is_some() && parameters.jmespath_query != cached.jmespath_query {
            let made_with =
                cached.jmespath_query.as_ref().map_or("none".to_owned(), |query| format!("`{query}`"));
            return Err(other("jmespath_query", made_with));
        }
        entry.used = (self.clock)();
        Ok(entry.cached.clone())
    }

    /// Removes expired results, and returns the rest.
    fn lock_unexpired(&self) -> MutexGuard<'_, HashMap<String, CacheEntry>> {
        // The map is consistent after any panic: every change is one step.
        let mut results = self.results.lock();
        let now = (self.clock)();
        results.retain(|_, entry| now.saturating_duration_since(entry.used) < RESULT_TTL);
        results
    }
}

/// Removes the least recently read results until one more fits.
fn make_room(results: &mut HashMap<String, CacheEntry>, bytes: usize) {
    let mut sum: usize = results.values().map(|entry| entry.bytes).sum();
    while results.len() >= RESULTS_MAX || sum.saturating_add(bytes) > BYTES_MAX {
        let oldest = results.iter().min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone());
        let Some(entry) = oldest.and_then(|key| results.remove(&key)) else { return };
        sum -= entry.bytes;
    }
}

/// About how much memory a value takes.
fn bytes(value: &Value) -> usize {
    // What a map stores for a field in addition to its name and its value: a hash, an index, the string's own
    // three words.
    const FIELD: usize = 48;
    let own = size_of::<Value>();
    match value {
        Value::String(text) => own + text.len(),
        Value::Array(items) => own + items.iter().map(bytes).sum::<usize>(),
        Value::Object(fields) => {
            own + fields.iter().map(|(name, value)| FIELD + name.len() + bytes(value)).sum::<usize>()
        }
        _ => own,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use serde_json::json;

    use super::*;

    /// A cache with a clock that stands still until it is set, in seconds.
    fn cache() -> (PageCache, Arc<AtomicU64>) {
        let seconds = Arc::new(AtomicU64::new(0));
        let start = Instant::now();
        let own = Arc::clone(&seconds);
        (PageCache::new(move || start + Duration::from_secs(own.load(Ordering::Relaxed))), seconds)
    }

    fn cached(value: Value) -> CachedResult {
        CachedResult {
            ref_id: None,
            flatten: true,
            jmespath_query: Some("[].ref".to_owned()),
            limit: 2,
            value: Arc::new(value),
        }
    }

    /// A later page needs only the key and the offset.
    #[test]
    fn key_and_offset_give_the_next_page() {
        let (cache, _) = cache();
        let key = cache.keep(&Owner::local(), cached(json!([1, 2, 3])));
        let parameters =
            PageParameters { cache_key: Some(key.clone()), offset: Some(2), ..PageParameters::default() };
        let query = parameters.clone().check().expect("it is right");
        let found = cache.find(&Owner::local(), &key, &parameters).expect("it is kept");
        let page = super::super::page(&found.value, query.offset, query.limit);
        assert_eq!((page.value, page.total, page.has_more), (json!([3]), 3, false));
    }

    /// A key expires five minutes after its last use; then the error says to make the call again.
    #[test]
    fn keys_expire_after_last_use() {
        let (cache, seconds) = cache();
        let key = cache.keep(&Owner::local(), cached(json!([])));
        for at in [299, 598, 897] {
            seconds.store(at, Ordering::Relaxed);
            assert!(cache.find(&Owner::local(), &key, &PageParameters::default()).is_ok(), "{at}");
        }
        seconds.store(897 + 300, Ordering::Relaxed);
        let error =
            cache.find(&Owner::local(), &key, &PageParameters::default()).expect_err("it has expired");
        assert_eq!(error, PageError::Expired(key));
        assert!(error.hint().contains("again without cache_key"));
        assert!(cache.results.lock().is_empty(), "the memory is free again");
    }

    /// Another owner's key is unknown, and looking at it does not keep it alive.
    #[test]
    fn keys_of_other_owners_are_unknown() {
        let (cache, seconds) = cache();
        let key = cache.keep(&Owner::local(), cached(json!([])));
        let other = Owner::new("other");
        seconds.store(200, Ordering::Relaxed);
        assert_eq!(
            cache.find(&other, &key, &PageParameters::default()).err(),
            Some(PageError::Expired(key.clone()))
        );
        seconds.store(300, Ordering::Relaxed);
        assert!(cache.find(&Owner::local(), &key, &PageParameters::default()).is_err());
    }

    /// Another query with the key is refused; the same query is not.
    #[test]
    fn key_with_another_query_is_refused() {
        let (cache, _) = cache();
        let key = cache.keep(&Owner::local(), cached(json!([])));
        let find = |arguments: Value| {
            let parameters: PageParameters =
                serde_json::from_value(arguments).expect("they are of the right types");
            cache.find(&Owner::local(), &key, &parameters).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(find(json!({"flatten": true, "jmespath_query": "[].ref"})), Ok(()));
        let flatten = find(json!({"flatten": false})).expect_err("it is another");
        assert!(flatten.starts_with("flatten is not what"), "{flatten}");
        let query = find(json!({"jmespath_query": "[].name"})).expect_err("it is another");
        assert!(query.ends_with("were made with: `[].ref`"), "{query}");
    }

    /// The number and the size of results are limited; the least recently read goes first, the newest stays.
    #[test]
    fn cache_size_is_limited() {
        let (cache, seconds) = cache();
        let keys: Vec<String> = (0..=RESULTS_MAX as u64)
            .map(|at| {
                seconds.store(at / 10, Ordering::Relaxed);
                if at == 200 {
                    // The first ten are equally old: any one of them goes.
                    assert_eq!(cache.results.lock().len(), 200);
                }
                cache.keep(&Owner::local(), cached(json!(at)))
            })
            .collect();
        let find = |key: &String| cache.find(&Owner::local(), key, &PageParameters::default());
        assert_eq!(keys.iter().filter(|key| find(key).is_err()).count(), 1);
        assert!(keys[10..].iter().all(|key| find(key).is_ok()));

        seconds.store(100, Ordering::Relaxed);
        let large = cache
            .keep(&Owner::local(), cached(Value::Array(vec![Value::Null; BYTES_MAX / size_of::<Value>()])));
        assert!(find(&large).is_ok());
        assert!(keys.iter().all(|key| find(key).is_err()));
    }
}
