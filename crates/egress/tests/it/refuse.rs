//! What the proxy refuses, and that it does so without connecting.

use std::{
    io::ErrorKind,
    net::{TcpListener, UdpSocket},
};

use greenroom_egress::Proxy;

use crate::{RawConnection, TestPorts, ask, connections, listener, options, proxy, within};

/// Spellings of this machine.
pub(crate) const THIS_MACHINE: [&str; 20] = [
    "127.0.0.1",
    "127.0.0.2",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "deep.app.localhost",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "0.0.0.0",
    "0",
    "[::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
];

/// Metadata services by name and by address.
pub(crate) const METADATA: [&str; 10] = [
    "metadata.google.internal",
    "Metadata.Google.",
    "metadata.aws.amazon.com",
    "instance-data",
    "169.254.169.254",
    "2852039166",
    "0xa9fea9fe",
    "[::ffff:169.254.169.254]",
    "[fd00:ec2::254]",
    "100.100.100.200",
];

/// A listener on every address of this machine that must receive no connection.
pub(crate) fn trap() -> (TcpListener, u16) {
    let trap = TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("0.0.0.0:0")).unwrap();
    trap.set_nonblocking(true).unwrap();
    let port = trap.local_addr().unwrap().port();
    (trap, port)
}

/// Asks for `host:port` in both ways that a browser can, and expects the same refusal.
pub(crate) async fn refused(proxy: &Proxy, host: &str, port: u16, word: &str) {
    for (method, target) in [
        ("GET", format!("http://{host}:{port}/json/version")),
        ("POST", format!("http://{host}:{port}/mcp")),
        ("CONNECT", format!("{host}:{port}")),
    ] {
        let answer = ask(proxy, method, &target).await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{method} {target}: {answer}");
        assert!(answer.contains(&format!("x-greenroom-refused: {word}\r\n")), "{method} {target}: {answer}");
        assert!(answer.contains(&format!("{host}:{port} is refused: ")), "{method} {target}: {answer}");
    }
}

/// Own ports are refused under every spelling of this machine, and nothing ever connects to them.
#[tokio::test]
async fn own_ports_under_every_spelling() {
    within(async {
        let (trap, port) = trap();
        let proxy = Proxy::start(options(TestPorts::containing(&[port]))).await.unwrap();
        for host in THIS_MACHINE {
            refused(&proxy, host, port, "own-port").await;
        }
        assert_eq!(trap.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    })
    .await;
}

/// An own port that listens on every interface is refused at the machine's other addresses too.
#[tokio::test]
async fn own_ports_through_the_machines_other_addresses() {
    within(async {
        let (trap, port) = trap();
        let proxy = Proxy::start(options(TestPorts::containing(&[port]))).await.unwrap();
        // Connecting a datagram socket sends nothing; it tells which address this machine would speak from.
        for (any, elsewhere) in [("0.0.0.0:0", "192.0.2.1:9"), ("[::]:0", "[2001:db8::1]:9")] {
            let Ok(socket) = UdpSocket::bind(any) else { continue };
            if socket.connect(elsewhere).is_err() {
                continue;
            }
            let host = match socket.local_addr().unwrap().ip() {
                std::net::IpAddr::V4(v4) => v4.to_string(),
                std::net::IpAddr::V6(v6) => format!("[{v6}]"),
            };
            refused(&proxy, &host, port, "own-port").await;
        }
        assert_eq!(trap.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    })
    .await;
}

/// The proxy's own port is refused although it is not declared.
#[tokio::test]
async fn the_proxy_is_not_reached_through_itself() {
    within(async {
        let proxy = proxy().await;
        let port = proxy.address().port();
        for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"] {
            refused(&proxy, host, port, "own-port").await;
        }
    })
    .await;
}

/// A port that becomes greenroom's own while the proxy runs is refused from then on.
#[tokio::test]
async fn a_new_own_port_counts_at_once() {
    within(async {
        let own = TestPorts::containing(&[]);
        let proxy = Proxy::start(options(own.clone())).await.unwrap();
        let (site, address) = listener().await;
        RawConnection::tunnel(&proxy, &address.to_string()).await;
        RawConnection::accept(&site).await;
        own.0.lock().unwrap().insert(address.port());
        refused(&proxy, "127.0.0.1", address.port(), "own-port").await;
    })
    .await;
}

/// A redirect to an own port is refused: the request that follows it is judged like any other, also on a connection
/// that was used before.
#[tokio::test]
async fn a_redirect_does_not_lead_around() {
    within(async {
        let (trap, own) = trap();
        let proxy = Proxy::start(options(TestPorts::containing(&[own]))).await.unwrap();
        let (site, address) = listener().await;
        let mut browser = RawConnection::to(proxy.address()).await;
        browser.send(&format!("GET http://{address}/ HTTP/1.1\r\nHost: x\r\n\r\n")).await;
        let mut site = RawConnection::accept(&site).await;
        site.read_head().await;
        let location = format!("http://127.0.0.1:{own}/json");
        site.send(&format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n")).await;
        assert!(browser.read_head().await.contains(&location));
        browser.send(&format!("GET {location} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")).await;
        let answer = browser.read_to_end().await;
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("own-port"), "{answer}");
        assert_eq!(trap.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    })
    .await;
}

/// Metadata services are refused by name, without a lookup, and by address, without a connection.
#[tokio::test]
async fn metadata_services() {
    within(async {
        let proxy = proxy().await;
        for host in METADATA {
            refused(&proxy, host, 80, "metadata").await;
        }
    })
    .await;
}

/// A target that is not there is a 502, not a refusal.
#[tokio::test]
async fn what_cannot_be_reached_is_a_502() {
    within(async {
        let proxy = proxy().await;
        let (gone, address) = listener().await;
        drop(gone);
        let no_name = format!("{}.invalid", "x".repeat(64)); // A label too long to be asked for.
        for (method, target, says) in [
            ("GET", format!("http://{address}/"), format!("{address} cannot be reached: ")),
            ("CONNECT", address.to_string(), format!("{address} cannot be reached: ")),
            ("GET", format!("http://{no_name}/"), format!("{no_name} cannot be resolved: ")),
            ("CONNECT", format!("{no_name}:443"), format!("{no_name} cannot be resolved: ")),
        ] {
            let answer = ask(&proxy, method, &target).await;
            assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
            assert!(answer.contains(&says), "{answer}");
            assert!(!answer.contains("x-greenroom-refused"), "{answer}");
        }
    })
    .await;
}

/// A site that does not speak HTTP is a 502 as well.
#[tokio::test]
async fn a_site_that_talks_nonsense_is_a_502() {
    within(async {
        let proxy = proxy().await;
        let (site, address) = listener().await;
        let target = format!("http://{address}/");
        let (answer, ()) = tokio::join!(ask(&proxy, "GET", &target), async {
            let mut site = RawConnection::accept(&site).await;
            site.read_head().await;
            site.send("SSH-2.0-nonsense\r\n\r\n").await;
        });
        assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("no usable answer"), "{answer}");
    })
    .await;
}

/// Anything that is not a proxy request is answered with 400, and the proxy goes on.
#[tokio::test]
async fn garbage_is_a_400() {
    within(async {
        let proxy = proxy().await;
        let origin = format!("GET / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", proxy.address());
        for garbage in [
            "\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n",
            "hello there\r\n\r\n",
            "GET http://[::1/ HTTP/1.1\r\n\r\n",
            "GET https://example.com/ HTTP/1.1\r\nConnection: close\r\n\r\n",
            "GET ftp://example.com/ HTTP/1.1\r\nConnection: close\r\n\r\n",
            "OPTIONS * HTTP/1.1\r\nConnection: close\r\n\r\n",
            "CONNECT example.com HTTP/1.1\r\nConnection: close\r\n\r\n",
            "CONNECT example.com:99999 HTTP/1.1\r\nConnection: close\r\n\r\n",
            &origin,
        ] {
            let mut peer = RawConnection::to(proxy.address()).await;
            peer.send(garbage).await;
            let answer = peer.read_to_end().await;
            assert!(answer.starts_with("HTTP/1.1 400 "), "{garbage:?}: {answer}");
        }
        connections(&proxy, 0).await;
        let (_site, address) = listener().await;
        RawConnection::tunnel(&proxy, &address.to_string()).await;
    })
    .await;
}

/// A head beyond the limit is refused instead of kept in memory.
#[tokio::test]
async fn an_endless_head_is_cut_off() {
    within(async {
        let proxy = proxy().await;
        let mut peer = RawConnection::to(proxy.address()).await;
        peer.send("GET http://127.0.0.1:9/ HTTP/1.1\r\n").await;
        let line = format!("X-Long: {}\r\n", "x".repeat(4_096));
        // The proxy may hang up while this is still being written, so a failed write is a good sign.
        for _ in 0..80 {
            if tokio::io::AsyncWriteExt::write_all(&mut peer.0, line.as_bytes()).await.is_err() {
                break;
            }
        }
        let answer = peer.read_to_end().await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
        connections(&proxy, 0).await;
    })
    .await;
}
