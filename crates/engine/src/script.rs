//! Turns a script of the command line into the function that engines evaluate. People write an expression
//! (`document.title`) as well as a function (`() => document.title`).

/// The script as a function: itself if it is one, else a function that returns its value.
pub(crate) fn as_function(script: &str) -> String {
    let script = script.trim();
    if is_function(script) { script.to_owned() } else { format!("() => ({script})") }
}

/// Whether the script as a whole is a function. An arrow somewhere inside, as in `list.map(x => x.id)`, makes none.
fn is_function(script: &str) -> bool {
    let rest = script.strip_prefix("async").map_or(script, str::trim_start);
    if let Some(after) = rest.strip_prefix("function") {
        return after.starts_with(|next: char| next.is_whitespace() || next == '(' || next == '*');
    }
    let after_parameters = match rest.strip_prefix('(') {
        Some(inside) => after_closing(inside),
        None => {
            let name = |character: char| character.is_alphanumeric() || matches!(character, '_' | '$');
            let after = rest.trim_start_matches(name);
            (after.len() < rest.len()).then_some(after)
        }
    };
    after_parameters.is_some_and(|after| after.trim_start().starts_with("=>"))
}

/// The text after the parenthesis that closes the one right before `inside`.
fn after_closing(inside: &str) -> Option<&str> {
    let mut depth = 1;
    for (index, character) in inside.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return inside.get(index + 1..);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Functions stay as they are; every other script becomes one that returns its value.
    #[test]
    fn scripts_become_functions() {
        for function in [
            "() => document.title",
            "async () => await fetch('/')",
            "x=>x",
            "(a, b = f(1)) => a",
            "function () { return 1 }",
            "async function* f() {}",
            "async x => x",
        ] {
            assert_eq!(as_function(function), function);
        }
        for expression in
            ["document.title", "1 + 2", "(1 + 2) * 3", "[1].map(x => x)", "functional", "f(() => 1)", "(a"]
        {
            assert_eq!(as_function(&format!(" {expression} ")), format!("() => ({expression})"));
        }
    }
}
