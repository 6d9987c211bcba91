//! No browser sends a datagram: UDP has no proxy, so every datagram bypasses the egress proxy.
//!
//! The tests count datagrams that arrive at a socket which the page names, and those in Chromium's own network log, which
//! also has datagrams to other addresses, such as multicast and DNS queries.

use std::{fs, net::UdpSocket, os::unix::fs::PermissionsExt, path::Path, sync::Arc};

use greenroom_core::{Engine, InstanceId};
use greenroom_testkit::Site;
use serde_json::Value;

use super::{AgentWithWorkspace, GRACE, PlaywrightFixture, data_folder, engine, text};

/// What a page can do to cause datagrams: pairs of peers with a data channel, with servers of every kind and with addresses
/// and names of peers from elsewhere; names in links; WebTransport; requests to names.
///
/// Ends when every peer has gathered its own addresses, for which it asks the servers, and everything else was refused or
/// answered. The peers go on trying to reach each other until the browser ends.
const PAGE: &str = r"async (port) => {
  const gathered = (peer) => new Promise((done) => {
    const look = () => peer.iceGatheringState === 'complete' && done();
    peer.onicegatheringstatechange = look;
    look();
  });
  const candidates = [];
  const pair = async (iceServers) => {
    const [one, two] = [new RTCPeerConnection({ iceServers }), new RTCPeerConnection({ iceServers })];
    one.createDataChannel('x');
    for (const [from, to] of [[one, two], [two, one]]) {
      from.onicecandidate = ({ candidate }) => {
        if (!candidate || !candidate.candidate) return;
        candidates.push(candidate.candidate);
        to.addIceCandidate(candidate).catch(() => {});
      };
    }
    await one.setLocalDescription(await one.createOffer());
    await two.setRemoteDescription(one.localDescription);
    await two.setLocalDescription(await two.createAnswer());
    await one.setRemoteDescription(two.localDescription);
    for (const address of ['127.0.0.1', 'peer.greenroom.test', '11111111-1111-4111-8111-111111111111.local']) {
      const candidate = `candidate:1 1 udp 2122260223 ${address} ${port} typ host generation 0`;
      await one.addIceCandidate({ candidate, sdpMid: '0', sdpMLineIndex: 0 }).catch(() => {});
    }
    await Promise.all([gathered(one), gathered(two)]);
    return one;
  };
  const login = { username: 'u', credential: 'p' };
  const peers = await Promise.all([
    pair([]),
    pair([{ urls: [`stun:127.0.0.1:${port}`, 'stun:stun.greenroom.test:3478'] }]),
    pair([{ urls: [`turn:127.0.0.1:${port}?transport=udp`, 'turn:turn.greenroom.test:3478?transport=udp'], ...login }]),
  ]);
  for (const rel of ['dns-prefetch', 'preconnect', 'prefetch']) {
    const link = document.createElement('link');
    link.rel = rel;
    link.href = `https://${rel}.greenroom.test/`;
    document.head.append(link);
  }
  try { await new WebTransport(`https://127.0.0.1:${port}/`).ready; } catch {}
  try { await new WebTransport(`https://transport.greenroom.test:${port}/`).ready; } catch {}
  await new Promise((done) => { new WebSocket('ws://socket.greenroom.test/').onerror = done; });
  await fetch('http://fetch.greenroom.test/', { mode: 'no-cors' }).catch(() => {});
  return JSON.stringify({ states: peers.map((peer) => peer.iceConnectionState), candidates });
}";

/// A script in place of the browser that makes it keep a network log. It does not contain the browser's name, or greenroom
/// would start that directly.
fn with_log(browser: &str, folder: &Path) -> std::path::PathBuf {
    let program = folder.join(browser);
    let real = folder.join("real");
    let log = folder.join("log");
    std::os::unix::fs::symlink(Path::new("/usr/lib/chromium").join(browser), real).unwrap();
    let flags = format!("--log-net-log={} --net-log-capture-mode=Everything", log.display());
    fs::write(&program, format!("#!/bin/sh\nexec \"${{0%/*}}/real\" {flags} \"$@\"\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

/// The parameters of all events of a kind in a network log, which has one event per line.
fn events(log: &str, kind: &str) -> Vec<Value> {
    let mut lines = log.lines();
    let constants = lines.next().unwrap().strip_prefix("{\"constants\":").unwrap();
    let constants: Value = serde_json::from_str(constants.trim_end_matches(',')).unwrap();
    let kind =
        constants["logEventTypes"][kind].as_i64().unwrap_or_else(|| panic!("no events are called {kind}"));
    let whole =
        lines.filter_map(|line| serde_json::from_str::<Value>(line.trim_end_matches([',', ']'])).ok());
    whole.filter(|event| event["type"] == kind).map(|event| event["params"].clone()).collect()
}

async fn assert_no_datagrams(browser: &str) {
    let site = Site::start().await;
    let data = data_folder();
    let folder = tempfile::tempdir().unwrap();
    let counter = UdpSocket::bind("127.0.0.1:0").unwrap();
    counter.set_nonblocking(true).unwrap();
    let port = counter.local_addr().unwrap().port();
    let mut engine = engine(data.path(), site.port(), &[]);
    let executable_path = Some(with_log(browser, folder.path()));
    Arc::get_mut(&mut engine.0.options).unwrap().pool.executable_path = executable_path;
    let instance = engine.start(InstanceId(0)).await.unwrap();
    let workspace = tempfile::tempdir().unwrap();
    let seat = instance.open(Arc::new(AgentWithWorkspace(workspace.path().to_owned()))).await.unwrap();
    let mut fixture = PlaywrightFixture { site, workspace, engine, instance, seat, _data: data };
    fixture.navigate("/title?t=datagrams").await;
    let page_output = text(&fixture.evaluate(&format!("() => ({PAGE})({port})")).await);
    fixture.seat.close().await;
    fixture.instance.stop(GRACE).await;

    let arrived = std::iter::from_fn(|| counter.recv(&mut [0; 2048]).ok()).count();
    assert_eq!(arrived, 0, "datagrams reached the address that the page named: {page_output}");
    assert!(
        page_output.contains(r#"\"candidates\":[]"#),
        "a page learns addresses of this machine: {page_output}"
    );
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    assert_eq!(events(&log, "UDP_BYTES_SENT"), Vec::<Value>::new(), "the browser sent datagrams");
    assert_eq!(events(&log, "DNS_TRANSACTION"), Vec::<Value>::new(), "the browser resolved names itself");
    assert_eq!(
        events(&log, "HOST_RESOLVER_MANAGER_JOB"),
        Vec::<Value>::new(),
        "the browser had names resolved"
    );
    assert!(!events(&log, "TCP_CONNECT").is_empty(), "the log is complete: {}", log.len());
}

/// No page can make the headless shell send a datagram, by WebRTC, by names or by WebTransport.
#[tokio::test]
async fn headless_shell_sends_no_datagrams() {
    assert_no_datagrams("chromium-headless-shell").await;
}

/// The same for full Chromium.
#[tokio::test]
async fn chromium_sends_no_datagrams() {
    assert_no_datagrams("chromium").await;
}
