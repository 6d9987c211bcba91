//! Records when things go wrong: greenroom is killed, the disk is full, the database is broken.

mod broken;
pub mod database;
mod disk;
mod files;
pub mod killed;
mod lists;
pub mod many;
mod shared;
