//! `greenroom setup`, with scripts in the place of Node, npm and the browser.

use greenroom_engine::install;
use insta::assert_snapshot;

use crate::cli_fixture::CliFixture;

/// An npm that installs the package list, as far as greenroom checks.
pub const NPM: &str = r#"
    [ "$1" = --version ] && echo 11.0.0 && exit
    version=$(sed -n 's/.*"chrome-devtools-mcp":"\([^"]*\)".*/\1/p' package.json)
    if [ -n "$version" ]; then
        module=node_modules/chrome-devtools-mcp
        mkdir -p $module/build/src/bin $module/build/src/third_party
        echo "{\"version\": \"$version\"}" > $module/package.json
        echo "// engine" > $module/build/src/bin/chrome-devtools-mcp.js
        echo "// libraries" > $module/build/src/third_party/index.js
        exit
    fi
    version=$(sed -n 's/.*"@playwright.mcp":"\([^"]*\)".*/\1/p' package.json)
    mkdir -p node_modules/@playwright/mcp node_modules/playwright-core
    echo "{\"version\": \"$version\"}" > node_modules/@playwright/mcp/package.json
    echo "// engine" > node_modules/@playwright/mcp/cli.js
    echo "{}" > node_modules/playwright-core/package.json
"#;

/// A Node that speaks just enough of the protocol to list one tool, whatever it runs.
const NODE: &str = r#"
    [ "$1" = --version ] && echo v22.1.0 && exit
    while read -r line; do
        case "$line" in
        *'"initialize"'*) echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}' ;;
        *'"tools/list"'*) echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"browser_navigate"}]}}' ;;
        esac
    done
"#;

/// A machine with everything that setup needs.
pub fn machine() -> CliFixture {
    CliFixture::new()
        .program("home/bin/node", NODE)
        .program("home/bin/npm", NPM)
        .program("home/bin/chromium", "echo Chromium 156.0.8078.79")
        .env("PATH", "/usr/bin:/bin")
        .env("GREENROOM_NODE", "../home/bin/node")
        .env("GREENROOM_POOL_EXECUTABLE_PATH", "../home/bin/chromium")
}

/// Runs with the engine's pinned version left out, so that a new one changes no snapshot.
pub fn run(fixture: &CliFixture, arguments: &[&str]) -> String {
    let versions = [&install::PLAYWRIGHT, &install::DEVTOOLS].map(|package| package.version());
    versions.iter().fold(fixture.run(arguments), |output, version| output.replace(version, "[VERSION]"))
}

/// The first run installs the engine, the second has nothing to do.
#[test]
fn setup_installs_the_engine_once() {
    let machine = machine();
    assert_snapshot!("first", run(&machine, &["setup"]));
    assert_snapshot!("second", run(&machine, &["setup"]));
}

/// Both engines are installed where both are configured, by pools or by browsers, and no engine needlessly.
#[test]
fn setup_installs_every_configured_engine() {
    let new_node = NODE.replace("v22.1.0", "v22.12.0");
    let machine = machine().program("home/bin/node", &new_node);
    let attached = ["setup", "--browserUrl", "http://127.0.0.1:9222", "--engine", "devtools"];
    let output = run(&machine, &attached);
    assert!(output.contains("\nengine   devtools [VERSION], installed: "), "{output}");
    assert!(!output.contains("playwright") && !output.contains("\nbrowser "), "{output}");
    let text = "pools.A = { instances = 1, is_default = true }\nbrowsers = [{ url = 'http://a:1', engine = 'devtools' }]";
    let machine = machine.file("home/own.toml", text);
    assert_snapshot!("two_engines", run(&machine, &["setup", "--config", "../home/own.toml"]));
    assert_snapshot!("two_engines_json", run(&machine, &["setup", "--json", "--config", "../home/own.toml"]));
}

/// The error for a Node that is too old for one of the engines names what that engine needs.
#[test]
fn node_too_old_for_one_engine_is_named() {
    assert_snapshot!(run(&machine(), &["setup", "--engine", "devtools"]));
}

/// For programs: what is installed, and whether it was already.
#[test]
fn setup_json_lists_what_is_installed() {
    assert_snapshot!(run(&machine(), &["setup", "--json"]));
}

/// One run names everything that is missing, each with its fix, and the exit code is a failure.
#[test]
fn setup_names_everything_missing() {
    let machine =
        machine().env("GREENROOM_NODE", "nodejs-99").env("GREENROOM_POOL_EXECUTABLE_PATH", "/nowhere");
    assert_snapshot!("missing", run(&machine, &["setup"]));
    assert_snapshot!("missing_json", run(&machine, &["setup", "--json"]));
}

/// The error for an npm that cannot reach its registry quotes npm, with a hint.
#[test]
fn offline_setup_error_quotes_npm() {
    let offline = r#"echo '{"error": {"summary": "request failed, reason: no such host"}}'; exit 1"#;
    assert_snapshot!(run(&machine().program("home/bin/npm", offline), &["setup"]));
}

/// With an engine of the user's own nothing is installed, and neither Node nor a browser is needed; only its tools are
/// listed.
#[test]
fn custom_engine_setup_installs_nothing() {
    let fixture = CliFixture::new().program("home/bin/my-server", NODE).env("PATH", "/usr/bin:/bin");
    let custom = ["setup", "--pool-engine", "custom", "--pool-command"];
    assert_snapshot!("custom", run(&fixture, &[&custom[..], &["../home/bin/my-server"]].concat()));
    assert_snapshot!("custom_missing", run(&fixture, &[&custom[..], &["no-such-server"]].concat()));
}
