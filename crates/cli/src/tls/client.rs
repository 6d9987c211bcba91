//! The encrypted connection of a front to a server.

use std::{
    net::IpAddr,
    sync::{Arc, OnceLock},
};

use tokio::net::TcpStream;
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName},
};

/// Encrypts a connection to this host, whose certificate a root of this machine must have signed. `SSL_CERT_FILE` names
/// other roots.
pub async fn encrypt(tcp: TcpStream, host: &str) -> Result<TlsStream<TcpStream>, String> {
    let name = match host.parse::<IpAddr>() {
        Ok(address) => ServerName::from(address),
        Err(_) => ServerName::try_from(host.to_owned()).map_err(|_| "its host cannot have a certificate")?,
    };
    let connected = TlsConnector::from(config().await?).connect(name, tcp).await;
    connected.map_err(|error| format!("the TLS connection failed: {error}"))
}

/// Reads the roots once, on a blocking thread: the system has a few hundred of them, in files.
async fn config() -> Result<Arc<ClientConfig>, String> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(config.clone());
    }
    let found = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs).await;
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.map_err(|error| error.to_string())?.certs);
    if added == 0 {
        return Err("this machine has no root certificates".to_owned());
    }
    // Chosen explicitly: a build may have several providers.
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(CONFIG.get_or_init(|| Arc::new(config)).clone())
}
