//! Declared browsers in `greenroom config show`: the label and tags of each, and every value that was set, with its
//! source. Headers are shown without their values, and addresses without their query: both may be secrets.

use greenroom_core::settings::{AttachedBrowser, Resolved, SETTINGS, Setting};
use serde_json::{Value, json};

use super::{source, table};

/// One browser, with its index from 1, as agents know it.
pub(super) fn as_tables(resolved: &Resolved, index: usize, browser: &AttachedBrowser) -> String {
    let origin = resolved.browser_origin(index).to_string();
    let label = browser.label.as_ref().map_or_else(String::new, |label| format!(" ({label})"));
    let fields =
        browser_fields(browser).into_iter().filter(|(_, value)| !is_empty(value)).map(|(key, value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            [key.to_owned(), value, "browser".to_owned(), origin.clone()]
        });
    // The table of settings shows the defaults already; show a default here for the engine only.
    let settings = settings().filter_map(|setting| {
        let (level, origin) = resolved.browser_key(index, setting.name());
        let is_shown = level != "default" || setting.name() == "engine";
        is_shown.then(|| {
            let key = setting.name().to_owned();
            let value = setting.show_in(&browser.pool);
            [key, value, level.to_owned(), origin.to_string()]
        })
    });
    format!(
        "\nBrowser {}{label}\n\n{}",
        index + 1,
        table(["KEY", "VALUE", "LEVEL", "SOURCE"], fields.chain(settings))
    )
}

pub(super) fn as_json(resolved: &Resolved, index: usize, browser: &AttachedBrowser) -> Value {
    let mut object = json!({ "index": index + 1, "source": source(resolved.browser_origin(index)) });
    for (key, value) in browser_fields(browser) {
        object[key] = value;
    }
    let settings = settings().map(|setting| {
        let (level, origin) = resolved.browser_key(index, setting.name());
        json!({
            "key": setting.name(),
            "value": setting.json_in(&browser.pool),
            "level": level,
            "source": source(origin),
        })
    });
    object["settings"] = settings.collect();
    object
}

/// The values that only attached browsers have.
fn browser_fields(browser: &AttachedBrowser) -> [(&'static str, Value); 5] {
    let headers: Vec<_> = browser.headers.iter().map(|header| header.name.as_str()).collect();
    [
        ("url", json!(browser.shown_url())),
        ("label", json!(browser.label)),
        ("tags", json!(browser.tags)),
        ("headers", json!(headers)),
        ("start_command", json!(browser.start_command)),
    ]
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

/// The pool settings that apply to a browser that already runs.
fn settings() -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(|setting| setting.is_of_browsers())
}
