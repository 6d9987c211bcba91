//! UUIDs that greenroom makes: version 4, but with the time in front. UUIDs made one after the other are then
//! neighbours in an index, and inserting a new one stays fast among a million old ones.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use uuid::{Builder, Uuid};

/// A UUID of 48 bits of milliseconds and 74 random bits: two UUIDs of the same millisecond practically never collide.
pub(crate) fn new(at: SystemTime, random: [u8; 16]) -> Arc<str> {
    let ms = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let mut bytes = random;
    let time = u64::try_from(ms).unwrap_or_default().to_be_bytes();
    bytes[..6].copy_from_slice(&time[2..]);
    text(Builder::from_random_bytes(bytes).into_uuid())
}

pub(crate) fn parse(given: &str) -> Option<Arc<str>> {
    Uuid::try_parse(given).ok().map(text)
}

fn text(uuid: Uuid) -> Arc<str> {
    Arc::from(&*uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()))
}
