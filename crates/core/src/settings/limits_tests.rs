//! Tests of limits: what a file that merely lies in the working directory cannot change, setting by setting and way by
//! way.

use super::{
    ConfigFile, EngineKind, Guard, SETTINGS, Setting, Settings, Sources,
    declare::Reach,
    resolve,
    resolve::{
        merge,
        tests::{dotenv, environment, file, problems, sources},
    },
};

const NOT_CHANGED: &str = "may not be changed by a file in the working directory";
const NOT_SET: &str = "may not be set by a file in the working directory";

/// Two values of each setting, as TOML: the user's, and one that a folder would have instead. Of numbers the second is the
/// higher.
fn values(setting: &Setting) -> (&'static str, &'static str) {
    match setting.key {
        "data_dir" | "node" | "records.dir" => ("'/a'", "'/b'"),
        "log" => ("'info'", "'debug'"),
        "responses" | "pool.responses" => ("'refs'", "'raw'"),
        "inline_tokens" => ("1000", "2000"),
        "server.listen" => ("'127.0.0.1:1'", "'127.0.0.1:2'"),
        "server.allowed_hosts" | "records.redact" | "tools.allow" | "tools.deny" => ("[\"a\"]", "[\"b\"]"),
        "sessions.scope" => ("'explicit'", "'call'"),
        "records.bytes_max" | "blobs.bytes_max" | "sessions.disk_bytes_max" => ("'1GiB'", "'2GiB'"),
        "attach.changes" | "attach.eager" => ("'off'", "'on'"),
        "pool.engine" => ("'playwright'", "'devtools'"),
        "pool.command" => ("[\"a\"]", "[\"b\"]"),
        "pool.url" => ("'http://a:1'", "'http://b:1'"),
        "pool.slots" | "pool.instances_max" | "pool.warm" | "pool.restarts" => ("1", "2"),
        "pool.lease_strategy" => ("'fifo'", "'sticky'"),
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
    let (name, text) = (setting.name(), plain(value));
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
    if setting.is_of_pools() && setting.reach >= Reach::Pool {
        ways.push(over(mine, &format!("{pool}\npools.A.{name} = {value}")));
        ways.push(env(format!("{variables}\nPW_MCP_PROXY__A_{upper}={text}")));
    }
    if setting.is_of_pools() && setting.reach == Reach::Instance {
        ways.push(over(mine, &format!("{pool}\npools.A.instances.0.{name} = {value}")));
        ways.push(env(format!("{variables}\nPW_MCP_PROXY__A__0_{upper}={text}")));
    }
    ways
}

/// How often a configuration is refused with these words.
fn count(sources: &Sources, words: &str) -> usize {
    let Err(problems) = resolve(sources) else { return 0 };
    problems.0.iter().filter(|problem| problem.to_string().contains(words)).count()
}

/// Every setting, by every way of a folder: guarded ones are refused, limits that the user has set hold, and what is open
/// can be set.
#[test]
fn every_setting_by_every_way() {
    for setting in SETTINGS {
        let (mine, theirs) = values(setting);
        let said = format!("{} = {mine}", setting.key);
        for (at, way) in ways(setting, &said, theirs).iter().enumerate() {
            let found = (count(way, NOT_SET), count(way, NOT_CHANGED));
            let expected = match setting.guard {
                Guard::Guarded => (1, 0),
                Guard::Limit | Guard::LimitWith(_) => (0, 1),
                Guard::Open => (0, 0),
            };
            assert_eq!(found, expected, "{}, way {at}: {:?}", setting.key, resolve(way).err());
        }
        // What the user has not set, or sets the same, a folder may set.
        for (mine, value) in [("", theirs), (said.as_str(), mine)] {
            for way in ways(setting, mine, value) {
                assert_eq!(
                    count(&way, NOT_CHANGED),
                    0,
                    "{} = {value}: {:?}",
                    setting.key,
                    resolve(&way).err()
                );
            }
        }
    }
}

/// Lists the limits and the open settings with the reasons. A new setting fails this test until it is added to a list.
#[test]
fn decisions() {
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
        // What is taken of the machine.
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
        // A call asks for another form, or for more, by itself.
        "responses",
        "inline_tokens",
        // Other addresses than this machine's loopback are refused in any case.
        "server.listen",
        "server.drain_timeout",
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
fn a_deny_list_holds_though_a_folder_chooses_another_engine() {
    let setting = SETTINGS.iter().find(|setting| setting.key == "pool.engine").unwrap();
    for list in ["tools.deny = ['browser_evaluate']", "tools.allow = ['browser_*']"] {
        for way in ways(setting, list, "'devtools'") {
            assert_eq!(count(&way, NOT_CHANGED), 1, "{list}: {:?}", resolve(&way).err());
        }
    }
    let by_flag = Sources {
        flags: vec![("tools.deny", "browser_evaluate".into())],
        ..over("", "pool.engine = 'devtools'")
    };
    assert_eq!(
        problems(&by_flag),
        [
            "`pool.engine` may not be changed by a file in the working directory (from /project/greenroom.toml): it is `playwright`, \
          and `tools.deny` (from --tools-deny) was written for that -> set it as GREENROOM_POOL_ENGINE in the environment, as \
          --pool-engine, or in /home/me/.config/greenroom/greenroom.toml"
        ]
    );
    let by_environment = Sources {
        environment: environment(&[("GREENROOM_TOOLS_DENY", "browser_evaluate")]),
        ..over("", "pool.engine = 'devtools'")
    };
    assert_eq!(count(&by_environment, NOT_CHANGED), 1);

    let chosen = over("tools.deny = []", "pool.engine = 'devtools'");
    assert_eq!(resolve(&chosen).unwrap().settings.pool.engine, EngineKind::Devtools);
    let mine = over("tools.deny = ['evaluate_script']\npool.engine = 'devtools'", "pool.engine = 'devtools'");
    assert_eq!(resolve(&mine).unwrap().settings.pool.engine, EngineKind::Devtools);
}

/// Limits hold on a narrower level than the one they were set on, also those that environment and flags set, which are
/// read after the folder's files.
#[test]
fn a_narrower_level_lifts_no_limit() {
    let pools = "pools.A.is_default = true\npools.A.instances.count = 1\npools.A.blocked_origins = []";
    let blocked = |sources: &Sources| problems(sources).remove(0);
    let by_flag = Sources { flags: vec![("pool.blocked_origins", "evil.example".into())], ..over("", pools) };
    assert_eq!(
        blocked(&by_flag),
        "`pools.A.blocked_origins` may not be changed by a file in the working directory (from /project/greenroom.toml): it is \
         `[\"evil.example\"]` (from --pool-blocked-origins) -> set it in /home/me/.config/greenroom/greenroom.toml"
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
            "`pools.A.instances.1.blocked_origins` may not be changed by a file in the working directory (from \
          /project/greenroom.toml): it is `[\"evil.example\"]` (from /home/me/.config/greenroom/greenroom.toml) -> set it in \
          /home/me/.config/greenroom/greenroom.toml"
        ]
    );
    let wider = over(mine, "pool.blocked_origins = []");
    assert_eq!(resolve(&wider).unwrap().settings.pools[0].common.blocked_origins, ["evil.example"]);
}

/// What the environment says on the same level wins over the folder in any case, so nothing is refused.
#[test]
fn what_the_environment_overrides_is_no_problem() {
    let sources = Sources {
        environment: environment(&[("GREENROOM_POOL_SLOTS", "2")]),
        ..over("pool.slots = 1", "pool.slots = 8")
    };
    assert_eq!(resolve(&sources).unwrap().settings.pool.slots, 2);
}

/// A folder may lower a number, and not raise it or take it away.
#[test]
fn numbers_may_be_lowered() {
    let folder = |mine: &str, text: &str| resolve(&over(mine, text)).map(|resolved| resolved.settings);
    assert_eq!(folder("pool.slots = 4", "pool.slots = 2").unwrap().pool.slots, 2);
    assert!(folder("pool.slots = 4", "pool.slots = 5").is_err());
    let lifetime = "sessions.max_lifetime = '1h'";
    assert!(folder(lifetime, "sessions.max_lifetime = '30m'").is_ok());
    for longer in ["'2h'", "'off'"] {
        assert!(folder(lifetime, &format!("sessions.max_lifetime = {longer}")).is_err(), "{longer}");
    }
    let mine = "[pools.A]\nis_default = true\ninstances = 2";
    assert_eq!(folder(mine, "pools.A.instances = 1").unwrap().pools[0].instances.len(), 1);
    assert!(folder(mine, "pools.A.instances = 3").is_err());
}

/// A folder can neither add a pool with looser limits than those of the user's pools, nor make another the default, nor swap their aliases, nor replace
/// one by a `.env` and drop its limits.
#[test]
fn the_users_pools_stay_as_they_are() {
    let mine = "[pools.A]\nis_default = true\nslots = 1\nisolated = true\nblocked_origins = ['evil.example']\n\
        instances.count = 2\ninstances.0.alias = 'work'\ninstances.1.alias = 'play'";
    let said = |folder: &str| problems(&over(mine, folder));
    assert_eq!(
        said("pools.B.instances = 1\npools.B.isolated = true"),
        [
            "`pools.B.blocked_origins` may not be changed by a file in the working directory (from /project/greenroom.toml): \
          `pools.A.blocked_origins` in /home/me/.config/greenroom/greenroom.toml is `[\"evil.example\"]` -> set it in \
          /home/me/.config/greenroom/greenroom.toml"
        ]
    );
    let as_strict = "[pools.B]\ninstances = 1\nisolated = true\nblocked_origins = ['evil.example']";
    assert!(resolve(&over(mine, as_strict)).is_ok());
    let stolen = said("pools.A.is_default = false\npools.B.is_default = true\npools.B.instances = 1");
    assert!(
        stolen.iter().any(|said| said.starts_with("`pools.A.is_default` may not be changed")),
        "{stolen:?}"
    );
    let swapped = said("pools.A.instances.0.alias = 'play'\npools.A.instances.1.alias = 'work'");
    assert_eq!(swapped.len(), 2, "{swapped:?}");
    assert!(swapped[0].starts_with("`pools.A.instances.0.alias` may not be changed"), "{swapped:?}");

    let env = "PW_MCP_PROXY__A_INSTANCES=1\nPW_MCP_PROXY__A_IS_DEFAULT=true";
    let replaced = problems(&Sources { files: own(mine), dotenv: dotenv(env), ..sources() });
    let dropped = "`PW_MCP_PROXY__A_BLOCKED_ORIGINS` may not be changed by a file in the working directory (from /project/.env): \
        it is `[\"evil.example\"]` (from /home/me/.config/greenroom/greenroom.toml) -> set PW_MCP_PROXY__A_BLOCKED_ORIGINS in the environment";
    assert!(replaced.contains(&dropped.to_owned()), "{replaced:?}");
    assert!(resolve(&over(mine, "pools.A.description = 'x'\npools.A.headless = false")).is_ok());
}

/// A folder alone is as free as before, and a file that the user names is the user's own.
#[test]
fn a_folder_alone() {
    let text = "pool.engine = 'devtools'\npool.slots = 9\npool.isolated = true\n[pools.A]\nis_default = true\ninstances = 3";
    assert!(resolve(&over("", text)).is_ok());
    let mut files = own("pool.slots = 1");
    files.extend(file("pool.slots = 9", true));
    let settings: Settings = resolve(&Sources { files, ..sources() }).unwrap().settings;
    assert_eq!(settings.pool.slots, 9);
}
