//! The store as the gateway uses it: through the port, on a database in a folder of its own.

mod kit;
mod records;
