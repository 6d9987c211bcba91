//! Shows the answers of greenroom processes to people: pure functions from data to text. `terminal` alone depends on
//! the terminal.

pub mod audit;
pub mod backup;
pub mod browsers;
pub mod keys;
pub mod logs;
pub mod pools;
pub mod records;
pub mod sessions;
pub mod status;
pub mod table;
pub mod terminal;
pub mod text;
pub mod timeline;
