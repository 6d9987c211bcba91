//! A set of small numbers that finds its least member, and the next one after any, without looking at the others.

/// Bits in a word, and words in a set: one word tells which of the others are not empty.
const WORD: usize = 64;

#[derive(Debug)]
pub(super) struct Bits {
    /// Which words have a member.
    used: u64,
    words: [u64; WORD],
}

impl Default for Bits {
    fn default() -> Self {
        Self { used: 0, words: [0; WORD] }
    }
}

impl Bits {
    /// How many numbers a set can tell apart, from 0 on.
    pub(super) const MAX: usize = WORD * WORD;

    pub(super) fn insert(&mut self, number: usize) {
        if let Some(word) = self.words.get_mut(number / WORD) {
            *word |= 1 << (number % WORD);
            self.used |= 1 << (number / WORD);
        }
    }

    pub(super) fn remove(&mut self, number: usize) {
        if let Some(word) = self.words.get_mut(number / WORD) {
            *word &= !(1 << (number % WORD));
            if *word == 0 {
                self.used &= !(1 << (number / WORD));
            }
        }
    }

    pub(super) fn first(&self) -> Option<usize> {
        let at = lowest(self.used)?;
        Some(at * WORD + lowest(*self.words.get(at)?)?)
    }

    /// The least member from `number` on; past the greatest, the least of all.
    pub(super) fn next_from(&self, number: usize) -> Option<usize> {
        let (at, bit) = (number / WORD, number % WORD);
        let Some(word) = self.words.get(at) else { return self.first() };
        if let Some(bit) = lowest(word & (u64::MAX << bit)) {
            return Some(at * WORD + bit);
        }
        let later = self.used & u64::MAX.checked_shl(u32::try_from(at + 1).unwrap_or(u32::MAX)).unwrap_or(0);
        match lowest(later) {
            Some(at) => Some(at * WORD + lowest(*self.words.get(at)?)?),
            None => self.first(),
        }
    }
}

fn lowest(word: u64) -> Option<usize> {
    (word != 0).then(|| word.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// It finds what an ordered set finds, whatever was put in and taken out.
    #[test]
    fn agrees_with_an_ordered_set() {
        let (mut bits, mut model) = (Bits::default(), BTreeSet::new());
        let mut number = 7_usize;
        for step in 0..20_000 {
            number = (number * 1_103_515_245 + 12_345) % (1 << 31);
            let member = number % if step < 10_000 { 70 } else { Bits::MAX };
            if number & 0x10000 == 0 {
                bits.insert(member);
                model.insert(member);
            } else {
                bits.remove(member);
                model.remove(&member);
            }
            assert_eq!(bits.first(), model.first().copied());
            let from = (number / 3) % Bits::MAX;
            let next = model.range(from..).next().or(model.first()).copied();
            assert_eq!(bits.next_from(from), next, "from {from}");
        }
    }
}
