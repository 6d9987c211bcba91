//! Tests of values that do not go together, in declared pools and in the built-in one.

use super::{
    pools_tests::{A, problems_with_pool_a, with},
    resolve,
    resolve::tests::problems,
};

/// Values that do not go together are reported once, for the pool or for the instance that set them, with where each
/// came from.
#[test]
fn conflicts_are_reported_once_with_their_origins() {
    assert_eq!(
        problems_with_pool_a(&[("PW_MCP_PROXY__A_SLOTS", "4")]),
        [
            "pool `A`: `SLOTS` is `4` (from `PW_MCP_PROXY__A_SLOTS`), but `ISOLATED` is `false` (the default) -> set `SLOTS` to 1, \
          or `ISOLATED` to `true`: several sessions in one profile would share their cookies"
        ]
    );
    assert_eq!(
        problems_with_pool_a(&[
            ("PW_MCP_PROXY_ISOLATED", "true"),
            ("PW_MCP_PROXY__A_SLOTS", "4"),
            ("PW_MCP_PROXY__A__1_BROWSER", "webkit")
        ]),
        [
            "pool `A`, instance 1: `SLOTS` is `4` (from `PW_MCP_PROXY__A_SLOTS`), but `BROWSER` is `webkit` (from \
          `PW_MCP_PROXY__A__1_BROWSER`) -> set `SLOTS` to 1, and use more instances: the engine starts this browser for one session only"
        ]
    );
    for (variables, keys) in [
        (vec![("SLOTS", "2"), ("ISOLATED", "true"), ("EXTENSION", "true")], ("SLOTS", "EXTENSION")),
        (vec![("SLOTS", "2"), ("ISOLATED", "true"), ("WSL_WINDOWS", "true")], ("SLOTS", "WSL_WINDOWS")),
        (vec![("SLOTS", "2"), ("ISOLATED", "true"), ("BROWSER", "firefox")], ("SLOTS", "BROWSER")),
        (vec![("STORAGE_STATE", "/x")], ("STORAGE_STATE", "ISOLATED")),
        (vec![("USER_DATA_DIR", "/x"), ("ISOLATED", "true")], ("USER_DATA_DIR", "ISOLATED")),
        (vec![("DEVICE", "iPhone 15")], ("DEVICE", "ISOLATED")),
        (vec![("LOCALE", "de")], ("LOCALE", "ISOLATED")),
        (vec![("TIMEZONE", "UTC")], ("TIMEZONE", "ISOLATED")),
        (vec![("PERMISSIONS", "camera")], ("PERMISSIONS", "ISOLATED")),
        (
            vec![("BYPASS_CSP", "true"), ("ISOLATED", "true"), ("EXTENSION", "true")],
            ("BYPASS_CSP", "ISOLATED"),
        ),
        (
            vec![("DEVICE_SCALE_FACTOR", "2"), ("DEVICE", "iPhone 15"), ("ISOLATED", "true")],
            ("DEVICE_SCALE_FACTOR", "DEVICE"),
        ),
        (
            vec![("VIEWPORT_SIZE", "7680x4320"), ("DEVICE_SCALE_FACTOR", "2"), ("ISOLATED", "true")],
            ("VIEWPORT_SIZE", "DEVICE_SCALE_FACTOR"),
        ),
        (vec![("BROWSER_ARGS", "--lang=de"), ("BROWSER", "firefox")], ("BROWSER_ARGS", "BROWSER")),
        (vec![("SECRETS_FILE", "/x"), ("WSL_WINDOWS", "true")], ("SECRETS_FILE", "WSL_WINDOWS")),
        (vec![("ENGINE", "devtools"), ("SNAPSHOT_BOXES", "true")], ("SNAPSHOT_BOXES", "ENGINE")),
        (vec![("EXECUTABLE_PATH", "/x"), ("WSL_WINDOWS", "true")], ("EXECUTABLE_PATH", "WSL_WINDOWS")),
        (vec![("EXTENSION", "true"), ("BROWSER", "webkit")], ("EXTENSION", "BROWSER")),
        (vec![("ENGINE", "custom")], ("ENGINE", "COMMAND")),
        (vec![("COMMAND", "server")], ("COMMAND", "ENGINE")),
        (vec![("URL", "http://h:1/mcp")], ("URL", "ENGINE")),
        (vec![("ENGINE", "custom"), ("COMMAND", "x"), ("URL", "http://h:1/mcp")], ("COMMAND", "URL")),
        (vec![("ENGINE", "devtools"), ("BROWSER", "firefox")], ("ENGINE", "BROWSER")),
        (vec![("ENGINE", "devtools"), ("EXTENSION", "true")], ("ENGINE", "EXTENSION")),
        (vec![("ENGINE", "devtools"), ("WSL_WINDOWS", "true")], ("ENGINE", "WSL_WINDOWS")),
        (vec![("ENGINE", "devtools"), ("CAPS", "pdf")], ("CAPS", "ENGINE")),
        (vec![("ENGINE", "devtools"), ("TIMEOUT_SETTLE", "0")], ("TIMEOUT_SETTLE", "ENGINE")),
        (vec![("ENGINE", "devtools"), ("SAVE_SESSION", "true")], ("SAVE_SESSION", "ENGINE")),
    ] {
        let names: Vec<_> =
            variables.iter().map(|(key, value)| (format!("PW_MCP_PROXY__A_{key}"), *value)).collect();
        let found = problems_with_pool_a(
            &names.iter().map(|(name, value)| (name.as_str(), *value)).collect::<Vec<_>>(),
        );
        assert_eq!(found.len(), 1, "{found:?}");
        let (one, other) = keys;
        assert!(found[0].starts_with(&format!("pool `A`: `{one}` is ")), "{found:?}");
        assert!(found[0].contains(&format!("), but `{other}` is ")), "{found:?}");
    }
    let found =
        problems_with_pool_a(&[("PW_MCP_PROXY__A_SLOTS", "2"), ("PW_MCP_PROXY__A_USER_DATA_DIR", "/x")]);
    assert!(found.len() == 2 && found[1].contains("but `USER_DATA_DIR` is set (from"), "{found:?}");
    let fine = [("PW_MCP_PROXY__A_DEVICE", "iPhone 15"), ("PW_MCP_PROXY__A_BROWSER", "webkit")];
    assert!(resolve(&with(&[&A[..], &fine].concat())).is_ok(), "the engine makes its own browser the device");
    for fine in [
        vec![("PW_MCP_PROXY__A_ENGINE", "custom"), ("PW_MCP_PROXY__A_URL", "http://h:1/mcp")],
        vec![
            ("PW_MCP_PROXY__A_ENGINE", "devtools"),
            ("PW_MCP_PROXY__A_VIEWPORT_SIZE", "800x600"),
            ("PW_MCP_PROXY__A_BLOCKED_ORIGINS", "a.example"),
            ("PW_MCP_PROXY__A_USER_AGENT", "x"),
            ("PW_MCP_PROXY__A_IGNORE_HTTPS_ERRORS", "true"),
            ("PW_MCP_PROXY__A_SLOTS", "4"),
            ("PW_MCP_PROXY__A_ISOLATED", "true"),
            ("GREENROOM_TOOLS_UNSAFE", "true"),
        ],
    ] {
        assert!(resolve(&with(&[&A[..], &fine].concat())).is_ok(), "{fine:?}");
    }
}

/// The built-in pool obeys the same rules, and none of them once pools are declared: then its own keys are a mistake.
#[test]
fn built_in_pool_obeys_the_conflict_rules() {
    assert_eq!(
        problems(&with(&[("PW_MCP_PROXY_BROWSER", "firefox")])),
        [
            "`pool.slots` is `16` (the default), but `pool.browser` is `firefox` (from PW_MCP_PROXY_BROWSER) -> set `pool.slots` to 1, \
          and use more instances: the engine starts this browser for one session only"
        ]
    );
    assert!(resolve(&with(&[&A[..], &[("PW_MCP_PROXY_BROWSER", "firefox")]].concat())).is_ok());
    let found =
        problems_with_pool_a(&[("PW_MCP_PROXY_INSTANCES_MAX", "2"), ("GREENROOM_POOL_INSTANCE_IDLE", "1m")]);
    assert_eq!(found.len(), 2);
    assert!(found[0].starts_with(
        "`pool.instances_max` (from PW_MCP_PROXY_INSTANCES_MAX) is for the built-in pool, but pools are declared: `A` -> leave"
    ), "{found:?}");
}

/// Unsafe tools need one slot in every pool.
#[test]
fn unsafe_tools_need_single_slots() {
    let tools = ("GREENROOM_TOOLS_UNSAFE", "true");
    assert!(resolve(&with(&[&A[..], &[tools]].concat())).is_ok());
    let found = problems_with_pool_a(&[
        tools,
        ("PW_MCP_PROXY__A__2_SLOTS", "2"),
        ("PW_MCP_PROXY__A_ISOLATED", "true"),
    ]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with(
        "pool `A`, instance 2: `tools.unsafe` (from GREENROOM_TOOLS_UNSAFE) requires `SLOTS` to be 1, but it is 2 (from `PW_MCP_PROXY__A__2_SLOTS`)"
    ), "{found:?}");
}
