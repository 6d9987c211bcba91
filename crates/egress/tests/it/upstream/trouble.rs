//! An upstream that fails: what browsers see, and that no browser waits for it without end.

use std::io::ErrorKind;

use super::{asked, chained};
use crate::{RawConnection, ask, connections, refuse::trap, within};

/// A refused tunnel is answered with the upstream's status and a sentence. A 407 never reaches the browser as one, since
/// the browser has no credentials to give.
#[tokio::test]
async fn refusals_are_told() {
    within(async {
        let (proxy, upstream) = chained("ann:secret@").await;
        let challenge = "Proxy-Authenticate: Basic realm=\"corp\"\r\nContent-Length: 5\r\n\r\nlogin";
        for (says, status, told) in [
            ("403 Forbidden\r\nContent-Length: 2\r\n\r\nno", "403", "refuses 192.0.2.1:443: 403 Forbidden"),
            ("502 Bad\r\n\r\n", "502", "refuses 192.0.2.1:443: 502 Bad Gateway"),
            ("302 Found\r\nLocation: http://192.0.2.9/\r\n\r\n", "502", "refuses 192.0.2.1:443: 302 Found"),
            (&format!("407 Who\r\n{challenge}"), "502", "rejects the credentials (407)"),
        ] {
            let says = format!("HTTP/1.1 {says}");
            let answer = asked(&proxy, &upstream, "CONNECT", "192.0.2.1:443", &says).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
            assert!(answer.contains(&format!("greenroom: the upstream proxy {told}")), "{answer}");
            let lower = answer.to_ascii_lowercase();
            for hidden in ["proxy-authenticate", "x-greenroom-refused", "location", "secret"] {
                assert!(!lower.contains(hidden), "{answer}");
            }
        }
        let says = format!("HTTP/1.1 407 Who\r\n{challenge}");
        let answer = asked(&proxy, &upstream, "GET", "http://192.0.2.1/", &says).await;
        assert!(
            answer.starts_with("HTTP/1.1 502 ") && answer.contains("rejects the credentials"),
            "{answer}"
        );
        // Other answers to a plain request look like a site's, and are passed on as those.
        let says = "HTTP/1.1 403 No\r\nContent-Length: 7\r\n\r\nblocked";
        let answer = asked(&proxy, &upstream, "GET", "http://192.0.2.1/", says).await;
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.ends_with("blocked"), "{answer}");
    })
    .await;
}

/// An upstream that is dead, that hangs up or that speaks no HTTP is a 502 that says so, and the site is not
/// tried directly.
#[tokio::test]
async fn a_dead_upstream_is_told() {
    within(async {
        let (site, port) = trap();
        let (proxy, upstream) = chained("").await;
        let tunnel = format!("127.0.0.1:{port}");
        let plain = format!("http://127.0.0.1:{port}/");
        for says in ["", "SSH-2.0-nonsense\r\n\r\n"] {
            for (method, target) in [("CONNECT", &tunnel), ("GET", &plain)] {
                let answer = asked(&proxy, &upstream, method, target, says).await;
                assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
                assert!(answer.contains("the upstream proxy gave no usable answer: "), "{answer}");
            }
        }
        drop(upstream);
        for (method, target) in [("CONNECT", &tunnel), ("GET", &plain)] {
            let answer = ask(&proxy, method, target).await;
            assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
            assert!(answer.contains("the upstream proxy cannot be reached: "), "{answer}");
        }
        assert_eq!(site.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    })
    .await;
}

/// The proxy gives up an upstream that accepts a tunnel's request and then stays silent.
#[tokio::test]
async fn a_silent_upstream_is_given_up() {
    within(async {
        let (proxy, upstream) = chained("").await;
        let mut browser = RawConnection::to(proxy.address()).await;
        browser.send("CONNECT 192.0.2.1:443 HTTP/1.1\r\nConnection: close\r\n\r\n").await;
        let mut silent = RawConnection::accept(&upstream).await;
        silent.read_head().await;
        tokio::time::pause();
        let answer = browser.read_to_end().await;
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
        assert!(answer.contains("the upstream proxy did not answer within 40 s"), "{answer}");
        assert_eq!(silent.read_to_end().await, "");
    })
    .await;
}

/// When a browser disconnects, its connection to the upstream ends too, before the upstream's answer and after.
#[tokio::test]
async fn a_browser_that_leaves_is_forgotten() {
    within(async {
        let (proxy, upstream) = chained("").await;
        for answer in ["", "HTTP/1.1 200 OK\r\n\r\n"] {
            let mut browser = RawConnection::to(proxy.address()).await;
            browser.send("CONNECT 192.0.2.1:443 HTTP/1.1\r\n\r\n").await;
            let mut site = RawConnection::accept(&upstream).await;
            site.read_head().await;
            site.send(answer).await;
            if !answer.is_empty() {
                browser.read_head().await;
            }
            drop(browser);
            assert_eq!(site.read_to_end().await, "");
            drop(site);
            connections(&proxy, 0).await;
        }
    })
    .await;
}
