//! How connections end: nothing outlives its browser, its site or the proxy.

use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::{RawConnection, connections, listener, proxy, within};

/// A browser that disconnects, at whatever point, leaves nothing behind.
#[tokio::test]
async fn a_browser_that_leaves_is_forgotten() {
    within(async {
        let proxy = proxy().await;
        let (site, address) = listener().await;

        let silent = RawConnection::to(proxy.address()).await;
        let mut halfway = RawConnection::to(proxy.address()).await;
        halfway.send("GET http://exam").await;
        connections(&proxy, 2).await;
        drop((silent, halfway));
        connections(&proxy, 0).await;

        // The browser leaves before its site answers.
        let mut waiting = RawConnection::to(proxy.address()).await;
        waiting.send(&format!("GET http://{address}/ HTTP/1.1\r\nHost: x\r\n\r\n")).await;
        let mut thinking = RawConnection::accept(&site).await;
        thinking.read_head().await;
        drop(waiting);
        connections(&proxy, 0).await;
        assert_eq!(thinking.read_to_end().await, "");

        // The browser leaves in the middle of an answer that has no end.
        let mut listening = RawConnection::to(proxy.address()).await;
        listening.send(&format!("GET http://{address}/ HTTP/1.1\r\nHost: x\r\n\r\n")).await;
        let mut streaming = RawConnection::accept(&site).await;
        streaming.read_head().await;
        streaming.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n").await;
        listening.read_until("data: 1\n\n").await;
        drop(listening);
        connections(&proxy, 0).await;
        assert_eq!(streaming.read_to_end().await, "");

        // The browser leaves in the middle of an upload.
        let mut sending = RawConnection::to(proxy.address()).await;
        sending
            .send(&format!("POST http://{address}/ HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc"))
            .await;
        let mut receiving = RawConnection::accept(&site).await;
        receiving.read_until("abc").await;
        drop(sending);
        connections(&proxy, 0).await;
        assert_eq!(receiving.read_to_end().await, "");

        // The browser leaves its tunnel, and the site hangs up in turn.
        let tunnelling = RawConnection::tunnel(&proxy, &address.to_string()).await;
        let mut far = RawConnection::accept(&site).await;
        connections(&proxy, 1).await;
        drop(tunnelling);
        assert_eq!(far.read_to_end().await, "");
        drop(far);
        connections(&proxy, 0).await;
    })
    .await;
}

/// A site that resets its tunnel ends the browser's side too.
#[tokio::test]
async fn a_site_that_breaks_ends_its_tunnel() {
    within(async {
        let proxy = proxy().await;
        let (site, address) = listener().await;
        let mut browser = RawConnection::tunnel(&proxy, &address.to_string()).await;
        let far: TcpStream = RawConnection::accept(&site).await.0;
        far.set_zero_linger().unwrap();
        drop(far);
        assert_eq!(browser.read_to_end().await, "");
        connections(&proxy, 0).await;
    })
    .await;
}

/// The proxy closes the connection of a client that sends nothing and never hangs up.
#[tokio::test]
async fn a_silent_client_is_let_go() {
    within(async {
        let proxy = proxy().await;
        let mut silent = RawConnection::to(proxy.address()).await;
        connections(&proxy, 1).await;
        tokio::time::pause();
        connections(&proxy, 0).await;
        assert_eq!(silent.read_to_end().await, "");
    })
    .await;
}

/// A tunnel whose browser is gone does not wait for ever for a site that neither sends nor hangs up.
#[tokio::test]
async fn a_half_open_tunnel_is_let_go() {
    within(async {
        let proxy = proxy().await;
        let (site, address) = listener().await;
        let browser = RawConnection::tunnel(&proxy, &address.to_string()).await;
        let mut deaf = RawConnection::accept(&site).await;
        drop(browser);
        assert_eq!(deaf.read_to_end().await, "");
        tokio::time::pause();
        connections(&proxy, 0).await;
    })
    .await;
}

/// A tunnel may be silent for as long as it likes while both ends are there.
#[tokio::test]
async fn an_idle_tunnel_stays() {
    within(async {
        let proxy = proxy().await;
        let (site, address) = listener().await;
        let mut browser = RawConnection::tunnel(&proxy, &address.to_string()).await;
        let mut far = RawConnection::accept(&site).await;
        tokio::time::pause();
        tokio::time::advance(std::time::Duration::from_secs(100)).await;
        tokio::time::resume();
        browser.send("still here\n").await;
        assert_eq!(far.read_until("\n").await, "still here\n");
    })
    .await;
}

/// Shutdown ends tunnels, running requests and the listener, and returns when they have ended.
#[tokio::test]
async fn shutdown_ends_everything() {
    within(async {
        let proxy = proxy().await;
        let (site, address) = listener().await;
        let mut tunnel = RawConnection::tunnel(&proxy, &address.to_string()).await;
        let mut tunnel_site = RawConnection::accept(&site).await;
        let mut request = RawConnection::to(proxy.address()).await;
        request.send(&format!("GET http://{address}/ HTTP/1.1\r\nHost: x\r\n\r\n")).await;
        let mut request_site = RawConnection::accept(&site).await;
        request_site.read_head().await;
        connections(&proxy, 2).await;

        let gauge = proxy.connections();
        let port = proxy.address();
        proxy.shutdown().await;
        assert_eq!(*gauge.borrow(), 0);
        for peer in [&mut tunnel, &mut tunnel_site, &mut request, &mut request_site] {
            assert_eq!(peer.read_to_end().await, "");
        }
        assert!(TcpStream::connect(port).await.is_err());
    })
    .await;
}

/// Dropping the proxy ends tunnels, requests and the listener too, in the background.
#[tokio::test]
async fn dropping_ends_everything() {
    within(async {
        let proxy = proxy().await;
        let (site, address) = listener().await;
        let mut browser = RawConnection::tunnel(&proxy, &address.to_string()).await;
        let mut far = RawConnection::accept(&site).await;
        far.0.write_all(b"x").await.unwrap();
        browser.read_until("x").await;
        let mut gauge = proxy.connections();
        drop(proxy);
        assert_eq!(browser.read_to_end().await, "");
        assert_eq!(far.read_to_end().await, "");
        // The listener task owns the gauge's sender, so the gauge closes when the task ends.
        while gauge.changed().await.is_ok() {}
    })
    .await;
}
