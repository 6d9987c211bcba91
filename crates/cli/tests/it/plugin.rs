//! The plugin in `packaging/plugin`, for Claude Code and Gemini CLI: its manifests agree with the program, and its files are
//! where those programs look for them.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use serde_json::Value;

const SKILL: &str = include_str!("../../../../packaging/plugin/skills/greenroom/SKILL.md");

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn read(path: &str) -> Value {
    let text = fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Both manifests have the program's name and version, and only fields that the formats have.
#[test]
fn manifests_have_the_version_of_the_program() {
    for (path, fields) in [
        (
            "packaging/plugin/.claude-plugin/plugin.json",
            &["name", "version", "description", "author", "license", "keywords"][..],
        ),
        (
            "packaging/plugin/gemini-extension.json",
            &["name", "version", "description", "mcpServers", "contextFileName"],
        ),
    ] {
        let manifest = read(path);
        assert_eq!(manifest["name"], "greenroom", "{path}");
        assert_eq!(manifest["version"], env!("CARGO_PKG_VERSION"), "{path}");
        for field in manifest.as_object().unwrap().keys() {
            assert!(fields.contains(&field.as_str()), "{path}: `{field}`");
        }
    }
}

/// Both start the program by its name, with arguments that it accepts.
#[test]
fn manifests_start_the_mcp_server() {
    for path in ["packaging/plugin/.mcp.json", "packaging/plugin/gemini-extension.json"] {
        let servers = read(path)["mcpServers"].clone();
        assert_eq!(servers.as_object().unwrap().len(), 1, "{path}");
        let server = &servers["greenroom"];
        assert_eq!(server["command"], "greenroom", "{path}");
        let arguments: Vec<String> = serde_json::from_value(server["args"].clone()).unwrap();
        assert_eq!(arguments, ["mcp"], "{path}");
        let help = Command::new(env!("CARGO_BIN_EXE_greenroom")).args(&arguments).arg("-h").output().unwrap();
        let text = String::from_utf8_lossy(&help.stdout);
        assert!(help.status.success() && text.starts_with("Serve one agent over stdin and stdout"), "{text}");
    }
}

/// The marketplace at the root of the repository leads to the plugin; the files that the manifests mean exist.
#[test]
fn marketplace_leads_to_the_plugin() {
    let marketplace = read(".claude-plugin/marketplace.json");
    assert!(marketplace["name"].is_string() && marketplace["owner"]["name"].is_string(), "{marketplace}");
    let plugins = marketplace["plugins"].as_array().unwrap();
    assert_eq!(plugins.len(), 1);
    let plugin = root().join(plugins[0]["source"].as_str().unwrap());
    assert_eq!(read("packaging/plugin/.claude-plugin/plugin.json")["name"], plugins[0]["name"]);
    let context =
        read("packaging/plugin/gemini-extension.json")["contextFileName"].as_str().unwrap().to_owned();
    for file in [".claude-plugin/plugin.json", ".mcp.json", "skills/greenroom/SKILL.md", &context] {
        assert!(plugin.join(file).is_file(), "no `{file}`");
    }
}

/// The skill's head is YAML with a name and a description, and the name is its folder's, as both programs require; it lets Claude
/// Code run greenroom's commands without a question for each. There is one text of it in the repository, and the program has the same.
#[test]
fn skill_has_name_description_and_tools() {
    let head = SKILL.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n")).unwrap().0;
    let fields: BTreeMap<_, _> = head.lines().map(|line| line.split_once(": ").unwrap()).collect();
    for value in fields.values() {
        // Then YAML reads it as it stands, without quotes.
        let plain = value.starts_with(|letter: char| letter.is_ascii_alphabetic());
        assert!(plain && !value.contains(": ") && !value.contains(" #") && !value.ends_with(':'), "{value}");
    }
    assert_eq!(fields.keys().copied().collect::<Vec<_>>(), ["allowed-tools", "description", "name"]);
    assert_eq!(fields["allowed-tools"], "Bash(greenroom *)");
    assert_eq!(fields["name"], "greenroom");
    // The longest description that Claude Code accepts.
    assert!((1..=1024).contains(&fields["description"].len()));
    let printed = Command::new(env!("CARGO_BIN_EXE_greenroom"))
        .args(["setup", "claude", "--skill", "--print"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(printed.stdout).unwrap(), SKILL);
}
