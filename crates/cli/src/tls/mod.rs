//! TLS: the server's certificate, read again when its files change; encrypted connections on a port; and the encrypted
//! connection of a `greenroom mcp` to a server.

mod certificate;
mod client;
mod listener;
mod validity;

pub use certificate::{CertificateFiles, ServerCertificate};
pub use client::encrypt;
pub use listener::PortListener;
