//! The reference page `docs/CONFIG.md`, made from the table. A test of the cli compares the committed page with this.

use std::path::PathBuf;

use super::{FlagShape, Guard, SECTIONS, SETTINGS, Setting, Settings, reference_browsers, reference_pools};

const INTRO: &str = "\
# Configuration

<!-- A test generates this page from `crates/core/src/settings/table.rs`, and says how when the page is out of date. -->

After this page you know every setting of greenroom, where to put it, and which value wins. For example, this serves agents with a
visible Chrome and closes their sessions after ten minutes without a call:

```sh
GREENROOM_SESSIONS_IDLE_TIMEOUT=10m greenroom serve --pool-browser chrome --pool-headless=false
```

greenroom needs no configuration. It reads what you configure when it starts, and refuses to start if it finds a mistake: it reports
all unknown names, invalid values and conflicting settings at once. It ignores only, with a warning, a variable `GREENROOM_…` whose
name resembles no setting. `greenroom config show` prints every value and where it comes from; with `--json`, for programs.
`greenroom serve` also [reads changed files](POOLS.md#changing-the-configuration) while it runs.

## Sources

A later source overrides an earlier one:

1. the defaults below
2. your own TOML file: `greenroom/greenroom.toml` in `$XDG_CONFIG_HOME` or `~/.config`; then `greenroom.toml` in the
   working directory. With `--config FILE` or `GREENROOM_CONFIG` greenroom reads that file instead of both.
3. `.env` in the working directory. greenroom reads only its own names in it.
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
- **Commands** are arrays in TOML. Elsewhere greenroom splits them at spaces; put single or double quotes around an argument
  that contains spaces. greenroom runs commands without a shell.
- **Relative paths** start from the folder of the TOML file, elsewhere from the working directory. `~` is not expanded.
- **Unset**: some settings take a word (`unset`, `off`, `auto`) that means no value. That word, or an empty value, undoes what
  an earlier source has set.

## What a working directory may not set

A `greenroom.toml` or `.env` in the working directory may have come with a cloned repository. It may not set anything that names a
program or weakens a protection. Such settings are marked *user-only*: put them in your own file under
`~/.config/greenroom/`, in the environment, in a flag, or in a file that you name with `--config`.

Such a file may set what is marked *limit*. If you have set the same limit in one of those places, the file may only lower a number:
slots, instances, times. Any other change stops the start, on every level: `[pools.NAME]` or `.env` of a working directory cannot lift
the `pool.blocked_origins` of your file. `pool.engine` counts as set if you have set `tools.allow` or `tools.deny`, because another
engine's tools have other names.

Agents choose between pools. So a pool that such a file adds must be as strict as every limit that you have set, for whichever pool,
instance or attached browser. If two of your limits differ so that no value is as strict as both, the file cannot add a pool. If you
have set `tools.allow` or `tools.deny`, the added pool must use an engine that one of your pools or browsers uses. If you have
configured a pool but not its number of instances, all that you left open in it counts as added by the file. The number of instances
of an added pool has no limit.
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
        Guard::Guarded => ", *user-only*",
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
    let flag = match setting.shape() {
        FlagShape::None => "none".to_owned(),
        _ => format!("`--{}`", setting.flag()),
    };
    format!("| `{key}`{lock} | `{variable}`{alias} | {flag} | {default} | {meaning} |\n")
}

/// The lines of a doc comment as one.
fn flow(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}
