//! `greenroom keys` from outside: what it prints, and what it refuses.

use serde_json::Value;

use crate::cli_fixture::CliFixture;

fn json(shown: &str) -> Value {
    let start = shown.find("----- stdout -----\n").unwrap() + 19;
    let end = shown.find("----- stderr -----").unwrap();
    serde_json::from_str(&shown[start..end]).unwrap_or_else(|error| panic!("{error}: {shown}"))
}

/// A key is printed once, alone on stdout; the file and the list do not have it.
#[test]
fn keys_are_printed_once() {
    let fixture = CliFixture::new();
    let shown = fixture.run(&["keys", "create", "ci"]);
    let key = shown.lines().nth(2).unwrap().to_owned();
    assert!(shown.starts_with("exit code: 0") && key.starts_with("grm_") && key.len() == 53, "{shown}");
    assert!(shown.contains("this is the first API key"), "{shown}");
    assert!(shown.contains("`ci` (browse,watch,control) is printed once"), "{shown}");
    let listed = fixture.run(&["keys", "list"]);
    assert!(listed.contains("ci") && listed.contains("valid") && !listed.contains(&key), "{listed}");
    let file = fixture.read("home/.local/share/greenroom/keys.json").unwrap();
    assert!(file.contains("\"ci\"") && !file.contains(&key[4..20]), "{file}");
}

/// The JSON of each command has every field of a key.
#[test]
fn keys_are_described_as_json() {
    let fixture = CliFixture::new().env("GREENROOM_API_KEYS", "box:0123456789abcdef");
    let arguments = [
        "keys",
        "create",
        "ops",
        "--scope",
        "admin,watch",
        "--expires",
        "2999-01-31",
        "--sessions",
        "7",
        "--json",
    ];
    let made = json(&fixture.run(&arguments));
    assert_eq!(made["name"], "ops");
    assert_eq!(made["scopes"], serde_json::json!(["watch", "admin"]));
    assert_eq!(made["expires"], "2999-01-31T00:00:00Z");
    assert_eq!((made["sessions"].as_u64(), made["state"].as_str()), (Some(7), Some("valid")));
    assert!(made["key"].as_str().unwrap().starts_with("grm_"));
    let rotated = json(&fixture.run(&["keys", "rotate", "ops", "--grace", "1h", "--json"]));
    assert_ne!(rotated["key"], made["key"]);
    assert!(rotated["oldSecretUntil"].is_string() && rotated["rotated"].is_string());
    let revoked = json(&fixture.run(&["keys", "revoke", "ops", "--json"]));
    assert_eq!((revoked["state"].as_str(), revoked.get("key")), (Some("revoked"), None));
    let list = json(&fixture.run(&["keys", "list", "--json"]));
    assert_eq!((list[0]["name"].as_str(), list[0]["source"].as_str()), (Some("ops"), Some("data folder")));
    assert_eq!((list[1]["name"].as_str(), list[1]["source"].as_str()), (Some("box"), Some("configuration")));
    let again = fixture.run(&["keys", "rotate", "ops"]);
    assert!(again.contains("`ops` was revoked; it is valid again"), "{again}");
}

/// Wrong names, scopes and times are refused with what is right, and a name is given once.
#[test]
fn wrong_keys_are_refused() {
    let fixture = CliFixture::new();
    fixture.run(&["keys", "create", "ci"]);
    for (arguments, code, says) in [
        (&["create", "ci"][..], 1, "there is a key with this name: `ci` (valid)"),
        (&["create", "local"], 2, "no key can be named `local`"),
        (&["create", "https://issuer#sub"], 2, "the name of a key has letters, digits"),
        (&["create", "a", "--scope", "root"], 2, "no such scope: `root`"),
        (&["create", "a", "--expires", "yesterday"], 2, "give a time from now such as"),
        (&["create", "a", "--expires", "2001-01-01"], 2, "that time has passed"),
        (&["create", "a", "--sessions", "0"], 2, "0 is not in 1.."),
        (&["revoke", "nobody"], 1, "no such key: `nobody`"),
        (&["rotate", "nobody"], 1, "no such key: `nobody`"),
        (&["rotate", "ci", "--grace", "0s"], 2, "give a duration such as"),
    ] {
        let arguments: Vec<_> = ["keys"].iter().chain(arguments).copied().collect();
        let shown = fixture.run(&arguments);
        assert!(shown.starts_with(&format!("exit code: {code}\n")), "{arguments:?}: {shown}");
        assert!(shown.contains(says), "{arguments:?}: {shown}");
    }
}

/// Keys of the environment are never shown: not in the configuration, not in a problem with them.
#[test]
fn configured_keys_are_masked() {
    let fixture = CliFixture::new().env("GREENROOM_API_KEYS", "ci:0123456789abcdef");
    for arguments in [&["config", "show"][..], &["config", "show", "--json"], &["keys", "list"]] {
        let shown = fixture.run(arguments);
        assert!(shown.starts_with("exit code: 0") && !shown.contains("0123456789abcdef"), "{shown}");
    }
    assert!(fixture.run(&["config", "show"]).contains("ci[browse+watch+control]:***"));
    for wrong in ["0123456789abcdef", "ci:0123456789abcde", "local:0123456789abcdef"] {
        let shown = CliFixture::new().env("GREENROOM_API_KEYS", wrong).run(&["config", "show"]);
        assert!(shown.starts_with("exit code: 2") && !shown.contains("0123456789"), "{shown}");
    }
    let flag = CliFixture::new().run(&["serve", "--server-api-keys", "ci:0123456789abcdef"]);
    assert!(flag.starts_with("exit code: 2") && flag.contains("unexpected argument"), "{flag}");
}
