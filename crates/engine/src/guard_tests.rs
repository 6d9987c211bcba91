//! Tests the guards of both engines against hostile arguments: every tool that names an address or a file, as recorded from
//! the engines, with arguments that are odd in every way that JSON allows. Every call that passes a guard is parsed again
//! the way Node parses it, and must still be harmless.
//!
//! `tests/it/real/guarded.rs` compares the recorded tools with those of the installed engines.

use std::{
    collections::BTreeMap,
    fs,
    path::{Component, Path, PathBuf},
};

use greenroom_core::{Agent, BoxFuture, Call, NoAnswer, Raw, raw::parse};
use greenroom_testkit::{HostileJson, NodeValue};

use crate::{devtools, playwright, workspace::SessionFolders};

/// The arguments of every tool, by its name.
type ToolArguments = BTreeMap<String, Vec<String>>;

const PLAYWRIGHT: &str = include_str!("recorded/playwright-arguments.json");
const DEVTOOLS: &str = include_str!("recorded/devtools-arguments.json");

/// Arguments that the guards judge.
const GUARDED: [&str; 9] = [
    "url",
    "paths",
    "filename",
    "filePath",
    "filePaths",
    "sourcePath",
    "requestFilePath",
    "responseFilePath",
    "outputDirPath",
];

/// Arguments that sound like an address or a file but are neither, by tool.
const HARMLESS: [(&str, &str); 7] = [
    // The path of a cookie.
    ("browser_cookie_list", "path"),
    ("browser_cookie_set", "path"),
    // Patterns for requests.
    ("browser_route", "pattern"),
    ("browser_unroute", "pattern"),
    // Where a test pauses: a location in a running script.
    ("browser_resume", "location"),
    ("emulate", "geolocation"),
    ("list_network_requests", "resourceTypes"),
];

const SOUNDS_GUARDED: [&str; 14] = [
    "url", "uri", "path", "file", "dir", "folder", "source", "location", "pattern", "href", "src", "root",
    "cwd", "address",
];

/// How many calls of each tool are tried: a few seconds for all of them.
const TRIES: u64 = 250;

/// The seed of a tool's first call; each further call takes the next number.
const SEED: u64 = 20_261_117;

struct AgentWithWorkspace(PathBuf);

impl Agent for AgentWithWorkspace {
    fn tell(&self, _: &str, _: Option<Raw>) {}

    fn ask<'a>(&'a self, _: &'a str, _: Option<Raw>) -> BoxFuture<'a, Result<Result<Raw, Raw>, NoAnswer>> {
        Box::pin(std::future::ready(Err(NoAnswer::Gone)))
    }

    fn capabilities(&self) -> Option<Raw> {
        None
    }

    fn roots(&self) -> BoxFuture<'_, Vec<PathBuf>> {
        Box::pin(std::future::ready(vec![self.0.clone()]))
    }

    fn log_level(&self) -> Option<String> {
        None
    }
}

fn tools(recorded: &str) -> ToolArguments {
    serde_json::from_str(recorded).unwrap()
}

/// Every argument of the engines' tools that sounds like an address or a file is guarded, or known to be harmless. A new
/// engine version that adds another one fails here.
#[test]
fn every_file_argument_is_guarded() {
    for (tool, arguments) in tools(PLAYWRIGHT).into_iter().chain(tools(DEVTOOLS)) {
        for argument in arguments {
            let lower = argument.to_lowercase();
            let sounds_so = SOUNDS_GUARDED.iter().any(|word| lower.contains(word));
            let is_known =
                GUARDED.contains(&&*argument) || HARMLESS.contains(&(tool.as_str(), argument.as_str()));
            assert!(
                !sounds_so || is_known,
                "{tool} has an argument `{argument}` that is neither guarded nor known to be harmless"
            );
        }
    }
}

/// A call that passes the playwright engine's guard names pages of the web and files of the session only, as Node parses it.
#[tokio::test]
async fn playwright_guard_passes_only_web_and_session_files() {
    check_guard(PLAYWRIGHT, |call, folders, agent| {
        Box::pin(async move {
            let passed = playwright::files::rewrite_files(call, folders, agent).await;
            passed.map(drop).map_err(|refused| refused.to_string())
        })
    })
    .await;
}

/// The same for the devtools engine.
#[tokio::test]
async fn devtools_guard_passes_only_web_and_session_files() {
    check_guard(DEVTOOLS, |call, folders, agent| {
        Box::pin(async move {
            let passed = devtools::files::rewrite_files(call, folders, 1, agent).await;
            passed.map(drop).map_err(|refused| refused.to_string())
        })
    })
    .await;
}

type GuardFn =
    for<'a> fn(&'a mut Call, &'a SessionFolders<'a>, &'a dyn Agent) -> BoxFuture<'a, Result<(), String>>;

async fn check_guard(recorded: &str, guard: GuardFn) {
    let outer = tempfile::tempdir().unwrap();
    let outer = outer.path().canonicalize().unwrap();
    let folder = outer.join("session");
    let workspace = outer.join("workspace");
    let data = outer.join("data");
    for made in [&folder, &workspace, &data] {
        fs::create_dir(made).unwrap();
    }
    let secret = outer.join("secret");
    fs::write(&secret, "secret").unwrap();
    fs::write(workspace.join("mine.txt"), "mine").unwrap();
    let secret_url = format!("file://{}", secret.display());
    let source_url = format!("view-source:{secret_url}");
    let mine = workspace.join("mine.txt").display().to_string();
    let texts = [
        "https://example.com/a",
        "localhost:3000",
        "about:blank",
        "data:text/html,x",
        "chrome://version",
        "javascript:fetch('/')",
        "mine.txt",
        "deep/result.png",
        "../secret",
        "",
        &secret_url,
        &source_url,
        &mine,
        secret.to_str().unwrap(),
    ];
    let folders = SessionFolders { folder: &folder, data: &data };
    let agent = AgentWithWorkspace(workspace);
    let mut passed = 0;
    let mut refused = 0;
    let mut tried = 0;
    for (tool, arguments) in tools(recorded) {
        let guarded: Vec<_> = arguments.iter().filter(|name| GUARDED.contains(&&***name)).collect();
        if guarded.is_empty() {
            continue;
        }
        for n in 0..TRIES {
            let mut odd = HostileJson::new(SEED + n);
            let params = odd_params(&mut odd, &tool, &guarded, &texts);
            tried += 1;
            let case = || format!("{tool}, seed {}: {params}", SEED + n);
            let mut call =
                Call::new(tool.as_str(), parse(params.clone()).unwrap_or_else(|_| panic!("{}", case())));
            match guard(&mut call, &folders, &agent).await {
                Err(_) => refused += 1,
                Ok(()) => {
                    passed += 1;
                    let seen = NodeValue::parse(call.params.get());
                    if let Some(why) = harmful_value(&seen, &folder) {
                        panic!("{why}: {}\nsent on: {}", case(), call.params.get());
                    }
                }
            }
        }
    }
    // Guards that refuse everything would prove nothing.
    assert!(passed > tried / 20 && refused > tried / 4, "{passed} of {tried} passed, {refused} were refused");
}

fn odd_params(odd: &mut HostileJson, tool: &str, guarded: &[&String], texts: &[&str]) -> String {
    let members: Vec<_> = guarded
        .iter()
        .filter_map(|name| {
            let several = name.ends_with('s') && odd.below(4) > 0;
            let value = if several { format!("[{}]", odd.string(texts)) } else { odd.value(texts) };
            (odd.below(8) > 0).then_some((name.as_str(), value))
        })
        .collect();
    let arguments = if odd.below(30) == 0 { odd.value(texts) } else { odd.object(&members) };
    let name = format!("\"{tool}\"");
    match odd.below(30) {
        0 => format!(r#"{{"name":{name},"arguments":{{}},"arguments":{arguments}}}"#),
        1 => format!(r#"{{"name":{name},"arguments":{arguments},"\u0061rguments":{{}}}}"#),
        _ => format!(r#"{{"name":{name},"arguments":{arguments}}}"#),
    }
}

/// The harm in a call that an engine gets, if there is any.
fn harmful_value(params: &NodeValue, folder: &Path) -> Option<String> {
    let arguments = params.get("arguments")?;
    if matches!(arguments, NodeValue::Null) {
        return None;
    }
    if !matches!(arguments, NodeValue::Object(_)) {
        return Some(format!("arguments that are not an object: {arguments:?}"));
    }
    if let Some(name) = arguments.names().into_iter().find(|name| name == "__proto__" || name == "_meta") {
        return Some(format!("an argument `{name}`"));
    }
    GUARDED.into_iter().find_map(|name| match arguments.get(name)? {
        NodeValue::Null => None,
        NodeValue::String(units) if String::from_utf16(units).is_err() => {
            Some(format!("no Unicode in `{name}`"))
        }
        value if name == "url" => match value.text() {
            Some(url) => bad_address(&url),
            None => Some(format!("an address that is not a text: {value:?}")),
        },
        NodeValue::Array(items) => items.iter().find_map(|item| match item.text() {
            Some(path) => bad_path(&path, folder),
            None => Some(format!("a path that is not a text: {item:?}")),
        }),
        value => match value.text() {
            Some(path) => bad_path(&path, folder),
            None => Some(format!("a path that is not a text: {value:?}")),
        },
    })
}

/// Judges an address by another parser than the guard's own. An address without a scheme gets one of the web.
fn bad_address(url: &str) -> Option<String> {
    let parsed = url::Url::parse(url).ok()?;
    let fine = match parsed.scheme() {
        "http" | "https" | "data" | "localhost" => true,
        "blob" => {
            ["http:", "https:", "null/"].iter().any(|origin| parsed.path().to_lowercase().starts_with(origin))
        }
        "about" => matches!(parsed.path(), "blank" | "srcdoc"),
        _ => false,
    };
    (!fine).then(|| format!("an address with the scheme `{}`", parsed.scheme()))
}

/// A path outside of the session's folder, to which relative paths refer. A name without a file passes: the engine makes the
/// file.
fn bad_path(path: &str, folder: &Path) -> Option<String> {
    let mut real = folder.to_owned();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => drop(real.pop()),
            Component::CurDir => {}
            part => real.push(part),
        }
    }
    let real = fs::canonicalize(&real).unwrap_or(real);
    (!real.starts_with(folder)).then(|| format!("a path outside of the session's folder: {}", real.display()))
}
