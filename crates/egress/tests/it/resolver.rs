//! Name servers that are hostile, slow or wrong. The name server is a real one, on loopback; connections are recorded and
//! not made.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use greenroom_core::{BoxFuture, network::NetworkPolicy};
use greenroom_egress::Resolve;
use greenroom_testkit::{
    DnsAnswer, DnsServer, RecordingDialer,
    dns_server::{lookup, rotating},
};

use crate::{
    RawConnection,
    fakes::{Outcome, PUBLIC, PolicyFixture, answer, refused},
    within,
};

/// Asks the test's name server, and keeps no answer.
struct AskedServer(SocketAddr);

impl Resolve for AskedServer {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(lookup(self.0, name))
    }
}

fn addresses(addresses: &[&str]) -> Vec<IpAddr> {
    addresses.iter().map(|address| address.parse().unwrap()).collect()
}

/// A guarded proxy that asks this name server.
async fn guarded(server: &DnsServer) -> PolicyFixture {
    let resolver = Arc::new(AskedServer(server.address()));
    PolicyFixture::with(NetworkPolicy::GUARDED, resolver, RecordingDialer::new()).await
}

/// A name that is public when it is judged and loopback the next moment is dialled at the judged address, after one lookup;
/// the next request is judged anew, and refused.
#[tokio::test]
async fn rebinding_changes_nothing() {
    within(async {
        for (method, target) in [("GET", "http://rebind.test:81/"), ("CONNECT", "rebind.test:81")] {
            let lists = vec![addresses(&[PUBLIC]), addresses(&["127.0.0.1"])];
            let server = DnsServer::start(rotating(lists)).await;
            let fixture = guarded(&server).await;
            let first = answer(fixture.proxy.address(), method, target).await;
            assert!(first.contains("recorded and not made"), "{first}");
            assert_eq!(server.lookups("rebind.test"), 1, "one lookup for judging and dialling");
            let second = answer(fixture.proxy.address(), method, target).await;
            assert!(second.contains("x-greenroom-refused: loopback"), "{second}");
            assert_eq!(server.lookups("rebind.test"), 2, "a time to live of zero is respected");
            assert_eq!(fixture.network.dials(), [format!("{PUBLIC}:81").parse().unwrap()]);
        }
    })
    .await;
}

/// On a connection that the browser keeps, each request is resolved and judged anew.
#[tokio::test]
async fn kept_connection_is_judged_anew() {
    within(async {
        let lists = vec![addresses(&[PUBLIC]), addresses(&["10.0.0.1"]), addresses(&["::1"])];
        let server = DnsServer::start(rotating(lists)).await;
        let fixture = guarded(&server).await;
        let mut browser = RawConnection::to(fixture.proxy.address()).await;
        for status in ["502", "403", "403"] {
            browser.send("GET http://rebind.test/ HTTP/1.1\r\nHost: x\r\n\r\n").await;
            let head = browser.read_head().await;
            assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
            browser.read_until("\n").await;
        }
        assert_eq!(fixture.network.dials().len(), 1);
    })
    .await;
}

/// One address that is not public among many refuses the whole name, wherever it is in the list.
#[tokio::test]
async fn one_blocked_address_refuses_the_name() {
    within(async {
        for (list, word) in [
            (&[PUBLIC, "127.0.0.1"][..], "loopback"),
            (&["10.0.0.1", PUBLIC], "private"),
            (&[PUBLIC, "::1"], "loopback"),
            (&[PUBLIC, "2600::1", "169.254.169.254"], "metadata"),
            (&["0.0.0.0"], "unspecified"),
            (&["::ffff:127.0.0.1"], "loopback"),
        ] {
            let list = addresses(list);
            let server = DnsServer::start(move |_| DnsAnswer::Addresses(list.clone(), 60)).await;
            let fixture = guarded(&server).await;
            assert_eq!(fixture.outcome("mixed.test", 81).await, refused(word));
            assert_eq!(fixture.network.dials(), []);
        }
    })
    .await;
}

/// Of a hundred addresses only judged ones are dialled, and few of them: a blocked address that is not judged is not
/// dialled either.
#[tokio::test]
async fn of_many_addresses_only_judged_ones_are_dialled() {
    within(async {
        let mut list: Vec<IpAddr> = (1..=100).map(|last| Ipv4Addr::new(93, 184, 216, last).into()).collect();
        let first = list[0];
        let all = list.clone();
        let server = DnsServer::start(move |_| DnsAnswer::Addresses(all.clone(), 60)).await;
        let fixture = guarded(&server).await;
        assert_eq!(fixture.outcome("many.test", 81).await, Outcome::Dialled);
        let dials = fixture.network.dials();
        assert_eq!(dials[0].ip(), first);
        assert_eq!(dials.len(), 2 * 6, "six addresses for the request, six for the tunnel");

        for position in [0, 1, 50, 63, 99] {
            list[position] = "127.0.0.1".parse().unwrap();
            let all = list.clone();
            let server = DnsServer::start(move |_| DnsAnswer::Addresses(all.clone(), 60)).await;
            let fixture = guarded(&server).await;
            fixture.outcome("many.test", 81).await;
            let dials = fixture.network.dials();
            assert!(dials.iter().all(|dial| !dial.ip().is_loopback()), "{dials:?}");
            assert!(position >= 64 || dials.is_empty(), "the address at {position} is judged: {dials:?}");
            list[position] = first;
        }
    })
    .await;
}

/// An answer as long as a datagram can be is judged like a short one.
#[tokio::test]
async fn longest_answer_is_judged() {
    within(async {
        let server = DnsServer::start(|_| {
            let all = (0..4_000_u32).map(|n| IpAddr::V4(Ipv4Addr::from_bits(0x5db8_0000 + n)));
            DnsAnswer::Addresses(all.collect(), 0)
        })
        .await;
        let fixture = guarded(&server).await;
        assert_eq!(fixture.outcome("huge.test", 81).await, Outcome::Dialled);
        assert_eq!(fixture.network.dials().len(), 2 * 6);
    })
    .await;
}

/// A name server that answers nonsense, or that there is no such name, leads to no connection.
#[tokio::test]
async fn lying_name_server_leads_nowhere() {
    within(async {
        for garbage in [vec![], vec![0], vec![0xff; 4], vec![0; 9], vec![0xff; 500]] {
            let server = DnsServer::start(move |_| DnsAnswer::Garbage(garbage.clone())).await;
            let fixture = guarded(&server).await;
            assert_eq!(fixture.outcome("garbage.test", 81).await, Outcome::Unresolved);
            assert_eq!(fixture.network.dials(), []);
        }
        for answer in [DnsAnswer::NoSuchName, DnsAnswer::Garbage(vec![])] {
            let server = DnsServer::start(move |_| answer.clone()).await;
            let fixture = guarded(&server).await;
            assert_eq!(fixture.outcome("none.test", 81).await, Outcome::Unresolved);
        }
    })
    .await;
}

/// A name without an address is an error that says so, and no connection.
#[tokio::test]
async fn name_without_an_address_is_told() {
    within(async {
        let server = DnsServer::start(|_| DnsAnswer::Addresses(vec![], 0)).await;
        let fixture = guarded(&server).await;
        let page = answer(fixture.proxy.address(), "GET", "http://empty.test/").await;
        assert!(page.starts_with("HTTP/1.1 502 ") && page.contains("the name has no address"), "{page}");
        assert_eq!(fixture.network.dials(), []);
    })
    .await;
}

/// The proxy gives up a name server that is silent, and one that answers for other names only.
#[tokio::test]
async fn slow_name_server_is_given_up() {
    for silent in [DnsAnswer::Silence, DnsAnswer::OfOtherName(addresses(&[PUBLIC]))] {
        within(async {
            let server = DnsServer::start(move |_| silent.clone()).await;
            let fixture = guarded(&server).await;
            let mut browser = RawConnection::to(fixture.proxy.address()).await;
            browser.send("CONNECT slow.test:443 HTTP/1.1\r\nConnection: close\r\n\r\n").await;
            server.wait_for_question("slow.test").await;
            tokio::time::pause();
            let page = browser.read_to_end().await;
            tokio::time::resume();
            assert!(page.starts_with("HTTP/1.1 502 "), "{page}");
            assert!(page.contains("the resolver did not answer within 10 s"), "{page}");
            assert_eq!(fixture.network.dials(), []);
        })
        .await;
    }
}

/// Lookups that take long on one port do not hold up another port.
#[tokio::test]
async fn slow_names_of_one_port_do_not_hold_up_another() {
    within(async {
        let server = DnsServer::start(|question| {
            if question.name.starts_with("slow") {
                DnsAnswer::Silence
            } else {
                DnsAnswer::Addresses(addresses(&["10.0.0.1"]), 0)
            }
        })
        .await;
        let fixture = guarded(&server).await;
        let (busy, other) = (fixture.port(), fixture.port());
        let mut waiting = Vec::new();
        for n in 0..40 {
            let mut browser = RawConnection::to(busy.address()).await;
            browser.send(&format!("CONNECT slow{n}.test:443 HTTP/1.1\r\n\r\n")).await;
            waiting.push(browser);
        }
        server.wait_for_question("slow0.test").await;
        let page = answer(other.address(), "GET", "http://quick.test/").await;
        assert!(page.contains("x-greenroom-refused: private"), "{page}");
        let asked = server.questions().iter().filter(|asked| asked.name.starts_with("slow")).count();
        assert!(asked <= 16, "one port asks for 16 names at once, not {asked}");
    })
    .await;
}
