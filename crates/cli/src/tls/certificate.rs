//! The server's certificate and its private key. New connections get the newest pair of the two files that fits; open
//! connections keep theirs.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use greenroom_core::{settings::Server, time::timestamp};
use parking_lot::RwLock;
use tokio::time::sleep;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self, InconsistentKeys, ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
        server::{ClientHello, ResolvesServerCert},
        sign::CertifiedKey,
    },
};

use super::validity::Validity;
use crate::report::CliError;

/// How often the server looks at the files. Programs that renew certificates do so days before the old ones expire.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The longest file. A chain of certificates has some ten kilobytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The two files, in PEM: the certificate with the chain after it, and its private key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl CertificateFiles {
    /// The files of a configuration, if it has both. One alone is a mistake.
    pub fn of(server: &Server) -> Result<Option<Self>, CliError> {
        let (has, lacks) = match (&server.tls_cert, &server.tls_key) {
            (None, None) => return Ok(None),
            (Some(certificate), Some(key)) => {
                return Ok(Some(Self { certificate: certificate.clone(), key: key.clone() }));
            }
            (Some(_), None) => ("server.tls_cert", "server.tls_key"),
            (None, Some(_)) => ("server.tls_key", "server.tls_cert"),
        };
        Err(CliError::usage(format!("`{has}` is set without `{lacks}`")).hint("TLS needs both files"))
    }

    /// What tells one version of the files from another.
    fn stamp(&self) -> [Option<(u64, i64, i64, u64)>; 2] {
        let stamp = |path: &Path| {
            let about = fs::metadata(path).ok()?;
            Some((about.ino(), about.mtime(), about.mtime_nsec(), about.len()))
        };
        [stamp(&self.certificate), stamp(&self.key)]
    }

    fn read(&self) -> Result<CertifiedKey, CliError> {
        let cannot = |path: &Path, error: io::Error| {
            CliError::failure(format!("cannot read the TLS file `{}`: {error}", path.display()))
        };
        let text = greenroom_files::read(&self.certificate, FILE_BYTES_MAX);
        let text = text.map_err(|error| cannot(&self.certificate, error))?;
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&text).filter_map(Result::ok).collect();
        if chain.is_empty() {
            let message = format!("`{}` has no certificate in PEM", self.certificate.display());
            return Err(
                CliError::failure(message).hint("`server.tls_cert` names the certificate, with its chain")
            );
        }
        let text =
            greenroom_files::read(&self.key, FILE_BYTES_MAX).map_err(|error| cannot(&self.key, error))?;
        let key = PrivateKeyDer::from_pem_slice(&text).map_err(|_| {
            let message = format!("`{}` has no private key in PEM", self.key.display());
            CliError::failure(message).hint("`server.tls_key` names the private key, without a password")
        })?;
        CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|error| match error {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                let message = format!(
                    "the private key in `{}` is not that of the certificate in `{}`",
                    self.key.display(),
                    self.certificate.display()
                );
                CliError::failure(message).hint("give the two files that were made together")
            }
            error => CliError::failure(format!(
                "cannot use the certificate in `{}` with the key in `{}`: {error}",
                self.certificate.display(),
                self.key.display()
            )),
        })
    }
}

/// The certificate that the server shows to new connections.
#[derive(Debug)]
pub struct ServerCertificate {
    files: CertificateFiles,
    current: RwLock<Arc<CertifiedKey>>,
}

impl ServerCertificate {
    /// Reads the files. Warns of a certificate that is not valid now: its server still answers, and its clients say why they
    /// refuse it.
    pub fn load(files: CertificateFiles) -> Result<Arc<Self>, CliError> {
        let pair = files.read()?;
        warn_if_not_valid(&files, &pair);
        Ok(Arc::new(Self { files, current: RwLock::new(Arc::new(pair)) }))
    }

    /// Accepts encrypted connections with this certificate.
    pub fn acceptor(self: &Arc<Self>) -> Result<TlsAcceptor, rustls::Error> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(self.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// Reads the files again whenever they change. Never returns.
    pub async fn watch(&self) {
        let mut seen = self.files.stamp();
        loop {
            sleep(POLL_INTERVAL).await;
            let now = self.files.stamp();
            if now == seen {
                continue;
            }
            // The other file may follow: read both when neither has changed for a while.
            sleep(POLL_INTERVAL).await;
            if self.files.stamp() != now {
                continue;
            }
            seen = now;
            match self.files.read() {
                Ok(pair) => {
                    warn_if_not_valid(&self.files, &pair);
                    *self.current.write() = Arc::new(pair);
                    tracing::info!(
                        "read the TLS certificate in `{}` again",
                        self.files.certificate.display()
                    );
                }
                Err(error) => tracing::error!("{error}; the server keeps the old TLS certificate"),
            }
        }
    }
}

impl ResolvesServerCert for ServerCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.read().clone())
    }
}

fn warn_if_not_valid(files: &CertificateFiles, pair: &CertifiedKey) {
    let Some(validity) = pair.cert.first().and_then(|certificate| Validity::of(certificate)) else { return };
    let now = SystemTime::now();
    let shown = files.certificate.display();
    if validity.ends < now {
        tracing::warn!(
            "the TLS certificate in `{shown}` expired at {}: clients refuse it",
            timestamp(validity.ends)
        );
    } else if validity.begins > now {
        tracing::warn!(
            "the TLS certificate in `{shown}` is valid from {} on: clients refuse it until then",
            timestamp(validity.begins)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tls");

    fn files(certificate: &str, key: &str) -> CertificateFiles {
        let path = |name: &str| Path::new(DATA).join(name);
        CertificateFiles { certificate: path(certificate), key: path(key) }
    }

    /// A pair that fits is read; every mistake is named with its file.
    #[test]
    fn certificates_are_checked() {
        assert!(ServerCertificate::load(files("one.pem", "one.key")).is_ok());
        assert!(ServerCertificate::load(files("expired.pem", "one.key")).is_ok(), "with a warning");
        for (certificate, key, says) in [
            ("missing.pem", "one.key", "cannot read the TLS file `"),
            ("one.pem", "missing.key", "cannot read the TLS file `"),
            ("one.key", "one.key", "has no certificate in PEM"),
            ("one.pem", "one.pem", "has no private key in PEM"),
            ("one.pem", "two.key", "is not that of the certificate in"),
            (".", "one.key", "not a regular file"),
        ] {
            let error = ServerCertificate::load(files(certificate, key)).unwrap_err().to_string();
            assert!(error.contains(says), "{certificate} {key}: {error}");
        }
    }
}
