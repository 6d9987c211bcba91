//! An upstream that the operator does not trust with names: it gets the address that was judged, and resolves nothing.

use std::sync::Arc;

use greenroom_core::{Owner, network::NetworkPolicy, port::PortUser};
use greenroom_egress::{Proxy, ProxyOptions};
use tokio::net::TcpListener;

use crate::{
    RawConnection, TestPorts,
    fakes::{KnownNames, PUBLIC, answer},
    listener, options, within,
};

/// A guarded proxy that knows these names, and the listener that it goes out through.
async fn guarded(trust_upstream: bool, names: &[(&str, &[&str])]) -> (Proxy, TcpListener) {
    let (upstream, address) = listener().await;
    let options = ProxyOptions {
        policy: NetworkPolicy::GUARDED,
        upstream: Some(format!("http://{address}").parse().unwrap()),
        trust_upstream: Some(trust_upstream),
        resolver: Arc::new(KnownNames::new(names)),
        ..options(TestPorts::containing(&[]))
    };
    (Proxy::start(options).await.unwrap(), upstream)
}

const SITES: &[(&str, &[&str])] =
    &[("site.test", &[PUBLIC]), ("six.site.test", &["2600::1", PUBLIC]), ("inside.test", &["10.0.0.1"])];

/// A tunnel is asked for by the judged address, and carries bytes.
#[tokio::test]
async fn tunnel_is_asked_for_by_address() {
    within(async {
        let (proxy, upstream) = guarded(false, SITES).await;
        for (name, told) in [("site.test", PUBLIC), ("Six.Site.Test.", "[2600::1]"), (PUBLIC, PUBLIC)] {
            let mut browser = RawConnection::to(proxy.address()).await;
            browser.send(&format!("CONNECT {name}:443 HTTP/1.1\r\nHost: {name}:443\r\n\r\n")).await;
            let mut site = RawConnection::accept(&upstream).await;
            let head = site.read_head().await;
            assert_eq!(head, format!("CONNECT {told}:443 HTTP/1.1\r\nhost: {told}:443\r\n\r\n"));
            site.send("HTTP/1.1 200 OK\r\n\r\nhello\n").await;
            assert!(browser.read_head().await.starts_with("HTTP/1.1 200 "));
            assert_eq!(browser.read_until("\n").await, "hello\n");
        }
    })
    .await;
}

/// A plain request for a name goes through a tunnel to the judged address. So the site gets its name as `Host`, which the
/// upstream would replace by the address.
#[tokio::test]
async fn plain_request_goes_through_a_tunnel() {
    within(async {
        let (proxy, upstream) = guarded(false, SITES).await;
        for (url, told, host) in [
            ("http://site.test/a?b", format!("{PUBLIC}:80"), "site.test"),
            ("http://site.test:8080/a?b", format!("{PUBLIC}:8080"), "site.test:8080"),
            ("http://six.site.test/a?b", "[2600::1]:80".to_owned(), "six.site.test"),
        ] {
            let mut browser = RawConnection::to(proxy.address()).await;
            browser.send(&format!("GET {url} HTTP/1.1\r\nHost: x\r\nX-A: b\r\n\r\n")).await;
            let mut site = RawConnection::accept(&upstream).await;
            assert!(site.read_head().await.starts_with(&format!("CONNECT {told} HTTP/1.1\r\n")));
            site.send("HTTP/1.1 200 OK\r\n\r\n").await;
            let request = site.read_head().await;
            assert_eq!(request, format!("GET /a?b HTTP/1.1\r\nHost: {host}\r\nX-A: b\r\n\r\n"));
            site.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").await;
            assert!(browser.read_until("\r\n\r\nhi").await.starts_with("HTTP/1.1 200 "));
        }
        // An address needs no tunnel: the upstream cannot read another one.
        let mut browser = RawConnection::to(proxy.address()).await;
        browser.send(&format!("GET http://{PUBLIC}/ HTTP/1.1\r\nHost: x\r\n\r\n")).await;
        let head = RawConnection::accept(&upstream).await.read_head().await;
        assert!(head.starts_with(&format!("GET http://{PUBLIC}/ HTTP/1.1\r\n")), "{head}");
    })
    .await;
}

/// An upgrade of a plain request goes through the tunnel too.
#[tokio::test]
async fn upgrade_goes_through_a_tunnel() {
    within(async {
        let (proxy, upstream) = guarded(false, SITES).await;
        let mut browser = RawConnection::to(proxy.address()).await;
        browser.send("GET http://site.test/ HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n").await;
        let mut site = RawConnection::accept(&upstream).await;
        site.read_head().await;
        site.send("HTTP/1.1 200 OK\r\n\r\n").await;
        assert!(site.read_head().await.contains("host: site.test\r\n"));
        site.send("HTTP/1.1 101 Yes\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n").await;
        assert!(browser.read_head().await.starts_with("HTTP/1.1 101 "));
        browser.send("hello\n").await;
        assert_eq!(site.read_until("\n").await, "hello\n");
    })
    .await;
}

/// A name that cannot be resolved here, or that has a private address, does not reach the upstream.
#[tokio::test]
async fn unjudged_names_stay_here() {
    within(async {
        let (proxy, upstream) = guarded(false, SITES).await;
        for (name, status, says) in
            [("nowhere.test", "502", "cannot be resolved"), ("inside.test", "403", "a private address")]
        {
            for (method, target) in [("GET", format!("http://{name}/")), ("CONNECT", format!("{name}:443"))] {
                let page = answer(proxy.address(), method, &target).await;
                assert!(page.starts_with(&format!("HTTP/1.1 {status} ")) && page.contains(says), "{page}");
            }
        }
        proxy.shutdown().await;
        let upstream = upstream.into_std().unwrap();
        assert_eq!(upstream.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    })
    .await;
}

/// If the upstream refuses the tunnel, the answer to a plain request has the upstream's status too.
#[tokio::test]
async fn refused_tunnel_is_told_to_a_plain_request() {
    within(async {
        let (proxy, upstream) = guarded(false, SITES).await;
        let (page, ()) = tokio::join!(answer(proxy.address(), "GET", "http://site.test/"), async {
            let mut upstream = RawConnection::accept(&upstream).await;
            upstream.read_head().await;
            upstream.send("HTTP/1.1 403 No\r\n\r\n").await;
        });
        assert!(page.starts_with("HTTP/1.1 403 "), "{page}");
        assert!(page.contains("the upstream proxy refuses 93.184.216.34:80: 403 Forbidden"), "{page}");
        assert!(!page.contains("x-greenroom-refused"), "{page}");
    })
    .await;
}

/// A trusted upstream gets names, also those that only it can resolve; private addresses that are known here are refused.
#[tokio::test]
async fn trusted_upstream_gets_names() {
    within(async {
        let (proxy, upstream) = guarded(true, SITES).await;
        for (method, target, line) in [
            ("CONNECT", "site.test:443", "CONNECT site.test:443 HTTP/1.1\r\n"),
            ("CONNECT", "nowhere.test:443", "CONNECT nowhere.test:443 HTTP/1.1\r\n"),
            ("GET", "http://site.test/a", "GET http://site.test/a HTTP/1.1\r\n"),
        ] {
            let mut browser = RawConnection::to(proxy.address()).await;
            browser.send(&format!("{method} {target} HTTP/1.1\r\nHost: x\r\n\r\n")).await;
            let head = RawConnection::accept(&upstream).await.read_head().await;
            assert!(head.starts_with(line), "{head}");
        }
        let page = answer(proxy.address(), "GET", "http://inside.test/").await;
        assert!(page.contains("x-greenroom-refused: private"), "{page}");
    })
    .await;
}

/// In an open pool the upstream gets names, but not those of a session whose own policy judges addresses; an operator who
/// trusts the upstream decides for sessions too.
#[tokio::test]
async fn names_of_judged_sessions_stay_here() {
    within(async {
        for (trust_upstream, told) in [(None, PUBLIC), (Some(true), "site.test")] {
            let (upstream, address) = listener().await;
            let options = ProxyOptions {
                upstream: Some(format!("http://{address}").parse().unwrap()),
                trust_upstream,
                resolver: Arc::new(KnownNames::new(SITES)),
                ..options(TestPorts::containing(&[]))
            };
            let proxy = Proxy::start(options).await.unwrap();
            let port = proxy.ports().open_port().unwrap();
            for (network, told) in [(None, "site.test"), (Some(Arc::new(NetworkPolicy::GUARDED)), told)] {
                port.assign(PortUser { owner: Owner::local(), session: None, network });
                let mut browser = RawConnection::to(port.address()).await;
                browser.send("CONNECT site.test:443 HTTP/1.1\r\nHost: x\r\n\r\n").await;
                let head = RawConnection::accept(&upstream).await.read_head().await;
                assert!(head.starts_with(&format!("CONNECT {told}:443 HTTP/1.1\r\n")), "{head}");
            }
            let page = answer(port.address(), "GET", "http://inside.test/").await;
            assert!(page.contains("x-greenroom-refused: session"), "{page}");
        }
    })
    .await;
}
