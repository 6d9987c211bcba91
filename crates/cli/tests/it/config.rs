//! How greenroom is configured: sources, precedence, mistakes, and `greenroom config show`.

use std::{fs, path::Path};

use insta::assert_snapshot;

use crate::cli_fixture::CliFixture;

const SHOW: &[&str] = &["config", "show"];

/// A data folder of known length, so that the table's columns are the same everywhere.
fn fixture() -> CliFixture {
    CliFixture::new().env("GREENROOM_DATA_DIR", "/data")
}

/// The lines of these keys in `config show`.
#[track_caller]
fn lines(output: &str, keys: &[&str]) -> String {
    assert!(output.starts_with("exit code: 0\n"), "{output}");
    let wanted = |line: &&str| line.split_whitespace().next().is_some_and(|key| keys.contains(&key));
    let squeeze = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    output.lines().filter(wanted).map(squeeze).collect::<Vec<_>>().join("\n")
}

/// Without any configuration every setting has its default, and says so.
#[test]
fn every_setting_has_a_default_and_its_source() {
    assert_snapshot!(fixture().run(SHOW));
}

/// Each of the five levels beats the ones before it, and is named as the source.
#[test]
fn later_sources_override_earlier_ones() {
    let fixture = fixture()
        .file(
            "cwd/greenroom.toml",
            "[pool]\nslots = 2\ninstances_max = 2\nlease_timeout = \"2s\"\ntimeout = 2000\nviewport_size = \"2x2\"",
        )
        .file(
            "cwd/.env",
            "GREENROOM_POOL_INSTANCES_MAX=3\nGREENROOM_POOL_LEASE_TIMEOUT=3s\nexport GREENROOM_POOL_TIMEOUT='3s' # why\n",
        )
        .env("GREENROOM_POOL_LEASE_TIMEOUT", "4s")
        .env("GREENROOM_POOL_TIMEOUT", "4000");
    let output = fixture.run(&["--pool-timeout", "5s", "config", "show"]);
    let keys =
        ["pool.instance_idle", "pool.slots", "pool.instances_max", "pool.lease_timeout", "pool.timeout"];
    assert_snapshot!(lines(&output, &keys));
}

/// `--config` beats `GREENROOM_CONFIG`, which beats `./greenroom.toml`, which beats the user's own file.
#[test]
fn config_file_is_found_by_precedence() {
    let restarts = |fixture: &CliFixture, arguments: &[&str]| {
        lines(&fixture.run(&[SHOW, arguments].concat()), &["pool.restarts"])
    };
    let fixture = fixture().file("home/.config/greenroom/greenroom.toml", "pool.restarts = 2");
    let user = restarts(&fixture, &[]);
    let fixture = fixture.file("cwd/greenroom.toml", "pool.restarts = 3");
    let near = restarts(&fixture, &[]);
    let fixture =
        fixture.file("cwd/by-variable.toml", "pool.restarts = 4").env("GREENROOM_CONFIG", "by-variable.toml");
    let variable = restarts(&fixture, &[]);
    let fixture = fixture.file("home/by-flag.toml", "pool.restarts = 5");
    let flag = restarts(&fixture, &["--config", "../home/by-flag.toml"]);
    assert_snapshot!([user, near, variable, flag].join("\n"));
}

/// A proxy's password is shown by neither form of `config show`, globally, in a pool or in an instance.
#[test]
fn config_show_hides_proxy_passwords() {
    let fixture = fixture()
        .env("PW_MCP_PROXY_PROXY_SERVER", "http://ann:hunter2@proxy:1")
        .env("PW_MCP_PROXY__A_INSTANCES", "1")
        .env("PW_MCP_PROXY__A_IS_DEFAULT", "true")
        .env("PW_MCP_PROXY__A_PROXY_SERVER", "http://bob:hunter2@proxy:1")
        .env("PW_MCP_PROXY__A__0_PROXY_SERVER", "http://eve:hunter2@proxy:1");
    for output in [fixture.run(SHOW), fixture.run(&["config", "show", "--json"])] {
        for user in ["ann", "bob", "eve"] {
            assert!(output.contains(&format!("http://{user}:***@proxy:1")), "{output}");
        }
        assert!(!output.contains("hunter2"), "{output}");
    }
}

/// A config file that a flag or variable names must exist.
#[test]
fn missing_named_config_file_is_an_error() {
    assert_snapshot!(fixture().run(&["config", "show", "--config", "nowhere.toml"]));
}

/// An unknown key names its file and the nearest key.
#[test]
fn unknown_key_error_names_file_and_nearest_key() {
    assert_snapshot!(fixture().file("cwd/greenroom.toml", "[sessions]\nidle_timout = \"5m\"").run(SHOW));
}

/// An unknown variable is an error too, with the nearest one.
#[test]
fn unknown_variable_error_names_the_nearest() {
    assert_snapshot!(fixture().env("GREENROOM_POOL_SLOT", "3").run(SHOW));
}

/// A variable with greenroom's prefix that resembles no setting may be another program's: greenroom warns and ignores it.
#[test]
fn unrelated_greenroom_variable_is_only_warned_about() {
    let output = fixture().env("GREENROOM_DEPLOYED_BY_TEAM", "tea").run(SHOW);
    assert!(output.starts_with("exit code: 0\n"), "{output}");
    let warning =
        "warning: unknown variable `GREENROOM_DEPLOYED_BY_TEAM` in the environment: it is ignored\n";
    assert!(output.ends_with(warning), "{output}");
}

/// A description for all pools applies to every pool without one, from a variable or from the table `[pool]`; keys that make
/// no sense for all pools stay refused.
#[test]
fn pool_description_applies_to_pools_without_one() {
    let pools = |fixture: CliFixture| {
        let fixture = fixture
            .env("PW_MCP_PROXY__A_INSTANCES", "1")
            .env("PW_MCP_PROXY__A_IS_DEFAULT", "true")
            .env("PW_MCP_PROXY__B_INSTANCES", "1")
            .env("PW_MCP_PROXY__B_DESCRIPTION", "own");
        fixture.run(SHOW)
    };
    let by_variable = pools(fixture().env("PW_MCP_PROXY_DESCRIPTION", "for all"));
    let by_file = pools(fixture().file("cwd/greenroom.toml", "[pool]\ndescription = \"for all\""));
    for output in [by_variable, by_file, pools(fixture().env("GREENROOM_POOL_DESCRIPTION", "for all"))] {
        assert!(output.contains("Pool A, the default, 1 instance: for all\n"), "{output}");
        assert!(output.contains("Pool B, 1 instance: own\n"), "{output}");
    }
    for key in ["ALIAS", "IS_DEFAULT", "INSTANCES"] {
        let output = pools(fixture().env(&format!("PW_MCP_PROXY_{key}"), "1"));
        assert!(output.contains(&format!("{key} defined globally")), "{output}");
    }
}

/// An unknown flag is bad usage, with the nearest one.
#[test]
fn unknown_flag_error_names_the_nearest() {
    assert_snapshot!(fixture().run(&["mcp", "--pool-slot", "3"]));
}

/// The user decides where records are kept, not a file that came with a cloned folder.
#[test]
fn working_directory_file_cannot_move_records() {
    let refused = fixture().file("cwd/.env", "GREENROOM_RECORDS_DIR=/elsewhere").run(SHOW);
    assert!(refused.contains("`records.dir` may not be set by a file in the working directory"), "{refused}");
    let refused = fixture().file("cwd/greenroom.toml", "records.dir = \"/elsewhere\"").run(SHOW);
    assert!(refused.contains("`records.dir` may not be set by a file in the working directory"), "{refused}");
}

/// greenroom reports all problems of all sources at once, each with its own hint.
#[test]
fn all_configuration_errors_are_reported_together() {
    let fixture = fixture()
        .file("cwd/greenroom.toml", "logg = \"info\"\n[sessions]\nscope = \"galaxy\"\nidle_timeout = true")
        .file("cwd/.env", "GREENROOM_POOL_CAPS=pdf,bogus\nGREENROOM_POOL_HEADLES=1\nSECRET=not ours")
        .env("GREENROOM_POOL_VIEWPORT_SIZE", "big")
        .env("GREENROOM_TOOLS_ALLOW", "browser_[");
    assert_snapshot!(fixture.run(&[
        "mcp",
        "--pool-slots",
        "1000",
        "--tools-unsafe",
        "--pool-engine",
        "custom"
    ]));
}

/// A broken file is named with its line.
#[test]
fn invalid_toml_error_has_file_and_line() {
    assert_snapshot!(fixture().file("cwd/greenroom.toml", "[pool]\nslots = \n").run(SHOW));
}

/// A filter that the log does not understand is a configuration error, and not ignored.
#[test]
fn invalid_log_filter_is_an_error() {
    assert_snapshot!(fixture().env("GREENROOM_LOG", "info,x=loud").run(SHOW));
}

/// A `.env` in the working directory cannot name programs, nor the config file.
#[test]
fn dotenv_cannot_run_commands() {
    let text = "GREENROOM_POOL_COMMAND=evil\nGREENROOM_NODE=./evil\nGREENROOM_CONFIG=evil.toml\n";
    assert_snapshot!(fixture().file("cwd/.env", text).run(SHOW));
}

/// A `greenroom.toml` that merely lies in the working directory cannot name a program; the same file by name can, and so
/// can the user's own, also from within its folder.
#[test]
fn working_directory_file_cannot_name_programs() {
    let text = "[pool]\nengine = \"custom\"\ncommand = [\"./server\", \"--x y\"]";
    let fixture = fixture().file("cwd/greenroom.toml", text);
    assert_snapshot!("lies_there", fixture.run(SHOW));
    let chosen = fixture.run(&["config", "show", "--config", "greenroom.toml"]);
    assert_snapshot!("chosen", lines(&chosen, &["pool.engine", "pool.command", "pool.slots"]));

    let own = "home/.config/greenroom";
    let fixture = CliFixture::new().file(&format!("{own}/greenroom.toml"), text);
    for folder in ["cwd", own] {
        assert!(fixture.run_in(folder, SHOW).starts_with("exit code: 0\n"), "{folder}");
    }
}

/// No file of the working directory loosens a limit that the user's own file sets: it can neither choose another engine,
/// whose tools have other names than the denied ones, nor set another value for a pool. The error names the value in force.
#[test]
fn working_directory_file_cannot_loosen_limits() {
    let own =
        "[tools]\ndeny = [\"browser_evaluate\"]\n[pool]\nslots = 2\nblocked_origins = [\"evil.example\"]";
    let folder = "[pool]\nengine = \"devtools\"\nslots = 9\nisolated = true\n[pools.A]\nis_default = true\ninstances = 1\nblocked_origins = []";
    let fixture = fixture().file("home/.config/greenroom/greenroom.toml", own);
    assert_snapshot!("loosened_by_a_file", fixture.file("cwd/greenroom.toml", folder).run(SHOW));
    let fixture = self::fixture().file("home/.config/greenroom/greenroom.toml", own);
    let folder = "GREENROOM_POOL_BLOCKED_ORIGINS=\nPW_MCP_PROXY_ENGINE=devtools\n";
    assert_snapshot!("loosened_by_dotenv", fixture.file("cwd/.env", folder).run(SHOW));
}

/// `HEADLESS=false` shows the browsers, from the environment and from `.env`; the proper name beats it.
#[test]
fn headless_variable_shows_windows() {
    let line = |fixture: CliFixture| lines(&fixture.run(SHOW), &["pool.headless"]);
    assert_snapshot!(
        [
            line(fixture().env("HEADLESS", "false")),
            line(fixture().file("cwd/.env", "HEADLESS=false")),
            line(fixture().env("HEADLESS", "false").env("GREENROOM_POOL_HEADLESS", "true")),
        ]
        .join("\n")
    );
}

/// A folder named `.env`, as Python makes them, is ignored.
#[test]
fn dotenv_folder_is_ignored() {
    assert!(fixture().file("cwd/.env/bin/activate", "").run(SHOW).starts_with("exit code: 0\n"));
}

/// For programs: typed values, `null` for what is unset, and sources with their kind.
#[test]
fn config_show_json_has_typed_values_and_sources() {
    let own = "home/.config/greenroom/greenroom.toml";
    let fixture = fixture().file(own, "[tools]\ndeny = [\"a\", \"b\"]").env("HEADLESS", "0");
    assert_snapshot!(fixture.run(&["config", "show", "--json", "--pool-timeout-settle=0"]));
}

/// The third example of the pools' specification.
const THREE_LEVELS: &str = "\
PW_MCP_PROXY_HEADLESS=true
PW_MCP_PROXY_BROWSER=chromium
PW_MCP_PROXY_TIMEOUT=30000
PW_MCP_PROXY__BROWSERS_INSTANCES=3
PW_MCP_PROXY__BROWSERS_IS_DEFAULT=true
PW_MCP_PROXY__BROWSERS__0_BROWSER=msedge
PW_MCP_PROXY__BROWSERS__0_ALIAS=edge_main
PW_MCP_PROXY__BROWSERS__1_BROWSER=firefox
PW_MCP_PROXY__BROWSERS__1_ALIAS=firefox_debug
PW_MCP_PROXY__BROWSERS__1_HEADLESS=false
";

/// Each declared pool is shown with its instances, the level of each value, and every key that was set, with its source.
#[test]
fn config_show_lists_pools_with_sources() {
    let fixture = fixture().file("cwd/.env", THREE_LEVELS);
    let fixture = fixture
        .env("PW_MCP_PROXY__SPARE_INSTANCES", "1")
        .env("PW_MCP_PROXY__SPARE_DESCRIPTION", "When the others are busy")
        .env("PW_MCP_PROXY__SPARE_TIMEOUT", "1m");
    let output = fixture.run(SHOW);
    assert_eq!(lines(&output, &["sessions.scope"]), "sessions.scope call default");
    let (_, pools) = output.split_once("\n\n").unwrap();
    assert_snapshot!(pools);
}

/// For programs: every key of a pool with its level, and what differs in each instance.
#[test]
fn config_show_json_lists_pools() {
    let output = fixture().file("cwd/.env", THREE_LEVELS).run(&["config", "show", "--json"]);
    let (_, pools) = output.split_once("  \"pools\": ").unwrap();
    let (pools, _) = pools.rsplit_once('}').unwrap();
    let pools: serde_json::Value = serde_json::from_str(pools).unwrap();
    let [pool] = pools.as_array().unwrap().as_slice() else { panic!("{pools}") };
    let setting = |key: &str| {
        let all = pool["settings"].as_array().unwrap();
        all.iter().find(|setting| setting["key"] == key).unwrap().clone()
    };
    assert_snapshot!(
        serde_json::to_string_pretty(&serde_json::json!([
            pool["name"],
            setting("instances"),
            setting("timeout"),
            setting("user_data_dir"),
            pool["instances"]
        ]))
        .unwrap()
    );
}

/// Mistakes in the declaration of pools stop the start, all of them at once, each with its fix.
#[test]
fn all_pool_errors_stop_the_start() {
    let fixture = fixture()
        .file("cwd/.env", "PLAYWRIGHT_HEADLESS=false\nPW_MCP_PROXY__B_COMMAND=evil\n")
        .env("PW_MCP_PROXY_INSTANCES", "3")
        .env("PW_MCP_PROXY__A_INSTANCES", "1")
        .env("PW_MCP_PROXY__A__1_HEADLESS", "maybe")
        .env("PW_MCP_PROXY__A_SLOTS", "2");
    assert_snapshot!(fixture.run(&["mcp"]));
}

/// A file with two browsers, one of them with every key.
const BROWSERS: &str = r#"
[pool]
timeout = "45s"
user_agent = "not for browsers that run"

[[browsers]]
url = "http://127.0.0.1:9222/"
label = "work"
tags = ["qa", "eu"]
headers = { Authorization = "Bearer hunter2" }
start_command = ["chrome", "--remote-debugging-port=9222"]
engine = "devtools"
lease_timeout = 1000

[[browsers]]
url = "wss://hosted.example/?token=hunter2"
isolated = true
slots = 2
"#;

/// Browsers are shown with their names, every value that was set, and its source; without header values and address keys.
#[test]
fn config_show_lists_browsers_without_secrets() {
    let fixture = fixture().file("home/own.toml", BROWSERS);
    let output = fixture.run(&[
        "--wsEndpoint",
        "ws://127.0.0.1:9223/devtools/browser/x|start --it {url}",
        "config",
        "show",
        "--config",
        "../home/own.toml",
        "--browserUrl",
        "home=http://127.0.0.1:9224",
    ]);
    assert_eq!(lines(&output, &["sessions.scope"]), "sessions.scope call default");
    assert!(!output.contains("hunter2"), "{output}");
    let (_, browsers) = output.split_once("\n\n").unwrap();
    assert_snapshot!(browsers);
}

/// For programs: every browser with its index, its names, and all its settings.
#[test]
fn config_show_json_lists_browsers() {
    let fixture = fixture().file("home/.config/greenroom/greenroom.toml", BROWSERS);
    let output = fixture.run(&["config", "show", "--json"]);
    assert!(!output.contains("hunter2"), "{output}");
    let (_, browsers) = output.split_once("  \"browsers\": ").unwrap();
    let (browsers, _) = browsers.split_once(",\n  \"pools\"").unwrap();
    let browsers: serde_json::Value = serde_json::from_str(browsers).unwrap();
    let mut first = browsers[0].clone();
    let settings = first.as_object_mut().unwrap().remove("settings").unwrap();
    let setting = |key: &str| {
        let all = settings.as_array().unwrap();
        all.iter().find(|setting| setting["key"] == key).cloned()
    };
    assert!(setting("headless").is_none() && setting("timeout_settle").is_some());
    assert_snapshot!(
        serde_json::to_string_pretty(&serde_json::json!([first, setting("engine"), setting("timeout")]))
            .unwrap()
    );
    assert_eq!(browsers.as_array().unwrap().len(), 2);
}

/// Mistakes in the declaration of browsers stop the start, all of them at once, each with its fix.
#[test]
fn all_browser_errors_stop_the_start() {
    let text = "[[browsers]]\nurl = 'http://127.0.0.1:9222'\nheadless = true\nlabl = 'x'\nslots = 3\n[[browsers]]\nlabel = '2'";
    let fixture = fixture().file("home/.config/greenroom/greenroom.toml", text);
    assert_snapshot!(fixture.run(&[
        "mcp",
        "--browserUrl",
        "http://127.0.0.1:9222/",
        "--wsEndpoint",
        "localhost:9222",
        "--browserUrl",
        "http://127.0.0.1:9223|start {port}",
        "--browserUrl",
        "http://127.0.0.1:9224|",
    ]));
}

/// A `greenroom.toml` that merely lies in the working directory names no browsers.
#[test]
fn working_directory_file_cannot_name_browsers() {
    assert_snapshot!(fixture().file("cwd/greenroom.toml", BROWSERS).run(SHOW));
}

/// The data folder is the platform's.
#[test]
fn data_folder_follows_the_platform() {
    let data = |fixture: CliFixture| lines(&fixture.run(SHOW), &["data_dir"]);
    let home = data(CliFixture::new());
    let xdg = data(CliFixture::new().env("XDG_DATA_HOME", "/xdg"));
    if cfg!(target_os = "macos") {
        assert_eq!(home, "data_dir [HOME]/Library/Application Support/greenroom default");
        assert_eq!(xdg, home);
    } else {
        assert_eq!(home, "data_dir [HOME]/.local/share/greenroom default");
        assert_eq!(xdg, "data_dir /xdg/greenroom default");
    }
}

/// Some clients pass only `PATH` on: without `HOME` the home folder is the one of the user database; with a useless `HOME`, or for
/// a user who is not in the database, an error says what to set.
#[test]
fn home_folder_is_found_without_the_variable() {
    let fixture = CliFixture::new();
    let mut command = fixture.command(Path::new(env!("CARGO_BIN_EXE_greenroom")), "cwd", SHOW);
    let printed = fixture.show(&command.env_remove("HOME").output().unwrap());
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let uid = rustix::process::geteuid().as_raw().to_string();
    let fields = |user: &str| user.split(':').map(str::to_owned).collect::<Vec<_>>();
    let home = users.lines().map(fields).find(|user| user.get(2) == Some(&uid)).map(|user| user[5].clone());
    match home {
        Some(home) => assert_eq!(
            lines(&printed, &["data_dir"]),
            format!("data_dir {home}/.local/share/greenroom default")
        ),
        None => assert!(printed.contains("the home folder is unknown"), "{printed}"),
    }
    let useless = CliFixture::new().env("HOME", "relative").run(SHOW);
    assert!(useless.starts_with("exit code: 2\n") && useless.contains("hint: set HOME, or"), "{useless}");
}

/// The help of verbs that only read is about the verb, and says where the settings are. `serve`, `mcp` and the topic
/// `settings` list a flag for every setting.
#[test]
fn help_of_each_verb_names_its_settings() {
    assert_snapshot!("short_help", fixture().run(&["-h"]));
    assert_snapshot!("status_help", fixture().run(&["status", "--help"]));
    let settings = |arguments: &[&str]| {
        let output = fixture().run(arguments);
        assert!(output.starts_with("exit code: 0\n"), "{arguments:?}: {output}");
        let shown = |flag: &str| output.lines().any(|line| line.trim_start().starts_with(flag));
        let all =
            ["--data-dir ", "--pool-slots ", "--server-listen ", "--browserUrl ", "--wsEndpoint "].map(shown);
        assert!(all.iter().all(|shown| *shown == all[0]), "{arguments:?}: {all:?} {output}");
        let names_the_topic = output.contains("greenroom help settings");
        assert_ne!(all[0], names_the_topic, "{arguments:?}: {output}");
        all[0]
    };
    for verb in ["serve", "mcp"] {
        assert!(settings(&[verb, "--help"]) && settings(&["help", verb]));
        assert!(!fixture().run(&[verb, "-h"]).contains("--pool-slots"));
    }
    assert!(settings(&["help", "settings"]) && settings(&["settings"]) && settings(&["settings", "--help"]));
    assert_snapshot!("settings_help", fixture().run(&["help", "settings"]));
    for other in [&["--help"][..], &["setup", "--help"], &["pool", "--help"], &["pool", "drain", "--help"]] {
        assert!(!settings(other), "{other:?}");
    }
    for other in [&["help"][..], &["config", "show", "--help"], &["db", "stats", "--help"], &["doctor", "-h"]]
    {
        assert!(!settings(other), "{other:?}");
    }
}

/// A `greenroom.toml` or `.env` that is not a regular file is refused with its kind, without waiting: a FIFO would block
/// for ever, `/dev/zero` would fill the memory. A file that is too large is refused too. `/dev/null` is an empty file.
#[test]
fn only_regular_files_are_read() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    for name in ["greenroom.toml", ".env"] {
        let path = format!("cwd/{name}");
        let refused = |fixture: CliFixture, why: &str| {
            let output = fixture.run(SHOW);
            assert!(output.starts_with("exit code: 2\n"), "{output}");
            assert!(output.contains(&format!("{name}`: {why}")), "{output}");
        };
        refused(fixture().link(&path, "/dev/zero"), "not a regular file: a character device");
        let fifo = fixture();
        mknodat(CWD, fifo.real(&path), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        refused(fifo, "not a regular file: a FIFO");
        refused(fixture().file(&path, &"#".repeat(1024 * 1024 + 1)), "larger than 1048576 bytes");
        let empty = fixture().link(&path, "/dev/null").run(SHOW);
        assert!(empty.starts_with("exit code: 0\n"), "{empty}");
    }
}

/// A missing init script stops the start, by name, and not the first call; in whatever pool it is set.
#[test]
fn missing_init_script_stops_the_start() {
    let built_in = fixture().env("GREENROOM_POOL_INIT_SCRIPT", "/nowhere/a.js");
    let declared = fixture()
        .env("PW_MCP_PROXY__A_INSTANCES", "1")
        .env("PW_MCP_PROXY__A_IS_DEFAULT", "true")
        .env("PW_MCP_PROXY__A_INIT_SCRIPT", "/nowhere/a.js");
    for fixture in [built_in, declared] {
        let output = fixture.run(&["mcp"]);
        assert!(output.starts_with("exit code: 1\n"), "{output}");
        assert!(output.contains("error: no such init script: `/nowhere/a.js`\n\nhint: correct"), "{output}");
    }
}

/// The network policy is read from every source, for greenroom and for a pool.
#[test]
fn network_policy_is_read() {
    let keys =
        ["network.preset", "network.allow", "network.deny", "network.trust_upstream", "pool.network_deny"];
    let file = "[network]\npreset = \"open\"\nallow = [\"file.example\"]\ndeny = [\"10.0.0.0/8\", \"*.ads.example:443\"]\n\
                trust_upstream = false\n[pool]\nnetwork_deny = [\"pool.example\"]";
    let fixture = fixture()
        .file("home/.config/greenroom/greenroom.toml", file)
        .env("GREENROOM_NETWORK_ALLOW", "env.example, [2001:db8::/32]:443")
        .env("GREENROOM_NETWORK_PRESET", "open");
    let output = fixture.run(&["--network-preset", "guarded", "config", "show"]);
    assert_snapshot!(lines(&output, &keys));
}

/// `config show` names the preset that holds, not the word for choosing it.
#[test]
fn network_preset_in_force_is_shown() {
    for (listen, preset) in [("127.0.0.1:0", "open"), ("192.0.2.1:80", "guarded")] {
        let output = fixture().env("GREENROOM_SERVER_LISTEN", listen).run(SHOW);
        let line = output.lines().find(|line| line.starts_with("network.preset ")).unwrap();
        assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["network.preset", preset, "default"]);
        let json = fixture().env("GREENROOM_SERVER_LISTEN", listen).run(&["config", "show", "--json"]);
        let value = json.split("\"network.preset\",").nth(1).and_then(|rest| rest.lines().nth(1)).unwrap();
        assert_eq!(value.trim(), format!("\"value\": \"{preset}\","));
    }
}

/// A rule that is none stops the start, with the rule and what is wrong with it.
#[test]
fn invalid_network_rules_stop_the_start() {
    let rules = "https://a.example/, 127.1, 10.0.0.1/8, a.example:99999, 2001:db8::1:443/, 10.0.0.0/33, a b";
    for rule in rules.split(", ") {
        let output = fixture().env("GREENROOM_NETWORK_DENY", rule).run(&["mcp"]);
        assert!(!output.starts_with("exit code: 0"), "{output}");
        assert!(
            output.contains("GREENROOM_NETWORK_DENY") && output.contains(&format!("`{rule}`")),
            "{output}"
        );
    }
    let file = "[network]\nallow = [\"fine.example\", \"0x7f000001\"]\npreset = \"closed\"";
    let fixture = fixture().file("home/.config/greenroom/greenroom.toml", file);
    assert_snapshot!(fixture.run(&["mcp", "--network-deny", "http://x"]));
}

/// A thousand rules are read, also if they contradict each other; one more is refused with the limit.
#[test]
fn network_rules_are_limited() {
    let rules = |count: u32| {
        let rules: Vec<String> = (0..count).map(|n| format!("\"h{n}.example:443\"")).collect();
        format!("[network]\nallow = [{0}]\ndeny = [{0}]", rules.join(", "))
    };
    let show = |count| fixture().file("home/.config/greenroom/greenroom.toml", &rules(count)).run(SHOW);
    assert!(show(1_000).starts_with("exit code: 0\n"));
    let output = show(1_001);
    assert!(!output.starts_with("exit code: 0\n"));
    for key in ["network.allow", "network.deny"] {
        assert!(output.contains(key), "{output}");
    }
    assert_eq!(output.matches("it has 1001 rules, and 1000 is the most").count(), 2, "{output}");
}

/// A file that merely lies in the working directory cannot change the network policy.
#[test]
fn working_directory_file_cannot_open_the_network() {
    for (key, value) in [
        ("network.preset", "\"open\""),
        ("network.allow", "[\"*\"]"),
        ("network.deny", "[]"),
        ("network.trust_upstream", "true"),
        ("pool.network_preset", "\"open\""),
        ("pool.network_allow", "[\"*\"]"),
        ("pool.network_deny", "[]"),
    ] {
        let output = fixture().file("cwd/greenroom.toml", &format!("{key} = {value}")).run(SHOW);
        assert!(output.starts_with("exit code: 2\n"), "{output}");
        let refused = format!("`{key}` may not be set by a file in the working directory");
        assert!(output.contains(&refused), "{output}");
    }
}
