//! `greenroom doctor`, with scripts in the place of Node, npm and the browser.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    thread,
};

use insta::{assert_snapshot, with_settings};
use tokio_tungstenite::tungstenite;

use crate::{
    cli_fixture::CliFixture,
    setup::{machine, run},
};

/// The free space differs from machine to machine.
#[track_caller]
fn check(name: &str, fixture: &CliFixture, arguments: &[&str]) {
    let output = run(fixture, arguments);
    let filters = [
        (r"\d+ [MG]B free", "[SIZE] free"),
        (r"(127\.0\.0\.1:|port=)\d{4,5}", "${1}[PORT]"),
        // The machine of the tests may have cgroups or not.
        (
            r"held by greenroom(, which watches its browsers \(.*?\)| and by a cgroup of each browser)",
            "held by [MEANS]",
        ),
        // Printed for root only.
        (r"warning: browsers run without their sandbox: .*\n", ""),
    ];
    with_settings!({filters => filters}, { assert_snapshot!(name, output) });
}

/// A machine whose sandbox row does not depend on the user that runs the tests.
fn machine_fixture() -> CliFixture {
    machine().env("GREENROOM_POOL_NO_SANDBOX", "true")
}

/// After a setup nothing has failed; minor findings are warnings.
#[test]
fn doctor_after_setup_has_no_failures() {
    let machine_fixture = machine_fixture();
    machine_fixture.run(&["setup"]);
    check("healthy", &machine_fixture, &["doctor", "--no-browse"]);
    check("healthy_json", &machine_fixture, &["doctor", "--json", "--no-browse"]);
}

/// Before a setup the missing parts fail, each with its fix, and the exit code is a failure.
#[test]
fn doctor_before_setup_lists_missing_parts() {
    let machine_fixture = machine_fixture()
        .env("GREENROOM_NODE", "nodejs-99")
        .env("GREENROOM_POOL_EXECUTABLE_PATH", "/nowhere");
    check("new", &machine_fixture, &["doctor"]);
}

/// A data folder that others can read is a warning with the command that closes it, and a leftover is mentioned.
#[test]
fn readable_data_folder_is_a_warning() {
    let machine_fixture = machine_fixture().file("cwd/data/run/4194304-1-0/lock", "").mode("cwd/data", 0o755);
    check("open_data_folder", &machine_fixture, &["doctor", "--data-dir", "data"]);
}

/// The doctor reports a screen that `DISPLAY` names and that does not exist once, with a hint: it repeats neither the
/// browser's own lines nor a line of the log.
#[test]
fn missing_display_is_reported_once() {
    let browser = r#"case "$*" in *--version*) echo Chromium 156.0.8078.79; exit;; esac
echo "[7:7:1117/160359.355393:ERROR:ui/ozone/platform/x11/ozone_platform_x11.cc:257] Missing X server or \$DISPLAY" >&2
echo "[7:7:1117/160359.355425:ERROR:ui/aura/env.cc:253] The platform failed to initialize.  Exiting." >&2
exit 1"#;
    let machine_fixture = machine_fixture().program("home/bin/chromium", browser).env("DISPLAY", ":99");
    machine_fixture.run(&["setup"]);
    check("missing_display", &machine_fixture, &["doctor", "--pool-headless=false"]);
}

/// Browsers with a window on a machine without a screen are a failure.
#[test]
fn windows_without_a_display_fail() {
    let machine_fixture = machine_fixture();
    machine_fixture.run(&["setup"]);
    check("windows_without_a_display", &machine_fixture, &["doctor", "--pool-headless=false"]);
}

/// The finding for an old Node has its version.
#[test]
fn old_node_finding_has_its_version() {
    let machine_fixture = machine_fixture().program("home/bin/node", "echo v18.20.0");
    check("old_node", &machine_fixture, &["doctor", "--no-browse"]);
}

/// A browser below the oldest supported version is a warning, with what does not work and how to upgrade; so is one that
/// does not print its version. A supported one that lacks something is fine, and the finding says what it lacks.
#[test]
fn old_browser_is_a_warning() {
    for (version_output, row) in [
        (
            "echo Chromium 148.0.7778.1",
            "warning  browser-age  Chromium 148.0.7778.1 is older than 150, the oldest that is supported: it lacks security \
             fixes, and `lighthouse_audit` of the devtools engine and `screencast_start` of the devtools engine do not work: \
             `[CWD]/../home/bin/chromium`\n                      fix: upgrade it (on Debian: `apt-get update && apt-get install chromium \
             chromium-headless-shell`), or set `pool.executable_path` to the path of a newer one\n",
        ),
        (
            "echo Chromium 150.0.7871.100",
            "ok       browser-age  150.0.7871.100 (too old for `screencast_start` of the devtools engine); 150 or newer is \
             supported\n",
        ),
        ("echo hello", "warning  browser-age  cannot find out the version: it printed `hello`: "),
    ] {
        let machine_fixture = machine_fixture().program("home/bin/chromium", version_output);
        let output = run(&machine_fixture, &["doctor", "--no-browse"]);
        assert!(output.contains(row), "{row}\n{output}");
    }
}

/// Each configured engine has a finding, and where all browsers are attached, checks of started browsers are skipped.
#[test]
fn each_configured_engine_has_a_finding() {
    let machine_fixture = machine_fixture().program("home/bin/node", "echo v22.12.0").file(
        "home/own.toml",
        "[pools.A]\ninstances = 1\nis_default = true\n[pools.B]\ninstances = 1\nengine = 'devtools'\n\
         [pools.C]\ninstances = 1\nengine = 'custom'\nurl = 'http://127.0.0.1:1/mcp?key=hunter2'",
    );
    machine_fixture.run(&["setup", "--config", "../home/own.toml"]);
    check("two_engines", &machine_fixture, &["doctor", "--no-browse", "--config", "../home/own.toml"]);
    check(
        "one_engine_is_missing",
        &machine_fixture,
        &["doctor", "--no-browse", "--data-dir", "new", "--engine", "devtools"],
    );
}

/// Attached browsers are contacted, and each unreachable one has its own line and its own fix; no other browser is looked
/// for, and none is started.
#[test]
fn attached_browsers_are_contacted() {
    // A port that was free a moment ago, so no program listens there.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let machine_fixture = machine_fixture().file(
        "home/own.toml",
        &format!(
            "[[browsers]]\nurl = 'http://{address}'\nlabel = 'work'\nstart_command = ['touch', 'started']\n\
             [[browsers]]\nurl = 'ws://{address}/devtools/browser/x?key=hunter2'"
        ),
    );
    machine_fixture.run(&["setup", "--config", "../home/own.toml"]);
    check("attached_browsers", &machine_fixture, &["doctor", "--config", "../home/own.toml"]);
    assert!(machine_fixture.read("cwd/started").is_none());
}

/// A debugger that gives its address and accepts connections, for as long as the test runs.
fn debugger() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut start = [0; 17];
            let is_version_request =
                stream.peek(&mut start).is_ok_and(|read| start[..read] == *b"GET /json/version");
            if is_version_request {
                let body = format!(r#"{{"webSocketDebuggerUrl": "ws://{address}/devtools/browser/x"}}"#);
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
                let _ = (&stream).read(&mut [0; 4096]);
                let _ = (&stream).write_all(format!("{head}{body}").as_bytes());
            } else if let Ok(mut socket) = tungstenite::accept(stream) {
                while socket.read().is_ok() {}
            }
        }
    });
    address
}

/// A reachable browser is reported as such.
#[test]
fn reachable_browser_is_reported() {
    let url = format!("http://{}", debugger());
    let output = run(&machine_fixture(), &["doctor", "--no-browse", "--browserUrl", &url]);
    let line = format!("ok       browsers     reached: browser 1 ({url})\n");
    assert!(output.contains(&line), "{output}");
    let output = run(
        &machine_fixture(),
        &["doctor", "--no-browse", "--wsEndpoint", &format!("work=ws{}/x", &url[4..])],
    );
    assert!(output.contains("ok       browsers     reached: browser 1 (work)\n"), "{output}");
}

/// With an engine of the user's own, checks of greenroom's engines are skipped.
#[test]
fn custom_engine_skips_engine_checks() {
    let machine_fixture = CliFixture::new().env("GREENROOM_POOL_NO_SANDBOX", "true");
    check(
        "custom",
        &machine_fixture,
        &["doctor", "--pool-engine", "custom", "--pool-command", "my-server --x"],
    );
}
