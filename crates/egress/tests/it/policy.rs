//! Network policies: what each refuses and permits on the wire, whose policy holds on which port, and who learns of a
//! refusal. No connection is made: the dialer records them.

use std::{io, net::UdpSocket, sync::Arc};

use greenroom_core::{
    Owner,
    network::{AddressRange, Blocked, NetworkPolicy},
    port::{PortUser, REFUSALS_LISTED_MAX, RefusedConnection},
    settings::NetworkPreset,
};
use greenroom_testkit::{RecordingDialer, ssrf};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{
    RawConnection,
    fakes::{KnownNames, Outcome, PUBLIC, PolicyFixture, answer, outcome, refused},
    listener, within,
};

fn rules(preset: NetworkPreset, allow: &[&str], deny: &[&str]) -> NetworkPolicy {
    let parse = |rules: &[&str]| rules.iter().map(|rule| rule.parse().unwrap()).collect();
    NetworkPolicy { preset, allow: parse(allow), deny: parse(deny), only: None }
}

fn user(owner: &str, session: &str, network: Option<NetworkPolicy>) -> PortUser {
    PortUser { owner: Owner::new(owner), session: Some(session.into()), network: network.map(Arc::new) }
}

/// Every form of the corpus, sent as it is spelt, is refused with the word of its class or not understood; nothing is
/// dialled. Those that the standard reads as a host are refused in the form in which browsers send them.
#[tokio::test]
async fn corpus_is_refused_on_the_wire() {
    within(async {
        let fixture = PolicyFixture::new(NetworkPolicy::GUARDED, &[]).await;
        let mut as_spelt = 0;
        for form in ssrf::forms() {
            let outcome = fixture.outcome(&form.spelling, 81).await;
            match outcome {
                Outcome::Refused(word) if form.host.is_some() => {
                    assert_eq!(word, form.class, "{form:?}");
                    as_spelt += 1;
                }
                // A spelling that no browser sends may still mean an address to a resolver.
                Outcome::Refused(_) | Outcome::Unresolved | Outcome::NotUnderstood => {}
                Outcome::Dialled => panic!("{form:?}"),
            }
            if let Some(host) = form.host {
                assert_eq!(fixture.outcome(host, 81).await, refused(form.class), "{form:?}");
            }
        }
        assert!(as_spelt >= 150, "{as_spelt} forms were understood as they are spelt");
        assert_eq!(fixture.network.dials(), []);
    })
    .await;
}

/// Public addresses are dialled under `guarded`, also inside IPv6; an address of this machine's interfaces is not.
#[tokio::test]
async fn guarded_dials_public_addresses() {
    within(async {
        let fixture = PolicyFixture::new(NetworkPolicy::GUARDED, &[("site.test", &[PUBLIC])]).await;
        for host in ["site.test", "SITE.test.", PUBLIC, "[::ffff:93.184.216.34]", "[2600::1]"] {
            assert_eq!(fixture.outcome(host, 81).await, Outcome::Dialled, "{host}");
        }
        assert_eq!(fixture.network.dials().len(), 10, "each by a request and a tunnel");
        // Connecting a datagram socket sends nothing; it tells which address this machine would speak from.
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        if socket.connect("192.0.2.1:9").is_ok() {
            let own = socket.local_addr().unwrap().ip();
            let outcome = fixture.outcome(&own.to_string(), 81).await;
            assert!(matches!(outcome, Outcome::Refused(_)), "{own}: {outcome:?}");
        }
        assert_eq!(fixture.network.dials().len(), 10);
    })
    .await;
}

/// Rules by host, pattern, network and port permit what they name and nothing else; never metadata.
#[tokio::test]
async fn allow_rules_permit_what_they_name() {
    within(async {
        let allow = [
            "intranet.test",
            "*.corp.test:443",
            "10.1.0.0/16:8080",
            "192.168.7.7",
            "[fd12::/16]:80",
            "*:9999",
        ];
        let names: &[(&str, &[&str])] = &[
            ("intranet.test", &["10.9.9.9"]),
            ("app.corp.test", &["10.9.9.8"]),
            ("corp.test", &["10.9.9.8"]),
            ("evil.test", &["10.9.9.9"]),
            ("both.test", &["10.1.0.1", "10.9.9.9"]),
        ];
        let fixture = PolicyFixture::new(rules(NetworkPreset::Guarded, &allow, &[]), names).await;
        for (host, port, expected) in [
            ("intranet.test", 1, Outcome::Dialled),
            ("INTRANET.test.", 65535, Outcome::Dialled),
            ("app.corp.test", 443, Outcome::Dialled),
            ("app.corp.test", 80, refused("private")),
            ("corp.test", 443, refused("private")),
            ("evil.test", 443, refused("private")),
            ("10.9.9.9", 443, refused("private")),
            ("10.1.2.3", 8080, Outcome::Dialled),
            ("[::ffff:10.1.2.3]", 8080, Outcome::Dialled),
            ("10.1.2.3", 8081, refused("private")),
            ("10.2.0.0", 8080, refused("private")),
            ("both.test", 8080, refused("private")),
            ("192.168.7.7", 22, Outcome::Dialled),
            ("192.168.7.8", 22, refused("private")),
            ("[fd12::5]", 80, Outcome::Dialled),
            ("[fd12::5]", 81, refused("unique-local")),
            ("127.0.0.1", 9999, Outcome::Dialled),
            ("169.254.169.254", 9999, refused("metadata")),
            ("metadata.google.internal", 9999, refused("metadata")),
        ] {
            assert_eq!(fixture.outcome(host, port).await, expected, "{host}:{port}");
        }
    })
    .await;
}

/// Rules that deny hold under both presets and beat those that allow. A denied name is not resolved.
#[tokio::test]
async fn deny_rules_refuse_what_they_name() {
    within(async {
        for preset in [NetworkPreset::Open, NetworkPreset::Guarded] {
            let deny = ["ads.test", "*.track*.test", "93.184.216.0/24:25", "[2600::/16]:80"];
            let policy = rules(preset, &["*", "93.184.216.0/24"], &deny);
            let fixture = PolicyFixture::new(policy, &[("mail.test", &[PUBLIC])]).await;
            for (host, port, expected) in [
                ("ads.test", 80, refused("denied")),
                ("a.tracker.test", 80, refused("denied")),
                ("tracker.test", 80, Outcome::Unresolved),
                ("mail.test", 25, refused("denied")),
                ("mail.test", 26, Outcome::Dialled),
                (PUBLIC, 25, refused("denied")),
                ("[::ffff:93.184.216.34]", 25, refused("denied")),
                ("1572395042", 25, refused("denied")),
                ("[2600::1]", 80, refused("denied")),
                ("[2600::1]", 443, Outcome::Dialled),
            ] {
                assert_eq!(fixture.outcome(host, port).await, expected, "{host}:{port}");
            }
            let page = answer(fixture.proxy.address(), "GET", "http://ads.test/").await;
            assert!(page.contains("ads.test:80 is refused: the rule `ads.test` denies it"), "{page}");
        }
    })
    .await;
}

/// Two ports of one proxy have their own users and policies, which only narrow the pool's. Each knows its own refusals,
/// and the sink learns of all of them with owner and session.
#[tokio::test]
async fn ports_have_their_own_users_and_policies() {
    within(async {
        let pool = rules(NetworkPreset::Guarded, &["10.0.0.0/8"], &[]);
        let fixture = PolicyFixture::new(pool, &[]).await;
        let (open, narrow, unused) = (fixture.port(), fixture.port(), fixture.port());
        assert_ne!(open.address(), narrow.address());
        open.assign(user("ann", "a", Some(NetworkPolicy::OPEN)));
        narrow.assign(user("bob", "b", Some(rules(NetworkPreset::Open, &[], &["10.0.0.1"]))));
        for (port, host, expected) in [
            (&open, "10.0.0.1", Outcome::Dialled),
            (&open, "192.168.0.1", refused("private")),
            (&narrow, "10.0.0.1", refused("session")),
            (&narrow, "10.0.0.2", Outcome::Dialled),
            (&unused, "10.0.0.1", Outcome::Dialled),
            (&unused, "127.0.0.1", refused("loopback")),
        ] {
            assert_eq!(outcome(port.address(), host, 81).await, expected, "{host}");
        }

        let private = Blocked::Range(AddressRange::Private);
        let denied = Blocked::Session(Box::new(Blocked::Denied("10.0.0.1".into())));
        assert_eq!(open.refusal_of("192.168.0.1", 81), Some(private.clone()));
        assert_eq!(open.refusal_of("192.168.0.1", 82), None);
        assert_eq!(open.refusal_of("10.0.0.1", 81), None);
        assert_eq!(narrow.refusal_of("10.0.0.1", 81), Some(denied.clone()));
        let refusal = |host: &str, reason: &Blocked| RefusedConnection {
            host: host.to_owned(),
            port: 81,
            reason: reason.clone(),
        };
        let taken = open.take_refusals();
        assert_eq!((taken.count, taken.listed), (2, vec![refusal("192.168.0.1", &private)]));
        assert!(open.take_refusals().is_empty());
        assert_eq!(open.refusal_of("192.168.0.1", 81), Some(private.clone()), "taking keeps the reason");
        assert_eq!(narrow.take_refusals().listed, [refusal("10.0.0.1", &denied)]);

        let told: Vec<_> = fixture
            .refusals
            .all()
            .into_iter()
            .map(|(user, refusal)| {
                let user = user.map(|user| (user.owner.to_string(), user.session.unwrap().to_string()));
                (user, refusal.host)
            })
            .collect();
        let ann = (Some(("ann".to_owned(), "a".to_owned())), "192.168.0.1".to_owned());
        let bob = (Some(("bob".to_owned(), "b".to_owned())), "10.0.0.1".to_owned());
        let unassigned = (None, "127.0.0.1".to_owned());
        assert_eq!(fixture.refusals.reports(), 6, "every refusal is reported, also a repeated one");
        assert_eq!(
            told,
            [ann, bob, unassigned],
            "each port reports a target once, although it refused it twice"
        );
    })
    .await;
}

/// A new user's policy holds from the next request on, on a kept connection too, and the earlier user's refusals are
/// forgotten.
#[tokio::test]
async fn new_user_starts_afresh() {
    within(async {
        let fixture = PolicyFixture::new(NetworkPolicy::OPEN, &[]).await;
        let port = fixture.port();
        port.assign(user("ann", "a", Some(NetworkPolicy::GUARDED)));
        let mut browser = RawConnection::to(port.address()).await;
        let request = "GET http://10.0.0.1/ HTTP/1.1\r\nHost: x\r\n\r\n";
        browser.send(request).await;
        assert!(browser.read_head().await.starts_with("HTTP/1.1 403 "));
        browser.read_until("\n").await;
        port.assign(user("bob", "b", None));
        assert!(port.take_refusals().is_empty());
        assert_eq!(port.refusal_of("10.0.0.1", 80), None);
        browser.send(request).await;
        assert!(browser.read_head().await.starts_with("HTTP/1.1 502 "));
    })
    .await;
}

/// A page that is refused without end costs no memory: refusals are counted, and few are listed.
#[tokio::test]
async fn refusals_are_bounded() {
    within(async {
        let fixture = PolicyFixture::new(NetworkPolicy::GUARDED, &[]).await;
        let port = fixture.port();
        for last in 0..100 {
            let page = answer(port.address(), "GET", &format!("http://10.0.0.{last}/")).await;
            assert!(page.starts_with("HTTP/1.1 403 "), "{page}");
        }
        let taken = port.take_refusals();
        assert_eq!((taken.count, taken.listed.len()), (100, REFUSALS_LISTED_MAX));
        assert_eq!(taken.listed[0].host, "10.0.0.0", "the first are listed");
        // The reasons of the latest ones stay, for pages that ask for them.
        assert!(port.refusal_of("10.0.0.99", 80).is_some());
        assert_eq!(port.refusal_of("10.0.0.0", 80), None);
    })
    .await;
}

/// The reason of a refusal is found however the browser spells the host the next time.
#[tokio::test]
async fn reason_is_found_by_any_spelling_of_a_name() {
    within(async {
        let fixture = PolicyFixture::new(NetworkPolicy::GUARDED, &[("intranet.test", &["10.0.0.1"])]).await;
        let port = fixture.port();
        assert_eq!(outcome(port.address(), "Intranet.test.", 443).await, refused("private"));
        assert_eq!(outcome(port.address(), "[fd00::1]", 443).await, refused("unique-local"));
        assert_eq!(port.refusal_of("intranet.TEST", 443), Some(Blocked::Range(AddressRange::Private)));
        assert_eq!(port.refusal_of("fd00::1", 443), Some(Blocked::Range(AddressRange::UniqueLocal)));
        assert_eq!(port.refusal_of("[fd00::1]", 443), Some(Blocked::Range(AddressRange::UniqueLocal)));
    })
    .await;
}

/// A dropped port closes its listener, its connections and its tunnels; other ports go on.
#[tokio::test]
async fn dropped_port_closes_its_connections() {
    within(async {
        let (site, address) = listener().await;
        let public = format!("{PUBLIC}:443").parse().unwrap();
        let network = RecordingDialer::new().with_site(public, address);
        let names = Arc::new(KnownNames::default());
        let fixture = PolicyFixture::with(NetworkPolicy::GUARDED, names, network).await;
        let (dropped, kept) = (fixture.port(), fixture.port());
        let mut tunnels = Vec::new();
        for port in [&dropped, &kept] {
            let mut browser = RawConnection::to(port.address()).await;
            browser.send(&format!("CONNECT {public} HTTP/1.1\r\n\r\n")).await;
            assert!(browser.read_head().await.starts_with("HTTP/1.1 200 "));
            tunnels.push((browser, RawConnection::accept(&site).await));
        }
        let mut idle = RawConnection::to(dropped.address()).await;
        let gone = dropped.address();
        drop(dropped);
        let [(ended, ended_site), (going_on, going_on_site)] = &mut tunnels[..] else { panic!() };
        assert_eq!(ended.read_to_end().await, "");
        assert_eq!(ended_site.read_to_end().await, "");
        assert_eq!(idle.read_to_end().await, "");
        let refused = tokio::net::TcpStream::connect(gone).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        going_on.send("hello\n").await;
        assert_eq!(going_on_site.read_until("\n").await, "hello\n");
    })
    .await;
}

/// A proxy that has ended opens no port, and its ports have ended with it.
#[tokio::test]
async fn ended_proxy_opens_no_port() {
    within(async {
        let fixture = PolicyFixture::new(NetworkPolicy::OPEN, &[]).await;
        let ports = fixture.proxy.ports();
        let port = ports.open_port().unwrap();
        let mut idle = RawConnection::to(port.address()).await;
        fixture.proxy.shutdown().await;
        assert_eq!(idle.read_to_end().await, "");
        let Err(error) = ports.open_port() else { panic!("a port of an ended proxy") };
        assert_eq!(error.to_string(), "the egress proxy has ended");
    })
    .await;
}

/// A process without free descriptors opens no port and says why; the ports that are open go on.
#[tokio::test]
async fn exhausted_ports_are_told() {
    within(async {
        let fixture = PolicyFixture::new(NetworkPolicy::GUARDED, &[]).await;
        let ports = fixture.proxy.ports();
        let port = fixture.port();
        let mut browser = RawConnection::to(port.address()).await;
        browser.send("GET http://10.0.0.1/ HTTP/1.1\r\nHost: x\r\n\r\n").await;
        browser.read_until("only\n").await;
        let limit = getrlimit(Resource::Nofile);
        let used = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
        setrlimit(Resource::Nofile, Rlimit { current: Some(used + 16), ..limit }).unwrap();
        let mut opened = Vec::new();
        let error = loop {
            match ports.open_port() {
                Ok(port) => opened.push(port),
                Err(error) => break error,
            }
            assert!(opened.len() <= 32, "the limit is not respected");
        };
        assert!(error.to_string().starts_with("Too many open files"), "{error}");
        // A verdict needs a descriptor too. Without one an address may be this machine's, and is refused.
        browser.send("GET http://93.184.216.34/ HTTP/1.1\r\nHost: x\r\n\r\n").await;
        let head = browser.read_head().await;
        assert!(head.contains("x-greenroom-refused: this-machine"), "{head}");
        setrlimit(Resource::Nofile, limit).unwrap();
        assert_eq!(outcome(port.address(), "10.0.0.1", 81).await, refused("private"));
        assert_eq!(outcome(port.address(), PUBLIC, 81).await, Outcome::Dialled);
        drop(opened);
        assert!(ports.open_port().is_ok());
    })
    .await;
}
