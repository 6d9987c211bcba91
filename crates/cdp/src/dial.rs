//! Connections to a debugger: TCP, with TLS where the address asks for it.
//!
//! Names are resolved here, so that the caller knows which machine answered. Certificates are checked against the system's
//! own roots: a company's proxy is trusted here as it is by the browser on the same machine.

use std::{
    io,
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::{Arc, OnceLock},
};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName},
};
use url::Host;

use crate::{Unreachable, address::Address};

/// How many addresses of a name are tried: a machine has one or two of each family.
const ADDRESSES_MAX: usize = 4;

/// A byte stream to a debugger.
pub(crate) trait Io: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// An open connection.
pub(crate) struct Dialled {
    pub(crate) stream: Box<dyn Io>,
    /// The machine at the other end.
    pub(crate) peer: SocketAddr,
    /// Whether the peer is this machine.
    pub(crate) is_local: bool,
}

/// Connects to an address. The caller decides how long that may take.
pub(crate) async fn dial(address: &Address) -> Result<Dialled, Unreachable> {
    let tcp = connect(address).await?;
    // Calls are small and wait for their replies, which is what Nagle's algorithm delays most.
    tcp.set_nodelay(true).map_err(Unreachable::Io)?;
    let peer = tcp.peer_addr().map_err(Unreachable::Io)?;
    let is_local = is_this_machine(peer.ip());
    let stream: Box<dyn Io> = if address.is_encrypted() {
        encrypt(tcp, address, tls_config().await?).await?
    } else {
        Box::new(tcp)
    };
    Ok(Dialled { stream, peer, is_local })
}

/// Whether an address is one of this machine's: a socket can be bound to no other. Where the system does not say, the
/// address counts as this machine's, so that its port is closed to browsers.
pub(crate) fn is_this_machine(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    let elsewhere = |error: io::Error| error.kind() == io::ErrorKind::AddrNotAvailable;
    ip.is_loopback() || ip.is_unspecified() || !UdpSocket::bind((ip, 0)).err().is_some_and(elsewhere)
}

async fn connect(address: &Address) -> Result<TcpStream, Unreachable> {
    let addresses: Vec<SocketAddr> = match address.host()? {
        Host::Ipv4(ip) => vec![(ip, address.port()).into()],
        Host::Ipv6(ip) => vec![(ip, address.port()).into()],
        Host::Domain(name) => lookup_host((name, address.port()))
            .await
            .map_err(Unreachable::Name)?
            .take(ADDRESSES_MAX)
            .collect(),
    };
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(Unreachable::Io(last))
}

async fn encrypt(
    tcp: TcpStream,
    address: &Address,
    config: Arc<ClientConfig>,
) -> Result<Box<dyn Io>, Unreachable> {
    let name = match address.host()? {
        Host::Domain(name) => ServerName::try_from(name.to_owned())
            .map_err(|_| Unreachable::Address("its host cannot have a certificate".to_owned()))?,
        Host::Ipv4(ip) => ServerName::from(IpAddr::from(ip)),
        Host::Ipv6(ip) => ServerName::from(IpAddr::from(ip)),
    };
    let stream = TlsConnector::from(config).connect(name, tcp).await.map_err(Unreachable::Tls)?;
    Ok(Box::new(stream))
}

/// Reads the roots once, on a blocking thread: the system has a few hundred of them, in files.
async fn tls_config() -> Result<Arc<ClientConfig>, Unreachable> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(config.clone());
    }
    let found = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs).await;
    let found = found.map_err(|error| Unreachable::Tls(io::Error::other(error)))?;
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        return Err(Unreachable::Tls(io::Error::other("this machine has no root certificates")));
    }
    let config = tls_config_with_roots(roots)?;
    Ok(CONFIG.get_or_init(|| config).clone())
}

fn tls_config_with_roots(roots: RootCertStore) -> Result<Arc<ClientConfig>, Unreachable> {
    // Chosen explicitly: a build may have several providers.
    let cryptography = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(cryptography)
        .with_safe_default_protocol_versions()
        .map_err(|error| Unreachable::Tls(io::Error::other(error)))?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };
    use tokio_rustls::{
        TlsAcceptor,
        rustls::{
            ServerConfig,
            pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
        },
    };

    use super::*;

    fn certificate() -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(include_bytes!("../tests/data/localhost.pem")).unwrap()
    }

    /// Greets one client over TLS, if it trusts this certificate.
    async fn tls_server(listener: TcpListener) {
        let key = PrivateKeyDer::from_pem_slice(include_bytes!("../tests/data/localhost.key")).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate()], key)
            .unwrap();
        let (tcp, _) = listener.accept().await.unwrap();
        if let Ok(mut stream) = TlsAcceptor::from(Arc::new(config)).accept(tcp).await {
            stream.write_all(b"hello").await.unwrap();
            stream.shutdown().await.unwrap();
        }
    }

    async fn listener() -> (TcpListener, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, port)
    }

    /// An encrypted connection carries bytes, by name and by address, when the certificate is trusted.
    #[tokio::test]
    async fn trusted_certificate_is_accepted() {
        let mut roots = RootCertStore::empty();
        roots.add(certificate()).unwrap();
        let config = tls_config_with_roots(roots).unwrap();
        for host in ["localhost", "127.0.0.1"] {
            let (listener, port) = listener().await;
            let address = Address::parse(&format!("wss://{host}:{port}/")).unwrap();
            let hear = async {
                let tcp = connect(&address).await.unwrap();
                let mut stream = encrypt(tcp, &address, config.clone()).await.unwrap();
                let mut heard = String::new();
                stream.read_to_string(&mut heard).await.unwrap();
                heard
            };
            let (heard, ()) = tokio::join!(hear, tls_server(listener));
            assert_eq!(heard, "hello");
        }
    }

    /// A certificate that the system does not trust ends the connection, and the message says so.
    #[tokio::test]
    async fn unknown_certificate_is_refused() {
        let (listener, port) = listener().await;
        let address = Address::parse(&format!("https://localhost:{port}/")).unwrap();
        let (refused, ()) = tokio::join!(dial(&address), tls_server(listener));
        let refused = refused.err().unwrap();
        assert!(matches!(&refused, Unreachable::Tls(_)), "{refused}");
        assert!(refused.to_string().starts_with("the TLS connection failed: "), "{refused}");
    }
}
