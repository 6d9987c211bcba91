use std::{fs, path::Path};

use super::*;
use crate::node::Node;

/// An engine's folder in a fresh data folder, as npm leaves it, but of the given version.
fn engine(package: &Package, version: &str) -> (tempfile::TempDir, PathBuf) {
    let data = tempfile::tempdir().unwrap();
    let folder = package.target(data.path());
    let manifest = format!(r#"{{"version": "{version}"}}"#);
    let code = folder.join("node_modules").join(package.code.1);
    for (path, text) in
        [(code, "{}"), (manifest_of(package, &folder), &manifest), (cli_of(package, &folder), "//")]
    {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    (data, folder)
}

fn manifest_of(package: &Package, folder: &Path) -> PathBuf {
    folder.join("node_modules").join(package.module).join("package.json")
}

fn cli_of(package: &Package, folder: &Path) -> PathBuf {
    folder.join("node_modules").join(package.module).join(package.cli)
}

const PACKAGES: [&Package; 2] = [&PLAYWRIGHT, &DEVTOOLS];

/// The version is the one on which the lock file and the package list agree, and no lock file names a download address.
#[test]
fn version_is_the_pinned_one() {
    for package in PACKAGES {
        let manifest: serde_json::Value = serde_json::from_str(package.manifest).unwrap();
        assert_eq!(manifest["dependencies"][package.module], package.version());
        assert!(!package.version().is_empty());
        assert!(!package.lock.contains("resolved"), "{}", package.name);
    }
}

/// A complete engine of the pinned version is found, with the file that Node runs.
#[test]
fn complete_engine_is_found() {
    for package in PACKAGES {
        let (data, folder) = engine(package, package.version());
        let cli = cli_of(package, &folder);
        let version = package.version().to_owned();
        assert_eq!(package.locate(data.path()).unwrap(), LocatedEngine { cli, version });
    }
}

/// Without an engine the error names the engine, the folder and the command that installs it.
#[test]
fn missing_engine_error_names_it() {
    for package in PACKAGES {
        let name = package.name;
        let version = package.version();
        let error = package.locate(Path::new("/nowhere")).unwrap_err();
        let expected = format!("the {name} engine is not installed: `/nowhere/engines/{name}/{version}`");
        assert_eq!(error.to_string(), expected);
        let error = StartError::from(error);
        let command = match name {
            "playwright" => "run `greenroom setup`".to_owned(),
            other => format!("run `greenroom setup --engine {other}`"),
        };
        assert_eq!(error.hint, Some(command));
    }
}

/// Each engine names the Node versions on which it runs, and the unsuitable one that was found.
#[test]
fn each_engine_names_its_node_versions() {
    let node = |version: &str| Node { path: "/bin/node".into(), version: version.to_owned() };
    for fine in ["20.19.0", "20.20.2", "22.12.1", "23.0.0", "24.1.0"] {
        assert!(PACKAGES.iter().all(|package| package.runs_on(&node(fine)).is_ok()), "{fine}");
    }
    for old in ["20.18.3", "21.7.0", "22.11.9", "22"] {
        assert!(PLAYWRIGHT.runs_on(&node(old)).is_ok(), "{old}");
        let error = DEVTOOLS.runs_on(&node(old)).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("the devtools engine needs Node 20.19, 22.12 or newer, this is {old}: `/bin/node`")
        );
    }
}

/// An engine of another version is refused, and the error names both versions.
#[test]
fn other_version_is_refused() {
    for package in PACKAGES {
        let (data, path) = engine(package, "0.0.1");
        let engine = package.name;
        let wanted = package.version().to_owned();
        assert_eq!(
            package.locate(data.path()),
            Err(NotInstalled::WrongVersion { engine, found: "0.0.1".into(), wanted, path })
        );
    }
}

/// Each missing part makes an engine damaged, and the error names the part.
#[test]
fn damaged_engine_error_names_the_missing_part() {
    let check = |package: &Package, damage: &dyn Fn(&Path), expected: &str| {
        let (data, folder) = engine(package, package.version());
        damage(&folder);
        match package.locate(data.path()) {
            Err(NotInstalled::Damaged { why, .. }) => assert_eq!(why, expected),
            other => panic!("{other:?}"),
        }
    };
    for (package, cli, code) in [
        (&PLAYWRIGHT, "it has no cli.js", "it has no playwright-core"),
        (&DEVTOOLS, "it has no chrome-devtools-mcp.js", "it has no libraries"),
    ] {
        let manifest = |folder: &Path| manifest_of(package, folder);
        check(package, &|folder| fs::remove_file(manifest(folder)).unwrap(), "it has no package.json");
        check(
            package,
            &|folder| fs::write(manifest(folder), "{").unwrap(),
            "its package.json names no version",
        );
        check(package, &|folder| fs::write(cli_of(package, folder), "").unwrap(), cli);
        let remove =
            |folder: &Path| fs::remove_file(folder.join("node_modules").join(package.code.1)).unwrap();
        check(package, &remove, code);
    }
}
