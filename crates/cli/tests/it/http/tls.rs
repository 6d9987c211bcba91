//! TLS: the server's certificate, and a `greenroom mcp` that joins over it with a key.

use std::{path::PathBuf, sync::Arc};

use greenroom_testkit::{TEST_TIMEOUT, http::Server, text_of, within};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, ServerName, pem::PemObject},
    },
};

use super::keys::{ANN, EYE, keys, setup};
use crate::front::fixture::{FakeEngineSetup, NEWEST};

fn data(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tls")).join(name)
}

/// A setup with keys, and with copies of these TLS files, which a test may replace.
fn encrypted(certificate: &str, key: &str) -> FakeEngineSetup {
    let setup = setup();
    let (cert_path, key_path) = (setup.path("cert.pem"), setup.path("key.pem"));
    std::fs::copy(data(certificate), &cert_path).unwrap();
    std::fs::copy(data(key), &key_path).unwrap();
    let text = |path: PathBuf| path.display().to_string();
    setup.set("server.tls_cert", &text(cert_path)).set("server.tls_key", &text(key_path)).set("log", "info")
}

/// An encrypted connection of a client that trusts this certificate alone.
async fn connect(server: &Server, certificate: &str) -> Result<TlsStream<TcpStream>, String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(data(certificate)).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let tcp = TcpStream::connect(server.address()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let connected = TlsConnector::from(Arc::new(config)).connect(name, tcp);
    within(TEST_TIMEOUT, connected).await.map_err(|error| error.to_string())
}

/// Sends a request over the connection, and returns the head of the answer.
async fn get(stream: &mut TlsStream<TcpStream>) -> String {
    let request = format!("GET /api/sessions HTTP/1.1\r\nhost: localhost\r\nx-api-key: {ANN}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
        assert_ne!(within(TEST_TIMEOUT, stream.read_buf(&mut answer)).await.unwrap(), 0, "it ended");
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// A server with a certificate speaks TLS only. A replaced certificate serves new connections, while open ones go on; a bad
/// replacement leaves the old one.
#[tokio::test]
async fn certificates_are_reloaded() {
    let setup = encrypted("one.pem", "one.key");
    let server = setup.serve().await;
    assert!(server.url().starts_with("https://"));
    let mut plain = TcpStream::connect(server.address()).await.unwrap();
    plain.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = within(TEST_TIMEOUT, plain.read_to_end(&mut answer)).await;
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    let mut open = connect(&server, "one.pem").await.unwrap();
    assert!(get(&mut open).await.starts_with("HTTP/1.1 200"));
    assert!(connect(&server, "two.pem").await.is_err());
    std::fs::copy(data("two.key"), setup.path("key.pem")).unwrap();
    server.wait_for_stderr("the server keeps the old TLS certificate").await;
    assert!(connect(&server, "one.pem").await.is_ok());
    std::fs::copy(data("two.pem"), setup.path("cert.pem")).unwrap();
    server.wait_for_stderr("read the TLS certificate in").await;
    assert!(connect(&server, "two.pem").await.is_ok() && connect(&server, "one.pem").await.is_err());
    assert!(get(&mut open).await.starts_with("HTTP/1.1 200"), "the open connection goes on");
}

/// A certificate that is missing, does not fit its key, or lacks one stops the start with its file's name; an expired one is
/// a warning.
#[tokio::test]
async fn wrong_certificates_stop_the_start() {
    for (certificate, key, code, says) in [
        ("one.pem", "two.key", 1, "is not that of the certificate"),
        ("one.key", "one.key", 1, "has no certificate in PEM"),
        ("one.pem", "one.pem", 1, "has no private key in PEM"),
    ] {
        let setup = encrypted(certificate, key);
        let server = setup.launch(&["serve", "--listen", "127.0.0.1:0"]).spawn();
        assert_eq!(within(TEST_TIMEOUT, server.wait()).await.code(), Some(code), "{certificate} {key}");
        assert!(server.stderr().contains(says), "{}", server.stderr());
    }
    let setup = self::setup().set("server.tls_cert", "/nowhere/cert.pem");
    let alone = setup.launch(&["serve", "--listen", "127.0.0.1:0"]).spawn();
    assert_eq!(within(TEST_TIMEOUT, alone.wait()).await.code(), Some(2));
    assert!(
        alone.stderr().contains("`server.tls_cert` is set without `server.tls_key`"),
        "{}",
        alone.stderr()
    );
    let setup = setup.set("server.tls_key", "/nowhere/key.pem");
    let missing = setup.launch(&["serve", "--listen", "127.0.0.1:0"]).spawn();
    assert_eq!(within(TEST_TIMEOUT, missing.wait()).await.code(), Some(1));
    assert!(
        missing.stderr().contains("cannot read the TLS file `/nowhere/cert.pem`"),
        "{}",
        missing.stderr()
    );
    let setup = encrypted("expired.pem", "one.key");
    let server = setup.serve().await;
    server.wait_for_stderr("expired at 2020-02-01T00:00:00Z: clients refuse it").await;
}

/// A client that connects and sends nothing of its handshake holds up no other.
#[tokio::test]
async fn silent_handshakes_hold_up_no_other() {
    let setup = encrypted("one.pem", "one.key");
    let server = setup.serve().await;
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(server.connection().await);
    }
    let mut stream = connect(&server, "one.pem").await.unwrap();
    assert!(get(&mut stream).await.starts_with("HTTP/1.1 200"));
}

/// `greenroom mcp --server` joins over TLS with the key of its environment or of a file, as the key's owner. Without a key,
/// with a wrong one or one without the scope it says what to do.
#[tokio::test]
async fn fronts_join_with_a_key() {
    let setup = encrypted("one.pem", "one.key");
    let server = setup.serve().await;
    let elsewhere = FakeEngineSetup::new();
    let roots = data("one.pem").display().to_string();
    let url = server.url();
    let launch = |arguments: &[&str]| {
        let arguments: Vec<_> =
            ["mcp", "--server", &*url].into_iter().chain(arguments.iter().copied()).collect();
        elsewhere.launch(&arguments).env("SSL_CERT_FILE", &*roots)
    };
    let key_file = elsewhere.file("key", &format!("{ANN}\n"), 0o600).display().to_string();
    for client in
        [launch(&[]).env("GREENROOM_API_KEY", ANN).spawn(), launch(&["--key-file", &key_file]).spawn()]
    {
        client.initialize(NEWEST, json!({})).await;
        assert_eq!(
            text_of(&client.call("echo", json!({"text": "joined", "sessionId": "s"})).await),
            "joined"
        );
    }
    let mut stream = connect(&server, "one.pem").await.unwrap();
    assert!(get(&mut stream).await.starts_with("HTTP/1.1 200"));
    for (client, code, says) in [
        (launch(&[]).spawn(), 1, "this server needs an API key (set GREENROOM_API_KEY, or give --key-file)"),
        (launch(&[]).env("GREENROOM_API_KEY", "wrong-key-0123456789").spawn(), 1, "the API key is not valid"),
        (launch(&[]).env("GREENROOM_API_KEY", EYE).spawn(), 1, "the API key lacks the scope `browse`"),
        (launch(&[]).env("GREENROOM_API_KEY", "grm_half").spawn(), 2, "is not a whole key"),
        (launch(&["--key-file", "/nowhere/key"]).spawn(), 2, "cannot read the key file `/nowhere/key`"),
    ] {
        assert_eq!(within(TEST_TIMEOUT, client.wait()).await.code(), Some(code), "{says}");
        let said = client.stderr();
        assert!(said.contains(says) && !said.contains("wrong-key") && !said.contains(EYE), "{said}");
    }
    let untrusted = elsewhere.launch(&["mcp", "--server", &server.url()]).env("GREENROOM_API_KEY", ANN);
    let untrusted = untrusted.env("SSL_CERT_FILE", data("two.pem").display().to_string()).spawn();
    assert_eq!(within(TEST_TIMEOUT, untrusted.wait()).await.code(), Some(1));
    assert!(untrusted.stderr().contains("the TLS connection failed"), "{}", untrusted.stderr());
}

/// A joined front whose key is revoked loses its line, and its owner's sessions are closed.
#[tokio::test]
async fn revoked_keys_lose_joined_lines() {
    let setup = FakeEngineSetup::new().set("log", "info");
    let key = keys(&setup, &["create", "ann"]).await;
    let server = setup.serve().await;
    let elsewhere = FakeEngineSetup::new();
    let client =
        elsewhere.launch(&["mcp", "--server", &server.url()]).env("GREENROOM_API_KEY", &*key).spawn();
    client.initialize(NEWEST, json!({})).await;
    assert_eq!(text_of(&client.call("echo", json!({"text": "joined", "sessionId": "s"})).await), "joined");
    server.wait_for_stderr("a front has joined").await;
    keys(&setup, &["revoke", "ann"]).await;
    server.wait_for_stderr("a front has left").await;
    server.wait_for_stderr("closing the sessions of its owner").await;
}
