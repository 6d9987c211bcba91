//! docs/COMPATIBILITY.md promises the SDK versions that the tests use.

use std::{fs, path::Path};

use serde_json::Value;

/// Every pinned version is in the table of docs/COMPATIBILITY.md.
#[test]
fn compatibility_page_lists_the_pinned_sdk_versions() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    let page = read("docs/COMPATIBILITY.md");
    let table: Vec<&str> = page.lines().filter(|line| line.starts_with('|')).collect();
    let promised = |sdk: &str, version: &str| {
        let row = |row: &&&str| row.contains(&format!("`{sdk}`")) && row.contains(version);
        assert!(table.iter().any(|line| row(&line)), "docs/COMPATIBILITY.md does not list `{sdk}` {version}");
    };

    let package: Value = serde_json::from_str(&read("sdk/typescript/package.json")).unwrap();
    for pin in package["dependencies"].as_object().unwrap().values() {
        let (sdk, version) = pin.as_str().and_then(|pin| pin.strip_prefix("npm:")?.rsplit_once('@')).unwrap();
        promised(sdk, version);
    }
    for file in fs::read_dir(root.join("sdk/python")).unwrap() {
        let file = file.unwrap().path();
        if file.extension().is_some_and(|extension| extension == "txt") {
            let pins = fs::read_to_string(file).unwrap();
            let version = pins.lines().find_map(|line| line.strip_prefix("mcp==")?.split_whitespace().next());
            version.into_iter().for_each(|version| promised("mcp", version));
        }
    }
    let lock = read("Cargo.lock");
    let rmcp = lock.split("name = \"rmcp\"\nversion = \"").nth(1).and_then(|rest| rest.split('"').next());
    promised("rmcp", rmcp.unwrap());
}
