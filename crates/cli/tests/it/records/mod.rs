//! Records when things go wrong: greenroom is killed, the disk is full, the database is broken.

mod broken;
mod disk;
mod files;
pub mod killed;
mod lists;
pub mod look;
pub mod many;
mod shared;
