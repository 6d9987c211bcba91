//! The part of the reference page on attached browsers: how they are written, and which key means what.

use super::{
    SETTINGS,
    attached_browsers::{AppliesTo, fit},
    key::Key,
};

const GRAMMAR: &str = "
## Attached browsers

A browser that already runs with a debugging port is named in the config file, each in a table of its own:

```toml
[[browsers]]
url = \"http://127.0.0.1:9222\"
label = \"work\"
tags = [\"qa\"]
start_command = [\"google-chrome\", \"--remote-debugging-port=9222\", \"--user-data-dir=/home/me/.chrome-work\"]

[[browsers]]
url = \"wss://browsers.example/devtools\"
headers = { Authorization = \"Bearer s3cret\" }
engine = \"devtools\"
```

or on the command line, as often as there are browsers, both kinds mixed:

```sh
greenroom mcp --browserUrl http://127.0.0.1:9222 --wsEndpoint ws://127.0.0.1:9223/devtools/browser/<id>
greenroom mcp --browserUrl \"work=http://127.0.0.1:9222|google-chrome --remote-debugging-port=9222\"
```

- Browsers are numbered from 1: those of the file first, then those of the command line, in their order. Agents choose one with
  `browserIndex`, by its number or its label.
- `--browserUrl` and `--wsEndpoint` (also `--browser-url`, `--ws-endpoint`) take `[LABEL=]URL[|START COMMAND]`. The scheme says which
  kind of address it is, so each takes both. `--engine` is short for `--pool-engine`.
- All of `[[browsers]]` is *guarded*. Headers have no flag: everybody on a machine can read its command lines. Their values are never
  shown, and neither are the query, the user and the password of an address.
- A start command is split as commands are everywhere, and no shell sees it. `{url}` in it is the browser's address; there is no other
  placeholder. It is run by `reconnect_browser` alone, and only when the browser does not answer.
- Where browsers are named and no pools are declared, there is no built-in pool; `sessions.scope` is `call` unless it is set.
- A browser starts from `[pool]`, as far as that means something to one that already runs, and may set the keys below for itself. `slots` is 1
  and `isolated` false unless they are set: then agents work in tabs of the browser's own context, with its logins. `slots` above 1 needs
  `isolated`, and `isolated` the playwright engine.

| Key | Takes |
|---|---|
| `url` | where its debugger is reached: `http://`, `https://`, `ws://` or `wss://`; required |
| `label` | a second name: at most 64 bytes, no number, no other browser's |
| `tags` | a list of names that several browsers can be called by together |
| `headers` | a table of names and texts, sent with every connection to the debugger |
| `start_command` | a program and its arguments, as a list or as text |
";

/// The section, in Markdown.
pub(super) fn section() -> String {
    let mut page = GRAMMAR.to_owned();
    let of = |wanted: fn(AppliesTo) -> bool| {
        let keys = SETTINGS.iter().filter(|setting| setting.is_of_pools()).map(|setting| setting.name());
        let keys = keys.filter(move |key| fit(key).is_some_and(wanted));
        keys.map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
    };
    let (fitting, isolated) = (of(|fit| fit == AppliesTo::Yes), of(|fit| fit == AppliesTo::Isolated));
    page += &format!("\nOf the keys of `[pool]` it takes {fitting}; with `isolated` also {isolated}, ");
    page += "which belong to a context and would otherwise reach the tabs of whoever uses the browser; ";
    page += "so do `network` and `devtools` of `caps`.\n";
    page += "The others are refused, each with its reason:\n\n| Key | Why not |\n|---|---|\n";
    for key in Key::all().filter(|key| key.name() != "url") {
        if let Some(AppliesTo::No(why)) = fit(key.name()) {
            page += &format!("| `{}` | {why} |\n", key.name());
        }
    }
    page
}
