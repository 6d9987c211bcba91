//! The verdicts come first: what the upstream never sees, and how addresses are spelt for it.

use std::io::ErrorKind;

use super::{asked, chained, foreign, through};
use crate::{
    RawConnection, ask, listener,
    refuse::{METADATA, THIS_MACHINE, refused, trap},
    within,
};

/// The proxy refuses greenroom's own ports and metadata services under every spelling, before it connects to the
/// upstream.
#[tokio::test]
async fn the_upstream_does_not_hear_of_what_is_refused() {
    within(async {
        let (_own, own) = trap();
        let (trap, port) = trap();
        let proxy = through(&format!("127.0.0.1:{port}"), &[own]).await;
        for host in THIS_MACHINE {
            refused(&proxy, host, own, "own-port").await;
        }
        refused(&proxy, "127.0.0.1", proxy.address().port(), "own-port").await;
        for host in METADATA {
            refused(&proxy, host, 80, "metadata").await;
        }
        // A host that ends in a number is an address, in a spelling that only another program may understand.
        let answer = ask(&proxy, "CONNECT", &format!("{}.254:80", "x".repeat(64))).await;
        assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("cannot be resolved"), "{answer}");
        assert_eq!(trap.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    })
    .await;
}

/// Through an upstream on this machine no name leads to a port of greenroom's, whatever the upstream would
/// resolve it to; the same port on another machine's address can be reached.
#[tokio::test]
async fn an_upstream_on_this_machine_is_no_way_back_in() {
    within(async {
        let (upstream, address) = listener().await;
        let (_own, own) = trap();
        for upstream in [address.to_string(), format!("localhost:{}", address.port())] {
            refused(&through(&upstream, &[own]).await, &foreign(), own, "own-port").await;
        }
        let proxy = through(&address.to_string(), &[own]).await;
        let target = format!("192.0.2.1:{own}");
        let answer = asked(&proxy, &upstream, "CONNECT", &target, "HTTP/1.1 503 No\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    })
    .await;
}

/// The proxy sends the upstream an address in the spelling that it judged, so that the upstream cannot read another
/// one.
#[tokio::test]
async fn addresses_are_told_as_judged() {
    within(async {
        let (proxy, upstream) = chained("").await;
        for (spelt, told) in [
            ("0x7f.1", "127.0.0.1"),
            ("0300.0.2.1", "192.0.2.1"),
            ("3221225985", "192.0.2.1"),
            ("[2001:db8:0:0:0:0:0:1]", "[2001:db8::1]"),
        ] {
            for (method, target, line) in [
                ("CONNECT", format!("{spelt}:81"), format!("CONNECT {told}:81 HTTP/1.1\r\n")),
                ("GET", format!("http://{spelt}:81/"), format!("GET http://{told}:81/ HTTP/1.1\r\n")),
            ] {
                let mut browser = RawConnection::to(proxy.address()).await;
                browser.send(&format!("{method} {target} HTTP/1.1\r\nHost: x\r\n\r\n")).await;
                let head = RawConnection::accept(&upstream).await.read_head().await;
                assert!(head.starts_with(&line), "{target}: {head}");
                assert!(
                    head.to_ascii_lowercase().contains(&format!("host: {told}:81\r\n")),
                    "{target}: {head}"
                );
            }
        }
    })
    .await;
}
