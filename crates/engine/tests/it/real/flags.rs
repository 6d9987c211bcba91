//! Compares the command line of a Chromium that greenroom starts with that of the Chromium which the pinned playwright
//! engine would start itself. All differences are listed here, with their reasons.

use std::{collections::BTreeSet, fs, path::Path};

use super::{PlaywrightFixture, text};

/// The engine's code, below its folder in the data folder.
const BUNDLE: &str = "node_modules/playwright-core/lib/coreBundle.js";

/// Flags of the engine that greenroom does not use, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    (
        "--disable-ipc-flooding-protection",
        "a page that changes its address in a loop would keep every other session of the browser waiting",
    ),
    ("--disable-edgeupdater", "Edge on macOS only"),
    ("--disable-updater-scheduler", "Edge on macOS only"),
    ("--edge-skip-compat-layer-relaunch", "Edge on Windows only"),
    (
        "--unsafely-disable-devtools-self-xss-warnings",
        "a browser without windows has no console to type into",
    ),
    (
        "--headless",
        "the headless shell has no other mode; whole browsers get `--headless=new`, which is the same",
    ),
    ("--no-sandbox", "only where the sandbox cannot work, or settings say so"),
    ("--disable-features=AutoDeElevate", "Windows only"),
    ("--disable-features=msForceBrowserSignIn", "Edge only"),
    ("--disable-features=msEdgeUpdateLaunchServicesPreferredVersion", "Edge on macOS only"),
];

/// Flags of greenroom that the engine does not use, and why.
const ADDED: &[(&str, &str)] = &[
    ("--crash-dumps-dir=", "nothing is written into the user's home"),
    ("--disable-crash-reporter", "nothing is sent to its vendor"),
    ("--disable-domain-reliability", "nothing is sent to its vendor"),
    (
        "--disable-gpu-process-crash-limit",
        "a page that crashes the GPU process ends no other session's browser",
    ),
    ("--disable-quic", "UDP bypasses the proxy"),
    ("--enable-logging=stderr", "consoles of pages are kept out of the log"),
    ("--log-level=2", "consoles of pages are kept out of the log"),
    ("--webrtc-ip-handling-policy=disable_non_proxied_udp", "UDP bypasses the proxy"),
    ("--force-webrtc-ip-handling-policy=disable_non_proxied_udp", "UDP bypasses the proxy"),
    ("--host-resolver-rules=", "names are resolved by the proxy alone"),
    ("--proxy-server=", "every connection goes through the proxy"),
    ("--proxy-bypass-list=<-loopback>", "every connection goes through the proxy"),
    ("--blink-settings=selectionClipboardBufferAvailable=false", "sessions share no clipboard"),
    ("--disable-features=AutofillServerCommunication", "nothing is sent to its vendor"),
    ("--disable-features=WebRtcHideLocalIpsWithMdns", "WebRTC would speak multicast on the local network"),
    (
        "--enable-features=StorageQuotaSettings:PoolSizeBytes/1073741824",
        "pages could store as much as most of the disk",
    ),
    ("--no-sandbox", "the tests may run as root"),
];

/// Flags whose values are lists; every entry counts by itself.
const LISTS: [&str; 3] = ["--disable-features=", "--enable-features=", "--blink-settings="];

/// Flags whose values depend on this machine.
const VALUES: [&str; 4] =
    ["--crash-dumps-dir=", "--user-data-dir=", "--proxy-server=", "--host-resolver-rules="];

/// A command line as a set: lists split, values of this machine left out.
fn flags<'a>(arguments: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for argument in arguments.filter(|argument| argument.starts_with("--")) {
        if let Some(value) = VALUES.iter().find(|value| argument.starts_with(**value)) {
            found.insert((*value).to_owned());
        } else if let Some(list) = LISTS.iter().find(|list| argument.starts_with(**list)) {
            found.extend(argument[list.len()..].split(',').map(|entry| format!("{list}{entry}")));
        } else {
            found.insert(argument.to_owned());
        }
    }
    found
}

/// The texts in quotes in a part of a JavaScript file, without those of its comments.
fn quoted(code: &str) -> Vec<&str> {
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| line.split(['"', '`']).skip(1).step_by(2)).collect()
}

fn part<'a>(code: &'a str, from: &str, to: &str) -> &'a str {
    let code = &code[code.find(from).unwrap_or_else(|| panic!("not in the engine: {from}"))..];
    &code[..code.find(to).unwrap_or_else(|| panic!("not in the engine: {to}"))]
}

/// The flags of a headless Chromium with isolated contexts that the engine would start.
fn engine_flags(engine: &Path) -> BTreeSet<String> {
    let code = fs::read_to_string(engine.join(BUNDLE)).unwrap();
    let features = quoted(part(&code, "disabledFeatures = [", "].filter")).join(",");
    let features = format!("--disable-features={features}");
    let switches = quoted(part(&code, "chromiumSwitches = (options) => [", "].filter"));
    let arguments = quoted(part(&code, "[...chromiumSwitches()]", "const proxy ="));
    let own = quoted(part(&code, "if (!browser.launchOptions.args.some", "return { ...browser"));
    let launched = quoted(part(
        &code,
        "async defaultArgs(options, isPersistent, userDataDir)",
        "return chromeArguments",
    ));
    let all = [switches, arguments, own, launched].concat();
    let of_values = ["--disable-features=", "--disable-blink-features", "--user-data-dir=${userDataDir}"];
    let all = all.into_iter().filter(|flag| !of_values.contains(flag));
    flags(all.chain([&*features, "--user-data-dir="]))
}

/// Pages see what they would see in the browser that the engine would start itself: no automation, a mouse. The command
/// lines of both differ only as listed in this file.
pub async fn flags_differ_from_the_engines_only_as_listed(fixture: &mut PlaywrightFixture) {
    let pid = fixture.instance.process_ids().pop().unwrap();
    let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
    let greenroom_flags = flags(line.split('\0'));
    let folder = fixture.engine.options.settings.data_dir.join("engines/playwright");
    let version = fs::read_dir(folder).unwrap().next().unwrap().unwrap();
    let playwright_flags = engine_flags(&version.path());

    let names =
        |list: &[(&str, &str)]| list.iter().map(|(flag, _)| (*flag).to_owned()).collect::<BTreeSet<_>>();
    let left_out = names(LEFT_OUT);
    let added = names(ADDED);
    let missing: Vec<_> =
        playwright_flags.difference(&greenroom_flags).filter(|flag| !left_out.contains(*flag)).collect();
    let unknown: Vec<_> =
        greenroom_flags.difference(&playwright_flags).filter(|flag| !added.contains(*flag)).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "missing: {missing:#?}\nunknown: {unknown:#?}");
    let is_greenroom_flag = |flag: &&String| *flag != "--no-sandbox" && greenroom_flags.contains(*flag);
    let stale = left_out.iter().filter(|flag| !playwright_flags.contains(*flag) || is_greenroom_flag(flag));
    let stale: Vec<_> = stale
        .chain(added.iter().filter(|flag| *flag != "--no-sandbox" && !greenroom_flags.contains(*flag)))
        .collect();
    assert!(stale.is_empty(), "these differ no more: {stale:#?}");

    fixture.navigate("/title?t=seen").await;
    let seen = fixture
        .evaluate(
            "() => [navigator.webdriver, ...['hover: hover', 'any-hover: hover', 'pointer: fine', 'any-pointer: fine', \
             'pointer: coarse'].map(query => matchMedia(`(${query})`).matches), !!open('about:blank')].join()",
        )
        .await;
    assert!(text(&seen).contains("\"false,true,true,true,true,false,true\""), "{}", text(&seen));
}
