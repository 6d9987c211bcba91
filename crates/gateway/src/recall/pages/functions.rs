//! The functions for queries in addition to JMESPath's own: `nvl`, `int`, `str`, `regex_replace`, and a `join` that
//! replaces the library's.
//!
//! These functions can make long texts out of short ones, and a query must not fill the memory. So they share one
//! limit per query: each query gets a new set of functions.

use std::{
    collections::HashMap,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use greenroom_core::port::human;
use parking_lot::Mutex;

use jmespath::{
    Context, ErrorReason, JmespathError, Rcvar, Runtime, Variable,
    functions::{ArgumentType, CustomFunction, Signature},
};
use regex::{Regex, RegexBuilder};

/// How many bytes the functions of one query may write. An agent reads some ten thousand; this is a thousand times
/// that.
const TEXT_BYTES_MAX: usize = 16 << 20;

/// How long the replacements of one query may take. Matching a pattern takes time linear in the text, but all of its
/// matches together may take quadratic time: minutes for a text of 100 kB.
const REPLACING_MAX: Duration = Duration::from_secs(2);

/// How large one compiled pattern may become. Patterns that people write take some KiB; nested repetitions have no
/// limit of their own.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// How many compiled patterns of a query are kept. A query has one or two; it has more only if it makes them from the
/// page's texts.
const PATTERNS_MAX: usize = 16;

type FunctionResult = Result<Rcvar, JmespathError>;
type QueryFunction = Box<dyn Fn(&[Rcvar], &mut Context<'_>) -> FunctionResult + Sync + Send>;

/// A runtime with every function that a query can call.
pub(super) fn runtime() -> Runtime {
    let mut runtime = Runtime::new();
    runtime.register_builtin_functions();
    let room = Arc::new(ByteBudget(AtomicUsize::new(TEXT_BYTES_MAX)));
    let any = || ArgumentType::Any;
    let mut register = |name: &str, inputs: Vec<ArgumentType>, function: QueryFunction| {
        let function = CustomFunction::new(Signature::new(inputs, None), function);
        runtime.register_function(name, Box::new(function));
    };
    register(
        "nvl",
        vec![any(), any()],
        Box::new(|args, _| Ok(Rc::clone(&args[usize::from(args[0].is_null())]))),
    );
    register("int", vec![any()], Box::new(|args, _| Ok(Rc::new(int(&args[0])))));
    let own = Arc::clone(&room);
    register("str", vec![any()], Box::new(move |args, context| str(&args[0], &own, context)));
    let own = Arc::clone(&room);
    let texts = ArgumentType::TypedArray(Box::new(ArgumentType::String));
    register(
        "join",
        vec![ArgumentType::String, texts],
        Box::new(move |args, context| join(args, &own, context)),
    );
    let patterns = RegexCache { known: Mutex::default(), until: Instant::now() + REPLACING_MAX };
    register(
        "regex_replace",
        vec![ArgumentType::String, ArgumentType::String, any()],
        Box::new(move |args, context| regex_replace(args, &patterns, &room, context)),
    );
    runtime
}

/// How many bytes may still be written.
struct ByteBudget(AtomicUsize);

impl ByteBudget {
    fn take(&self, bytes: usize, context: &Context<'_>) -> Result<(), JmespathError> {
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        let too_long =
            || refusal(context, format!("it makes more than {} MiB of text", TEXT_BYTES_MAX >> 20));
        taken.map(drop).map_err(|_| too_long())
    }
}

fn refusal(context: &Context<'_>, why: String) -> JmespathError {
    JmespathError::from_ctx(context, ErrorReason::Parse(why))
}

/// The whole number that a value is, or null.
fn int(value: &Variable) -> Variable {
    let whole = match value {
        Variable::Number(number) => number.as_i64().or_else(|| number.as_f64().and_then(truncated)),
        Variable::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    whole.map_or(Variable::Null, |whole: i64| Variable::Number(whole.into()))
}

fn truncated(number: f64) -> Option<i64> {
    // Beyond this a float may not be the whole number that was written.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (number.abs() <= EXACT).then_some(number as i64)
}

/// The text of a value: itself if it is a text, otherwise its JSON.
fn str(value: &Rcvar, room: &ByteBudget, context: &Context<'_>) -> FunctionResult {
    if value.is_string() {
        return Ok(Rc::clone(value));
    }
    let text = value.to_string();
    room.take(text.len(), context)?;
    Ok(Rc::new(Variable::String(text)))
}

fn join(args: &[Rcvar], room: &ByteBudget, context: &Context<'_>) -> FunctionResult {
    let glue = args[0].as_string().map_or("", String::as_str);
    let parts = args[1].as_array().into_iter().flatten();
    let parts: Vec<&str> = parts.filter_map(|part| part.as_string().map(String::as_str)).collect();
    let glued = glue.len().saturating_mul(parts.len());
    room.take(parts.iter().map(|part| part.len()).sum::<usize>().saturating_add(glued), context)?;
    Ok(Rc::new(Variable::String(parts.join(glue))))
}

struct RegexCache {
    known: Mutex<HashMap<String, Regex>>,
    /// When the query's time is over.
    until: Instant,
}

impl RegexCache {
    fn get(&self, pattern: &str, context: &Context<'_>) -> Result<Regex, JmespathError> {
        let mut known = self.known.lock();
        if let Some(regex) = known.get(pattern) {
            return Ok(regex.clone());
        }
        let regex = RegexBuilder::new(pattern)
            .size_limit(PATTERN_BYTES_MAX)
            .build()
            .map_err(|error| refusal(context, format!("regex_replace: {error}")))?;
        if known.len() >= PATTERNS_MAX {
            // Patterns made from a page's texts could be as many as the page has nodes.
            let why = format!("regex_replace: more than {PATTERNS_MAX} different patterns");
            return Err(refusal(context, why));
        }
        known.insert(pattern.to_owned(), regex.clone());
        Ok(regex)
    }
}

/// `regex_replace(pattern, replacement, value)`: null stays null; a value that is not text is used as its JSON.
fn regex_replace(
    args: &[Rcvar],
    patterns: &RegexCache,
    room: &ByteBudget,
    context: &Context<'_>,
) -> FunctionResult {
    if args[2].is_null() {
        return Ok(Rc::clone(&args[2]));
    }
    let pattern = patterns.get(args[0].as_string().map_or("", String::as_str), context)?;
    let replacement = groups(args[1].as_string().map_or("", String::as_str));
    let value = str(&args[2], room, context)?;
    let value = value.as_string().map_or("", String::as_str);
    let mut made = String::new();
    let mut at = 0;
    for found in pattern.captures_iter(value) {
        if Instant::now() > patterns.until {
            let why = format!("regex_replace: the replacements take more than {}", human(REPLACING_MAX));
            return Err(refusal(context, why));
        }
        let Some(whole) = found.get(0) else { continue };
        let before = made.len();
        made.push_str(&value[at..whole.start()]);
        found.expand(&replacement, &mut made);
        room.take(made.len() - before, context)?;
        at = whole.end();
    }
    room.take(value.len() - at, context)?;
    made.push_str(&value[at..]);
    Ok(Rc::new(Variable::String(made)))
}

/// Groups may be written `\1`, as most languages have it, or `$1`, as Rust does; `$$` is a dollar sign.
fn groups(replacement: &str) -> String {
    let mut made = String::with_capacity(replacement.len());
    let mut letters = replacement.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, letters.peek().copied()) {
            ('\\', Some(digit)) if digit.is_ascii_digit() => {
                letters.next();
                made.extend(["${", digit.encode_utf8(&mut [0; 4]), "}"]);
            }
            ('\\', Some('\\')) => {
                letters.next();
                made.push('\\');
            }
            _ => made.push(letter),
        }
    }
    made
}
