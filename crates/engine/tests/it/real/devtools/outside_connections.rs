//! The engine reports nothing to others: it connects to its browser's debugger and to nothing else, starts no program, and
//! leaves nothing in the user's home.

use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::json;

use super::{super::text, DevtoolsFixture};

/// Logs what a Node process connects to, looks up and starts.
const SPY: &str = r#"
const fs = require("node:fs"), net = require("node:net"), dns = require("node:dns"), children = require("node:child_process");
const note = (what) => fs.appendFileSync(process.env.SPY_LOG, JSON.stringify(what) + "\n");
const connect = net.Socket.prototype.connect;
net.Socket.prototype.connect = function (...args) {
  const options = net._normalizeArgs(Array.isArray(args[0]) ? args[0] : args)[0];
  note({ connect: `${options.host ?? options.path}:${options.port}` });
  return connect.apply(this, args);
};
const lookup = dns.lookup;
dns.lookup = function (name, ...rest) { note({ lookup: name }); return lookup.call(this, name, ...rest); };
for (const name of ["spawn", "spawnSync", "exec", "execSync", "execFile", "execFileSync", "fork"]) {
  const start = children[name];
  children[name] = function (...args) { note({ start: String(args[0]) }); return start.apply(this, args); };
}
note({ began: process.argv.slice(2) });
"#;

/// Through navigation, a page with source maps, scripts, traces and audits, the engine connects to its browser alone. The
/// browser goes through the proxy, which is the site here: no other server got a request either.
#[tokio::test]
async fn engine_connects_to_its_browser_only() {
    let spy_folder = tempfile::tempdir().unwrap();
    let spy = spy_folder.path().join("spy.cjs");
    let node = spy_folder.path().join("node");
    let log = spy_folder.path().join("log");
    let home = spy_folder.path().join("home");
    fs::write(&spy, SPY).unwrap();
    fs::create_dir(&home).unwrap();
    let script = format!(
        "#!/bin/sh\nexport SPY_LOG={} HOME={}\nexec node --require {} \"$@\"\n",
        log.display(),
        home.display(),
        spy.display()
    );
    fs::write(&node, script).unwrap();
    fs::set_permissions(&node, fs::Permissions::from_mode(0o755)).unwrap();

    let fixture = DevtoolsFixture::with(|options| options.settings_mut().node = Some(node)).await;
    let mut seat = fixture.open_seat().await;
    seat.navigate(&fixture.site.url("/title?t=quiet")).await;
    // The engine would load the source maps that a page names, by itself if the page cannot.
    let map = fixture.site.url("/map-of-the-source");
    let code = format!("console.error(new Error('x'));\n//# sourceMappingURL={map}");
    seat.evaluate(&format!(
        "() => new Promise(done => {{ const s = document.createElement('script'); s.onload = done; \
             s.src = URL.createObjectURL(new Blob([{}])); document.head.append(s); }}).then(() => 1)",
        json!(code)
    ))
    .await;
    let messages =
        seat.call("list_console_messages", json!({ "pageId": 1, "includeStackTraces": true })).await;
    assert!(text(&messages).contains("[error]"), "{}", text(&messages));
    seat.call("performance_start_trace", json!({ "pageId": 1, "reload": true, "autoStop": true })).await;
    seat.call("lighthouse_audit", json!({ "pageId": 1, "mode": "snapshot" })).await;
    seat.seat.close().await;
    fixture.instance.stop(super::GRACE).await;

    let noted = fs::read_to_string(&log).unwrap();
    let debugger: std::collections::BTreeSet<_> =
        noted.lines().filter(|line| !line.contains("\"began\"")).collect();
    let [only] = debugger.into_iter().collect::<Vec<_>>()[..] else { panic!("{noted}") };
    assert!(
        only.starts_with("{\"connect\":\"127.0.0.1:") || only.starts_with("{\"connect\":\"localhost:"),
        "{noted}"
    );
    assert!(noted.contains("--no-usage-statistics"), "the spy was loaded: {noted}");
    assert_eq!(fixture.site.hits("/map-of-the-source"), 0);
    let own = format!("127.0.0.1:{}", fixture.site.port());
    let others = fixture.site.requests().into_iter().filter(|seen| seen.host.as_deref() != Some(&*own));
    assert_eq!(others.collect::<Vec<_>>(), [], "the proxy got a request for another server");
    assert_eq!(fs::read_dir(&home).unwrap().count(), 0, "nothing is left in a user's home");
}
