//! Tests of limits: what a file that merely lies in the working directory cannot change, for every setting and every
//! way to set it. "The folder" is such a file here.

use super::{
    ConfigFile, EngineKind, Guard, SETTINGS, Setting, Settings, Sources,
    problem::Problem,
    resolve,
    resolve::{
        merge,
        tests::{dotenv, environment, file, problems, sources},
    },
    setting_macro::SettingLevel,
};

/// Two values of each setting, as TOML: the user's, and another one for the folder. The second number is the higher
/// one.
fn values(setting: &Setting) -> (&'static str, &'static str) {
    match setting.key {
        "data_dir" | "node" | "records.dir" => ("'/a'", "'/b'"),
        "log" => ("'info'", "'debug'"),
        "responses" | "pool.responses" => ("'refs'", "'raw'"),
        "inline_tokens" | "picture_side_pixels" => ("1000", "2000"),
        "pictures" | "pool.pictures" => ("'link'", "'inline'"),
        "tools.profile" => ("'core'", "'full'"),
        "server.listen" => ("'127.0.0.1:1'", "'127.0.0.1:2'"),
        "server.allowed_hosts" | "records.redact" | "tools.allow" | "tools.deny" => ("[\"a\"]", "[\"b\"]"),
        "network.preset" | "pool.network_preset" => ("'guarded'", "'open'"),
        "network.allow" | "network.deny" | "pool.network_allow" | "pool.network_deny" => {
            ("[\"a\"]", "[\"b\"]")
        }
        "server.public_url" => ("'https://a'", "'https://b'"),
        "server.allowed_origins" => ("[\"https://a\"]", "[\"https://b\"]"),
        "server.trusted_proxies" => ("[\"10.0.0.1\"]", "[\"10.0.0.2\"]"),
        "server.tls_cert" | "server.tls_key" => ("'/a'", "'/b'"),
        "server.api_keys" => ("[\"a:0123456789abcdef\"]", "[\"b:fedcba9876543210\"]"),
        "sessions.scope" => ("'explicit'", "'call'"),
        "records.bytes_max" | "blobs.bytes_max" => ("'1GiB'", "'2GiB'"),
        "blobs.upload_bytes_max" => ("'1MiB'", "'2MiB'"),
        "sessions.disk_bytes_max" | "pool.memory_bytes_max" => ("'1GiB'", "'2GiB'"),
        "pool.profile_bytes_max" => ("'1GiB'", "'2GiB'"),
        "pool.cpu_cores_max" => ("'1'", "'2'"),
        "pool.processes_max" | "pool.open_files_max" => ("100", "200"),
        "audit.bytes_max" | "audit.file_bytes_max" => ("'1GiB'", "'2GiB'"),
        "attach.changes" | "attach.eager" => ("'off'", "'on'"),
        "pool.engine" => ("'playwright'", "'devtools'"),
        "pool.command" => ("[\"a\"]", "[\"b\"]"),
        "pool.url" => ("'http://a:1'", "'http://b:1'"),
        "pool.slots" | "pool.instances_max" | "pool.warm" | "pool.restarts" => ("1", "2"),
        "pool.lease_strategy" => ("'fifo'", "'sticky'"),
        "limits.sessions_per_owner" | "limits.calls_per_owner" | "limits.waiting_calls_per_owner" => {
            ("1", "2")
        }
        "pool.share" => ("'owner'", "'all'"),
        "pool.browser" => ("'chrome'", "'firefox'"),
        "pool.executable_path" | "pool.user_data_dir" | "pool.storage_state" => ("'/a'", "'/b'"),
        "pool.output_dir" | "pool.secrets_file" => ("'/a'", "'/b'"),
        "pool.viewport_size" => ("'10x10'", "'20x20'"),
        "pool.caps" => ("[\"pdf\"]", "[\"vision\"]"),
        "pool.init_script" => ("[\"/a\"]", "[\"/b\"]"),
        "pool.allowed_origins" | "pool.blocked_origins" => ("[\"a.example\"]", "[]"),
        "pool.proxy_server" => ("'http://a:1'", "'http://b:1'"),
        "pool.image_responses" => ("'omit'", "'allow'"),
        "pool.user_agent" | "pool.device" | "pool.test_id_attribute" => ("'a'", "'b'"),
        "pool.locale" => ("'de-CH'", "'en-GB'"),
        "pool.timezone" => ("'Europe/Zurich'", "'Europe/London'"),
        "pool.geolocation" => ("'1,1'", "'2,2'"),
        "pool.permissions" => ("[\"camera\"]", "[\"midi\"]"),
        "pool.color_scheme" => ("'dark'", "'light'"),
        "pool.device_scale_factor" => ("'1'", "'2'"),
        "pool.codegen" => ("'none'", "'python'"),
        "pool.browser_args" => ("[\"--a\"]", "[\"--b\"]"),
        "pool.isolated" | "pool.lazy" | "pool.headless" => ("true", "false"),
        _ if is_of_type(setting, "1s") => ("'1s'", "'2s'"),
        _ if is_of_type(setting, "true") => ("false", "true"),
        other => panic!("give `{other}` two values here"),
    }
}

fn is_of_type(setting: &Setting, text: &str) -> bool {
    let flags = vec![(setting.key, text.to_owned())];
    let wrong = format!("`{}` cannot be", setting.key);
    !merge(&Sources { flags, ..sources() }).1.iter().any(|problem| problem.to_string().starts_with(&wrong))
}

/// The user's own file.
fn own(text: &str) -> Vec<ConfigFile> {
    let path = "/home/me/.config/greenroom/greenroom.toml".into();
    vec![ConfigFile { path, text: text.to_owned(), trusted: true }]
}

/// The user's own file under the folder's.
fn over(mine: &str, folder: &str) -> Sources {
    let mut files = own(mine);
    files.extend(file(folder, false));
    Sources { files, ..sources() }
}

fn plain(toml: &str) -> &str {
    toml.trim_matches('\'')
}

/// Sources in which a folder sets this setting, one for each spelling and level, over the text of the user's own file.
fn ways(setting: &Setting, mine: &str, value: &str) -> Vec<Sources> {
    let name = setting.name();
    let text = plain(value);
    let upper = name.to_uppercase();
    let env = |text: String| Sources { files: own(mine), dotenv: dotenv(&text), ..sources() };
    let mut ways = vec![
        over(mine, &format!("{} = {value}", setting.key)),
        env(format!("{}={text}", setting.variable())),
    ];
    ways.extend(setting.alias.map(|alias| env(format!("{alias}={text}"))));
    if setting.is_of_pools() {
        ways.push(env(format!("PW_MCP_PROXY_{upper}={text}")));
    }
    let pool = "pools.A.is_default = true\npools.A.instances.count = 1";
    let variables = "PW_MCP_PROXY__A_INSTANCES=1\nPW_MCP_PROXY__A_IS_DEFAULT=true";
    if setting.is_of_pools() && setting.reach >= SettingLevel::Pool {
        ways.push(over(mine, &format!("{pool}\npools.A.{name} = {value}")));
        ways.push(env(format!("{variables}\nPW_MCP_PROXY__A_{upper}={text}")));
    }
    if setting.is_of_pools() && setting.reach == SettingLevel::Instance {
        ways.push(over(mine, &format!("{pool}\npools.A.instances.0.{name} = {value}")));
        ways.push(env(format!("{variables}\nPW_MCP_PROXY__A__0_{upper}={text}")));
    }
    ways
}

/// How often a configuration is refused because a folder sets what is guarded.
fn guarded(sources: &Sources) -> usize {
    let Err(problems) = resolve(sources) else { return 0 };
    problems.0.iter().filter(|problem| matches!(problem, Problem::Guarded { .. })).count()
}

/// How often a configuration is refused because a folder loosens a limit.
fn loosened(sources: &Sources) -> usize {
    let Err(problems) = resolve(sources) else { return 0 };
    problems.0.iter().filter(|problem| matches!(problem, Problem::Limited { .. })).count()
}

/// In whatever way a folder sets a setting, guarded settings are refused, limits that the user has set hold, and open
/// settings can be set.
#[test]
fn every_setting_is_guarded_limited_or_open() {
    for setting in SETTINGS {
        let (mine, theirs) = values(setting);
        let said = format!("{} = {mine}", setting.key);
        for (at, way) in ways(setting, &said, theirs).iter().enumerate() {
            let found = (guarded(way), loosened(way));
            let expected = match setting.guard {
                Guard::Guarded => (1, 0),
                Guard::Limit | Guard::LimitWith(_) => (0, 1),
                Guard::Open => (0, 0),
            };
            assert_eq!(found, expected, "{}, way {at}: {:?}", setting.key, resolve(way).err());
        }
        // A folder may set a limit that the user has not set, or set it to the user's value.
        for (mine, value) in [("", theirs), (said.as_str(), mine)] {
            for way in ways(setting, mine, value) {
                assert_eq!(loosened(&way), 0, "{} = {value}: {:?}", setting.key, resolve(&way).err());
            }
        }
    }
}

/// Lists the limits and the open settings with the reasons. A new setting fails this test until it is added to a list.
#[test]
fn every_setting_is_classified() {
    let of = |is: fn(&Setting) -> bool| {
        SETTINGS.iter().filter(|setting| is(setting)).map(|setting| setting.key).collect::<Vec<_>>()
    };
    let limits = [
        // Who shares a browser, and for how long it stays open.
        "sessions.scope",
        "sessions.idle_timeout",
        "sessions.max_lifetime",
        "blobs.per_pool",
        // Tools have other names under another engine.
        "pool.engine",
        "pool.isolated",
        // What greenroom takes of the machine.
        "pool.slots",
        "pool.instances_max",
        "pool.warm",
        "pool.instance_idle",
        // Firefox, WebKit and browsers of Windows are started by the engine, without greenroom's filter of the debugger.
        "pool.browser",
        "pool.wsl_windows",
        "pool.allowed_origins",
        "pool.blocked_origins",
        // What is kept on disk, and what reaches the model.
        "pool.save_session",
        "pool.image_responses",
    ];
    assert_eq!(of(Setting::is_limit), limits);
    let open = [
        "log",
        // A call can ask for another form, or for more, by itself.
        "responses",
        "inline_tokens",
        "pictures",
        "picture_side_pixels",
        // Other addresses than this machine's loopback are refused in any case.
        "server.listen",
        "server.drain_timeout",
        // A command starts the server again.
        "server.idle_exit",
        // Agents may call the same tools with each of them.
        "tools.profile",
        "attach.eager",
        "attach.cooldown",
        "pool.lazy",
        // A call extends its deadline by itself; the others only say how soon something fails or is tried again.
        "pool.lease_timeout",
        "pool.lease_strategy",
        "pool.health_interval",
        "pool.health_timeout",
        "pool.restarts",
        "pool.timeout",
        "pool.responses",
        "pool.pictures",
        // A browser with a window can do what one without can.
        "pool.headless",
        "pool.viewport_size",
        "pool.timeout_action",
        "pool.timeout_navigation",
        "pool.timeout_settle",
        // These change what pages learn of their user. Only `pool.permissions`, which is guarded, lets them learn more.
        "pool.user_agent",
        "pool.device",
        "pool.locale",
        "pool.timezone",
        "pool.geolocation",
        "pool.color_scheme",
        "pool.device_scale_factor",
        "pool.test_id_attribute",
        "pool.snapshot_boxes",
        "pool.codegen",
    ];
    assert_eq!(of(|setting| setting.guard == Guard::Open), open);
}

/// A deny list is written for the tools of one engine: `evaluate_script` of the devtools engine is what `browser_evaluate`
/// is to playwright. So a folder cannot choose another engine where tools are denied, on any level, whatever source denies
/// them; where nothing is denied, it can.
#[test]
fn folder_cannot_evade_a_deny_list_by_another_engine() {
    let setting = SETTINGS.iter().find(|setting| setting.key == "pool.engine").unwrap();
    for list in ["tools.deny = ['browser_evaluate']", "tools.allow = ['browser_*']"] {
        for way in ways(setting, list, "'devtools'") {
            assert_eq!(loosened(&way), 1, "{list}: {:?}", resolve(&way).err());
        }
    }
    let by_flag = Sources {
        flags: vec![("tools.deny", "browser_evaluate".into())],
        ..over("", "pool.engine = 'devtools'")
    };
    assert_eq!(
        problems(&by_flag),
        [
            "`pool.engine` may not be changed to `devtools` by a file in the working directory (from /project/greenroom.toml): \
          your `tools.deny` (from --tools-deny) names tools of `playwright` -> set it as GREENROOM_POOL_ENGINE in the \
          environment, as --pool-engine, or in /home/me/.config/greenroom/greenroom.toml"
        ]
    );
    let by_environment = Sources {
        environment: environment(&[("GREENROOM_TOOLS_DENY", "browser_evaluate")]),
        ..over("", "pool.engine = 'devtools'")
    };
    assert_eq!(loosened(&by_environment), 1);

    // The problem is reported once, not again for each pool.
    let with_pool = "pool.engine = 'devtools'\n[pools.A]\nis_default = true\ninstances = 1";
    assert_eq!(loosened(&over("tools.deny = ['browser_evaluate']", with_pool)), 1);

    let chosen = over("tools.deny = []", "pool.engine = 'devtools'");
    assert_eq!(resolve(&chosen).unwrap().settings.pool.engine, EngineKind::Devtools);
    let mine = over("tools.deny = ['evaluate_script']\npool.engine = 'devtools'", "pool.engine = 'devtools'");
    assert_eq!(resolve(&mine).unwrap().settings.pool.engine, EngineKind::Devtools);
}

/// Limits also hold on a narrower level than the one they were set on, even limits from the environment and flags,
/// which are read after the folder's files.
#[test]
fn narrower_level_lifts_no_limit() {
    let pools = "pools.A.is_default = true\npools.A.instances.count = 1\npools.A.blocked_origins = []";
    let blocked = |sources: &Sources| problems(sources).remove(0);
    let by_flag = Sources { flags: vec![("pool.blocked_origins", "evil.example".into())], ..over("", pools) };
    assert_eq!(
        blocked(&by_flag),
        "`pools.A.blocked_origins` may not be `[]` in a pool that a file in the working directory adds (from \
         /project/greenroom.toml): you set `pool.blocked_origins` to `[\"evil.example\"]` (from --pool-blocked-origins) -> \
         set it in /home/me/.config/greenroom/greenroom.toml"
    );
    let by_environment = Sources {
        environment: environment(&[("PW_MCP_PROXY_BLOCKED_ORIGINS", "evil.example")]),
        ..over("", pools)
    };
    assert!(blocked(&by_environment).contains("(from PW_MCP_PROXY_BLOCKED_ORIGINS)"));

    let mine = "[pools.A]\nis_default = true\ninstances = 2\nblocked_origins = ['evil.example']";
    let instance = over(mine, "pools.A.instances.1.blocked_origins = []");
    assert_eq!(
        problems(&instance),
        [
            "`pools.A.instances.1.blocked_origins` may not be changed to `[]` by a file in the working directory (from \
          /project/greenroom.toml): you set `[\"evil.example\"]` (from /home/me/.config/greenroom/greenroom.toml) -> set it in \
          /home/me/.config/greenroom/greenroom.toml"
        ]
    );
    let wider = over(mine, "pool.blocked_origins = []");
    assert_eq!(resolve(&wider).unwrap().settings.pools[0].common.blocked_origins, ["evil.example"]);
}

/// A value of the environment on the same level wins over the folder in any case, so nothing is refused.
#[test]
fn folder_values_overridden_by_the_environment_are_no_problem() {
    let sources = Sources {
        environment: environment(&[("GREENROOM_POOL_SLOTS", "2")]),
        ..over("pool.slots = 1", "pool.slots = 8")
    };
    assert_eq!(resolve(&sources).unwrap().settings.pool.slots, 2);
}

/// A folder may lower a number, and not raise it or take it away.
#[test]
fn folder_may_lower_numbers_only() {
    let folder = |mine: &str, text: &str| resolve(&over(mine, text)).map(|resolved| resolved.settings);
    assert_eq!(folder("pool.slots = 4", "pool.slots = 2").unwrap().pool.slots, 2);
    assert_eq!(
        problems(&over("pool.slots = 4", "pool.slots = 5"))[0].split(" -> ").next().unwrap(),
        "`pool.slots` may not be raised to `5` by a file in the working directory (from /project/greenroom.toml): you set `4` \
         (from /home/me/.config/greenroom/greenroom.toml)"
    );
    let lifetime = "sessions.max_lifetime = '1h'";
    assert!(folder(lifetime, "sessions.max_lifetime = '30m'").is_ok());
    for longer in ["'2h'", "'off'"] {
        assert!(folder(lifetime, &format!("sessions.max_lifetime = {longer}")).is_err(), "{longer}");
    }
    let mine = "[pools.A]\nis_default = true\ninstances = 2";
    assert_eq!(folder(mine, "pools.A.instances = 1").unwrap().pools[0].instances.len(), 1);
    assert!(folder(mine, "pools.A.instances = 3").is_err());
}

/// A folder can neither add a pool with looser limits than those of the user's pools, nor make another the default, nor
/// swap their aliases, nor replace one by a `.env` and drop its limits.
#[test]
fn folder_cannot_change_the_users_pools() {
    let mine = "[pools.A]\nis_default = true\nslots = 1\nisolated = true\nblocked_origins = ['evil.example']\n\
        instances.count = 2\ninstances.0.alias = 'work'\ninstances.1.alias = 'play'";
    let said = |folder: &str| problems(&over(mine, folder));
    assert_eq!(
        said("pools.B.instances = 1\npools.B.isolated = true"),
        [
            "`pools.B.blocked_origins` may not be `[]` in a pool that a file in the working directory adds (from \
          /project/greenroom.toml): you set `pools.A.blocked_origins` to `[\"evil.example\"]` (from \
          /home/me/.config/greenroom/greenroom.toml) -> set it in /home/me/.config/greenroom/greenroom.toml"
        ]
    );
    let as_strict = "[pools.B]\ninstances = 1\nisolated = true\nblocked_origins = ['evil.example']";
    assert!(resolve(&over(mine, as_strict)).is_ok());
    let stolen = said("pools.A.is_default = false\npools.B.is_default = true\npools.B.instances = 1");
    assert!(
        stolen.iter().any(|said| said.starts_with("`pools.A.is_default` may not be changed to `false` by")),
        "{stolen:?}"
    );
    let swapped = said("pools.A.instances.0.alias = 'play'\npools.A.instances.1.alias = 'work'");
    assert_eq!(swapped.len(), 2, "{swapped:?}");
    assert!(
        swapped[0].starts_with("`pools.A.instances.0.alias` may not be changed to `play` by"),
        "{swapped:?}"
    );

    let env = "PW_MCP_PROXY__A_INSTANCES=1\nPW_MCP_PROXY__A_IS_DEFAULT=true";
    let replaced = problems(&Sources { files: own(mine), dotenv: dotenv(env), ..sources() });
    let dropped = "`PW_MCP_PROXY__A_BLOCKED_ORIGINS` may not be changed to `[]` by a file in the working directory (from /project/.env): \
        you set `[\"evil.example\"]` (from /home/me/.config/greenroom/greenroom.toml) -> set PW_MCP_PROXY__A_BLOCKED_ORIGINS in the environment";
    assert!(replaced.contains(&dropped.to_owned()), "{replaced:?}");
    let alias = "`PW_MCP_PROXY__A__0_ALIAS` may not be removed by a file in the working directory";
    assert!(replaced.iter().any(|said| said.starts_with(alias)), "{replaced:?}");
    assert!(resolve(&over(mine, "pools.A.description = 'x'\npools.A.headless = false")).is_ok());
}

/// The user's values for a pool hold even if only the folder sets the number of instances, without which it is no pool:
/// for the pool, for an instance, and for an alias.
#[test]
fn user_values_hold_in_pools_completed_by_a_folder() {
    let whole = "pools.A.is_default = true\npools.A.instances.count = 2\n";
    for (mine, theirs, key) in [
        ("blocked_origins = ['evil.example']", "blocked_origins = []", "blocked_origins"),
        ("instances.0.blocked_origins = ['evil.example']", "instances.0.blocked_origins = []", "instances.0"),
        ("instances.1.blocked_origins = ['evil.example']", "instances.1.blocked_origins = []", "instances.1"),
        ("instances.0.isolated = true", "instances.0.isolated = false", "instances.0.isolated"),
        ("instances.0.alias = 'work'", "instances.0.alias = 'play'", "instances.0.alias"),
        ("is_default = false", "description = 'x'", "is_default"),
    ] {
        let mine = format!("pools.A.{mine}");
        let theirs = format!("{whole}pools.A.{theirs}");
        let said = problems(&over(&mine, &theirs));
        let refused = |said: &String| {
            said.starts_with(&format!("`pools.A.{key}")) && said.contains("may not be changed to")
        };
        assert!(said.iter().any(refused), "{mine}: {said:?}");
    }
    // An instance that only the folder adds has to obey what the user has set for the others.
    let mine = "pools.A.instances.0.blocked_origins = ['evil.example']";
    assert_eq!(
        problems(&over(mine, whole))[0].split(" -> ").next().unwrap(),
        "`pools.A.blocked_origins` may not be `[]` in a pool that a file in the working directory adds (from \
         /project/greenroom.toml): you set `pools.A.instances.0.blocked_origins` to `[\"evil.example\"]` (from \
         /home/me/.config/greenroom/greenroom.toml)"
    );
    let as_strict = format!("{whole}pools.A.blocked_origins = ['evil.example']");
    assert!(resolve(&over(mine, &as_strict)).is_ok());
    // The same holds for the other values of a pool that the user only mentions.
    let mine =
        "pools.B.slots = 1\n[pools.A]\nis_default = true\ninstances = 1\nblocked_origins = ['evil.example']";
    assert_eq!(loosened(&over(mine, "pools.B.instances = 1")), 1);
    assert!(
        resolve(&over(&format!("pools.B.blocked_origins = []\n{mine}"), "pools.B.instances = 1")).is_ok()
    );
}

/// Variables of the user that mention a pool of the user's file replace it, and make no pool without `INSTANCES`. A `.env`
/// cannot complete such a pool without the limits that the file sets.
#[test]
fn dotenv_completes_no_pool_without_its_limits() {
    let mine = "[pools.A]\nis_default = true\nblocked_origins = ['evil.example']\ninstances.count = 1\n\
        instances.0.isolated = true";
    let env = "PW_MCP_PROXY__A_INSTANCES=1\nPW_MCP_PROXY__A_IS_DEFAULT=true\n";
    let with = |text: &str| Sources {
        files: own(mine),
        environment: environment(&[("PW_MCP_PROXY__A_HEADLESS", "false")]),
        dotenv: dotenv(&format!("{env}{text}")),
        ..sources()
    };
    let said = problems(&with(""));
    let dropped =
        "`PW_MCP_PROXY__A_BLOCKED_ORIGINS` may not be changed to `[]` by a file in the working directory";
    assert!(said.iter().any(|said| said.starts_with(dropped)), "{said:?}");
    assert_eq!(loosened(&with("")), 2, "{said:?}");
    let same = "PW_MCP_PROXY__A_BLOCKED_ORIGINS=evil.example\nPW_MCP_PROXY__A__0_ISOLATED=true";
    assert!(resolve(&with(same)).is_ok());
}

/// A pool that a folder adds has an engine that the user's lists of tools were written for: one that the user's pools and
/// browsers have. Without such lists the engine is free.
#[test]
fn pool_added_by_a_folder_uses_an_engine_of_the_user() {
    let browsers = "[[browsers]]\nurl = 'http://127.0.0.1:1'\nengine = 'devtools'\n";
    let pools = "[pools.A]\nis_default = true\ninstances = 1\nengine = 'devtools'\n";
    let denied = "tools.deny = ['evaluate_script']\n";
    let added = "[pools.B]\ninstances = 1\n";
    let devtools = format!("{added}engine = 'devtools'\n");
    let default = |folder: &str| format!("{folder}is_default = true\n");
    for (mine, plain, same) in
        [(pools, added.to_owned(), devtools.clone()), (browsers, default(added), default(&devtools))]
    {
        let listed = format!("{denied}{mine}");
        let found = problems(&over(&listed, &plain));
        assert_eq!(
            found[0].split(" -> ").next().unwrap(),
            "`pools.B.engine` may not be `playwright` in a pool that a file in the working directory adds (from \
             /project/greenroom.toml): your `tools.deny` (from /home/me/.config/greenroom/greenroom.toml) names tools of \
             `devtools`",
            "{mine}"
        );
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(resolve(&over(&listed, &same)).is_ok(), "{mine}: {:?}", resolve(&over(&listed, &same)).err());
        assert!(resolve(&over(mine, &plain)).is_ok(), "{mine}");
    }
    // Lists that were written for two engines hold for a pool of either.
    let both = format!("{denied}{pools}[pools.C]\ninstances = 1\n");
    assert!(resolve(&over(&both, added)).is_ok());
    assert!(resolve(&over(&both, &devtools)).is_ok());
    // A pool that the user only mentions has no tools yet that the lists could have been written for.
    assert_eq!(loosened(&over(&format!("{denied}{pools}[pools.B]\nslots = 1\n"), added)), 1);
}

/// An added pool is as strict as every pool and browser of the user. Where these differ, no pool can be, and the error
/// says so.
#[test]
fn pool_added_by_a_folder_is_as_strict_as_the_users_pools() {
    let mine = "[pools.A]\nis_default = true\ninstances = 1\nslots = 1\nblocked_origins = ['a.example']\n\
        [pools.C]\ninstances.count = 1\ninstances.0.isolated = true\ninstances.0.slots = 4\n";
    let added = "[pools.B]\ninstances = 1\nisolated = true\nblocked_origins = ['a.example']\n";
    assert!(resolve(&over(mine, added)).is_ok());
    assert_eq!(loosened(&over(mine, &format!("{added}slots = 2"))), 1);
    let differs = format!("{mine}instances.0.blocked_origins = ['c.example']\n");
    assert_eq!(
        problems(&over(&differs, added))[0].split(" -> ").next().unwrap(),
        "`pools.B.blocked_origins` may not be `[\"a.example\"]` in a pool that a file in the working directory adds (from \
         /project/greenroom.toml): you set `pools.C.instances.0.blocked_origins` to `[\"c.example\"]` (from \
         /home/me/.config/greenroom/greenroom.toml) and `pools.A.blocked_origins` to `[\"a.example\"]` (from \
         /home/me/.config/greenroom/greenroom.toml), so no value is as strict as both"
    );
    let browser =
        "[[browsers]]\nurl = 'http://127.0.0.1:1'\nisolated = true\nblocked_origins = ['a.example']\n";
    let default = format!("{added}is_default = true\n");
    assert!(resolve(&over(browser, &default)).is_ok());
    assert_eq!(loosened(&over(browser, "[pools.B]\ninstances = 1\nis_default = true\n")), 2);
}

/// If the user has set nothing, a folder may set every limit; and a file that the user names is the user's own.
#[test]
fn folder_may_set_limits_that_the_user_has_not_set() {
    let text = "pool.engine = 'devtools'\npool.slots = 9\npool.isolated = true\n[pools.A]\nis_default = true\n\
        instances = 3";
    assert!(resolve(&over("", text)).is_ok());
    let mut files = own("pool.slots = 1");
    files.extend(file("pool.slots = 9", true));
    let settings: Settings = resolve(&Sources { files, ..sources() }).unwrap().settings;
    assert_eq!(settings.pool.slots, 9);
}
