//! The part of the reference page on attached browsers: how they are written, and which key means what.

use super::{
    SETTINGS,
    attached_browsers::{AppliesTo, applies_to},
    key::Key,
};

const GRAMMAR: &str = "
## Attached browsers

Each running browser with a debugging port has a table in the config file:

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

or a flag on the command line; both flags may be repeated and mixed:

```sh
greenroom mcp --browserUrl http://127.0.0.1:9222 --wsEndpoint ws://127.0.0.1:9223/devtools/browser/<id>
greenroom mcp --browserUrl \"work=http://127.0.0.1:9222|google-chrome --remote-debugging-port=9222\"
```

- greenroom numbers the browsers from 1: first those of the file, then those of the command line, in their order. Agents choose one
  with `browserIndex`, by its number or its label.
- `--browserUrl` and `--wsEndpoint` (also `--browser-url`, `--ws-endpoint`) take `[LABEL=]URL[|START COMMAND]`. Each flag takes
  both kinds of address. `--engine` is short for `--pool-engine`.
- All of `[[browsers]]` is *user-only*. Headers have no flag, because every user of a machine can read its command lines. greenroom never
  shows the values of headers, nor the query, user and password of an address.
- greenroom splits a start command like every other command and runs it without a shell. It replaces `{url}` by the browser's address;
  there is no other placeholder. Only `reconnect_browser` runs the command, and only if the browser does not answer.
- If browsers are configured and no pools are declared, there is no built-in pool, and the default of `sessions.scope` is `call`.
- A browser takes its values from `[pool]`, as far as they apply to a running browser, and its own keys below override them. By default
  `slots` is 1 and `isolated` is false: agents work in tabs of the browser's own context, with its logins. `slots` above 1 needs
  `isolated`, and `isolated` needs the playwright engine.

| Key | Takes |
|---|---|
| `url` | the address of its debugger: `http://`, `https://`, `ws://` or `wss://`; required |
| `label` | a second name: at most 64 bytes, not a number, and unique |
| `tags` | a list of names; a bulk call with `browserTag` runs in every browser with that tag |
| `headers` | a table of HTTP headers that greenroom sends with every connection to the debugger |
| `start_command` | a program and its arguments, as a list or as text |
";

/// The section, in Markdown.
pub(super) fn section() -> String {
    let mut page = GRAMMAR.to_owned();
    let of = |wanted: fn(AppliesTo) -> bool| {
        let keys = SETTINGS.iter().filter(|setting| setting.is_of_pools()).map(|setting| setting.name());
        let keys = keys.filter(move |key| applies_to(key).is_some_and(wanted));
        keys.map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
    };
    let fitting = of(|applies_to| applies_to == AppliesTo::Yes);
    let isolated = of(|applies_to| applies_to == AppliesTo::Isolated);
    page +=
        &format!("\nOf the keys of `[pool]` a browser takes {fitting}; with `isolated` also {isolated}, ");
    page += "which apply to a whole context and would otherwise affect the tabs of the browser's user; ";
    page += "the same holds for `network` and `devtools` in `caps`.\n";
    page += "greenroom refuses the other keys, for these reasons:\n\n| Key | Why not |\n|---|---|\n";
    for key in Key::all().filter(|key| key.name() != "url") {
        if let Some(AppliesTo::No(why)) = applies_to(key.name()) {
            page += &format!("| `{}` | {why} |\n", key.name());
        }
    }
    page
}
