//! What the proxy carries, and how little it changes.

use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpSocket},
};

use crate::{RawConnection, listener, proxy, within};

/// A plain request arrives in origin form with its site's name, without the headers for the proxy.
#[tokio::test]
async fn a_get_arrives_as_its_site_expects_it() {
    within(async {
        let proxy = proxy().await;
        let (site, address) = listener().await;
        let mut browser = RawConnection::to(proxy.address()).await;
        browser
            .send(&format!(
                "GET http://user@{address}/a%20b?q=1 HTTP/1.1\r\nHost: lies.example\r\nProxy-Connection: keep-alive\r\n\
                 Proxy-Authorization: Basic eA==\r\nConnection: X-Hop\r\nX-Hop: 1\r\nX-MiXed: kept\r\n\r\n"
            ))
            .await;
        let mut site = RawConnection::accept(&site).await;
        let head = site.read_head().await;
        assert_eq!(head, format!("GET /a%20b?q=1 HTTP/1.1\r\nHost: {address}\r\nX-MiXed: kept\r\n\r\n"));

        site.send("HTTP/1.1 200 Fine\r\nTransfer-Encoding: chunked\r\nKeep-Alive: timeout=5\r\nX-From: site\r\n\r\n").await;
        site.send("5\r\nhello\r\n0\r\n\r\n").await;
        let head = browser.read_head().await;
        assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("X-From: site"), "{head}");
        assert!(!head.contains("Keep-Alive"), "{head}");
        assert_eq!(browser.read_until("0\r\n\r\n").await, "5\r\nhello\r\n0\r\n\r\n");
    })
    .await;
}

/// Bodies stream both ways: each piece arrives before the next is sent, and the answer may overtake the rest.
#[tokio::test]
async fn bodies_stream_both_ways() {
    within(async {
        let proxy = proxy().await;
        let (site, address) = listener().await;
        let mut browser = RawConnection::to(proxy.address()).await;
        browser
            .send(&format!(
                "POST http://{address}/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            ))
            .await;
        let mut site = RawConnection::accept(&site).await;
        site.read_head().await;
        browser.send("3\r\none\r\n").await;
        assert_eq!(site.read_until("one\r\n").await, "3\r\none\r\n");
        site.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc").await;
        browser.read_until("\r\n\r\nabc").await;
        browser.send("3\r\ntwo\r\n0\r\n\r\n").await;
        assert_eq!(site.read_until("0\r\n\r\n").await, "3\r\ntwo\r\n0\r\n\r\n");
        site.send("def").await;
        browser.read_until("def").await;
    })
    .await;
}

/// Megabytes pass unharmed in both directions at once, so many that every buffer on the way fills and drains.
#[tokio::test]
async fn large_bodies_pass_whole() {
    const BYTES: usize = 8 << 20;
    within(async {
        let proxy = proxy().await;
        let (site, address) = listener().await;
        let RawConnection(browser) = RawConnection::to(proxy.address()).await;
        let body: Vec<u8> = (0..BYTES).map(|at| (at % 251) as u8).collect();
        let head = format!("POST http://{address}/ HTTP/1.1\r\nHost: x\r\nContent-Length: {BYTES}\r\n\r\n");
        let echo = tokio::spawn(async move {
            let mut site = RawConnection::accept(&site).await;
            site.read_head().await;
            site.send(&format!("HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n")).await;
            let (mut from, mut to) = site.0.split();
            tokio::io::copy(&mut from, &mut to).await.unwrap();
        });
        let (read, mut write) = browser.into_split();
        let upload = async {
            write.write_all(head.as_bytes()).await.unwrap();
            write.write_all(&body).await.unwrap();
        };
        let download = async {
            let mut read = tokio::io::BufReader::new(read);
            let mut line = String::new();
            while line != "\r\n" {
                line.clear();
                tokio::io::AsyncBufReadExt::read_line(&mut read, &mut line).await.unwrap();
            }
            let mut received = vec![0; BYTES];
            tokio::io::AsyncReadExt::read_exact(&mut read, &mut received).await.unwrap();
            received
        };
        let ((), received) = tokio::join!(upload, download);
        assert!(received == body, "the echo differs");
        echo.await.unwrap();
    })
    .await;
}

/// One browser connection serves request after request, each to its own site, without closing in between.
#[tokio::test]
async fn a_connection_is_kept_between_requests() {
    within(async {
        let proxy = proxy().await;
        let (first, first_address) = listener().await;
        let (second, second_address) = listener().await;
        let mut browser = RawConnection::to(proxy.address()).await;
        for (site, address) in [(first, first_address), (second, second_address)] {
            browser.send(&format!("HEAD http://{address} HTTP/1.1\r\nHost: x\r\n\r\n")).await;
            let mut site = RawConnection::accept(&site).await;
            assert!(site.read_head().await.starts_with("HEAD / HTTP/1.1\r\n"));
            site.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n").await;
            assert!(browser.read_head().await.contains("1000"));
        }
    })
    .await;
}

/// A tunnel carries bytes both ways; one side's end reaches the other while the other direction still flows.
#[tokio::test]
async fn a_tunnel_carries_both_ways() {
    within(async {
        let proxy = proxy().await;
        let (site, address) = listener().await;
        let mut browser = RawConnection::tunnel(&proxy, &address.to_string()).await;
        let mut site = RawConnection::accept(&site).await;
        site.send("site speaks first\n").await;
        assert_eq!(browser.read_until("\n").await, "site speaks first\n");
        browser.send("ping\n").await;
        assert_eq!(site.read_until("\n").await, "ping\n");
        browser.0.shutdown().await.unwrap();
        assert_eq!(site.read_to_end().await, "");
        site.send("last words").await;
        drop(site);
        assert_eq!(browser.read_to_end().await, "last words");
    })
    .await;
}

/// What a browser sends right behind its CONNECT, before the answer, is not lost.
#[tokio::test]
async fn an_eager_browser_loses_nothing() {
    within(async {
        let proxy = proxy().await;
        let (site, address) = listener().await;
        let mut browser = RawConnection::to(proxy.address()).await;
        browser.send(&format!("CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n\r\nhello\n")).await;
        let mut site = RawConnection::accept(&site).await;
        assert_eq!(site.read_until("\n").await, "hello\n");
    })
    .await;
}

/// An upgrade in absolute form becomes a tunnel once the site agrees.
#[tokio::test]
async fn an_upgrade_becomes_a_tunnel() {
    within(async {
        let proxy = proxy().await;
        let (site, address) = listener().await;
        let mut browser = RawConnection::to(proxy.address()).await;
        browser
            .send(&format!(
                "GET http://{address}/ws HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\n\
                 Upgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n"
            ))
            .await;
        let mut site = RawConnection::accept(&site).await;
        let head = site.read_head().await.to_lowercase();
        assert!(head.contains("connection: upgrade\r\n") && head.contains("upgrade: websocket\r\n"), "{head}");
        assert!(head.contains("sec-websocket-key: k\r\n"), "{head}");
        site.send("HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: a\r\n\r\nfirst\n").await;
        let head = browser.read_head().await.to_lowercase();
        assert!(head.starts_with("http/1.1 101 ") && head.contains("upgrade: websocket"), "{head}");
        assert_eq!(browser.read_until("\n").await, "first\n");
        browser.send("second\n").await;
        assert_eq!(site.read_until("\n").await, "second\n");
    })
    .await;
}

/// A site that declines an upgrade answers like any other.
#[tokio::test]
async fn a_declined_upgrade_is_an_ordinary_answer() {
    within(async {
        let proxy = proxy().await;
        let (site, address) = listener().await;
        let mut browser = RawConnection::to(proxy.address()).await;
        browser
            .send(&format!(
                "GET http://{address}/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
            ))
            .await;
        let mut site = RawConnection::accept(&site).await;
        site.read_head().await;
        site.send("HTTP/1.1 426 No\r\nContent-Length: 2\r\n\r\nno").await;
        assert!(browser.read_until("no").await.starts_with("HTTP/1.1 426 "));
    })
    .await;
}

/// A name whose first address is dead is reached at its next one; names under `localhost` are this machine.
#[tokio::test]
async fn the_next_address_is_tried() {
    within(async {
        // This socket is bound and never listens: the first address stays dead, and no other socket, not even the
        // proxy's, can take its port meanwhile.
        let dead = TcpSocket::new_v4().unwrap();
        dead.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let port = dead.local_addr().unwrap().port();
        let Ok(site) = TcpListener::bind(("::1", port)).await else { return }; // No IPv6 here, no second address.
        let proxy = proxy().await;
        for name in ["localhost", "app.LocalHost."] {
            let mut browser = RawConnection::tunnel(&proxy, &format!("{name}:{port}")).await;
            let mut site = RawConnection::accept(&site).await;
            browser.send("hello\n").await;
            assert_eq!(site.read_until("\n").await, "hello\n");
        }
    })
    .await;
}
