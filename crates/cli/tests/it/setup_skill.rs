//! `greenroom setup claude --skill`: what is written, shown and refused.

use std::fs;

use crate::cli_fixture::CliFixture;

const SKILL: &str = include_str!("../../../../packaging/plugin/skills/greenroom/SKILL.md");
const FILE: &str = "home/.claude/skills/greenroom/SKILL.md";

const BINARY: &str = env!("CARGO_BIN_EXE_greenroom");

/// A home whose search path has a `greenroom`: a link to this file.
fn with_greenroom(target: &str) -> CliFixture {
    let fixture = CliFixture::new().link("home/bin/greenroom", target);
    let folder = fixture.real("home/bin").display().to_string();
    fixture.env("PATH", &folder)
}

/// If the shell finds no `greenroom`, or another one, a note says so, and how to mend it.
#[test]
fn note_says_that_commands_are_not_found() {
    let arguments = ["setup", "claude", "--skill", "--yes"];
    let missing = CliFixture::new().run(&arguments);
    assert!(missing.contains("note: `greenroom` is not in the search path"), "{missing}");
    let folder = fs::canonicalize(BINARY).unwrap().parent().unwrap().display().to_string();
    assert!(missing.contains(&format!("export PATH=\"{folder}:$PATH\"")), "{missing}");
    let other = with_greenroom("/bin/sh").run(&arguments);
    assert!(other.starts_with("exit code: 0\n"), "{other}");
    assert!(
        other.contains("note: the skill's commands run `[HOME]/bin/greenroom`, not this program"),
        "{other}"
    );
    let same = with_greenroom(BINARY).run(&arguments);
    assert!(!same.contains("note: "), "{same}");
}

/// The skill is shown and written, for the user or for the project; a second run finds it there. No MCP server is added.
#[test]
fn skill_is_written_once() {
    for (flags, file) in [
        (&["setup", "claude", "--skill", "--yes"][..], FILE),
        (&["setup", "claude", "--skill", "--project", "--yes"], "cwd/.claude/skills/greenroom/SKILL.md"),
    ] {
        let fixture = with_greenroom(BINARY);
        let printed = fixture.run(flags);
        assert!(printed.starts_with("exit code: 0\n----- stdout -----\nclaude   added: `["), "{printed}");
        assert!(printed.contains(", a new file\n") && printed.contains("\n+ name: greenroom\n"), "{printed}");
        assert_eq!(fixture.read(file).as_deref(), Some(SKILL));
        assert_eq!(fixture.read("home/.claude.json"), None);
        let written = fs::metadata(fixture.real(file)).unwrap().modified().unwrap();
        let again = fixture.run(flags);
        assert!(
            again.contains("claude   already there: `[") && again.ends_with("----- stderr -----\n"),
            "{again}"
        );
        assert_eq!(fs::metadata(fixture.real(file)).unwrap().modified().unwrap(), written);
    }
}

/// Claude Code's own variable says where its skills are.
#[test]
fn skill_follows_claude_config_dir() {
    let fixture = CliFixture::new().env("CLAUDE_CONFIG_DIR", "../home/claude");
    fixture.run(&["setup", "claude", "--skill", "--yes"]);
    assert_eq!(fixture.read("home/claude/skills/greenroom/SKILL.md").as_deref(), Some(SKILL));
}

/// A file with another text is replaced only with a yes, after the difference and a note that the text goes.
#[test]
fn changed_skill_is_not_replaced_silently() {
    let mine = SKILL.replace("# greenroom: browsers in your shell", "# my own words");
    let fixture = CliFixture::new().file(FILE, &mine);
    let refused = fixture.run(&["setup", "claude", "--skill"]);
    assert!(refused.starts_with("exit code: 2\n") && refused.contains("nothing was written"), "{refused}");
    assert_eq!(fixture.read(FILE).as_deref(), Some(mine.as_str()));
    let replaced = fixture.run(&["setup", "claude", "--skill", "--yes"]);
    assert!(replaced.contains("claude   replaced: `["), "{replaced}");
    assert!(replaced.contains("- # my own words\n+ # greenroom: browsers in your shell\n"), "{replaced}");
    assert!(replaced.contains("an older version's or your own; it will be lost"), "{replaced}");
    assert_eq!(fixture.read(FILE).as_deref(), Some(SKILL));
}

/// `--print` writes nothing; what makes no sense together, and clients without skills, are refused.
#[test]
fn skill_flags_are_checked() {
    let fixture = CliFixture::new();
    let printed = fixture.run(&["setup", "claude", "--skill", "--print"]);
    assert!(
        printed.contains(SKILL) && printed.contains("this belongs in `[HOME]/.claude/skills/"),
        "{printed}"
    );
    assert_eq!(fixture.read(FILE), None);
    let json = fixture.run(&["setup", "claude", "--skill", "--print", "--json"]);
    assert!(json.contains("\"outcome\": \"printed\""), "{json}");
    for (flags, says) in [
        (&["setup", "cursor", "--skill", "--yes"][..], "greenroom has no skill for Cursor"),
        (&["setup", "--skill"], "<CLIENT>"),
        (&["setup", "claude", "--skill", "--url", "http://127.0.0.1:1/mcp"], "cannot be used with"),
        (&["setup", "claude", "--skill", "--", "--pool-slots", "2"], "cannot be used with"),
    ] {
        let refused = fixture.run(flags);
        assert!(refused.starts_with("exit code: 2\n") && refused.contains(says), "{flags:?}: {refused}");
    }
}

/// A file that is no text, or cannot be read, is an error that names it.
#[test]
fn unreadable_skill_is_an_error() {
    let fixture = CliFixture::new();
    fs::create_dir_all(fixture.real(FILE)).unwrap();
    let printed = fixture.run(&["setup", "claude", "--skill", "--yes"]);
    assert!(
        printed.starts_with("exit code: 1\n") && printed.contains("cannot read `[HOME]/.claude/skills/"),
        "{printed}"
    );
}
