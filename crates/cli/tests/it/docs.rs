//! Generated pages are what the code would generate now.

use std::{fs, path::Path};

use greenroom_core::settings::reference;

/// docs/CONFIG.md is what the table of settings says; `UPDATE_DOCS=1` writes it anew.
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

/// docs/openapi.json is what the handlers say of themselves; `UPDATE_DOCS=1` writes it anew.
#[test]
fn the_description_of_rest_is_current() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let said = serde_json::to_string_pretty(&greenroom_gateway::rest::document()).unwrap() + "\n";
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&page, &said).unwrap();
    }
    assert!(
        fs::read_to_string(&page).unwrap_or_default() == said,
        "docs/openapi.json is not what the handlers say; run `UPDATE_DOCS=1 cargo test -p greenroom --test it docs` and \
         commit it"
    );
}
