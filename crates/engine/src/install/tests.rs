use super::*;

/// An engine's folder in a fresh data folder, as npm leaves it, but of the version given.
fn engine(version: &str) -> (tempfile::TempDir, PathBuf) {
    let data = tempfile::tempdir().unwrap();
    let folder = target(data.path());
    fs::create_dir_all(folder.join(ENGINE)).unwrap();
    fs::create_dir_all(folder.join(CORE).parent().unwrap()).unwrap();
    fs::write(folder.join(ENGINE).join("package.json"), format!(r#"{{"version": "{version}"}}"#)).unwrap();
    fs::write(folder.join(ENGINE).join("cli.js"), "// engine").unwrap();
    fs::write(folder.join(CORE), "{}").unwrap();
    (data, folder)
}

/// The version that is looked for is the one the lock file and the package list agree on.
#[test]
fn the_version_is_the_pinned_one() {
    let package: serde_json::Value = serde_json::from_str(PACKAGE).unwrap();
    assert_eq!(package["dependencies"]["@playwright/mcp"], version());
    assert!(!version().is_empty());
}

/// A whole engine of the pinned version is found, with what Node is to run.
#[test]
fn a_whole_engine_is_found() {
    let (data, folder) = engine(version());
    let located = locate(data.path()).unwrap();
    assert_eq!(located, Located { cli: folder.join(ENGINE).join("cli.js"), version: version().to_owned() });
}

/// Without an engine the error names the folder and the command that mends it.
#[test]
fn a_missing_engine_is_named() {
    let error = locate(Path::new("/nowhere")).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("the playwright engine is not installed: `/nowhere/engines/playwright/{}`", version())
    );
    let error = StartError::from(error);
    assert_eq!(error.hint.as_deref(), Some("run `greenroom setup`"));
}

/// An engine of another version is refused, both versions named.
#[test]
fn another_version_is_refused() {
    let (data, path) = engine("0.0.1");
    let wanted = version().to_owned();
    assert_eq!(locate(data.path()), Err(NotInstalled::WrongVersion { found: "0.0.1".into(), wanted, path }));
}

/// Each missing piece of an engine makes it damaged, and says which.
#[test]
fn a_damaged_engine_says_what_is_missing() {
    let check = |harm: &dyn Fn(&Path), expected: &str| {
        let (data, folder) = engine(version());
        harm(&folder);
        match locate(data.path()) {
            Err(NotInstalled::Damaged { why, .. }) => assert_eq!(why, expected),
            other => panic!("{other:?}"),
        }
    };
    check(
        &|folder| fs::remove_file(folder.join(ENGINE).join("package.json")).unwrap(),
        "it has no package.json",
    );
    check(
        &|folder| fs::write(folder.join(ENGINE).join("package.json"), "{").unwrap(),
        "its package.json names no version",
    );
    check(&|folder| fs::write(folder.join(ENGINE).join("cli.js"), "").unwrap(), "it has no cli.js");
    check(&|folder| fs::remove_file(folder.join(CORE)).unwrap(), "it has no playwright-core");
}
