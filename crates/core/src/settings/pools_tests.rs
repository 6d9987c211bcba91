//! Tests of declared pools: which source wins on which level, and every mistake.

use std::{collections::BTreeSet, time::Duration};

use proptest::prelude::*;

use super::{
    Origin, SETTINGS, Scope, Sources,
    key::Key,
    resolve,
    resolve::{
        merge,
        tests::{dotenv, environment, file, problems, sources},
    },
};

/// A default pool `A` with three instances, to which most tests add a mistake.
pub(super) const A: [(&str, &str); 2] =
    [("PW_MCP_PROXY__A_INSTANCES", "3"), ("PW_MCP_PROXY__A_IS_DEFAULT", "true")];

pub(super) fn with(variables: &[(&str, &str)]) -> Sources {
    Sources { environment: environment(variables), ..sources() }
}

/// The problems of these variables in addition to pool `A`.
#[track_caller]
pub(super) fn problems_with_pool_a(variables: &[(&str, &str)]) -> Vec<String> {
    problems(&with(&[&A, variables].concat()))
}

/// Names and values that apply to all pools configure the built-in one when none is declared.
#[test]
fn global_names_configure_the_built_in_pool() {
    let variables = [
        ("PW_MCP_PROXY_HEADLESS", "false"),
        ("PW_MCP_PROXY_TIMEOUT", "45000"),
        ("PW_MCP_PROXY_LEASE_STRATEGY", "sticky"),
        ("PW_MCP_PROXY_INSTANCES_MAX", "2"),
    ];
    let resolved = resolve(&with(&variables)).unwrap();
    let pool = &resolved.settings.pool;
    assert_eq!((pool.headless, pool.timeout, pool.instances_max), (false, Duration::from_secs(45), 2));
    assert_eq!(
        (pool.lease_strategy, pool.slots, pool.isolated),
        (Some(crate::lease::Strategy::Sticky), 16, true)
    );
    assert_eq!(*resolved.origin("pool.headless"), Origin::Env("PW_MCP_PROXY_HEADLESS".into()));
    assert_eq!((resolved.settings.pools.len(), resolved.settings.sessions.scope), (0, Scope::Connection));
}

/// In one source the proper name beats the proxy's, which beats the plain one; a higher source beats them all.
#[test]
fn proper_name_overrides_its_synonyms() {
    let headless = |env: &str, variables: &[(&str, &str)]| {
        resolve(&Sources { dotenv: dotenv(env), ..with(variables) }).unwrap().settings.pool.headless
    };
    assert!(!headless("", &[("PW_MCP_PROXY_HEADLESS", "false"), ("HEADLESS", "true")]));
    assert!(!headless("", &[("GREENROOM_POOL_HEADLESS", "false"), ("PW_MCP_PROXY_HEADLESS", "true")]));
    assert!(!headless("GREENROOM_POOL_HEADLESS=true", &[("HEADLESS", "false")]));
}

/// The level decides before the source: a pool's own value in a file beats a flag for all pools, and an instance's
/// beats both.
#[test]
fn level_decides_before_source() {
    let text = "[pool]\nslots = 1\n[pools.A]\nis_default = true\ntimeout = 1000\n[pools.A.instances]\ncount = 2\n1.timeout = 2000";
    let mut all = Sources { files: file(text, false), ..sources() };
    let seconds = |sources: &Sources| {
        let pools = resolve(sources).unwrap().settings.pools;
        let of = |id: usize| pools[0].instances[id].pool.timeout.as_secs();
        (of(0), of(1))
    };
    all.flags = vec![("pool.timeout", "9s".to_owned())];
    assert_eq!(seconds(&all), (1, 2));
    all.files = file(&text.replace("timeout = 1000\n", ""), false);
    assert_eq!(seconds(&all), (9, 2));
    all.flags.clear();
    assert_eq!(seconds(&all), (30, 2), "the built-in pool's 90 s were never set");
}

/// Within a level later sources win, `.env` and environment value by value.
#[test]
fn later_sources_win_within_a_level() {
    let env = "PW_MCP_PROXY__A_INSTANCES=3\nPW_MCP_PROXY__A_IS_DEFAULT=yes\nPW_MCP_PROXY__A_TIMEOUT=1s\nPW_MCP_PROXY__A__0_TIMEOUT=2s";
    let all = Sources {
        dotenv: dotenv(env),
        ..with(&[("PW_MCP_PROXY__A__0_TIMEOUT", "3s"), ("PW_MCP_PROXY__A_INSTANCES", "2")])
    };
    let resolved = resolve(&all).unwrap();
    let instances = &resolved.settings.pools[0].instances;
    assert_eq!(instances.iter().map(|instance| instance.pool.timeout.as_secs()).collect::<Vec<_>>(), [3, 1]);
    assert_eq!(
        *resolved.pool_origin("A", Some(0), "timeout").1,
        Origin::Env("PW_MCP_PROXY__A__0_TIMEOUT".into())
    );
    assert_eq!(*resolved.pool_origin("A", Some(1), "timeout").1, Origin::DotEnv("/project/.env".into()));
}

/// Variables replace a file's pool as a whole and leave its others; two files are one pool in layers.
#[test]
fn variables_replace_a_pool_of_a_file() {
    let text = "[pools.A]\ninstances = 7\nheadless = false\nis_default = true\n[pools.B]\ninstances = 1";
    let pools = resolve(&Sources { files: file(text, false), ..with(&A) }).unwrap().settings.pools;
    assert_eq!((pools[0].instances.len(), pools[0].common.headless), (3, true));
    assert_eq!((pools[1].name.as_str(), pools[1].instances.len()), ("B", 1));

    let half = [
        ("PW_MCP_PROXY__A_HEADLESS", "true"),
        ("PW_MCP_PROXY__B_IS_DEFAULT", "true"),
        ("PW_MCP_PROXY__B_INSTANCES", "1"),
    ];
    let found = problems(&Sources { files: file(text, false), ..with(&half) });
    assert_eq!(
        found,
        ["Pool missing INSTANCES configuration: pool `A`, declared by `PW_MCP_PROXY__A_HEADLESS` -> add \
          `PW_MCP_PROXY__A_INSTANCES`; variables replace the whole pool of a file, here `pools.A` in /project/greenroom.toml"]
    );

    let mut files = file("[pools.A]\nexecutable_path = '/x'\ninstances = 2", true);
    files.extend(file("[pools.A]\nis_default = true\ninstances = 1", false));
    let pools = resolve(&Sources { files, ..sources() }).unwrap().settings.pools;
    assert_eq!((pools[0].instances.len(), pools[0].common.executable_path.is_some()), (1, true));
}

/// A `.env` cannot drop what only the user may set, on either level; the environment can, and so can a `.env` where nothing
/// guarded is lost.
#[test]
fn dotenv_cannot_drop_guarded_values() {
    let text = "[pools.A]\nis_default = true\nheadless = false\nproxy_server = 'http://proxy:1'\n[pools.A.instances]\n\
        count = 2\n1.storage_state = '/s'";
    let env = "PW_MCP_PROXY__A_INSTANCES=1\nPW_MCP_PROXY__A_IS_DEFAULT=true";
    let with_dotenv = |text: &str, variables: &[(&str, &str)]| Sources {
        files: file(text, true),
        dotenv: dotenv(env),
        ..with(variables)
    };
    let dropped_guarded_values = "pool `A` may not be replaced by a file in the working directory: `PW_MCP_PROXY__A_INSTANCES` in \
        /project/.env would drop `pools.A.proxy_server` in /project/greenroom.toml, `pools.A.instances.1.storage_state` in \
        /project/greenroom.toml -> declare pool `A` in the environment instead, or rename the one in /project/.env";
    assert_eq!(problems(&with_dotenv(text, &[])), [dropped_guarded_values]);
    let half = [("PW_MCP_PROXY__A_TIMEOUT", "1s")];
    assert_eq!(
        problems(&with_dotenv(text, &half)),
        [dropped_guarded_values],
        "the environment alone would be no pool"
    );

    assert!(resolve(&Sources { files: file(text, true), ..with(&A) }).is_ok());
    assert_eq!(resolve(&with_dotenv(text, &A)).unwrap().settings.pools[0].instances.len(), 3);
    let harmless = "[pools.A]\nis_default = true\nheadless = false\ninstances = 2";
    assert_eq!(resolve(&with_dotenv(harmless, &[])).unwrap().settings.pools[0].instances.len(), 1);
}

/// A chosen scope stays chosen with declared pools.
#[test]
fn chosen_scope_stays_with_declared_pools() {
    let scope = [("GREENROOM_SESSIONS_SCOPE", "connection")];
    assert_eq!(
        resolve(&with(&[&A[..], &scope].concat())).unwrap().settings.sessions.scope,
        Scope::Connection
    );
}

/// The mistakes that the specification lists, in its words, each with what caused it.
#[test]
fn specified_mistakes_are_reported() {
    assert_eq!(
        problems(&with(&[("PW_MCP_PROXY__A_IS_DEFAULT", "true")])),
        [
            "Pool missing INSTANCES configuration: pool `A`, declared by `PW_MCP_PROXY__A_IS_DEFAULT` -> add `PW_MCP_PROXY__A_INSTANCES`"
        ]
    );
    assert_eq!(
        problems_with_pool_a(&[("PW_MCP_PROXY__B_INSTANCES", "1"), ("PW_MCP_PROXY__B_IS_DEFAULT", "1")]),
        [
            "Multiple default pools defined: `PW_MCP_PROXY__A_IS_DEFAULT`, `PW_MCP_PROXY__B_IS_DEFAULT` -> set exactly one pool as default"
        ]
    );
    assert_eq!(
        problems(&with(&[("PW_MCP_PROXY__A_INSTANCES", "1"), ("PW_MCP_PROXY__B_INSTANCES", "1")])),
        [
            "No default pool defined: `A`, `B` -> set one pool's `IS_DEFAULT=true`, such as `PW_MCP_PROXY__A_IS_DEFAULT`"
        ]
    );
    assert_eq!(
        problems_with_pool_a(&[
            ("PW_MCP_PROXY__A__5_BROWSER", "firefox"),
            ("PW_MCP_PROXY__A__2_BROWSER", "firefox")
        ]),
        [
            "Invalid instance ID in override: `PW_MCP_PROXY__A__5_BROWSER`: the ID is 5, but `INSTANCES` is 3 -> use ID 0-2 or increase `INSTANCES`"
        ]
    );
    assert_eq!(
        problems_with_pool_a(&[
            ("PW_MCP_PROXY__A__0_ALIAS", "main"),
            ("PW_MCP_PROXY__A__1_ALIAS", "main"),
            ("PW_MCP_PROXY__A__2_ALIAS", "Main")
        ]),
        [
            "Duplicate alias in pool `A`: `PW_MCP_PROXY__A__0_ALIAS` and `PW_MCP_PROXY__A__1_ALIAS` are both `main` -> use unique aliases per pool"
        ]
    );
    assert_eq!(
        problems_with_pool_a(&[("PW_MCP_PROXY_INSTANCES", "3")]),
        [
            "INSTANCES defined globally: `PW_MCP_PROXY_INSTANCES` -> move it to pool level: `PW_MCP_PROXY__<POOL>_INSTANCES`"
        ]
    );
}

/// The error for a key on the wrong level names the right level, in every source.
#[test]
fn misplaced_key_errors_name_the_right_level() {
    for (variable, message) in [
        (
            "PW_MCP_PROXY_ALIAS",
            "ALIAS defined globally: `PW_MCP_PROXY_ALIAS` -> an alias names one instance: `PW_MCP_PROXY__<POOL>__<ID>_ALIAS`",
        ),
        (
            "PW_MCP_PROXY_IS_DEFAULT",
            "IS_DEFAULT defined globally: `PW_MCP_PROXY_IS_DEFAULT` -> move it to pool level: `PW_MCP_PROXY__<POOL>_IS_DEFAULT`",
        ),
        (
            "PW_MCP_PROXY__A_ALIAS",
            "ALIAS defined per pool: `PW_MCP_PROXY__A_ALIAS` -> an alias names one instance: `PW_MCP_PROXY__A__<ID>_ALIAS`",
        ),
        (
            "PW_MCP_PROXY__A_INSTANCES_MAX",
            "INSTANCES_MAX defined per pool: `PW_MCP_PROXY__A_INSTANCES_MAX` -> a declared pool has as many instances as its `INSTANCES`",
        ),
        (
            "PW_MCP_PROXY__A__0_INSTANCES",
            "INSTANCES defined per instance: `PW_MCP_PROXY__A__0_INSTANCES` -> it belongs to the pool: `PW_MCP_PROXY__A_INSTANCES`",
        ),
        (
            "PW_MCP_PROXY__A__0_IS_DEFAULT",
            "IS_DEFAULT defined per instance: `PW_MCP_PROXY__A__0_IS_DEFAULT` -> it belongs to the pool: `PW_MCP_PROXY__A_IS_DEFAULT`",
        ),
        (
            "PW_MCP_PROXY__A__0_ENGINE",
            "ENGINE defined per instance: `PW_MCP_PROXY__A__0_ENGINE` -> a pool has one list of tools and one queue: set `PW_MCP_PROXY__A_ENGINE` for the whole pool",
        ),
    ] {
        assert_eq!(problems_with_pool_a(&[(variable, "x")]), [message]);
    }
    let of_the_pool =
        ["DESCRIPTION", "COMMAND", "CAPS", "LEASE_STRATEGY", "LEASE_TIMEOUT", "WARM", "INSTANCE_IDLE"];
    for key in of_the_pool {
        let found = problems_with_pool_a(&[(&format!("PW_MCP_PROXY__A__0_{key}"), "x")]);
        assert!(found.len() == 1 && found[0].starts_with(&format!("{key} defined per ")), "{found:?}");
    }
    let text = "pool.instances = 3\n[pools.A]\ninstances.count = 1\nis_default = true\nalias = 'x'\ninstances.0.warm = 1";
    assert_eq!(
        problems(&Sources { files: file(text, false), ..sources() }),
        [
            "INSTANCES defined globally: `pool.instances` in /project/greenroom.toml -> move it to pool level: `pools.<POOL>.instances`",
            "ALIAS defined per pool: `pools.A.alias` in /project/greenroom.toml -> an alias names one instance: `pools.A.instances.<ID>.alias`",
            "WARM defined per instance: `pools.A.instances.0.warm` in /project/greenroom.toml -> a pool has one list of tools and one queue: set `pools.A.warm` for the whole pool",
        ]
    );
}

/// A wrong value is reported by its variable, or by its key and file, and causes no further problem.
#[test]
fn wrong_values_are_reported_once() {
    let all = Sources {
        files: file("pools.F = { instances = 0, is_default = 'no' }\npools.G = 3", false),
        dotenv: dotenv("PW_MCP_PROXY__A__2_SLOTS=many\nPW_MCP_PROXY__A_DEVICE"),
        ..with(&[
            ("PW_MCP_PROXY__A_INSTANCES", "1025"),
            ("PW_MCP_PROXY__A__1_HEADLESS", "maybe"),
            ("PW_MCP_PROXY__A__0_ALIAS", "7"),
            ("PW_MCP_PROXY_PROXY_SERVER", "socks5://x:1"),
        ])
    };
    assert_eq!(
        problems(&all),
        [
            "`pools.F.instances` cannot be `0` (from /project/greenroom.toml): expected a whole number from 1 to 1024",
            "`pools.F.is_default` cannot be `\"no\"` (from /project/greenroom.toml): expected `true` or `false`",
            "`pools.G` cannot be `3` (from /project/greenroom.toml): expected a table, `[pools.G]`",
            "`PW_MCP_PROXY__A__2_SLOTS` cannot be `many` (from /project/.env): expected a whole number from 1 to 256",
            "`PW_MCP_PROXY__A_DEVICE` in /project/.env has no readable value -> values are UTF-8 text on one line: `NAME=value`",
            "`PW_MCP_PROXY__A_INSTANCES` cannot be `1025`: expected a whole number from 1 to 1024",
            "`PW_MCP_PROXY__A__1_HEADLESS` cannot be `maybe`: expected `true` or `false`",
            "`PW_MCP_PROXY__A__0_ALIAS` cannot be `7`: expected a name that is no number (numbers are the IDs of instances)",
            "`PW_MCP_PROXY_PROXY_SERVER` cannot be `socks5://x:1`: expected a proxy such as `http://proxy.example:3128` or `http://user:password@proxy.example:3128`, with its port, or `unset`",
        ]
    );
}

/// No problem repeats a proxy's password, on whatever level and in whatever form it was written.
#[test]
fn problems_hide_passwords() {
    let proxy = "https://ann:hunter2@proxy:1";
    let all = Sources {
        files: file(
            "pool.proxy_server = { server = 'http://proxy:1', password = 'hunter2' }\n\
             [[pools.A]]\nproxy_server = 'http://ann:hunter2@proxy:1'\n\
             [pools.B]\nproxy_server = 'http://ann:hunter2@proxy'\n\
             [[pools.B.instances]]\nproxy_server = 'http://ann:hunter2@proxy:1'",
            true,
        ),
        flags: vec![("pool.proxy_server", proxy.to_owned())],
        ..with(&[("PW_MCP_PROXY_PROXY_SERVER", proxy), ("PW_MCP_PROXY__A__0_PROXY_SERVER", proxy)])
    };
    let found = problems(&all);
    assert!(found.iter().all(|problem| !problem.contains("hunter2")), "{found:#?}");
    for shown in [
        "`pool.proxy_server` cannot be `***` (from /project/greenroom.toml)",
        "`pools.A` cannot be `[{ … }]`",
        "`pools.B.instances` cannot be `[{ … }]`",
        "`pools.B.proxy_server` cannot be `\"http://ann:***@proxy\"`",
        "`PW_MCP_PROXY_PROXY_SERVER` cannot be `https://ann:***@proxy:1`",
        "`PW_MCP_PROXY__A__0_PROXY_SERVER` cannot be `https://ann:***@proxy:1`",
        "`pool.proxy_server` cannot be `https://ann:***@proxy:1` (from --pool-proxy-server)",
    ] {
        assert!(found.iter().any(|problem| problem.starts_with(shown)), "{shown}: {found:#?}");
    }
}

/// Unknown names are mistakes on every level, reported with the nearest; old names are reported with their new ones.
#[test]
fn unknown_and_old_names_are_reported() {
    let all = Sources {
        files: file(
            "[pools.A]\ninstances.count = 1\ninstances.x.slots = 1\ninstances.0.slot = 1\nheadles = true\n[pools.my-pool]",
            false,
        ),
        dotenv: dotenv("PLAYWRIGHT_BROWSER=firefox\nPLAYWRIGHT_BROWSERS_PATH=0"),
        ..with(&[
            ("PLAYWRIGHT_VIEWPORT", "1x1"),
            ("PLAYWRIGHT_DEVICE", ""),
            ("PLAYWRIGHT_MCP_HEADLESS", "1"),
            ("PW_MCP_PROXY_BROWSR", "firefox"),
            ("PW_MCP_PROXY__B_INSTANCES", "1"),
            ("PW_MCP_PROXY__B_IS_DEFAULT", "1"),
            ("PW_MCP_PROXY__B_HEADLES", "1"),
        ])
    };
    assert_eq!(
        problems(&all),
        [
            "unknown key `pools.A.headles` in /project/greenroom.toml -> did you mean `pools.A.headless`?",
            "unknown key `pools.A.instances.0.slot` in /project/greenroom.toml -> did you mean `pools.A.instances.0.slots`?",
            "Invalid instance ID in override: `pools.A.instances.x` in /project/greenroom.toml -> instances are numbered from 0 on: `[pools.A.instances.0]`; `count` says how many",
            "`my-pool` cannot be the name of a pool: `pools.my-pool` in /project/greenroom.toml -> pools are named with uppercase letters and digits, and single underscores inside, such as `MY_POOL`; at most 64 of them",
            "`PLAYWRIGHT_BROWSER` in /project/.env is now `PW_MCP_PROXY_BROWSER` -> rename it to `PW_MCP_PROXY_BROWSER`",
            "`PLAYWRIGHT_VIEWPORT` in the environment is now `PW_MCP_PROXY_VIEWPORT_SIZE` -> rename it to `PW_MCP_PROXY_VIEWPORT_SIZE`",
            "unknown variable `PW_MCP_PROXY_BROWSR` in the environment -> did you mean `PW_MCP_PROXY_BROWSER`?",
            "unknown variable `PW_MCP_PROXY__B_HEADLES` in the environment -> did you mean `PW_MCP_PROXY__B_HEADLESS`?",
        ]
    );
}

/// On no level can a `.env`, or a file that merely lies there, name a program or set a guarded value.
#[test]
fn guarded_values_are_refused_on_every_level() {
    let guarded: Vec<_> =
        SETTINGS.iter().filter(|setting| setting.is_of_pools() && setting.is_guarded()).collect();
    assert!(guarded.len() > 5);
    for setting in guarded {
        let key = setting.name().to_uppercase();
        let names =
            ["PW_MCP_PROXY_", "PW_MCP_PROXY__A_", "PW_MCP_PROXY__A__0_"].map(|start| format!("{start}{key}"));
        for name in names {
            let found = problems(&Sources { dotenv: dotenv(&format!("{name}=x")), ..with(&A) });
            assert!(
                found[0].contains("may not be set by a file in the working directory")
                    && found[0].contains(&name),
                "{found:?}"
            );
        }
    }
    let text = "[pools.A]\ninstances.count = 1\nis_default = true\ninstances.0.executable_path = '/evil'";
    assert_eq!(
        problems(&Sources { files: file(text, false), ..sources() }),
        [
            "`pools.A.instances.0.executable_path` may not be set by a file in the working directory (from /project/greenroom.toml) -> \
          set it in /home/me/.config/greenroom/greenroom.toml"
        ]
    );
    assert_eq!(
        problems(&Sources { dotenv: dotenv("PW_MCP_PROXY__A_EXECUTABLE_PATH=/evil"), ..with(&A) }),
        [
            "`PW_MCP_PROXY__A_EXECUTABLE_PATH` may not be set by a file in the working directory (from /project/.env) -> \
          set PW_MCP_PROXY__A_EXECUTABLE_PATH in the environment"
        ]
    );
    assert!(resolve(&Sources { files: file(text, true), ..sources() }).is_ok());
}

/// A pool whose name ends like a key can be read as another; the hint says so.
#[test]
fn pool_name_ending_like_a_key_gets_a_hint() {
    let found = problems_with_pool_a(&[
        ("PW_MCP_PROXY__B_LEASE_INSTANCES", "1"),
        ("PW_MCP_PROXY__B_LEASE_TIMEOUT", "1s"),
    ]);
    assert_eq!(
        found,
        [
            "Pool missing INSTANCES configuration: pool `B`, declared by `PW_MCP_PROXY__B_LEASE_TIMEOUT` -> add \
          `PW_MCP_PROXY__B_INSTANCES`; if it was meant for pool `B_LEASE`, give that pool another name: the longest key wins"
        ]
    );
}

/// Pieces that names with our prefix are made of, right and wrong.
fn name() -> impl Strategy<Value = String> {
    let keys: Vec<_> = Key::all().map(Key::upper).collect();
    let key = prop_oneof![4 => prop::sample::select(keys), 1 => "[A-Z_]{0,8}"];
    let pool = prop_oneof![4 => "(A|B|MY_POOL|LEASE)", 1 => "[A-Za-z0-9_]{0,6}"];
    let id = prop_oneof![4 => "[0-3]", 1 => "[0-9a-z_]{0,3}"];
    (key, pool, id, 0..4_u8).prop_map(|(key, pool, id, form)| match form {
        0 => format!("PW_MCP_PROXY_{key}"),
        1 => format!("PW_MCP_PROXY__{pool}_{key}"),
        2 => format!("PW_MCP_PROXY__{pool}__{id}_{key}"),
        _ => format!("PW_MCP_PROXY_{pool}{key}{id}"),
    })
}

proptest! {
    /// Whatever is set under our prefix, nothing panics, and each variable either is the origin of a value or is named in a
    /// problem.
    #[test]
    fn every_variable_is_used_or_reported(
        names in prop::collection::btree_set(name(), 0..12),
        values in prop::collection::vec(prop_oneof!["(true|1|2|3|30000|firefox|x|http://a:1|/p)", "\\PC{0,6}"], 12),
    ) {
        let variables: Vec<_> = names.iter().map(String::as_str).zip(values.iter().map(String::as_str)).collect();
        let (resolved, problems) = merge(&with(&variables));
        let mut used: BTreeSet<_> = SETTINGS.iter().map(|setting| resolved.origin(setting.key).to_string()).collect();
        for pool in &resolved.settings.pools {
            used.extend(resolved.pool_keys(&pool.name).iter().map(|(_, _, origin)| origin.to_string()));
        }
        // A value for all pools is the origin of no single value.
        used.insert("PW_MCP_PROXY_DESCRIPTION".to_owned());
        let said: Vec<_> = problems.iter().map(|problem| problem.to_string()).collect();
        for name in &names {
            let told = said.iter().any(|text| text.contains(&format!("`{name}`")));
            prop_assert!(told || used.contains(name), "{name}: {said:?}");
        }
        prop_assert_eq!(problems.is_empty(), resolve(&with(&variables)).is_ok());
    }
}
