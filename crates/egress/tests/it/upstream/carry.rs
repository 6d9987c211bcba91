//! What goes out through the upstream, and how it looks there.

use super::{chained, foreign, through};
use crate::{RawConnection, connections, listener, proxy, within};

/// The proxy asks the upstream for a tunnel, which then carries bytes both ways, those right behind the answer included.
#[tokio::test]
async fn a_tunnel_goes_through() {
    within(async {
        let (proxy, upstream) = chained("").await;
        // Old proxies answer in HTTP/1.0, and some announce a body that no tunnel has.
        for greeting in [
            "HTTP/1.1 200 Connection established\r\n\r\n",
            "HTTP/1.0 200 Connection established\r\nProxy-Agent: old\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        ] {
            let mut browser = RawConnection::to(proxy.address()).await;
            browser
                .send("CONNECT 192.0.2.1:443 HTTP/1.1\r\nHost: lies.example\r\nProxy-Authorization: Basic eA==\r\n\r\n")
                .await;
            let mut site = RawConnection::accept(&upstream).await;
            let head = site.read_head().await;
            assert_eq!(head, "CONNECT 192.0.2.1:443 HTTP/1.1\r\nhost: 192.0.2.1:443\r\n\r\n");
            site.send(&format!("{greeting}early\n")).await;
            let head = browser.read_head().await;
            assert!(head.starts_with("HTTP/1.1 200 ") && !head.contains("old"), "{head}");
            assert_eq!(browser.read_until("\n").await, "early\n");
            browser.send("hello\n").await;
            assert_eq!(site.read_until("\n").await, "hello\n");
            site.send("bye\n").await;
            drop(site);
            assert_eq!(browser.read_to_end().await, "bye\n");
        }
        connections(&proxy, 0).await;
    })
    .await;
}

/// Plain requests reach the upstream in absolute form, one after another from one connection, also when the
/// browser does not wait for the first answer.
#[tokio::test]
async fn plain_requests_go_through() {
    within(async {
        let (proxy, upstream) = chained("").await;
        let mut browser = RawConnection::to(proxy.address()).await;
        browser
            .send(
                "GET http://user@192.0.2.1:8080/a%20b?q=1 HTTP/1.1\r\nHost: lies.example\r\nProxy-Connection: keep-alive\r\n\
                 Proxy-Authorization: Basic eA==\r\nX-MiXed: kept\r\n\r\n\
                 POST http://192.0.2.2 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
            )
            .await;
        let mut first = RawConnection::accept(&upstream).await;
        let head = first.read_head().await;
        let wanted = "GET http://192.0.2.1:8080/a%20b?q=1 HTTP/1.1\r\nHost: 192.0.2.1:8080\r\nX-MiXed: kept\r\n\r\n";
        assert_eq!(head, wanted);
        first.send("HTTP/1.1 200 OK\r\nX-From: site\r\nContent-Length: 3\r\n\r\none").await;
        assert!(browser.read_until("\r\n\r\none").await.contains("X-From: site"));

        let mut second = RawConnection::accept(&upstream).await;
        let request = second.read_until("abc").await;
        assert!(request.starts_with("POST http://192.0.2.2/ HTTP/1.1\r\nHost: 192.0.2.2\r\n"), "{request}");
        second.send("HTTP/1.1 404 Gone\r\nContent-Length: 3\r\n\r\ntwo").await;
        assert!(browser.read_until("\r\n\r\ntwo").await.starts_with("HTTP/1.1 404 "));
    })
    .await;
}

/// An upgrade that the site behind the upstream accepts becomes a tunnel.
#[tokio::test]
async fn an_upgrade_goes_through() {
    within(async {
        let (proxy, upstream) = chained("").await;
        let mut browser = RawConnection::to(proxy.address()).await;
        browser.send("GET http://192.0.2.1/ HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n").await;
        let mut site = RawConnection::accept(&upstream).await;
        let head = site.read_head().await;
        assert!(head.starts_with("GET http://192.0.2.1/ ") && head.contains("Upgrade: echo\r\n"), "{head}");
        site.send("HTTP/1.1 101 Yes\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n").await;
        assert!(browser.read_head().await.starts_with("HTTP/1.1 101 "));
        browser.send("hello\n").await;
        assert_eq!(site.read_until("\n").await, "hello\n");
    })
    .await;
}

/// Credentials go to the upstream with every request, decoded, and in place of the browser's.
#[tokio::test]
async fn credentials_are_given() {
    within(async {
        let (proxy, upstream) = chained("ann:p%40ss@").await;
        for (method, target) in [("CONNECT", "192.0.2.1:443"), ("GET", "http://192.0.2.1/")] {
            let mut browser = RawConnection::to(proxy.address()).await;
            browser
                .send(&format!("{method} {target} HTTP/1.1\r\nProxy-Authorization: Basic eA==\r\n\r\n"))
                .await;
            let head = RawConnection::accept(&upstream).await.read_head().await;
            let given: Vec<&str> = head
                .lines()
                .filter_map(|line| line.split_once(": "))
                .filter(|(name, _)| name.eq_ignore_ascii_case("proxy-authorization"))
                .map(|(_, value)| value)
                .collect();
            assert_eq!(given, ["Basic YW5uOnBAc3M="], "{head}"); // ann:p@ss
        }
    })
    .await;
}

/// A name that cannot be resolved here is left to the upstream, as it was written.
#[tokio::test]
async fn a_name_that_only_the_upstream_knows() {
    within(async {
        let (proxy, upstream) = chained("").await;
        let name = foreign();
        let mut browser = RawConnection::to(proxy.address()).await;
        browser.send(&format!("CONNECT {name}:443 HTTP/1.1\r\n\r\n")).await;
        let mut site = RawConnection::accept(&upstream).await;
        assert!(site.read_head().await.starts_with(&format!("CONNECT {name}:443 HTTP/1.1\r\n")));
        site.send("HTTP/1.1 200 OK\r\n\r\n").await;
        assert!(browser.read_head().await.starts_with("HTTP/1.1 200 "));

        let mut browser = RawConnection::to(proxy.address()).await;
        browser.send(&format!("GET http://{name}/x HTTP/1.1\r\n\r\n")).await;
        let head = RawConnection::accept(&upstream).await.read_head().await;
        assert!(head.starts_with(&format!("GET http://{name}/x HTTP/1.1\r\n")), "{head}");
    })
    .await;
}

/// Two real proxies in a row, the second without an upstream, carry tunnels and requests to a real site.
#[tokio::test]
async fn two_proxies_in_a_row() {
    within(async {
        let outer = proxy().await;
        let proxy = through(&outer.address().to_string(), &[]).await;
        let (site, address) = listener().await;
        let mut tunnel = RawConnection::tunnel(&proxy, &address.to_string()).await;
        let mut tunnel_site = RawConnection::accept(&site).await;
        tunnel.send("hello\n").await;
        assert_eq!(tunnel_site.read_until("\n").await, "hello\n");

        let mut request = RawConnection::to(proxy.address()).await;
        request.send(&format!("GET http://{address}/a HTTP/1.1\r\nHost: x\r\n\r\n")).await;
        let mut request_site = RawConnection::accept(&site).await;
        assert_eq!(request_site.read_head().await, format!("GET /a HTTP/1.1\r\nHost: {address}\r\n\r\n"));
        request_site.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").await;
        request.read_until("\r\n\r\nhi").await;

        // The end of one proxy reaches the far end of the other.
        proxy.shutdown().await;
        for peer in [&mut tunnel, &mut tunnel_site, &mut request, &mut request_site] {
            assert_eq!(peer.read_to_end().await, "");
        }
    })
    .await;
}
