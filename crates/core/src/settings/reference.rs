//! The reference page `docs/CONFIG.md`, made from the table. A test of the cli compares the committed page with this.

use std::path::PathBuf;

use super::{Guard, SECTIONS, SETTINGS, Setting, Settings, reference_browsers, reference_pools};

const INTRO: &str = "\
# Configuration

<!-- Made from `crates/core/src/settings/table.rs`; a test says how to make it anew. -->

greenroom needs no configuration. Whatever is configured is read once at the start, and a mistake stops the start:
unknown names, wrong values and settings that do not go together are all reported at once. Only a variable `GREENROOM_…` that
resembles no setting is told and ignored. `greenroom config show` prints the values in force and where each came from; with `--json`, for programs.

## Sources

Later ones win:

1. the defaults below
2. your own TOML file: `greenroom/greenroom.toml` in `$XDG_CONFIG_HOME` or `~/.config`; then `greenroom.toml` in the
   working directory. With `--config FILE` or `GREENROOM_CONFIG` that file alone is read instead of both.
3. `.env` in the working directory. Only greenroom's own names in it are read.
4. the environment
5. flags

A setting has one name in three spellings: the key `pool.slots` in TOML, `GREENROOM_POOL_SLOTS` in `.env` and the environment,
`--pool-slots` as a flag. Settings of `[pool]` have a fourth, `PW_MCP_PROXY_SLOTS`, and can be set for each of several
[declared pools](#declared-pools). Running browsers to attach to are [a list of their own](#attached-browsers).

```toml
# ~/.config/greenroom/greenroom.toml
log = \"info\"

[sessions]
idle_timeout = \"10m\"

[tools]
deny = [\"browser_evaluate\", \"*_upload\"]
```

## Values

- **Durations** are text with a unit (`250ms`, `30s`, `5m`, `1h`), or whole milliseconds.
- **Lists** are arrays in TOML and separated by commas elsewhere; their flags may be repeated. A JSON array works everywhere.
- **Commands** are arrays in TOML. Elsewhere they are split at spaces, with single or double quotes around what belongs
  together. No shell sees them.
- **Relative paths** start from the folder of the TOML file, elsewhere from the working directory. `~` is not expanded.
- **Unset**: where a setting has a word for that (`unset`, `off`, `auto`), the word or an empty value undoes what an
  earlier source has set.

## What a working directory may not set

A `greenroom.toml` or `.env` that merely lies in the working directory may have come with a cloned repository. It may not
set what names a program or opens a door only you should open. Such settings are marked *guarded*: put them in your own file under
`~/.config/greenroom/`, in the environment, in a flag, or in a file that you name with `--config`.

It may set what is marked *limit*, but where you have set it there, it may only lower a number: slots, instances, times. Anything
else stops the start, on every level: `[pools.NAME]` or `.env` of a working directory cannot lift the `pool.blocked_origins` of your
file. `pool.engine` counts as set where you have set `tools.allow` or `tools.deny`: another engine's tools have other names.

Agents choose between pools. So a pool that such a file adds must have limits as strict as all that you have set, for whichever pool,
instance or attached browser. Where two of yours differ so that no value is as strict as both, the file cannot add a pool. Where you have
set `tools.allow` or `tools.deny`, the added pool's engine must be one that your pools or browsers have. A pool of which you have said
something, but not its number of instances, is an added one in all that you have not said. How many instances an added pool has is not
limited.
";

/// The page's text for the one default that differs between platforms and users.
const DATA_DIR: &str =
    "`greenroom` in `$XDG_DATA_HOME` or `~/.local/share`; on macOS in `~/Library/Application Support`";

/// The page, in Markdown.
pub fn reference() -> String {
    let defaults = Settings::defaults(PathBuf::from(DATA_DIR));
    let mut page = INTRO.to_owned();
    for section in SECTIONS {
        let title =
            if section.name.is_empty() { "General".to_owned() } else { format!("`[{}]`", section.name) };
        page += &format!("\n## {title}\n\n{}\n\n", flow(section.doc));
        page += "| Key | Environment | Flag | Default | Meaning |\n|---|---|---|---|---|\n";
        for setting in SETTINGS.iter().filter(|setting| setting.section() == section.name) {
            page += &row(setting, &defaults);
        }
    }
    page + &reference_pools::section() + &reference_browsers::section()
}

fn row(setting: &Setting, defaults: &Settings) -> String {
    let lock = match setting.guard {
        Guard::Guarded => ", *guarded*",
        Guard::Limit | Guard::LimitWith(_) => ", *limit*",
        Guard::Open => "",
    };
    let alias = setting.alias.map_or_else(String::new, |alias| format!(", `{alias}`"));
    let default = match setting.show(defaults) {
        text if setting.key == "data_dir" => text,
        text => format!("`{text}`"),
    };
    let meaning = format!("{} Takes {}.", flow(setting.doc), setting.allowed()).replace('|', "\\|");
    let key = setting.key;
    let variable = setting.variable();
    let flag = setting.flag();
    format!("| `{key}`{lock} | `{variable}`{alias} | `--{flag}` | {default} | {meaning} |\n")
}

/// The lines of a doc comment as one.
fn flow(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}
