//! Generated pages match the code, and configurations in the guides are valid.

use std::{fs, path::Path};

use greenroom_core::settings::{ConfigFile, Sources, reference, resolve};

/// docs/CONFIG.md matches the table of settings; `UPDATE_DOCS=1` writes it again.
#[test]
fn config_reference_is_current() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/CONFIG.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::create_dir_all(page.parent().unwrap()).unwrap();
        fs::write(&page, reference()).unwrap();
    }
    let committed = fs::read_to_string(&page).unwrap_or_default();
    assert!(
        committed == reference(),
        "docs/CONFIG.md is not what the table of settings says; run `UPDATE_DOCS=1 cargo test -p greenroom --test it docs` \
         and commit the page"
    );
}

/// docs/openapi.json matches the handlers; `UPDATE_DOCS=1` writes it again.
#[test]
fn openapi_description_is_current() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let document_text = serde_json::to_string_pretty(&greenroom_gateway::rest::document()).unwrap() + "\n";
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&page, &document_text).unwrap();
    }
    assert!(
        fs::read_to_string(&page).unwrap_or_default() == document_text,
        "docs/openapi.json is not what the handlers say; run `UPDATE_DOCS=1 cargo test -p greenroom --test it docs` and \
         commit it"
    );
}

/// Every configuration file in a page is valid as it stands.
#[test]
fn configurations_in_docs_are_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pages = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = pages.filter(|page| page.extension().is_some_and(|extension| extension == "md"));
    let mut shown = 0;
    for page in pages.chain([root.join("README.md")]) {
        let text = fs::read_to_string(&page).unwrap();
        let blocks = text.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
        // Blocks with `[mcp_servers.…]` are a client's configuration.
        for toml in blocks.filter(|toml| !toml.contains("[mcp_servers.")) {
            let file = ConfigFile { path: "/c/greenroom.toml".into(), text: toml.to_owned(), trusted: true };
            let sources = Sources { data_dir: Some("/d".into()), files: vec![file], ..Sources::default() };
            if let Err(error) = resolve(&sources) {
                panic!("{} shows what cannot be used:\n{toml}\n{error:#?}", page.display());
            }
            shown += 1;
        }
    }
    assert!(shown > 10, "only {shown} were found");
}

/// Every test that SECURITY.md names is there: `crate::path::function` is a test function of a file with that path, in
/// the crate's sources or its tests.
#[test]
fn tests_named_in_the_threat_model_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("SECURITY.md")).unwrap();
    let named: Vec<_> = page
        .split('`')
        .filter(|text| text.starts_with("greenroom") && text.contains("::") && !text.contains(' '))
        .collect();
    assert!(named.len() > 30, "only {} tests were found", named.len());
    for name in named {
        let (path, function) = name.rsplit_once("::").unwrap();
        let mut modules = path.split("::");
        let folder = match modules.next().unwrap() {
            "greenroom" => "cli",
            package => package.strip_prefix("greenroom_").unwrap_or_else(|| panic!("{name}")),
        };
        let path = modules.collect::<Vec<_>>().join("/");
        let files = ["src", "tests/it"].map(|base| root.join("crates").join(folder).join(base).join(&path));
        let mut sources = files.iter().flat_map(|file| [file.with_extension("rs"), file.join("mod.rs")]);
        let is_there = |source: &str| {
            let before = source.split_once(&format!("fn {function}(")).map_or("", |(before, _)| before);
            let before = before.trim_end().trim_end_matches("async").trim_end();
            let mut attributes = before.lines().rev().take_while(|line| line.trim().starts_with("#["));
            attributes.any(|line| line.contains("test"))
        };
        let is_test = sources.any(|file| fs::read_to_string(file).is_ok_and(|source| is_there(&source)));
        assert!(is_test, "SECURITY.md names a test that is not there: `{name}`");
    }
}
