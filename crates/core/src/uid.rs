//! UUIDs that greenroom makes: version 4, but with the time in front, so that those made one after the other are
//! neighbours in an index, and a million old ones do not slow down the next.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use uuid::{Builder, Uuid};

/// 48 bits of milliseconds, then 74 random ones: two of the same millisecond never collide.
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
