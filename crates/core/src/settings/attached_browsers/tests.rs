//! Tests of attached browsers: how files and flags name them, what they start from, and every mistake.

use std::time::Duration;

use crate::settings::{
    AttachedBrowser, BROWSER_URL, BROWSERS_MAX, BrowserFlag, EngineKind, Origin, Scope, Settings, Sources,
    WS_ENDPOINT, resolve,
    resolve::tests::{dotenv, file, problems, sources},
};

fn flag(flag: &'static str, value: &str) -> BrowserFlag {
    BrowserFlag { flag, value: value.to_owned() }
}

fn flags(values: &[(&'static str, &str)]) -> Vec<BrowserFlag> {
    values.iter().map(|(name, value)| flag(name, value)).collect()
}

fn written(text: &str) -> Sources {
    Sources { files: file(text, true), ..sources() }
}

#[track_caller]
fn browsers(sources: &Sources) -> Vec<AttachedBrowser> {
    settings(sources).browsers
}

#[track_caller]
fn settings(sources: &Sources) -> Settings {
    resolve(sources).unwrap_or_else(|problems| panic!("{problems}")).settings
}

/// A table with every key becomes a typed browser; missing values come from `[pool]`, or are the browser's own defaults.
#[test]
fn browser_table_is_parsed() {
    let all = browsers(&written(
        r#"
        [pool]
        timeout = "45s"
        health_interval = "7s"
        [[browsers]]
        url = "http://127.0.0.1:9222/"
        label = "work"
        tags = ["qa", "eu"]
        headers = { Authorization = "Bearer s3cret" }
        start_command = ["chrome", "--remote-debugging-port=9222", "{url}"]
        engine = "devtools"
        timeout = "5s"
        responses = "refs"
        [[browsers]]
        url = "wss://hosted.example/?token=s3cret"
        start_command = "start 'a b'"
        isolated = true
        slots = 4
        user_agent = "x"
        "#,
    ));
    let [one, two] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!((one.url.as_str(), one.label.as_deref()), ("http://127.0.0.1:9222", Some("work")));
    assert_eq!((one.tags.join(" "), one.headers[0].value.as_str()), ("qa eu".to_owned(), "Bearer s3cret"));
    assert_eq!(one.start_command, ["chrome", "--remote-debugging-port=9222", "{url}"]);
    assert_eq!((one.pool.engine, one.pool.timeout), (EngineKind::Devtools, Duration::from_secs(5)));
    assert_eq!((one.pool.isolated, one.pool.slots), (false, 1));
    assert_eq!(one.pool.health_interval, Duration::from_secs(7));

    assert_eq!((two.label.clone(), two.start_command.join("|")), (None, "start|a b".to_owned()));
    assert_eq!((two.pool.engine, two.pool.timeout), (EngineKind::Playwright, Duration::from_secs(45)));
    assert_eq!((two.pool.isolated, two.pool.slots, two.pool.user_agent.as_deref()), (true, 4, Some("x")));
    assert_eq!(two.shown_url(), "wss://hosted.example/?***");
    assert!(!format!("{all:?}").replace("token=s3cret", "").contains("s3cret"), "headers are secrets");
}

/// Flags name browsers in the order of the command line, after those of the file, and start from `[pool]` too.
#[test]
fn browser_flags_keep_their_order() {
    let text = "pool.timeout = '45s'\n[[browsers]]\nurl = 'http://a:1'";
    let all = Sources {
        browsers: flags(&[
            (WS_ENDPOINT, "ws://b:2/devtools/browser/x|start it {url}"),
            (BROWSER_URL, "home=http://c:3/"),
            (BROWSER_URL, "ws://d:4"),
        ]),
        flags: vec![("pool.engine", "devtools".to_owned())],
        ..written(text)
    };
    let resolved = resolve(&all).unwrap();
    let all = &resolved.settings.browsers;
    let urls: Vec<_> = all.iter().map(|browser| browser.url.as_str()).collect();
    assert_eq!(urls, ["http://a:1", "ws://b:2/devtools/browser/x", "http://c:3", "ws://d:4"]);
    assert_eq!(all[1].start_command, ["start", "it", "{url}"]);
    assert_eq!(all[2].label.as_deref(), Some("home"));
    assert!(all.iter().all(|browser| browser.pool.timeout == Duration::from_secs(45)));
    assert!(all.iter().all(|browser| browser.pool.engine == EngineKind::Devtools));
    let origins: Vec<_> = (0..4).map(|at| resolved.browser_origin(at).to_string()).collect();
    assert_eq!(origins, ["/project/greenroom.toml", "--wsEndpoint", "--browserUrl", "--browserUrl"]);
    assert_eq!(
        resolved.browser_key(1, "engine"),
        ("global", &Origin::Flag("--pool-engine".into())),
        "each value knows where it came from"
    );
    assert_eq!(resolved.browser_key(1, "slots").0, "default");
}

/// With browsers configured there is no built-in pool, each call without a session leases a browser for itself, and the
/// engines are the browsers'; a configured scope stays.
#[test]
fn browsers_replace_the_built_in_pool() {
    let none = settings(&sources());
    assert!(none.built_in().is_some() && none.instances().len() == 1);
    assert_eq!(none.sessions.scope, Scope::Connection);

    let one = "pool.headless = false\n[[browsers]]\nurl = 'http://a:1'\nengine = 'devtools'";
    let attached = settings(&written(one));
    assert!(attached.built_in().is_none() && attached.instances().is_empty());
    assert_eq!(attached.sessions.scope, Scope::Call);
    assert_eq!(attached.engines().into_iter().collect::<Vec<_>>(), [EngineKind::Devtools]);
    assert!(attached.browsers[0].pool.headless, "no business of a browser that already runs");

    let with_pool = format!("{one}\n[pools.A]\ninstances = 1\nis_default = true");
    let with_pool = settings(&written(&with_pool));
    assert_eq!((with_pool.instances().len(), with_pool.browsers.len()), (1, 1));
    assert_eq!(with_pool.engines().len(), 2);

    let chosen = format!("sessions.scope = 'connection'\n{one}");
    assert_eq!(settings(&written(&chosen)).sessions.scope, Scope::Connection);
}

/// A file that merely lies in the working directory may name no browser, not even an empty list; the user's flags may.
#[test]
fn only_the_user_names_browsers() {
    let text = "[[browsers]]\nurl = 'http://a:1'\nstart_command = ['evil']\nheaders = { A = 's3cret' }";
    let lies_there = Sources { files: file(text, false), ..sources() };
    assert_eq!(
        problems(&lies_there),
        [
            "`browsers` may not be set by a file in the working directory (from /project/greenroom.toml) -> declare them in \
             /home/me/.config/greenroom/greenroom.toml, in a file that you name with --config, or as --browserUrl"
        ]
    );
    assert_eq!(problems(&Sources { files: file("browsers = []", false), ..sources() }).len(), 1);
    for name in ["GREENROOM_BROWSERS", "GREENROOM_BROWSER_URL", "PW_MCP_PROXY_BROWSER_URL"] {
        let found = problems(&Sources { dotenv: dotenv(&format!("{name}=http://a:1")), ..sources() });
        assert!(found[0].starts_with(&format!("unknown variable `{name}` in /project/.env")), "{found:?}");
    }
    let flag = Sources { browsers: flags(&[(BROWSER_URL, "http://a:1|evil")]), ..sources() };
    assert_eq!(browsers(&flag)[0].start_command, ["evil"]);
}

/// A key that does not suit a running browser is refused with the reason; an unknown key, with the nearest one.
#[test]
fn unsuitable_browser_keys_are_refused() {
    let found = problems(&written(
        "[[browsers]]\nurl = 'http://a:1'\nheadless = true\nalias = 'x'\ncommand = ['x']\nlabl = 'x'\nslotz = 1\ncolour = 1",
    ));
    let place = "in /project/greenroom.toml";
    assert_eq!(
        found,
        [
            format!(
                "`browsers.1.alias` {place} means nothing to a browser that is attached to -> leave it out: its second name is its `label`"
            ),
            format!("unknown key `browsers.1.colour` {place} -> `greenroom config show` lists every setting"),
            format!(
                "`browsers.1.command` {place} means nothing to a browser that is attached to -> leave it out: it starts a \
                 custom engine; to start this browser, set `start_command`"
            ),
            format!(
                "`browsers.1.headless` {place} means nothing to a browser that is attached to -> leave it out: it applies only \
                 when greenroom starts a browser; this one already runs"
            ),
            format!("unknown key `browsers.1.labl` {place} -> did you mean `browsers.1.label`?"),
            format!("unknown key `browsers.1.slotz` {place} -> did you mean `browsers.1.slots`?"),
        ]
    );
    for key in [
        "warm = 1",
        "instances = 2",
        "user_data_dir = '/x'",
        "extension = true",
        "proxy_server = 'http://p:1'",
    ] {
        let found = problems(&written(&format!("[[browsers]]\nurl = 'http://a:1'\n{key}")));
        assert!(
            found.len() == 1 && found[0].contains("already runs") || found[0].contains("leave it out"),
            "{found:?}"
        );
    }
}

/// The error for a wrong value names the key and its place, and repeats no header and no key in an address.
#[test]
fn wrong_value_errors_name_the_key() {
    let text = r#"
        [[browsers]]
        url = "http://ann:s3cret@h:0"
        label = "3"
        tags = "qa"
        headers = { Upgrade = "s3cret" }
        start_command = "x {port}"
        engine = "selenium"
        [[browsers]]
        label = "lost"
    "#;
    let found = problems(&written(text));
    let starts = [
        "`browsers.1.engine` cannot be `\"selenium\"` (from /project/greenroom.toml): expected one of",
        "`browsers.1.headers` cannot be `…` (from /project/greenroom.toml): expected a table of at most 32 names and texts, such \
         as `{ Authorization = \"…\" }` (`Upgrade`: the connection sets it itself)",
        "`browsers.1.label` cannot be `\"3\"` (from /project/greenroom.toml): expected a name of at most 64 bytes that is no number",
        "`browsers.1.start_command` cannot be `\"x {port}\"` (from /project/greenroom.toml): expected a program and its arguments",
        "`browsers.1.tags` cannot be `\"qa\"` (from /project/greenroom.toml): expected a list",
        "`browsers.1.url` cannot be `\"http://***@h:0\"` (from /project/greenroom.toml): expected a debugger's address",
        "`browsers.2` in /project/greenroom.toml has no `url` -> add its debugger's address",
    ];
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for (said, start) in found.iter().zip(starts) {
        assert!(said.starts_with(start) && !said.contains("s3cret"), "{said}");
    }
    for text in [
        "[browsers]\nurl = 'x'\nheaders = { A = 's3cret' }",
        "browsers = 's3cret'",
        "browsers = ['s3cret']",
        "browsers = [{ headers = 's3cret' }]",
        "[[browsers]]\nurl = { A = 's3cret' }",
        "[[browsers]]\nurl = 'x?s3cret'",
        "[[browser]]\nheaders = { A = 's3cret' }",
    ] {
        let found = problems(&written(text));
        assert!(found.iter().all(|said| !said.contains("s3cret")), "{found:?}");
    }
    assert!(problems(&written("[[browser]]\nurl = 'x'"))[0].ends_with("did you mean `browsers`?"));
}

/// The error for a flag names the wrong part: the label, the address, or the command after `|`.
#[test]
fn wrong_flag_errors_name_the_part() {
    let with = |value: &str| problems(&Sources { browsers: vec![flag(BROWSER_URL, value)], ..sources() });
    for (value, start) in [
        (
            "127.0.0.1:9222",
            "`--browserUrl` cannot be `127.0.0.1:9222`: expected a debugger's address such as",
        ),
        ("", "`--browserUrl` cannot be ``: expected a debugger's address"),
        ("http://a:1?k=s3cret#x", "`--browserUrl` cannot be `http://a:1?***`: expected"),
        ("7=http://a:1", "`--browserUrl LABEL=` cannot be `7`: expected a name of at most 64 bytes"),
        ("http://a:1|", "`--browserUrl http://a:1|` cannot be ``: expected a program and its arguments"),
        ("http://a:1| ", "`--browserUrl http://a:1|` cannot be ` `: expected a program and its arguments"),
        ("http://a:1|x {port}", "`--browserUrl http://a:1|` cannot be `x {port}`: expected a program"),
    ] {
        let found = with(value);
        assert!(found.len() == 1 && found[0].starts_with(start), "{value}: {found:#?}");
        assert!(!found[0].contains("s3cret"), "{found:?}");
    }
    assert!(with("http://a:1|x {port}")[0].ends_with("(`{port}` means nothing here)"));
}

/// Two browsers with the same address, in any spelling, or the same label are a mistake whose error names both places;
/// too many browsers are a mistake too.
#[test]
fn duplicate_browsers_are_refused() {
    let text = "[[browsers]]\nurl = 'http://a:1'\nlabel = 'x'\n[[browsers]]\nurl = 'http://b:1'\nlabel = 'x'";
    let all = Sources { browsers: flags(&[(WS_ENDPOINT, "HTTP://A:1/")]), ..written(text) };
    assert_eq!(
        problems(&all),
        [
            "two browsers have the label `x`: `browsers.1.label` in /project/greenroom.toml and `browsers.2.label` in \
             /project/greenroom.toml -> give each a label of its own",
            "`http://a:1` is there twice: `browsers.1.url` in /project/greenroom.toml and `--wsEndpoint HTTP://A:1/` -> name each \
             browser once",
        ]
    );
    let urls =
        ["http://localhost:9222?k=s3cret", "http://[::1]:9222?k=s3cret", "http://127.0.0.1:9222/?k=s3cret"];
    let all = Sources { browsers: urls.map(|url| flag(BROWSER_URL, url)).into(), ..sources() };
    let one = "`http://localhost:9222/?***` and";
    let from = "are one browser: `--browserUrl http://localhost:9222?***` and `--browserUrl";
    assert_eq!(
        problems(&all),
        [
            format!("{one} `http://[::1]:9222/?***` {from} http://[::1]:9222?***` -> name each browser once"),
            format!(
                "{one} `http://127.0.0.1:9222/?***` {from} http://127.0.0.1:9222/?***` -> name each browser once"
            ),
        ],
        "the two numbers may be two listeners"
    );
    assert_eq!(
        browsers(&Sources {
            browsers: flags(&[(BROWSER_URL, urls[1]), (BROWSER_URL, urls[2])]),
            ..sources()
        })
        .len(),
        2
    );
    let many = |count: usize| {
        let browsers = (1..=count).map(|port| flag(BROWSER_URL, &format!("http://h:{port}"))).collect();
        Sources { browsers, ..sources() }
    };
    assert_eq!(browsers(&many(BROWSERS_MAX)).len(), BROWSERS_MAX);
    assert!(problems(&many(BROWSERS_MAX + 1))[0].starts_with("there are 65 browsers, but at most 64"));
}

/// Values that do not go together are reported for the browser that has them, with where each came from.
#[test]
fn conflicts_are_reported_for_the_browser() {
    let with = |keys: &str| problems(&written(&format!("[[browsers]]\nurl = 'http://a:1'\n{keys}")));
    let from = |key: &str| format!("from `browsers.1.{key}` in /project/greenroom.toml");
    assert_eq!(
        with("slots = 2"),
        [format!(
            "browser 1: `slots` is `2` ({}), but `isolated` is `false` (the default) -> set `slots` to 1, or `isolated` to `true`: \
             several sessions in one profile would share their cookies",
            from("slots")
        )]
    );
    assert_eq!(
        with("engine = 'devtools'\nisolated = true"),
        [format!(
            "browser 1: `engine` is `devtools` ({}), but `isolated` is `true` ({}) -> leave `isolated` out, or set `engine` to \
             `playwright`: the engine makes no contexts of its own in an attached browser",
            from("engine"),
            from("isolated")
        )]
    );
    assert!(with("engine = 'custom'")[0].contains(
        "browser 1: `engine` is `custom` (from `browsers.1.engine` in /project/greenroom.toml), but"
    ));
    for key in
        ["viewport_size = '1x1'", "user_agent = 'x'", "init_script = ['/x']", "ignore_https_errors = true"]
    {
        let found = with(key);
        assert!(found.len() == 1 && found[0].contains("but `isolated` is `false`"), "{found:?}");
        assert!(found[0].ends_with("would reach the tabs of the browser's user"), "{found:?}");
        assert!(
            browsers(&written(&format!("[[browsers]]\nurl = 'http://a:1'\nisolated = true\n{key}"))).len()
                == 1
        );
    }
    for caps in ["caps = ['network']", "caps = ['pdf', 'devtools']"] {
        let found = with(caps);
        assert!(found.len() == 1 && found[0].contains("`caps` is set"), "{found:?}");
        assert!(found[0].contains("but `isolated` is `false`"), "{found:?}");
        let isolated = format!("[[browsers]]\nurl = 'http://a:1'\nisolated = true\n{caps}");
        assert!(!browsers(&written(&isolated))[0].pool.caps.is_empty());
    }
    let fine = "[[browsers]]\nurl = 'http://a:1'\ncaps = ['storage', 'pdf']";
    assert_eq!(browsers(&written(fine))[0].pool.caps.len(), 2);
    for key in ["storage_state = '/x'", "device = 'iPhone 15'"] {
        assert_eq!(with(key).len(), 1, "{key}");
    }
    let found = with("engine = 'devtools'\ncaps = ['pdf']\ntimeout_settle = 0");
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0].contains("`caps` is set") && found[0].contains("but `engine` is `devtools`"),
        "{found:?}"
    );

    let found = with("engine = 'devtools'\nallowed_origins = ['a.example']");
    assert!(found.len() == 1 && found[0].contains("-> leave it out: it would reach the tabs"), "{found:?}");

    let unsafe_tools = "tools.unsafe = true\n[[browsers]]\nurl = 'http://a:1'\n";
    assert_eq!(browsers(&written(unsafe_tools)).len(), 1, "the built-in pool's 16 slots are not there");
    let several = problems(&written(&format!("{unsafe_tools}isolated = true\nslots = 2")));
    assert!(several[0].starts_with("browser 1: `tools.unsafe` (from"), "{several:?}");
}

/// Settings for all pools that do not apply to a browser are dropped, except for lists of origins, which are reported.
/// A browser does not inherit the custom engine.
#[test]
fn browsers_inherit_applicable_pool_settings() {
    let with = |pool: &str| written(&format!("[pool]\n{pool}\n[[browsers]]\nurl = 'http://a:1'"));
    let looks = "user_agent = 'x'\nviewport_size = '9x9'\nstorage_state = '/s'\nuser_data_dir = '/p'\nexecutable_path = '/x'";
    let pool = browsers(&with(looks)).remove(0).pool;
    assert_eq!((pool.user_agent, pool.storage_state, pool.user_data_dir), (None, None, None));
    assert_eq!((pool.viewport_size.width, pool.executable_path), (1280, None));
    let isolated = browsers(&with("user_agent = 'x'\nisolated = true\nslots = 3")).remove(0).pool;
    assert_eq!((isolated.user_agent.as_deref(), isolated.slots), (Some("x"), 3));
    let caps =
        |more: &str| browsers(&with(&format!("caps = ['pdf', 'network']\n{more}"))).remove(0).pool.caps;
    assert_eq!((caps("").len(), caps("isolated = true").len()), (1, 2));
    let wall = problems(&with("blocked_origins = ['evil.example']"));
    assert!(wall[0].starts_with("browser 1: `blocked_origins` is `[\"evil.example\"]` (from /project/greenroom.toml), but `isolated`"), "{wall:?}");
    let custom = problems(&with("engine = 'custom'\ncommand = ['x']"));
    assert!(
        custom.iter().any(|said| said
            .starts_with("browser 1: `engine` is `custom` (from /project/greenroom.toml) -> set it to")),
        "{custom:?}"
    );
}

/// Options of another engine than a browser's are dropped, unless the browser sets them itself.
#[test]
fn options_of_another_engine_are_dropped() {
    let with = |more: &str| {
        written(&format!(
            "[pool]\ntimeout_settle = 0\ncaps = [\"pdf\"]\n[[browsers]]\nurl = \"http://127.0.0.1:1\"\n[[browsers]]\nurl = \"http://127.0.0.1:2\"\nengine = \"devtools\"\n{more}"
        ))
    };
    let all = browsers(&with(""));
    assert_eq!(all[0].pool.timeout_settle, Some(Duration::ZERO));
    assert_eq!((all[1].pool.timeout_settle, all[1].pool.caps.len()), (None, 0));
    assert!(problems(&with("timeout_settle = 0"))[0].contains("`timeout_settle`"));
}

/// A browser that is attached at run time starts from `[pool]` too, or the error says why it cannot.
#[test]
fn browser_attached_at_run_time_inherits_pool_settings() {
    let attached = |text: &str| settings(&written(text)).attached();
    assert_eq!(attached("").unwrap().timeout, Duration::from_secs(30));
    let pool =
        attached("[pool]\ntimeout = '7s'\nengine = 'devtools'\nheadless = false\nuser_agent = 'x'").unwrap();
    assert_eq!(
        (pool.timeout.as_secs(), pool.engine, pool.headless, pool.user_agent),
        (7, EngineKind::Devtools, true, None)
    );
    let custom = attached("[pool]\nengine = 'custom'\ncommand = ['x']").unwrap();
    assert_eq!((custom.engine, custom.command.len()), (EngineKind::Playwright, 0));
    let walled = attached("[pool]\nallowed_origins = ['good.example']").unwrap_err();
    assert!(walled.starts_with("for a browser that is attached to: `pool.allowed_origins` is"), "{walled}");
}
