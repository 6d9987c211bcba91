//! JMESPath on a page's tree or on a result.
//!
//! A library implements the language; the functions are JMESPath's and those of [`super::functions`]. A query comes
//! from an agent, so limits apply before it runs: to its length, because parsing and running it recurses, and to how
//! much it can make of its input, because `[@, @] | [@, @] | …` doubles it with each step. Fields of objects that a
//! query makes come back in alphabetical order. Errors show the expression and the position.

use std::{collections::HashMap, rc::Rc};

use jmespath::{ErrorReason, Expression, JmespathError, Runtime, RuntimeError, Variable, ast::Ast};
use serde_json::{Map, Value};

use super::functions;

/// How long an expression may be. Those that people write are below 300.
pub(crate) const EXPRESSION_BYTES_MAX: usize = 4_096;

/// How many signs that can nest an expression may have. Each may be a level of recursion; worker threads have 2 MiB of
/// stack, which 130 levels of one kind fill in a debug build. Long queries that people write have 30.
const NESTING_MAX: usize = 64;

/// How many values a query may make of its input: some 300 MB at the very worst. A page of 1 MB is some 200,000 values
/// as a list of nodes, and queries that people write make fewer.
const VALUES_MAX: usize = 3_000_000;

/// Bytes of text that count as one more value.
const VALUE_BYTES: usize = 32;

/// Why a query failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QueryError {
    #[error("jmespath_query is {0} bytes long, and {EXPRESSION_BYTES_MAX} are allowed")]
    TooLong(usize),
    #[error(
        "jmespath_query is nested too deeply: at most {NESTING_MAX} of the signs . [ ( {{ ! | & < > = * are allowed"
    )]
    TooDeep,
    #[error("jmespath_query would make too much: up to {0} times its input")]
    TooMuch(usize),
    #[error("jmespath_query makes too much: more than {VALUES_MAX} values")]
    TooManyValues,
    /// With the line of the expression and a mark below the position.
    #[error("jmespath_query: {reason}\n  {line}\n  {mark}")]
    Wrong { reason: String, line: String, mark: String },
}

/// Evaluates `expression` on `value`.
pub(crate) fn query(expression: &str, value: &Value) -> Result<Value, QueryError> {
    let runtime = functions::runtime();
    let compiled = compile(&runtime, expression)?;
    let growth = growth(compiled.as_ast());
    if growth.saturating_mul(size(value)) > VALUES_MAX {
        return Err(QueryError::TooMuch(growth));
    }
    let found = compiled.search(value).map_err(|error| to_query_error(&error))?;
    // The library shares a value that it finds more than once; JSON repeats it.
    to_json(&found, &mut { VALUES_MAX }).ok_or(QueryError::TooManyValues)
}

/// Checks a query before the call runs, so that a wrong query does not cost the agent a call.
pub(super) fn check(expression: &str) -> Result<(), QueryError> {
    let runtime = functions::runtime();
    let compiled = compile(&runtime, expression)?;
    match unknown_function(&runtime, compiled.as_ast()) {
        Some((name, offset)) => {
            let reason = ErrorReason::Runtime(RuntimeError::UnknownFunction(name.to_owned()));
            Err(to_query_error(&JmespathError::new(expression, offset, reason)))
        }
        None => Ok(()),
    }
}

fn compile<'a>(runtime: &'a Runtime, expression: &str) -> Result<Expression<'a>, QueryError> {
    if expression.len() > EXPRESSION_BYTES_MAX {
        return Err(QueryError::TooLong(expression.len()));
    }
    if nesting(expression) > NESTING_MAX {
        return Err(QueryError::TooDeep);
    }
    runtime.compile(expression).map_err(|error| to_query_error(&error))
}

/// How many levels an expression can have at most: its signs, where `==`, `&&`, `||`, `!=` count as one each. Signs
/// within texts count too: that is simpler than finding where texts end, and on the safe side.
fn nesting(expression: &str) -> usize {
    let mut before = 0;
    let is_sign = |byte: u8| {
        let is_second = match std::mem::replace(&mut before, byte) {
            b'=' | b'!' | b'<' | b'>' => byte == b'=',
            first @ (b'&' | b'|') => byte == first,
            _ => false,
        };
        !is_second && b".[({!|&<>=*".contains(&byte)
    };
    expression.bytes().map(is_sign).filter(|is_sign| *is_sign).count()
}

fn to_query_error(error: &JmespathError) -> QueryError {
    let line = error.expression.lines().nth(error.line).unwrap_or_default().to_owned();
    let mark = format!("{:1$}^", "", error.column);
    let reason = error.reason.to_string();
    let reason = reason.trim_start_matches("Parse error: ").trim_start_matches("Runtime error: ");
    // The parser's names for token positions mean nothing to the author of the query.
    let reason = reason.replace("nud token", "token").replace("led token", "token").replace("Eof", "its end");
    QueryError::Wrong { reason, line, mark }
}

/// The first unknown function, and its position. The library finds it only when it evaluates it, which is after the
/// call, or never.
fn unknown_function<'a>(runtime: &Runtime, ast: &'a Ast) -> Option<(&'a str, usize)> {
    let unknown = |ast| unknown_function(runtime, ast);
    match ast {
        Ast::Identity { .. }
        | Ast::Field { .. }
        | Ast::Index { .. }
        | Ast::Slice { .. }
        | Ast::Literal { .. } => None,
        Ast::Function { name, offset, .. } if runtime.get_function(name).is_none() => Some((name, *offset)),
        Ast::Function { args, .. } => args.iter().find_map(unknown),
        Ast::Expref { ast: node, .. }
        | Ast::Flatten { node, .. }
        | Ast::Not { node, .. }
        | Ast::ObjectValues { node, .. } => unknown(node),
        Ast::Comparison { lhs, rhs, .. }
        | Ast::And { lhs, rhs, .. }
        | Ast::Or { lhs, rhs, .. }
        | Ast::Projection { lhs, rhs, .. }
        | Ast::Subexpr { lhs, rhs, .. } => unknown(lhs).or_else(|| unknown(rhs)),
        Ast::Condition { predicate, then, .. } => unknown(predicate).or_else(|| unknown(then)),
        Ast::MultiList { elements, .. } => elements.iter().find_map(unknown),
        Ast::MultiHash { elements, .. } => elements.iter().find_map(|pair| unknown(&pair.value)),
    }
}

/// How many times its input an expression can produce. A multiselect sums its parts, a step multiplies its input;
/// everything else only picks.
fn growth(ast: &Ast) -> usize {
    let sum = |parts: &mut dyn Iterator<Item = &Ast>| {
        parts.fold(0_usize, |sum, part| sum.saturating_add(growth(part)))
    };
    match ast {
        Ast::Identity { .. } | Ast::Field { .. } | Ast::Index { .. } | Ast::Slice { .. } => 1,
        // A literal is no longer than the expression.
        Ast::Literal { value, .. } => {
            to_json(value, &mut { VALUES_MAX }).map_or(usize::MAX, |value| size(&value))
        }
        Ast::Expref { ast: node, .. }
        | Ast::Flatten { node, .. }
        | Ast::Not { node, .. }
        | Ast::ObjectValues { node, .. } => growth(node),
        Ast::Comparison { lhs, rhs, .. } | Ast::And { lhs, rhs, .. } | Ast::Or { lhs, rhs, .. } => {
            growth(lhs).max(growth(rhs))
        }
        Ast::Condition { predicate, then, .. } => growth(predicate).max(growth(then)),
        Ast::Projection { lhs, rhs, .. } | Ast::Subexpr { lhs, rhs, .. } => {
            growth(lhs).saturating_mul(growth(rhs))
        }
        Ast::MultiList { elements, .. } => choice(&elements.iter().collect::<Vec<_>>()),
        Ast::MultiHash { elements, .. } => {
            choice(&elements.iter().map(|pair| &pair.value).collect::<Vec<_>>())
        }
        Ast::Function { name, args, .. } => match name.as_str() {
            "map" => args.iter().fold(1, |product: usize, arg| product.saturating_mul(growth(arg))),
            // Each escaping adds a backslash to quotes and backslashes.
            "to_string" | "str" | "regex_replace" => sum(&mut args.iter()).saturating_mul(2).max(1),
            _ => sum(&mut args.iter()).max(1),
        },
    }
}

/// The growth of a multiselect: the sum of its parts. Fields with different names count once together, since
/// they cannot be larger than the object that has them.
fn choice(parts: &[&Ast]) -> usize {
    let mut names: HashMap<&str, usize> = HashMap::new();
    let mut others = 0_usize;
    for part in parts {
        match part {
            Ast::Field { name, .. } => *names.entry(name.as_str()).or_default() += 1,
            other => others = others.saturating_add(growth(other)),
        }
    }
    others.saturating_add(names.into_values().max().unwrap_or_default()).max(1)
}

/// The size of a value. The recursion is no deeper than the value, which was parsed from JSON.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => size_of(text),
        Value::Array(items) => items.iter().map(size).sum::<usize>() + 1,
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| size_of(name) + size(value)).sum::<usize>() + 1
        }
        _ => 1,
    }
}

fn size_of(text: &str) -> usize {
    1 + text.len() / VALUE_BYTES
}

/// A query's result as JSON. `left` is how many values it may have; `None` if it has more.
fn to_json(variable: &Variable, left: &mut usize) -> Option<Value> {
    let mut spend = |values: usize| {
        *left = left.checked_sub(values)?;
        Some(())
    };
    Some(match variable {
        // A reference to an expression is no value; the library treats it as null elsewhere too.
        Variable::Null | Variable::Expref(_) => spend(1).map(|()| Value::Null)?,
        Variable::Bool(bool) => spend(1).map(|()| Value::Bool(*bool))?,
        Variable::Number(number) => spend(1).map(|()| Value::Number(number.clone()))?,
        Variable::String(text) => spend(size_of(text)).map(|()| Value::String(text.clone()))?,
        Variable::Array(items) => {
            spend(1)?;
            Value::Array(items.iter().map(|item| to_json(Rc::as_ref(item), left)).collect::<Option<_>>()?)
        }
        Variable::Object(fields) => {
            spend(1)?;
            let mut object = Map::new();
            for (name, value) in fields {
                *left = left.checked_sub(size_of(name))?;
                object.insert(name.clone(), to_json(value, left)?);
            }
            Value::Object(object)
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(expression: &str, expected: &Value) {
        let page = json!([
            {"role": "button", "name": "Pay € 12.50", "ref": "e1", "level": 2.0},
            {"role": "link", "name": "12", "ref": "e2", "level": null},
        ]);
        assert_eq!(query(expression, &page).as_ref(), Ok(expected), "{expression}");
    }

    /// The language and the additional functions.
    #[test]
    fn queries_use_the_language_and_own_functions() {
        found("[?role=='link'].ref", &json!(["e2"]));
        found("[].{n: name, r: ref} | [0]", &json!({"n": "Pay € 12.50", "r": "e1"}));
        found("[].nvl(level, 'none')", &json!([2.0, "none"]));
        found("[].int(name)", &json!([12]));
        found("map(&int(name), @)", &json!([null, 12]));
        found("int([0].level)", &json!(2));
        found("int(`true`)", &json!(null));
        found("int(`1e300`)", &json!(null));
        found("[].str(level)", &json!(["2.0", "null"]));
        found("str([0].ref)", &json!("e1"));
        found(r"regex_replace('\d+\.(\d+)', '[\1]', [0].name)", &json!("Pay € [50]"));
        found(r"regex_replace('(P)ay', '$1-$$', [0].name)", &json!("P-$ € 12.50"));
        found("regex_replace('a', 'b', missing)", &json!(null));
        found("join('-', [].ref)", &json!("e1-e2"));
        found("nothing", &json!(null));
    }

    fn refused(expression: &str, expected: &str) {
        let error =
            query(expression, &json!([{"role": "button"}])).map(drop).map_err(|error| error.to_string());
        assert!(error.as_ref().is_err_and(|error| error.contains(expected)), "{expression}: {error:?}");
    }

    /// Errors have their position.
    #[test]
    fn query_errors_have_their_position() {
        refused("[?role=='link'", "[?role=='link'\n  ");
        refused("[0].\nnvl(role)", "nvl(role)\n");
        refused("nope(@)", "undefined function nope");
        refused("regex_replace('(', '', 'x')", "regex_replace: ");
        refused(r"regex_replace('(\w{1,900}){900}', '', 'x')", "size limit");
        let error = query("a b", &Value::Null).expect_err("it is wrong").to_string();
        assert!(error.ends_with("\n  a b\n    ^"), "{error}");
    }

    /// An unknown function is found before anything runs, wherever it stands; known functions pass.
    #[test]
    fn unknown_functions_are_refused_before_the_query() {
        for expression in [
            "nope(@)",
            "[?nope(a)].b",
            "a || nope(b)",
            "{a: b, c: [nope(@)]}",
            "sort_by(@, &nope(a))",
            "a | !nope(@)",
        ] {
            let error = check(expression).expect_err(expression).to_string();
            assert!(
                error.contains("undefined function nope") && error.ends_with('^'),
                "{expression}: {error}"
            );
        }
        assert_eq!(check("[?contains(nvl(a, ''), 'x')].{b: length(str(b))} | [0]"), Ok(()));
    }

    /// A query that is too long, nests too deeply or would fill the memory is refused before it runs.
    #[test]
    fn oversized_queries_are_refused() {
        refused(&"a".repeat(EXPRESSION_BYTES_MAX + 1), "4097 bytes");
        refused(&"!".repeat(NESTING_MAX + 1), "nested too deeply");
        refused(&vec!["[@, @]"; 30].join(" | "), "too much: up to");
        // Long field names, and literals with many values, count with their size.
        let named = json!({ "n".repeat(100_000): 1 });
        let error = query(&["[@, @]"; 16].join(" | "), &named).expect_err("too much").to_string();
        assert!(error.contains("too much"), "{error}");
        let literal = format!("[].[`[{}1]`]", "1,".repeat(1_900));
        let error = query(&literal, &json!(vec![1; 12_000])).expect_err("too much").to_string();
        assert!(error.contains("too much"), "{error}");
        // Shared values count each time they are repeated, also if the form of the query does not show it.
        let found = jmespath::compile(&["[@, @]"; 9].join(" | ")).unwrap().search(1).unwrap();
        assert_eq!(to_json(&found, &mut { 1_000 }), None);
        assert!(to_json(&found, &mut { 1_023 }).is_some());
        let quoted = query(&vec!["to_string([@])"; 20].join(" | "), &json!(vec!["x"; 100]));
        assert_eq!(quoted, Err(QueryError::TooMuch(1 << 20)));
        let longer = ["regex_replace('^.*$', '$0$0$0$0$0$0$0$0$0$0$0$0', @)"; 7].join(" | ");
        refused(&format!("'xxxxxxxx' | {longer}"), "MiB of text");
        let slow = query("regex_replace('.*[^A-Z]|[A-Z]', '', @)", &json!("A".repeat(400_000)));
        assert!(
            slow.as_ref().is_err_and(|error| error.to_string().contains("take more than 2 s")),
            "{slow:?}"
        );
        let joined = format!("join([0], map(&'{}', [1]))", "x".repeat(3_000));
        let error =
            query(&joined, &json!(["y".repeat(1_000), vec![1; 20_000]])).expect_err("too much").to_string();
        assert!(error.contains("MiB of text"), "{error}");
    }

    /// The growth of an expression follows from its form; different fields of one object are together no more than the
    /// object.
    #[test]
    fn growth_follows_from_the_expression() {
        for (expression, expected) in [
            ("[?role=='link'].{a: name, b: ref, c: level}", 1),
            ("[].{a: name, b: name}", 2),
            ("[].{a: name, b: nvl(ref, 'none')}", 3),
            ("[@, @] | [@, @] | [0]", 4),
            ("map(&[@, @], [@, @])", 4),
            ("sort_by(@, &name)[:5]", 2),
        ] {
            assert_eq!(growth(&jmespath::parse(expression).expect("it is right")), expected, "{expression}");
        }
    }

    /// The deepest allowed expressions do not overflow the stack.
    #[test]
    fn deepest_expressions_do_not_overflow_the_stack() {
        let deepest = [
            "!".repeat(NESTING_MAX) + "a",
            format!("{}a{}", "(".repeat(NESTING_MAX), ")".repeat(NESTING_MAX)),
            format!("{}a{}", "[".repeat(NESTING_MAX), "]".repeat(NESTING_MAX)),
            vec!["a"; NESTING_MAX].join("."),
            vec!["a"; NESTING_MAX].join("|"),
            vec!["a"; NESTING_MAX].join("||"),
            "[]".repeat(NESTING_MAX),
            "[*]".repeat(NESTING_MAX / 2),
            format!("{}a{}", "not_null(".repeat(NESTING_MAX), ")".repeat(NESTING_MAX)),
            format!("{}a{}", "{a: ".repeat(NESTING_MAX), "}".repeat(NESTING_MAX)),
            format!("{}a{}", "[?".repeat(NESTING_MAX), "]".repeat(NESTING_MAX)),
            format!("{}a{}", "not_null(&".repeat(NESTING_MAX / 2), ")".repeat(NESTING_MAX / 2)),
        ];
        // A worker thread has two megabytes; an overflow ends the process.
        for expression in deepest {
            let run = move || {
                let found = query(&expression, &json!({"a": [[{"a": 1}]]}));
                assert!(found.is_ok(), "{expression}: {found:?}");
            };
            std::thread::Builder::new()
                .stack_size(2 << 20)
                .spawn(run)
                .expect("a thread")
                .join()
                .expect("no panic");
        }
    }
}
