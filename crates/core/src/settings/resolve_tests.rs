//! Tests of the merge: one source against another, and every problem it reports.

use std::{ffi::OsString, path::PathBuf};

use super::*;
use crate::settings::Viewport;

pub(in crate::settings) fn sources() -> Sources {
    Sources {
        data_dir: Some("/home/me/.local/share/greenroom".into()),
        working_dir: "/project".into(),
        user_file: Some("/home/me/.config/greenroom/greenroom.toml".into()),
        ..Sources::default()
    }
}

pub(in crate::settings) fn file(text: &str, trusted: bool) -> Vec<ConfigFile> {
    vec![ConfigFile { path: "/project/greenroom.toml".into(), text: text.to_owned(), trusted }]
}

pub(in crate::settings) fn dotenv(text: &str) -> Option<DotEnv> {
    Some(DotEnv { path: "/project/.env".into(), text: text.to_owned() })
}

pub(in crate::settings) fn environment(variables: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
}

/// The messages of all problems, hints after an arrow.
#[track_caller]
pub(in crate::settings) fn problems(sources: &Sources) -> Vec<String> {
    let Problems(problems) = resolve(sources).map(|resolved| resolved.settings).unwrap_err();
    let hint = |problem: &Problem| problem.hint().map_or_else(String::new, |hint| format!(" -> {hint}"));
    problems.iter().map(|problem| format!("{problem}{}", hint(problem))).collect()
}

/// Each source beats the ones before it, and every value knows where it came from.
#[test]
fn later_sources_win() {
    let mut all = sources();
    let idle = |sources: &Sources| {
        let resolved = resolve(sources).unwrap();
        (resolved.settings.sessions.idle_timeout.as_secs(), resolved.origin("sessions.idle_timeout").clone())
    };
    assert_eq!(idle(&all), (300, Origin::Default));
    all.files = file("sessions.idle_timeout = 1000", false);
    assert_eq!(idle(&all), (1, Origin::File("/project/greenroom.toml".into())));
    all.dotenv = dotenv("GREENROOM_SESSIONS_IDLE_TIMEOUT=2s");
    assert_eq!(idle(&all), (2, Origin::DotEnv("/project/.env".into())));
    all.environment = environment(&[("GREENROOM_SESSIONS_IDLE_TIMEOUT", "3s")]);
    assert_eq!(idle(&all), (3, Origin::Env("GREENROOM_SESSIONS_IDLE_TIMEOUT".into())));
    all.flags = vec![("sessions.idle_timeout", "4s".to_owned())];
    assert_eq!(idle(&all), (4, Origin::Flag("--sessions-idle-timeout".into())));
}

/// A whole file, in tables and dotted keys, becomes typed values; its relative paths start from its own folder.
#[test]
fn config_file_is_parsed() {
    let text = r#"
        data_dir = "data"
        sessions.scope = "explicit"
        [pool]
        viewport_size = "800x600"
        no_sandbox = true
    "#;
    let resolved =
        resolve(&Sources { files: file(text, true), working_dir: "/elsewhere".into(), ..sources() }).unwrap();
    let Settings { data_dir, sessions, pool, .. } = resolved.settings;
    assert_eq!(data_dir, PathBuf::from("/project/data"));
    assert_eq!(sessions.scope, Scope::Explicit);
    assert_eq!(pool.viewport_size, Viewport { width: 800, height: 600 });
    assert_eq!(pool.no_sandbox, Some(true));
}

/// `HEADLESS` counts as a variable of its source, beaten there by the proper name only.
#[test]
fn headless_variable_is_a_synonym() {
    let headless = |env: &str, variables: &[(&str, &str)]| {
        let sources = Sources { dotenv: dotenv(env), environment: environment(variables), ..sources() };
        resolve(&sources).unwrap().settings.pool.headless
    };
    assert!(headless("", &[]));
    assert!(!headless("", &[("HEADLESS", "false")]));
    assert!(!headless("HEADLESS=0", &[]));
    assert!(headless("", &[("GREENROOM_POOL_HEADLESS", "true"), ("HEADLESS", "false")]));
    assert!(!headless("GREENROOM_POOL_HEADLESS=true", &[("HEADLESS", "false")]));
}

/// Unknown names are problems in every source, reported with the nearest name; other programs' names are not.
#[test]
fn unknown_names_are_reported_with_the_nearest() {
    let sources = Sources {
        files: file(
            "idle_timeout = 1\n[sesions]\nscope = 'call'\n[pool]\nslot = 3\ncolour = 1\nslots.x = 1",
            true,
        ),
        dotenv: dotenv("GREENROOM_LOGS=x\nOTHER=1"),
        environment: environment(&[("GREENROOM_HEADLESS", "false"), ("GREENROOM_", "x"), ("PATH", "/bin")]),
        ..sources()
    };
    assert_eq!(
        problems(&sources),
        [
            "unknown key `idle_timeout` in /project/greenroom.toml -> did you mean `sessions.idle_timeout`?",
            "unknown key `pool.colour` in /project/greenroom.toml -> `greenroom config show` lists every setting",
            "unknown key `pool.slot` in /project/greenroom.toml -> did you mean `pool.slots`?",
            "`pool.slots` cannot be `{ x = 1 }` (from /project/greenroom.toml): expected a whole number from 1 to 256",
            "unknown key `sesions` in /project/greenroom.toml -> did you mean `sessions`?",
            "unknown variable `GREENROOM_LOGS` in /project/.env -> did you mean `GREENROOM_LOG`?",
            "unknown variable `GREENROOM_HEADLESS` in the environment -> did you mean `GREENROOM_POOL_HEADLESS`?",
        ]
    );
    let (resolved, _) = merge(&sources);
    let told: Vec<_> = resolved.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(told, ["unknown variable `GREENROOM_` in the environment"], "it resembles nothing");
}

/// The error for a wrong value names setting, source, value and what is allowed, in every source, even where a higher one
/// is right.
#[test]
fn wrong_value_errors_name_setting_and_source() {
    let sources = Sources {
        files: file("pool = 3\nlog = 1\n[sessions]\nidle_timeout = '5 parsecs'", true),
        dotenv: dotenv("GREENROOM_POOL_SLOTS=0\nGREENROOM_POOL_DEVICE"),
        environment: environment(&[("GREENROOM_POOL_CAPS", "pdf,bogus"), ("HEADLESS", "x\u{1b}[1m")]),
        flags: vec![("pool.viewport_size", "0x1".to_owned()), ("sessions.idle_timeout", "1s".to_owned())],
        ..sources()
    };
    assert_eq!(
        problems(&sources),
        [
            "`log` cannot be `1` (from /project/greenroom.toml): expected a level (`off`, `error`, `warn`, `info`, `debug`, `trace`), or a filter such as `info,greenroom_fleet=debug`",
            "`pool` cannot be `3` (from /project/greenroom.toml): expected a table, `[pool]`",
            "`sessions.idle_timeout` cannot be `\"5 parsecs\"` (from /project/greenroom.toml): expected a duration above zero such as `250ms`, `30s`, `5m` or `1h`, at most 365 days",
            "`pool.slots` cannot be `0` (from GREENROOM_POOL_SLOTS in /project/.env): expected a whole number from 1 to 256",
            "`GREENROOM_POOL_DEVICE` in /project/.env has no readable value -> values are UTF-8 text on one line: `NAME=value`",
            "`pool.headless` cannot be `x\\u{1b}[1m` (from HEADLESS): expected `true` or `false`",
            "`pool.caps` cannot be `pdf,bogus` (from GREENROOM_POOL_CAPS): expected a list; each entry is one of `config`, `network`, `pdf`, `storage`, `testing`, `vision`, `devtools` (`bogus` is not one of them)",
            "`pool.viewport_size` cannot be `0x1` (from --pool-viewport-size): expected width and height such as `1280x720`, each from 1 to 16384, and at most 33554432 pixels in all",
        ]
    );
}

/// A file that is not TOML is a problem with its line, in addition to those of the other sources.
#[test]
fn invalid_toml_is_reported_with_its_line() {
    let sources = Sources {
        files: file("log = 'info'\nlog = 'warn'\n", true),
        environment: environment(&[("GREENROOM_POOL_SLOTS", "x")]),
        ..sources()
    };
    let problems = problems(&sources);
    assert_eq!(problems.len(), 2);
    assert!(problems[0].starts_with("/project/greenroom.toml, line 2: duplicate key"), "{problems:?}");
}

/// A working directory's file is merged over the user's own: what it does not set, the user's own still does.
#[test]
fn working_directory_file_is_merged_over_the_users() {
    let own = ConfigFile {
        path: "/home/me/.config/greenroom/greenroom.toml".into(),
        text: "log = 'info'\n[tools]\ndeny = ['x']".to_owned(),
        trusted: true,
    };
    let near = file("log = 'debug'", false).remove(0);
    let resolved = resolve(&Sources { files: vec![own, near], ..sources() }).unwrap();
    assert_eq!(resolved.settings.log, "debug");
    assert_eq!(resolved.settings.tools.deny, ["x"]);
}

/// Limits of a browser that no browser could run with, or that no machine has, are refused, and the setting is named.
#[test]
fn absurd_limits_are_refused() {
    for (name, value) in [
        ("memory_bytes_max", "'1MiB'"),
        ("memory_bytes_max", "'off'"),
        ("memory_bytes_max", "-1"),
        ("cpu_cores_max", "0"),
        ("cpu_cores_max", "'1000000'"),
        ("processes_max", "1"),
        ("processes_max", "100000"),
        ("open_files_max", "3"),
        ("open_files_max", "'auto'"),
        ("profile_bytes_max", "'1KiB'"),
        ("profile_bytes_max", "99999999999999999"),
    ] {
        for text in [
            format!("[pool]\n{name} = {value}"),
            format!("[pools.A]\ninstances = 1\nis_default = true\n{name} = {value}"),
        ] {
            let found = problems(&Sources { files: file(&text, true), ..sources() });
            assert!(
                found.len() == 1 && found[0].contains(name) && found[0].contains("expected"),
                "{text}: {found:?}"
            );
        }
    }
}

/// No file that merely lies in the working directory can name a program, move the data or allow unsafe tools.
#[test]
fn working_directory_files_cannot_set_guarded_settings() {
    let guarded: Vec<_> =
        SETTINGS.iter().filter(|setting| setting.is_guarded()).map(|setting| setting.key).collect();
    assert_eq!(
        guarded,
        [
            "data_dir",
            "node",
            "server.allowed_hosts",
            "server.public_url",
            "server.allowed_origins",
            "server.trusted_proxies",
            "server.tls_cert",
            "server.tls_key",
            "server.api_keys",
            "server.public_probes",
            "server.allow_other_users",
            "sessions.disk_bytes_max",
            "limits.sessions_per_owner",
            "limits.calls_per_owner",
            "limits.waiting_calls_per_owner",
            "records.enabled",
            "records.dir",
            "records.redact",
            "records.max_age",
            "records.bytes_max",
            "blobs.ttl",
            "blobs.bytes_max",
            "blobs.upload_bytes_max",
            "audit.max_age",
            "audit.bytes_max",
            "audit.file_bytes_max",
            "network.preset",
            "network.allow",
            "network.deny",
            "network.trust_upstream",
            "tools.allow",
            "tools.deny",
            "tools.unsafe",
            "tools.webmcp",
            "attach.changes",
            "pool.command",
            "pool.url",
            "pool.share",
            "pool.executable_path",
            "pool.extension",
            "pool.user_data_dir",
            "pool.storage_state",
            "pool.no_sandbox",
            "pool.caps",
            "pool.init_script",
            "pool.proxy_server",
            "pool.network_preset",
            "pool.network_allow",
            "pool.network_deny",
            "pool.output_dir",
            "pool.ignore_https_errors",
            "pool.permissions",
            "pool.bypass_csp",
            "pool.secrets_file",
            "pool.memory_bytes_max",
            "pool.cpu_cores_max",
            "pool.processes_max",
            "pool.open_files_max",
            "pool.profile_bytes_max",
            "pool.browser_args",
        ]
    );

    let text = "data_dir = '/x'\nnode = '/x'\n[server]\nallowed_hosts = []\npublic_url = 'https://x'\nallowed_origins = []\ntrusted_proxies = []\ntls_cert = '/x'\ntls_key = '/x'\napi_keys = []\npublic_probes = true\nallow_other_users = true\n[sessions]\ndisk_bytes_max = '1GiB'\n[limits]\nsessions_per_owner = 1\ncalls_per_owner = 1\nwaiting_calls_per_owner = 1\n[records]\nenabled = true\ndir = '/x'\nredact = []\nmax_age = '1h'\nbytes_max = '1GiB'\n[blobs]\nttl = '1h'\nbytes_max = '1GiB'\nupload_bytes_max = '1MiB'\n[audit]\nmax_age = '1h'\nbytes_max = '1GiB'\nfile_bytes_max = '1MiB'\n[network]\npreset = 'open'\nallow = []\ndeny = []\ntrust_upstream = true\n[tools]\nallow = []\ndeny = []\nunsafe = true\nwebmcp = true\n[attach]\nchanges = 'on'\n[pool]\nurl = 'http://x:1'\ncaps = []\nignore_https_errors = true\ncommand = ['x']\nexecutable_path = '/x'\nno_sandbox = true\nextension = true\nuser_data_dir = '/x'\nstorage_state = '/x'\ninit_script = ['/x']\nproxy_server = 'http://x:1'\nnetwork_preset = 'open'\nnetwork_allow = []\nnetwork_deny = []\noutput_dir = '/x'\npermissions = ['camera']\nbypass_csp = true\nsecrets_file = '/x'\nmemory_bytes_max = '1GiB'\ncpu_cores_max = 1\nprocesses_max = 9\nopen_files_max = 99\nprofile_bytes_max = 'off'\nshare = 'all'\nbrowser_args = ['--x']";
    let found = problems(&Sources { files: file(text, false), ..sources() });
    assert_eq!(found.len(), guarded.len(), "{found:?}");
    assert!(found.contains(
        &"`node` may not be set by a file in the working directory (from /project/greenroom.toml) -> set it as GREENROOM_NODE \
          in the environment, as --node, or in /home/me/.config/greenroom/greenroom.toml"
            .to_owned()
    ));

    let variables: Vec<_> =
        guarded.iter().map(|key| format!("{}=x", find(key).unwrap().variable())).collect();
    let found = problems(&Sources { dotenv: dotenv(&variables.join("\n")), ..sources() });
    assert_eq!(found.len(), guarded.len(), "{found:?}");

    let trusted = "node = '/x'\n[pool]\nexecutable_path = '/x'\nno_sandbox = true";
    assert!(resolve(&Sources { files: file(trusted, true), ..sources() }).is_ok());
}

/// A `.env` cannot name the config file, which would make a file in its folder trusted.
#[test]
fn dotenv_cannot_name_the_config_file() {
    assert_eq!(
        problems(&Sources { dotenv: dotenv("GREENROOM_CONFIG=evil.toml"), ..sources() }),
        [
            "`GREENROOM_CONFIG` may not be set by a file in the working directory (from /project/.env) -> set GREENROOM_CONFIG \
          in the environment, or give --config"
        ]
    );
    assert!(
        resolve(&Sources { environment: environment(&[("GREENROOM_CONFIG", "x")]), ..sources() }).is_ok()
    );
}

/// Settings that do not go together are named with where each came from.
#[test]
fn conflicts_name_both_origins() {
    let with = |flags: &[(&'static str, &str)]| Sources {
        flags: flags.iter().map(|(key, value)| (*key, (*value).to_owned())).collect(),
        ..sources()
    };
    let first = |flags: &[(&'static str, &str)]| problems(&with(flags)).remove(0);
    assert!(
        first(&[("pool.engine", "custom")])
            .starts_with("`pool.engine` is `custom` (from --pool-engine), but `pool.command` is empty")
    );
    assert!(first(&[("pool.command", "x")]).starts_with(
        "`pool.command` is set (from --pool-command), but `pool.engine` is `playwright` (the default)"
    ));
    let custom = [("pool.engine", "custom"), ("pool.command", "x")];
    assert!(first(&[("tools.unsafe", "true")]).starts_with(
        "`tools.unsafe` (from --tools-unsafe) requires `pool.slots` to be 1, but it is 16 (the default)"
    ));

    assert!(resolve(&with(&custom)).is_ok());
    assert!(resolve(&with(&[("tools.unsafe", "true"), ("pool.slots", "1")])).is_ok());
    assert!(resolve(&with(&[("tools.unsafe", "true"), custom[0], custom[1]])).is_ok());
}

/// A setting that is wrong by itself is reported once, without the conflicts that its default would have.
#[test]
fn wrong_setting_causes_no_conflicts() {
    let flags = vec![("tools.unsafe", "true".to_owned()), ("pool.slots", "one".to_owned())];
    assert_eq!(problems(&Sources { flags, ..sources() }).len(), 1);
}

/// Without a home folder the data folder must be named, and then nothing is missing.
#[test]
fn data_folder_is_required_without_a_home() {
    let homeless = || Sources { data_dir: None, ..sources() };
    assert!(problems(&homeless())[0].starts_with("cannot choose a default for `data_dir`"));
    let named = Sources { flags: vec![("data_dir", "d".to_owned())], ..homeless() };
    assert_eq!(resolve(&named).unwrap().settings.data_dir, PathBuf::from("/project/d"));
}

/// One problem reads as a sentence, several as a list with each hint after its problem.
#[test]
fn problems_are_a_sentence_or_a_list() {
    let one = Sources { environment: environment(&[("GREENROOM_LOGS", "x")]), ..sources() };
    let problems = resolve(&one).map(|resolved| resolved.settings).unwrap_err();
    assert_eq!(problems.to_string(), "unknown variable `GREENROOM_LOGS` in the environment");
    assert_eq!(problems.hint().as_deref(), Some("did you mean `GREENROOM_LOG`?"));

    let two = Sources { dotenv: dotenv("GREENROOM_POOL_SLOTS=0"), ..one };
    let problems = resolve(&two).map(|resolved| resolved.settings).unwrap_err();
    let text = "the configuration has 2 problems\n  - `pool.slots` cannot be `0` (from GREENROOM_POOL_SLOTS in \
                /project/.env): expected a whole number from 1 to 256\n  - unknown variable `GREENROOM_LOGS` in the \
                environment\n    hint: did you mean `GREENROOM_LOG`?";
    assert_eq!((problems.to_string().as_str(), problems.hint()), (text, None));
}

/// The mark that greenroom's children carry, and the variables of its tests, are not mistakes.
#[test]
fn internal_variables_are_no_mistakes() {
    let mut sources = sources();
    sources.environment =
        environment(&[("GREENROOM_RUN", "1-2-0"), ("GREENROOM_TEST_DATA_DIR", "x"), ("GREENROOM_SOAK", "1")]);
    assert!(resolve(&sources).is_ok());
    sources.environment = environment(&[("GREENROOM_RUNS", "1"), ("GREENROOM_TESTS", "1")]);
    assert_eq!(resolve(&sources).unwrap().warnings.len(), 2);
}
