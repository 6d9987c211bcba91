//! What packages are made of.
