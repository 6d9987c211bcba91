//! The dependency graph: which crate may depend on which, and which may start processes.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// The crates of this workspace that each one may depend on. Dependencies point inward.
const ALLOWED: [(&str, &[&str]); 13] = [
    ("greenroom-core", &[]),
    ("greenroom-testkit", &[]),
    ("greenroom-files", &[]),
    ("greenroom-pictures", &[]),
    (
        "greenroom-bench",
        &["greenroom-core", "greenroom-fleet", "greenroom-gateway", "greenroom-store", "greenroom-testkit"],
    ),
    ("greenroom-mcp", &["greenroom-core"]),
    ("greenroom-cdp", &["greenroom-core"]),
    ("greenroom-fleet", &["greenroom-core"]),
    ("greenroom-egress", &["greenroom-core"]),
    ("greenroom-store", &["greenroom-core", "greenroom-files"]),
    (
        "greenroom-engine",
        &["greenroom-core", "greenroom-files", "greenroom-pictures", "greenroom-mcp", "greenroom-cdp"],
    ),
    (
        "greenroom-gateway",
        &["greenroom-core", "greenroom-files", "greenroom-pictures", "greenroom-fleet", "greenroom-mcp"],
    ),
    (
        "greenroom",
        &[
            "greenroom-core",
            "greenroom-files",
            "greenroom-mcp",
            "greenroom-cdp",
            "greenroom-fleet",
            "greenroom-egress",
            "greenroom-store",
            "greenroom-engine",
            "greenroom-gateway",
            "greenroom-store",
        ],
    ),
];

/// The only crates that start processes: the engine's launcher, the test kit, and the benchmarks.
const STARTERS: [&str; 3] = ["greenroom-engine", "greenroom-testkit", "greenroom-bench"];

fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--manifest-path"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn name(package: &Value) -> &str {
    package["name"].as_str().unwrap()
}

/// Every crate depends only on those it may know, and only tests know the test kit.
#[test]
fn dependencies_point_inward() {
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.into_iter().collect();
    for package in packages() {
        let known = allowed.get(name(&package));
        let known = known.unwrap_or_else(|| panic!("`{}` is new here: say what it may know", name(&package)));
        for dependency in package["dependencies"].as_array().unwrap() {
            let to = name(dependency);
            let kind = &dependency["kind"];
            let is_local = dependency.get("path").is_some_and(|path| !path.is_null());
            let of_tests = kind == "dev" && to == "greenroom-testkit";
            assert!(
                !is_local || of_tests || known.contains(&to),
                "`{}` must not depend on `{to}`",
                name(&package)
            );
        }
    }
}

/// Processes are started where they are supervised: no other crate even names `Command`.
#[test]
fn only_the_engine_crate_starts_processes() {
    for package in packages() {
        if STARTERS.contains(&name(&package)) {
            continue;
        }
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        for file in sources(&manifest.parent().unwrap().join("src")) {
            let text = fs::read_to_string(&file).unwrap();
            let names = ["process::Command", "CommandExt"].into_iter().find(|name| text.contains(name));
            let imports = text.lines().any(|line| line.contains("process::{") && line.contains("Command"));
            assert!(names.is_none() && !imports, "`{}` starts processes", file.display());
        }
    }
}

/// Names that two crates of the program define: what the REST API shows of a thing has the thing's name, the engine's CDP
/// proxy has CDP's error objects as the client has, and an upstream is an engine's MCP session or another proxy.
const NAMES_OF_TWO_CRATES: [&str; 5] = ["Browser", "CdpError", "Instance", "Pool", "Upstream"];

/// The name of a type that its module shares has one meaning: no crate defines it twice, and only one crate of the program
/// defines it. `testkit` and `bench` may use a name once more.
#[test]
fn names_of_types_have_one_meaning() {
    let mut defined: BTreeMap<String, Vec<(String, PathBuf)>> = BTreeMap::new();
    for package in packages() {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        for file in sources(&manifest.parent().unwrap().join("src")) {
            for type_name in shared_types(&fs::read_to_string(&file).unwrap()) {
                let crate_and_file = (name(&package).to_owned(), file.clone());
                defined.entry(type_name.to_owned()).or_default().push(crate_and_file);
            }
        }
    }
    assert!(defined.len() > 100, "the types were not found");
    for (type_name, places) in &defined {
        let mut crates: Vec<&String> = places.iter().map(|(name, _)| name).collect();
        let all = crates.len();
        crates.dedup();
        let files: Vec<_> = places.iter().map(|(_, file)| file.display()).collect();
        assert!(crates.len() == all && all <= 2, "`{type_name}` has several meanings: {files:#?}");
        crates.retain(|name| !matches!(name.as_str(), "greenroom-testkit" | "greenroom-bench"));
        let is_shared = NAMES_OF_TWO_CRATES.contains(&type_name.as_str());
        assert!(crates.len() <= 1 || is_shared, "`{type_name}` has two meanings: {files:#?}");
    }
}

/// The names of the types that a source file shares with others: `pub`, `pub(crate)`, `pub(super)` and the like.
fn shared_types(source: &str) -> impl Iterator<Item = &str> {
    source.lines().filter_map(|line| {
        let public = line.trim_start().strip_prefix("pub")?;
        let definition = match public.strip_prefix('(') {
            Some(scope) => scope.split_once(") ")?.1,
            None => public.strip_prefix(' ')?,
        };
        let (keyword, rest) = definition.split_once(' ')?;
        let is_type = matches!(keyword, "struct" | "enum" | "trait" | "type" | "union");
        let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
        // In a macro's definition a variable stands in the place of the name.
        is_type.then_some(&rest[..end]).filter(|name| !name.is_empty())
    })
}

/// All Rust files below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let below = |path: PathBuf| {
        if path.is_dir() {
            sources(&path)
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            vec![path]
        } else {
            Vec::new()
        }
    };
    entries.flat_map(below).collect()
}
