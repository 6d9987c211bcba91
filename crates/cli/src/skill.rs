//! greenroom's skill: the page that teaches a coding agent the shell commands. It is part of the plugin in
//! `packaging/plugin`, and of the program, so that `greenroom setup claude --skill` can write it anywhere.

pub const SKILL: &str = include_str!("../../../packaging/plugin/skills/greenroom/SKILL.md");

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, ffi::OsString};

    use clap::Command;
    use greenroom_testkit::markdown_commands;
    use tiktoken_rs::o200k_base_singleton;

    use super::*;
    use crate::args;

    /// What an agent pays each time that it reads the skill; the MCP tools that it replaces cost several times as much.
    const TOKENS_MAX: usize = 1_200;

    /// Every command of the skill, and of the guide's example, is one that the program accepts as it stands.
    #[test]
    fn documented_commands_parse() {
        let commands = markdown_commands(SKILL, "greenroom");
        assert!(commands.len() > 20, "{commands:?}");
        let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/COMMAND_LINE.md");
        let guide = std::fs::read_to_string(guide).unwrap();
        let guide = guide.split("## Commands").next().unwrap_or_default();
        for words in commands.into_iter().chain(markdown_commands(guide, "greenroom")) {
            let line = words.join(" ");
            if let Err(error) = args::parse(words.into_iter().map(OsString::from)) {
                panic!("`{line}` is documented, and refused: {error}");
            }
        }
    }

    /// Every flag that the skill names, also outside of commands, is a flag of a command that drives a browser.
    #[test]
    fn documented_flags_exist() {
        let known: BTreeSet<_> = args::documented_command()
            .get_subcommands()
            .filter(|verb| verb.get_arguments().any(|flag| flag.get_id() == "session"))
            .flat_map(Command::get_arguments)
            .filter_map(|flag| Some(format!("--{}", flag.get_long()?)))
            .collect();
        let named = SKILL.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
        let flags: Vec<_> = named.filter(|word| word.starts_with("--") && word.len() > 3).collect();
        assert!(flags.len() > 6, "{flags:?}");
        for flag in flags {
            assert!(known.contains(flag), "`{flag}` is no flag: {known:?}");
        }
    }

    /// The skill shows the commands that agents use most, each by an example.
    #[test]
    fn most_used_commands_are_documented() {
        let shown: BTreeSet<_> =
            markdown_commands(SKILL, "greenroom").into_iter().map(|words| words[1].clone()).collect();
        for verb in
            ["open", "snapshot", "find", "click", "type", "fill", "select", "press", "wait", "screenshot"]
        {
            assert!(shown.contains(verb), "`{verb}` is missing: {shown:?}");
        }
    }

    /// A model pays for the skill whenever it reads it.
    #[test]
    fn skill_is_short() {
        let tokens = o200k_base_singleton().count_ordinary(SKILL);
        assert!(tokens <= TOKENS_MAX, "{tokens} tokens");
    }
}
