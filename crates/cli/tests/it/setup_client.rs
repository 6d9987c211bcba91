//! `greenroom setup CLIENT`: the output, the question, and the client's file afterwards.

use std::{
    fs,
    io::{Read, Write},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
    process::Stdio,
};

use insta::assert_snapshot;

use crate::cli_fixture::CliFixture;

const BINARY: &str = env!("CARGO_BIN_EXE_greenroom");

/// A client, its user-wide file, and that file with another server in it.
struct ClientCase {
    client: &'static str,
    file: &'static str,
    /// The file of a project.
    project: &'static str,
    other: &'static str,
    broken: &'static str,
}

const CASES: [ClientCase; 10] = [
    ClientCase {
        client: "claude",
        file: "home/.claude.json",
        project: "cwd/.mcp.json",
        other: "{\n  \"numStartups\": 7,\n  \"mcpServers\": {\n    \"other\": {\n      \"command\": \"other\"\n    }\n  },\n  \"projects\": {}\n}\n",
        broken: "{\n  \"mcpServers\": {\n}\n",
    },
    ClientCase {
        client: "cursor",
        file: "home/.cursor/mcp.json",
        project: "cwd/.cursor/mcp.json",
        other: "{\n\t// the shop's\n\t\"mcpServers\": {\n\t\t\"other\": { \"url\": \"http://localhost:1/mcp\" }, // mine\n\t}\n}\n",
        broken: "{\n  \"mcpServers\": { \"other\" }\n}\n",
    },
    ClientCase {
        client: "vscode",
        file: "home/.config/Code/User/mcp.json",
        project: "cwd/.vscode/mcp.json",
        other: "{\n    \"inputs\": [], /* none */\n    \"servers\": {\n        \"other\": { \"type\": \"stdio\", \"command\": \"other\" } // last\n    }\n}\n",
        broken: "{\n  \"servers\": {}\n",
    },
    ClientCase {
        client: "codex",
        file: "home/.codex/config.toml",
        project: "cwd/.codex/config.toml",
        other: "model = \"x\" # the best\n\n# the shop's\n[mcp_servers.other]\ncommand = 'other'\n\n[tui]\ntheme = \"dark\"\n",
        broken: "model = \"x\"\n[mcp_servers\n",
    },
    ClientCase {
        client: "windsurf",
        file: "home/.config/devin/mcp_config.json",
        project: "cwd/.devin/mcp_config.json",
        other: "{\n  \"mcpServers\": {\n    \"other\": { \"url\": \"http://localhost:1/mcp\" }\n  }\n}\n",
        broken: "{\n  \"mcpServers\": []\n}\n",
    },
    ClientCase {
        client: "zed",
        file: "home/.config/zed/settings.json",
        project: "cwd/.zed/settings.json",
        other: "// Zed settings\n//\n// for all projects\n{\n  \"theme\": \"One Dark\", // mine\n  \"context_servers\": {\n    \"other\": {\n      \"command\": \"other\",\n      \"args\": [],\n    },\n  },\n}\n",
        broken: "{\n  \"context_servers\": {\n    'other': {}\n  }\n}\n",
    },
    ClientCase {
        client: "gemini",
        file: "home/.gemini/settings.json",
        project: "cwd/.gemini/settings.json",
        other: "{\n  \"security\": {},\n  // the shop's\n  \"mcpServers\": {\n    \"other\": { \"httpUrl\": \"http://localhost:1/mcp\" }\n  }\n}\n",
        broken: "{\n  \"security\": ,\n}\n",
    },
    ClientCase {
        client: "copilot",
        file: "home/.copilot/mcp-config.json",
        project: "cwd/.github/mcp.json",
        other: "{\n  \"mcpServers\": {\n    \"other\": { \"type\": \"local\", \"command\": \"other\", \"args\": [], \"tools\": [\"*\"] }\n  }\n}\n",
        broken: "[]\n",
    },
    ClientCase {
        client: "opencode",
        file: "home/.config/opencode/opencode.json",
        project: "cwd/opencode.json",
        other: "{\n  \"$schema\": \"https://opencode.ai/config.json\",\n  \"mcp\": {\n    \"other\": { \"type\": \"local\", \"command\": [\"other\"] } // mine\n  }\n}\n",
        broken: "{\n  \"mcp\": {\n",
    },
    ClientCase {
        client: "continue",
        file: "home/.continue/mcpServers/greenroom.json",
        project: "cwd/.continue/mcpServers/greenroom.json",
        other: "{\n  \"mcpServers\": {\n    \"other\": { \"command\": \"other\" } // moved here\n  }\n}\n",
        broken: "name: greenroom\n",
    },
];

/// Paths of the program differ from machine to machine.
fn plain(text: &str) -> String {
    let real = fs::canonicalize(BINARY).unwrap();
    text.replace(real.to_str().unwrap(), "[GREENROOM]").replace(BINARY, "[GREENROOM]")
}

fn run(fixture: &CliFixture, arguments: &[&str]) -> String {
    plain(&fixture.run(arguments))
}

/// The output, and the file's content afterwards.
fn run_and_read(fixture: &CliFixture, file: &str, arguments: &[&str]) -> String {
    let printed = run(fixture, arguments);
    let after = fixture.read(file).map_or_else(|| "(none)\n".to_owned(), |text| plain(&text));
    format!("{printed}----- {file} -----\n{after}")
}

/// Settings of the environment go into the entry as its variables, so that the client's greenroom has them too; one with a
/// password does not, and the output says so. What the user put there stays.
#[test]
fn environment_settings_go_into_the_entry() {
    for ClientCase { client, file, .. } in CASES {
        let fixture = CliFixture::new()
            .env("GREENROOM_POOL_SLOTS", "2")
            .env("PW_MCP_PROXY_PROXY_SERVER", "http://ann:hunter2@proxy:1")
            .env("GREENROOM_RUN", "x");
        let printed = run_and_read(&fixture, file, &["setup", client, "--yes"]);
        assert!(printed.starts_with("exit code: 0"), "{printed}");
        let written = fixture.read(file).unwrap();
        assert!(written.contains("GREENROOM_POOL_SLOTS") && !written.contains("GREENROOM_RUN"), "{written}");
        assert!(!printed.contains("hunter2"), "{printed}");
        assert!(
            printed.contains("note: PW_MCP_PROXY_PROXY_SERVER is not written, as it may hold a password"),
            "{printed}"
        );
        let again = run_and_read(&fixture, file, &["setup", client, "--yes"]);
        assert!(again.contains("already there"), "{again}");
        let fixture = fixture.file(file, &written.replace("GREENROOM_POOL_SLOTS", "MINE"));
        let joined = run_and_read(&fixture, file, &["setup", client, "--yes"]);
        assert!(joined.contains("MINE") && joined.contains("GREENROOM_POOL_SLOTS"), "{joined}");
    }
}

/// Without a file, and with an empty one, the file holds only the entry; run again, the entry is already there and the
/// file is not changed.
#[test]
fn new_client_file_holds_only_the_entry() {
    for ClientCase { client, file, .. } in CASES {
        let fixture = CliFixture::new();
        let first = run_and_read(&fixture, file, &["setup", client, "--yes"]);
        assert_snapshot!(format!("client_new_{client}"), first);
        let mode = fs::metadata(fixture.real(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{client}: a user's file is the user's alone");

        let again = run_and_read(&fixture, file, &["setup", client, "--yes"]);
        assert!(again.starts_with("exit code: 0"), "{again}");
        assert!(again.contains("already there: `[HOME]/"), "{again}");
        assert!(
            again.ends_with("----- stderr -----\n") || again.contains("----- stderr -----\n-----"),
            "{again}"
        );
        assert_eq!(again.split(file).nth(2), first.split(file).nth(2), "{client}");

        let empty = CliFixture::new().file(file, "\n");
        run(&empty, &["setup", client, "--yes"]);
        assert_eq!(empty.read(file), fixture.read(file), "{client}: an empty file is like none");
    }
}

/// Other servers, unknown keys, comments, trailing commas and indentation stay, and the output shows what is added. The
/// mode of the file stays too, and nothing else is left in its folder.
#[test]
fn other_servers_and_formatting_stay() {
    for ClientCase { client, file, other, .. } in CASES {
        let fixture = CliFixture::new().file(file, other).mode(file, 0o640);
        assert_snapshot!(
            format!("client_beside_{client}"),
            run_and_read(&fixture, file, &["setup", client, "--yes"])
        );
        let path = fixture.real(file);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        let names: Vec<_> =
            fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, [path.file_name().unwrap()], "{client}: no other file is left");
        for line in other.lines().filter(|line| line.contains("//") || line.contains('#')) {
            let comment = line.split_once("//").or_else(|| line.split_once('#')).unwrap().1;
            assert!(fixture.read(file).unwrap().contains(comment), "{client}: lost `{line}`");
        }
    }
}

/// An entry of the same name with another content is shown with the new one, and replaced only with `--yes`.
#[test]
fn different_entry_needs_yes_to_be_replaced() {
    for ClientCase { client, file, .. } in CASES {
        let fixture = CliFixture::new();
        run(&fixture, &["setup", client, "--yes"]);
        let old = plain(&fixture.read(file).unwrap()).replace("[GREENROOM]", "/old/greenroom");
        let fixture = CliFixture::new().file(file, &old);
        let refused = run(&fixture, &["setup", client]);
        assert!(refused.starts_with("exit code: 2\n"), "{refused}");
        assert_eq!(fixture.read(file).unwrap(), old, "{client}: the user did not agree");
        assert_snapshot!(
            format!("client_replaced_{client}"),
            run_and_read(&fixture, file, &["setup", client, "--yes"])
        );
    }
}

/// The error for a broken file has line and column, and the file stays as it is.
#[test]
fn invalid_client_file_stays_unchanged() {
    for ClientCase { client, file, broken, .. } in CASES {
        let fixture = CliFixture::new().file(file, broken);
        let printed = run(&fixture, &["setup", client, "--yes"]);
        assert_snapshot!(format!("client_broken_{client}"), printed);
        assert_eq!(fixture.read(file).unwrap(), broken);
    }
}

/// An entry with comments is not replaced: the lines are printed instead.
#[test]
fn entry_with_comments_is_printed_not_replaced() {
    for (client, file, text) in [
        (
            "vscode",
            "home/.config/Code/User/mcp.json",
            "{\"servers\": {\"greenroom\": {\n  // tried 3\n  \"command\": \"x\"}}}",
        ),
        ("codex", "home/.codex/config.toml", "[mcp_servers.greenroom]\n# tried 3\ncommand = \"x\"\n"),
    ] {
        let fixture = CliFixture::new().file(file, text);
        assert_snapshot!(format!("client_comments_{client}"), run(&fixture, &["setup", client, "--yes"]));
        assert_eq!(fixture.read(file).unwrap(), text);
    }
}

/// A file that is a link stays one, and its target is written; the error for a broken link names the target.
#[test]
fn symlinked_client_file_stays_a_link() {
    for ClientCase { client, file, other, .. } in CASES {
        let fixture = CliFixture::new().file("home/dotfiles/mine", other).link(file, "/nowhere");
        let dangling = run(&fixture, &["setup", client, "--yes"]);
        assert!(dangling.starts_with("exit code: 1\n"), "{dangling}");
        assert!(dangling.contains("it is a link to what does not exist: `/nowhere`"), "{dangling}");

        let path = fixture.real(file);
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(fixture.real("home/dotfiles/mine"), &path).unwrap();
        run(&fixture, &["setup", client, "--yes"]);
        assert!(fs::symlink_metadata(&path).unwrap().is_symlink(), "{client}");
        assert!(fixture.read("home/dotfiles/mine").unwrap().contains("greenroom"), "{client}");
    }
}

/// The error for a read-only folder names it. If the tests run as root, which may write everywhere, the program runs as the
/// user `nobody`.
#[test]
fn read_only_folder_error_names_it() {
    for ClientCase { client, file, other, .. } in CASES {
        let fixture = CliFixture::new().file(file, other);
        let folder = fixture.real(file).parent().unwrap().to_owned();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o555)).unwrap();
        // That user must be able to reach the program and the file.
        let top = fixture.real("");
        fs::set_permissions(&top, fs::Permissions::from_mode(0o755)).unwrap();
        let binary = top.join("greenroom");
        fs::copy(BINARY, &binary).unwrap();
        let mut command = fixture.command(&binary, "cwd", &["setup", client, "--yes"]);
        if rustix::process::geteuid().is_root() {
            command.uid(65534).gid(65534);
        }
        let output = command.stdin(Stdio::null()).output().unwrap();
        let printed = fixture.show(&output);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(printed.starts_with("exit code: 1\n"), "{printed}");
        assert!(printed.contains("error: cannot write `[HOME]/"), "{printed}");
        assert!(printed.contains("Permission denied"), "{printed}");
        assert_eq!(fixture.read(file).unwrap(), other);
        assert_eq!(
            fs::read_dir(&folder)
                .unwrap()
                .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".part"))
                .count(),
            0
        );
    }
}

/// A project's entry is in the working directory, readable for all, and the output notes that its path is this machine's.
#[test]
fn project_entry_is_written_to_the_working_directory() {
    for ClientCase { client, project, .. } in CASES {
        let fixture = CliFixture::new();
        let printed = run(&fixture, &["setup", client, "--project", "--yes"]);
        assert!(printed.starts_with("exit code: 0\n"), "{printed}");
        assert!(printed.contains("added: `[CWD]/"), "{printed}");
        assert!(printed.contains("the path is this machine's"), "{printed}");
        assert!(fixture.read(project).unwrap().contains("greenroom"), "{client}");
        assert_eq!(fixture.read("home/.claude.json"), None);
    }
}

/// `--print` writes nothing, and stdout has only the entry, for either way to reach greenroom.
#[test]
fn print_flag_writes_nothing() {
    let mut all = String::new();
    for ClientCase { client, file, broken, .. } in CASES {
        for more in [&[][..], &["--url", "http://127.0.0.1:34501/mcp"], &["--json"]] {
            // A broken file does not matter: it is not read.
            let fixture = CliFixture::new().file(file, broken);
            let arguments = [&["setup", client, "--print"], more].concat();
            all += &format!("$ greenroom {}\n{}\n", arguments.join(" "), run(&fixture, &arguments));
            assert_eq!(fixture.read(file).unwrap(), broken);
        }
    }
    assert_snapshot!("client_printed", all);
}

/// From a program to start to a server to connect to: keys of the other way are removed, and the output says where the
/// server is.
#[test]
fn switching_to_a_server_removes_program_keys() {
    let old = "[mcp_servers.greenroom]\ncommand = \"x\"\nenv = { A = \"b\" }\n";
    let fixture = CliFixture::new().file("home/.codex/config.toml", old);
    let arguments = ["setup", "codex", "--yes", "--url", "http://127.0.0.1:34501/mcp"];
    assert_snapshot!("client_to_server", run_and_read(&fixture, "home/.codex/config.toml", &arguments));
}

/// Flags for the client come after `--` and are checked; before it they are refused, and so are meaningless combinations.
#[test]
fn client_flags_are_checked() {
    let fixture = CliFixture::new();
    let mut all = String::new();
    for arguments in [
        &["setup", "cursor", "--print", "--", "--pool-headless=false", "--sessions-idle-timeout", "15m"][..],
        &["setup", "cursor", "--print", "--pool-headless=false"],
        &["setup", "cursor", "--print", "--browserUrl", "http://127.0.0.1:9222"],
        &["setup", "cursor", "--print", "--", "--browserUrl", "http://127.0.0.1:9222"],
        &["setup", "cursor", "--print", "--", "--browserUrl", "127.0.0.1:9222"],
        &["--config", "x.toml", "setup", "cursor", "--print"],
        &["setup", "cursor", "--print", "--", "--pool-hedless"],
        &["setup", "cursor", "--print", "--", "--pool-slots", "many"],
        &["setup", "cursor", "--url", "127.0.0.1:34501"],
        &["setup", "emacs"],
        &["setup", "--yes"],
        &["setup", "cursor"],
        &["setup", "cursor", "--json", "--yes"],
    ] {
        all += &format!("$ greenroom {}\n{}\n", arguments.join(" "), run(&fixture, arguments));
    }
    assert_snapshot!("client_mistakes", all);
}

/// If the engine is missing when a client is connected, the output says to install it; afterwards it does not.
#[test]
fn missing_engine_is_mentioned() {
    let machine = crate::setup::machine();
    let hint = "next     run `greenroom setup`, which installs the engine\n";
    assert!(machine.run(&["setup", "cursor", "--yes"]).contains(hint));
    machine.run(&["setup"]);
    assert!(!machine.run(&["setup", "codex", "--yes"]).contains(hint));
}

/// The paths in the clients' own variables are respected.
#[test]
fn client_path_variables_are_respected() {
    let fixture = CliFixture::new()
        .env("CLAUDE_CONFIG_DIR", "../home/claude")
        .env("CODEX_HOME", "../home/codex")
        .env("COPILOT_HOME", "../home/copilot")
        .env("CONTINUE_GLOBAL_DIR", "../home/continue")
        .env("XDG_CONFIG_HOME", "relative-and-so-ignored");
    for (client, file) in [
        ("claude", "home/claude/.claude.json"),
        ("codex", "home/codex/config.toml"),
        ("vscode", "home/.config/Code/User/mcp.json"),
        ("copilot", "home/copilot/mcp-config.json"),
        ("continue", "home/continue/mcpServers/greenroom.json"),
    ] {
        run(&fixture, &["setup", client, "--yes"]);
        assert!(fixture.read(file).is_some(), "{file}");
    }
    let fixture = CliFixture::new();
    let folder = fixture.real("home/xdg").to_str().unwrap().to_owned();
    let fixture = fixture.env("XDG_CONFIG_HOME", &folder);
    for (client, file) in [("zed", "zed/settings.json"), ("opencode", "opencode/opencode.json")] {
        run(&fixture, &["setup", client, "--yes"]);
        assert!(fixture.read(&format!("home/xdg/{file}")).is_some(), "{file}");
    }
}

/// Where only an older Windsurf has been used its file is written, with its own key for an address, and it reads no file of a
/// project. Once there is a Devin Desktop its file is written, under either name of the client.
#[test]
fn older_windsurf_keeps_its_file() {
    let (old, new) = ("home/.codeium/windsurf/mcp_config.json", "home/.config/devin/mcp_config.json");
    let url = "http://127.0.0.1:34501/mcp";
    let fixture = CliFixture::new().file("home/.codeium/windsurf/memories/x", "");
    for client in ["windsurf", "devin"] {
        let refused = run(&fixture, &["setup", client, "--project", "--yes"]);
        assert!(
            refused.starts_with("exit code: 2\n") && refused.contains("Windsurf reads no file of a project"),
            "{refused}"
        );
        run(&fixture, &["setup", client, "--yes", "--url", url]);
    }
    assert!(fixture.read(old).unwrap().contains(&format!("\"serverUrl\": \"{url}\"")));
    assert_eq!(fixture.read(new), None);

    let fixture = fixture.file("home/.config/devin/config.json", "{}");
    let printed = run(&fixture, &["setup", "devin", "--yes", "--url", url]);
    assert!(printed.contains("added: `[HOME]/.config/devin/mcp_config.json`"), "{printed}");
    assert!(fixture.read(new).unwrap().contains(&format!("\"url\": \"{url}\"")));
}

/// OpenCode's file with comments is used where it exists, and its servers are where the file has them: in `mcp`, or in
/// `mcp.servers` as in version 2.
#[test]
fn opencode_entry_goes_where_the_servers_are() {
    let folder = "home/.config/opencode";
    let text = "{\n  // mine\n  \"mcp\": {\n    \"servers\": {}\n  }\n}\n";
    let fixture = CliFixture::new().file(&format!("{folder}/opencode.jsonc"), text);
    let printed = run(&fixture, &["setup", "opencode", "--yes"]);
    assert!(printed.contains("added: `[HOME]/.config/opencode/opencode.jsonc`"), "{printed}");
    assert_eq!(fixture.read(&format!("{folder}/opencode.json")), None);
    let written = fixture.read(&format!("{folder}/opencode.jsonc")).unwrap();
    assert!(written.contains("// mine"), "{written}");
    let entry: serde_json::Value = serde_json::from_str(&written.replace("// mine", "")).unwrap();
    let greenroom = &entry["mcp"]["servers"]["greenroom"];
    assert_eq!((&greenroom["type"], &greenroom["command"][1]), (&"local".into(), &"mcp".into()), "{written}");
    assert!(run(&fixture, &["setup", "opencode", "--yes"]).contains("already there"));
}

/// The tools that a user has chosen for Copilot CLI stay. The address of another transport does not.
#[test]
fn chosen_tools_stay_and_other_addresses_go() {
    let file = "home/.copilot/mcp-config.json";
    let old = r#"{"mcpServers": {"greenroom": {"type": "stdio", "command": "x", "args": [], "tools": ["browser_click"]}}}"#;
    let fixture = CliFixture::new().file(file, old);
    run(&fixture, &["setup", "copilot", "--yes"]);
    let written = fixture.read(file).unwrap();
    assert!(written.contains("browser_click") && !written.contains("\"*\""), "{written}");

    let file = "home/.gemini/settings.json";
    let old = r#"{"mcpServers": {"greenroom": {"url": "http://127.0.0.1:1/sse", "timeout": 9}}}"#;
    let fixture = CliFixture::new().file(file, old);
    run(&fixture, &["setup", "gemini", "--yes", "--url", "http://127.0.0.1:34501/mcp"]);
    let written: serde_json::Value = serde_json::from_str(&fixture.read(file).unwrap()).unwrap();
    let expected = serde_json::json!({"timeout": 9, "httpUrl": "http://127.0.0.1:34501/mcp"});
    assert_eq!(written["mcpServers"]["greenroom"], expected);
}

/// A project's folder that is a link, at any depth, is not written through.
#[test]
fn linked_project_folders_are_refused() {
    for (arguments, link) in [
        (["setup", "continue", "--project", "--yes"].as_slice(), "cwd/.continue"),
        (&["setup", "continue", "--project", "--yes"], "cwd/.continue/mcpServers"),
        (&["setup", "claude", "--skill", "--project", "--yes"], "cwd/.claude"),
        (&["setup", "claude", "--skill", "--project", "--yes"], "cwd/.claude/skills/greenroom"),
    ] {
        let fixture = CliFixture::new().link(link, "/tmp");
        fs::create_dir(fixture.real("home/elsewhere")).unwrap();
        fs::remove_file(fixture.real(link)).unwrap();
        std::os::unix::fs::symlink(fixture.real("home/elsewhere"), fixture.real(link)).unwrap();
        let printed = run(&fixture, arguments);
        assert!(
            printed.starts_with("exit code: 1\n") && printed.contains("may lead out of the project"),
            "{printed}"
        );
        assert_eq!(fs::read_dir(fixture.real("home/elsewhere")).unwrap().count(), 0, "{link}");
    }
}

/// Runs on a terminal, answers the question once, and returns the screen's content and the exit code.
fn on_a_terminal(fixture: &CliFixture, arguments: &[&str], answer: &str) -> (String, i32) {
    on_a_terminal_after(fixture, arguments, answer, |_| ())
}

/// The same, with something that happens between question and answer.
fn on_a_terminal_after(
    fixture: &CliFixture,
    arguments: &[&str],
    answer: &str,
    meanwhile: impl Fn(&CliFixture),
) -> (String, i32) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let slave = fs::OpenOptions::new().read(true).write(true).open(name).unwrap();
    let mut command = fixture.command(Path::new(BINARY), "cwd", arguments);
    command.stdin(slave.try_clone().unwrap()).stdout(slave.try_clone().unwrap()).stderr(slave);
    let mut child = command.spawn().unwrap();
    // The command holds the terminal's other end open; reading the screen would never end.
    drop(command);
    let mut terminal = fs::File::from(master);
    let mut screen = Vec::new();
    let mut answered = false;
    let mut buffer = [0; 4096];
    // The reader of a terminal whose writers have all closed it gets an error, not an end.
    while let Ok(read @ 1..) = terminal.read(&mut buffer) {
        screen.extend_from_slice(&buffer[..read]);
        if !answered && String::from_utf8_lossy(&screen).contains("[y/N] ") {
            meanwhile(fixture);
            terminal.write_all(answer.as_bytes()).unwrap();
            answered = true;
        }
    }
    let code = child.wait().unwrap().code().unwrap();
    assert!(answered, "no question: {}", String::from_utf8_lossy(&screen));
    (String::from_utf8(screen).unwrap().replace('\r', ""), code)
}

/// On a terminal the lines are shown and the question is asked; no leaves the file alone, yes writes it, and the question
/// for a different entry has other words.
#[test]
fn terminal_asks_before_writing() {
    let fixture = CliFixture::new();
    let file = "home/.cursor/mcp.json";
    let (screen, code) = on_a_terminal(&fixture, &["setup", "cursor"], "n\n");
    assert_eq!(code, 1, "{screen}");
    assert!(screen.contains("+       \"command\": "), "{screen}");
    assert!(screen.contains("Write this? [y/N] n\n"), "{screen}");
    assert!(screen.contains("nothing written"), "{screen}");
    assert_eq!(fixture.read(file), None);

    // The end of input, as Ctrl-D gives it, is no answer.
    assert_eq!(on_a_terminal(&fixture, &["setup", "cursor"], "\x04").1, 1);
    assert_eq!(fixture.read(file), None);

    let (screen, code) = on_a_terminal(&fixture, &["setup", "cursor"], "y\n");
    assert_eq!(code, 0, "{screen}");
    assert!(fixture.read(file).unwrap().contains("\"mcp\""));

    let url = ["setup", "cursor", "--url", "http://127.0.0.1:1/mcp"];
    let (screen, code) = on_a_terminal(&fixture, &url, "yes\n");
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("-       \"command\": ") && screen.contains("+       \"url\": "), "{screen}");
    assert!(screen.contains("Replace the entry? [y/N] "), "{screen}");
    assert!(fixture.read(file).unwrap().contains("http://127.0.0.1:1/mcp"));
}

/// A file that changes while the question is open is not overwritten.
#[test]
fn file_changed_during_the_question_is_kept() {
    let fixture = CliFixture::new();
    // The file changes before the answer is given.
    let (screen, code) = on_a_terminal_after(&fixture, &["setup", "cursor"], "y\n", |fixture| {
        fs::create_dir_all(fixture.real("home/.cursor")).unwrap();
        fs::write(fixture.real("home/.cursor/mcp.json"), "{}").unwrap();
    });
    assert_eq!(code, 1, "{screen}");
    assert!(screen.contains("has just been changed"), "{screen}");
    assert_eq!(fixture.read("home/.cursor/mcp.json").unwrap(), "{}");
}
