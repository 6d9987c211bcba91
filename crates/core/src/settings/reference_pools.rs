//! The part of the reference page on declared pools: how they are written, which key goes where, and what mistakes mean.

use super::{
    key::{INSTANCES, Key, KeyLevel},
    setting_macro::SettingLevel,
    table::Pool,
    value_type::ValueType,
};

const GRAMMAR: &str = "
## Declared pools

By default there is one built-in pool, configured by `[pool]` above, which starts another instance when it is full. Declared pools
replace it: each is a named group with a fixed number of instances, and each instance may have its own values. Agents choose between
them with `browser_pool` and `browser_instance`.

```sh
PW_MCP_PROXY_<KEY>=value                  # global: for all pools
PW_MCP_PROXY__<POOL>_<KEY>=value          # pool: for all instances of one pool
PW_MCP_PROXY__<POOL>__<ID>_<KEY>=value    # instance: for one of them; IDs count from 0
```

A pool's name consists of uppercase letters and digits, with single underscores inside. If a variable could be split into name and
key in two ways, the longest known key wins: `PW_MCP_PROXY__A_TIMEOUT_ACTION` is `TIMEOUT_ACTION` of pool `A`.

```sh
PW_MCP_PROXY_HEADLESS=true
PW_MCP_PROXY__BROWSERS_INSTANCES=3
PW_MCP_PROXY__BROWSERS_IS_DEFAULT=true
PW_MCP_PROXY__BROWSERS__0_BROWSER=msedge
PW_MCP_PROXY__BROWSERS__0_ALIAS=edge_main
```

The same in TOML, with keys in lower case:

```toml
[pool]
headless = true

[pools.BROWSERS]
is_default = true
instances.count = 3        # or `instances = 3`, where no instance has values of its own

[pools.BROWSERS.instances.0]
browser = \"msedge\"
alias = \"edge_main\"
```

- Every pool needs `INSTANCES`, and exactly one pool needs `IS_DEFAULT`: calls that name no pool go there.
- An instance's value overrides the pool's, and the pool's overrides the global one, whichever source each comes from. On one level
  `.env` overrides TOML, and the environment overrides `.env`. The global level has all of a setting's names: `PW_MCP_PROXY_SLOTS` is a second spelling of
  `GREENROOM_POOL_SLOTS`, which wins in the same source, and `--pool-slots` beats both.
- If variables configure a pool, they replace the TOML pool of the same name as a whole. A `.env` may not do so if that would drop
  your user-only values or limits. Of two TOML files the later overrides the earlier key by key.
- A *user-only* setting is user-only on every level, and your *limit* holds on every level. `WSL_WINDOWS` is not user-only: it makes
  `cmd.exe` start the pinned engine, and names no program itself.
- The default of `sessions.scope` is then `call`. `pool.instances_max` and `pool.instance_idle` apply to the built-in pool only.
- `greenroom config show` prints each pool with its instances, every key that was set, and where.
";

const MISTAKES: &str = "
Mistakes that stop the start, and what to do:

| Message | Cause | Remedy |
|---|---|---|
| `Pool missing INSTANCES configuration` | a pool is mentioned, but not how many instances it has | add `INSTANCES` to the pool |
| `Multiple default pools defined` | more than one pool has `IS_DEFAULT` | leave it at one |
| `No default pool defined` | no pool has `IS_DEFAULT` | set it for one |
| `Invalid instance ID in override` | an instance that is not there, or no number where the ID belongs | use an ID below `INSTANCES`, or increase that |
| `Duplicate alias in pool` | two instances of one pool have the same `ALIAS` | give each its own; upper and lower case differ |
| `INSTANCES defined globally`, and so for other keys and levels | a key on a level that is not its own | move it to a level of the table above |
| `… cannot be the name of a pool` | lower case, other characters, or two underscores in a row | rename it |
| `… is now …` | a name from before there were pools: `PLAYWRIGHT_HEADLESS`, `PLAYWRIGHT_BROWSER`, `PLAYWRIGHT_WSL_WINDOWS`, `PLAYWRIGHT_VIEWPORT` and the engine's other options | rename the variable; `PLAYWRIGHT_MCP_*`, `PLAYWRIGHT_BROWSERS_PATH` and the like are Playwright's own and mean nothing here |

greenroom refuses these combinations in one pool or one instance: `SLOTS` above 1 with `ISOLATED=false`, `USER_DATA_DIR`, `EXTENSION`,
`WSL_WINDOWS`, or `BROWSER` as `firefox` or `webkit`; `STORAGE_STATE` without `ISOLATED`; `USER_DATA_DIR` with it; `DEVICE` without it,
unless the browser is `firefox` or `webkit`, or Windows'; `EXECUTABLE_PATH` with `WSL_WINDOWS`; `EXTENSION` with `firefox` or `webkit`;
`COMMAND` or `URL` without `ENGINE=custom`, both of them, or neither with it; `ENGINE=devtools` with `firefox`, `webkit`, `EXTENSION`,
`WSL_WINDOWS`, or an option that only the playwright engine has: `CAPS`, `STORAGE_STATE`, `INIT_SCRIPT`, `SAVE_SESSION`,
`IMAGE_RESPONSES`, `TIMEOUT_ACTION`, `TIMEOUT_NAVIGATION`, `TIMEOUT_SETTLE`, `DEVICE`. `tools.unsafe` needs one
slot in every pool of the playwright engine.
";

/// The section, in Markdown.
pub(super) fn section() -> String {
    let defaults = Pool::declared_defaults();
    let mut page = GRAMMAR.to_owned();
    page += "\n| Key | In TOML | Global | Pool | Instance | Default in declared pools |\n|---|---|---|---|---|---|\n";
    for key in Key::all() {
        let default = match key {
            Key::Setting(setting) if setting.reach == SettingLevel::BuiltIn => continue,
            Key::Setting(setting) => format!("`{}`", setting.show_in(&defaults)),
            Key::Instances => format!("none: it must be set, to {}", INSTANCES.allowed()),
            Key::IsDefault => "`false`".to_owned(),
            Key::Description | Key::Alias => "none".to_owned(),
        };
        let [global, pool, instance] = [KeyLevel::Global, KeyLevel::Pool, KeyLevel::Instance]
            .map(|level| if key.is_of(level) { "yes" } else { "no" });
        page += &format!(
            "| `{}` | `{}` | {global} | {pool} | {instance} | {default} |\n",
            key.upper(),
            key.name()
        );
    }
    page + MISTAKES
}
