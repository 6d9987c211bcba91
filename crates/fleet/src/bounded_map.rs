//! A map with a limited number of entries: a new key displaces the oldest one.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
};

pub(crate) struct BoundedMap<K, V, const MAX: usize> {
    entries: HashMap<K, V>,
    /// The keys in order, oldest first.
    order: VecDeque<K>,
}

impl<K, V, const MAX: usize> Default for BoundedMap<K, V, MAX> {
    fn default() -> Self {
        Self { entries: HashMap::new(), order: VecDeque::new() }
    }
}

impl<K: Clone + Eq + Hash, V, const MAX: usize> BoundedMap<K, V, MAX> {
    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.entries.insert(key.clone(), value).is_none() {
            self.order.push_back(key);
        }
        if self.entries.len() > MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.entries.remove(&oldest);
        }
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key)
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let value = self.entries.remove(key)?;
        self.order.retain(|other| other != key);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The map remembers the latest keys up to its limit; each is taken out once.
    #[test]
    fn map_remembers_the_latest_keys() {
        let mut map = BoundedMap::<_, _, 8>::default();
        for number in 0..=8 {
            map.insert(number, "first");
            map.insert(number, "second");
        }
        assert_eq!((map.entries.len(), map.order.len()), (8, 8));
        assert_eq!((map.get(&0), map.get(&8)), (None, Some(&"second")));
        assert_eq!((map.remove(&0), map.remove(&1)), (None, Some("second")));
        assert_eq!((map.remove(&1), map.order.len()), (None, 7));
    }
}
