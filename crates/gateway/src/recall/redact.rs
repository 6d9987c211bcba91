//! Takes secrets out of arguments before they are kept: whatever is called like a secret, what is typed into a field that
//! is described as one, and what the operator named.
//!
//! It errs on the side of forgetting. Agents get what they asked for all the same; only the record is poorer.

use std::collections::HashSet;

use greenroom_core::{
    Raw,
    raw::{encode, parse, tree},
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, value::RawValue};

use super::secrets::VALUES_MAX;

/// What stands in the place of a secret.
pub(crate) const REDACTED: &str = "[redacted]";

/// Parts of names that secrets have, in lower case, without separators.
const SECRET_NAMES: [&str; 22] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "token",
    "apikey",
    "authorization",
    "credential",
    "privatekey",
    "cookie",
    "onetimecode",
    "securitycode",
    "cvv",
    "cvc",
    "passwort",
    "kennwort",
    "contraseña",
    "motdepasse",
    "senha",
    "пароль",
    "密码",
];

/// Members that describe the element that a value is meant for.
const DESCRIPTIONS: [&str; 5] = ["element", "name", "target", "selector", "uid"];

/// Members that hold such a value.
const VALUES: [&str; 3] = ["text", "value", "values"];

/// The shortest secret that is looked for in answers. Shorter ones are parts of everything.
const SECRET_BYTES_MIN: usize = 4;

/// How many secrets are looked for in a text: those of a session, and twice as many that a call brings, which is more than
/// forms and logins have. Each is looked for in several spellings, and each of these takes a pass over a text of perhaps many
/// megabytes. Where there are more, nothing is kept of the text.
const SECRETS_MAX: usize = 3 * VALUES_MAX;

/// How many fields are looked for by name in arguments before these are taken apart, where a look costs the same for any
/// number of them.
const FIELDS_FEW: usize = 16;

/// Arguments without their secrets, and the secrets.
pub(crate) struct Redacted {
    pub(crate) params: Raw,
    /// If there are too many, one more than is looked for in a text: then no text beside the arguments is kept either.
    pub(crate) secrets: Vec<String>,
}

/// What is known of secrets beside their names.
pub(crate) struct Clues<'a> {
    pub(crate) tool: &'a str,
    /// The operator's names, in any case.
    pub(crate) names: &'a [String],
    /// References of fields that take secrets.
    pub(crate) fields: &'a HashSet<String>,
}

impl Clues<'_> {
    /// Whether this is what a secret is called, or a field for one.
    pub(crate) fn looks_secret(&self, text: &str) -> bool {
        looks_secret(text, self.names)
    }

    fn names_secret(&self, text: &str) -> bool {
        self.fields.contains(text) || self.looks_secret(text)
    }
}

pub(crate) fn redact(arguments: Option<&RawValue>, clues: &Clues<'_>) -> Redacted {
    let Some(arguments) = arguments else {
        return Redacted { params: encode(&Map::new()), secrets: Vec::new() };
    };
    // What cannot be read as a value is kept as it is only if nothing in it looks like a secret. Names may be spelt with
    // escapes (`p\u0061ssword`), which the text does not show.
    let (text, fields) = (arguments.get(), clues.fields);
    let may_hold = clues.looks_secret(clues.tool)
        || clues.looks_secret(text)
        || text.contains("\\u")
        || fields.len() > FIELDS_FEW
        || fields.iter().any(|field| text.contains(field.as_str()));
    if !may_hold {
        return Redacted { params: arguments.to_owned(), secrets: Vec::new() };
    }
    let Some(mut value) = tree(arguments) else {
        return Redacted { params: encode(REDACTED), secrets: Vec::new() };
    };
    let mut secrets = Vec::new();
    walk(&mut value, clues.looks_secret(clues.tool), clues, &mut secrets);
    if secrets.is_empty() {
        return Redacted { params: arguments.to_owned(), secrets };
    }
    if secrets.len() > SECRETS_MAX {
        secrets.truncate(SECRETS_MAX + 1);
        return Redacted { params: encode(REDACTED), secrets };
    }
    // What is a secret under one name is one under every other.
    let params = encode(&value);
    let params = match scrub(params.get(), secrets.iter()) {
        Some(scrubbed) => parse(scrubbed).unwrap_or_else(|_| encode(REDACTED)),
        None => params,
    };
    Redacted { params, secrets }
}

/// Replaces secrets in a text that is kept beside the arguments they came with; all of it where there are too many.
pub(crate) fn scrub<'a>(text: &str, secrets: impl Iterator<Item = &'a String>) -> Option<String> {
    let mut scrubbed: Option<String> = None;
    for (number, secret) in secrets.enumerate() {
        if number == SECRETS_MAX {
            return Some(REDACTED.to_owned());
        }
        if secret.len() < SECRET_BYTES_MIN {
            continue;
        }
        for spelled in spellings(secret) {
            let now = scrubbed.as_deref().unwrap_or(text);
            if now.contains(&spelled) {
                scrubbed = Some(now.replace(&spelled, REDACTED));
            }
        }
    }
    scrubbed
}

/// How a secret may stand in a text: as it is, in quotes as code and snapshots have it, each of these in JSON, in URLs. The
/// longest comes first, so that nothing is left of an escape that another one is the beginning of.
fn spellings(secret: &str) -> Vec<String> {
    let in_quotes = |text: &str| {
        let quoted = encode(text);
        let quoted = quoted.get();
        quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned()
    };
    let double = in_quotes(secret);
    let single = double.replace("\\\"", "\"").replace('\'', "\\'");
    let mut all: Vec<_> = [secret.to_owned(), double, single].into_iter().collect();
    all.extend(all.clone().iter().map(|text| in_quotes(text)));
    // In addresses, as forms send it.
    let in_url = utf8_percent_encode(secret, NON_ALPHANUMERIC).to_string();
    all.push(in_url.replace("%20", "+"));
    all.push(in_url);
    all.sort_by_key(|text| std::cmp::Reverse(text.len()));
    all.dedup();
    all
}

/// `of_secret`: what holds this value says that it is about a secret.
fn walk(value: &mut Value, of_secret: bool, clues: &Clues<'_>, secrets: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| walk(item, false, clues, secrets)),
        Value::Object(members) => {
            let described = members.iter().any(|(name, value)| {
                let text = value.as_str().filter(|_| DESCRIPTIONS.contains(&name.as_str()));
                text.is_some_and(|text| clues.names_secret(text))
            });
            for (name, member) in members.iter_mut() {
                let is_secret = (of_secret || described) && VALUES.contains(&name.as_str());
                if is_secret || (is_value(member) && is_secret_name(name, clues)) {
                    forget(member, secrets);
                } else {
                    walk(member, false, clues, secrets);
                }
            }
        }
        _ => {}
    }
}

/// A flag or a number of tokens is no secret, whatever it is called.
fn is_value(value: &Value) -> bool {
    matches!(value, Value::String(_) | Value::Array(_) | Value::Object(_))
}

fn forget(value: &mut Value, secrets: &mut Vec<String>) {
    secrets.push(match std::mem::replace(value, Value::String(REDACTED.to_owned())) {
        Value::String(text) => text,
        other => other.to_string(),
    });
}

fn is_secret_name(name: &str, clues: &Clues<'_>) -> bool {
    // `element` and its like say what a field is; they are not the secret.
    !DESCRIPTIONS.contains(&name) && clues.looks_secret(name)
}

/// Whether a secret is called so, or a field for one.
pub(crate) fn looks_secret(text: &str, names: &[String]) -> bool {
    let plain: String =
        text.chars().filter(|c| !matches!(c, '_' | '-' | ' ' | '.')).flat_map(char::to_lowercase).collect();
    SECRET_NAMES.iter().any(|secret| plain.contains(secret))
        || names.iter().any(|name| text.to_lowercase().contains(&name.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(arguments: &str, names: &[&str], expected: &str, secrets: &[&str]) {
        let raw = greenroom_core::raw::parse(arguments.to_owned()).unwrap();
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let fields = HashSet::from(["e77".to_owned()]);
        let clues = Clues { tool: "browser_type", names: &names, fields: &fields };
        let redacted = redact(Some(&raw), &clues);
        assert_eq!(redacted.params.get(), expected);
        assert_eq!(redacted.secrets, secrets);
    }

    /// Secrets are known by their own names, by the field they are typed into, and by what the operator says.
    #[test]
    fn secrets_are_forgotten() {
        check(r#"{"url":"http://a","n": 1.50}"#, &[], r#"{"url":"http://a","n": 1.50}"#, &[]);
        check(
            r#"{"element":"Password field","target":"e3","text":"hunter2"}"#,
            &[],
            r#"{"element":"Password field","target":"e3","text":"[redacted]"}"#,
            &["hunter2"],
        );
        check(
            r#"{"fields":[{"name":"User","value":"ann"},{"name":"Pass-word","value":"hunter2"}]}"#,
            &[],
            r#"{"fields":[{"name":"User","value":"ann"},{"name":"Pass-word","value":"[redacted]"}]}"#,
            &["hunter2"],
        );
        check(
            r#"{"apiKey":"k","headers":{"Authorization":"Bearer x"},"tokens":5}"#,
            &[],
            r#"{"apiKey":"[redacted]","headers":{"Authorization":"[redacted]"},"tokens":5}"#,
            &["k", "Bearer x"],
        );
        check(
            r#"{"password":"hunter2","again":"hunter2"}"#,
            &[],
            r#"{"password":"[redacted]","again":"[redacted]"}"#,
            &["hunter2"],
        );
        check(r#"{"iban":"DE12"}"#, &["IBAN"], r#"{"iban":"[redacted]"}"#, &["DE12"]);
        check(r#"{"target":"e77","text":"1234"}"#, &[], r#"{"target":"e77","text":"[redacted]"}"#, &["1234"]);
        check(r#"{"target":"e7","text":"1234"}"#, &[], r#"{"target":"e7","text":"1234"}"#, &[]);
        check(
            r#"{"elements":[{"uid":"e7","value":"ann"},{"uid":"e77","value":"hunter2"}]}"#,
            &[],
            r#"{"elements":[{"uid":"e7","value":"ann"},{"uid":"e77","value":"[redacted]"}]}"#,
            &["hunter2"],
        );
    }

    /// Secrets are found however their names are spelt; what cannot be read at all is not kept.
    #[test]
    fn spellings_hide_no_secret() {
        check(r#"{"p\u0061ssword":"hunter2"}"#, &[], r#"{"password":"[redacted]"}"#, &["hunter2"]);
        let field = r#"{"element":"P\u0061ssword","text":"hunter2"}"#;
        check(field, &[], r#"{"element":"Password","text":"[redacted]"}"#, &["hunter2"]);
        check(
            r#"{"t\u0061rget":"e7\u0037","text":"12345"}"#,
            &[],
            r#"{"target":"e77","text":"[redacted]"}"#,
            &["12345"],
        );
        let far = r#"{"password":"hunter2","n":1e400}"#;
        check(far, &[], r#""[redacted]""#, &[]);
        check(r#"{"text":"\u00e9\n"}"#, &[], r#"{"text":"\u00e9\n"}"#, &[]);
        check(r#"{"password":"\ud800"}"#, &[], r#""[redacted]""#, &[]);
    }

    /// However a call is spelt that types a secret into a field for one, what is kept of it does not tell the secret, and the
    /// secret is known.
    #[test]
    fn odd_calls_keep_no_secret() {
        use greenroom_testkit::{NodeValue, OddJson};
        const SECRET: &str = "hunter2 and more";
        let fields = HashSet::from(["e77".to_owned()]);
        let clues = Clues { tool: "browser_type", names: &[], fields: &fields };
        let mut kept = 0;
        for seed in 0..5_000 {
            let mut odd = OddJson::new(seed);
            let (name, field) =
                [("element", "Password"), ("target", "e77"), ("name", "Pass-word")][odd.below(3)];
            let members = [
                (name, odd.spelling(field)),
                ("text", odd.spelling(SECRET)),
                ("note", odd.value(&["x", "a note"])),
            ];
            let mut arguments = odd.object(&members);
            if odd.below(3) == 0 {
                arguments = format!(r#"{{"fields":[{arguments}]}}"#);
            }
            let raw = parse(arguments.clone()).unwrap();
            if greenroom_core::json_check::check(&raw).is_err() {
                continue;
            }
            kept += 1;
            let redacted = redact(Some(&raw), &clues);
            let texts = NodeValue::parse(redacted.params.get()).texts();
            let tells = texts.iter().find(|text| text.contains(SECRET));
            assert_eq!(tells, None, "seed {seed}: {arguments}: {}", redacted.params);
            assert!(redacted.secrets.iter().any(|secret| secret == SECRET), "seed {seed}: {arguments}");
        }
        assert!(kept > 1_000, "{kept}");
    }

    /// Where a call brings so many secrets that looking for each would take too long, nothing of it is kept that could tell
    /// one: neither its arguments nor a text beside them.
    #[test]
    fn too_many_secrets() {
        let secrets = |count: usize| {
            let members: Vec<_> = (0..count).map(|n| format!(r#""token{n}":"secret {n:05}""#)).collect();
            let raw = parse(format!("{{{},\"kept\":1}}", members.join(","))).unwrap();
            redact(Some(&raw), &Clues { tool: "t", names: &[], fields: &HashSet::new() })
        };
        let most = secrets(SECRETS_MAX);
        assert!(most.params.get().ends_with(r#""kept":1}"#), "{}", most.params);
        assert_eq!(scrub("a secret 00191", most.secrets.iter()).unwrap(), "a [redacted]");
        let more = secrets(SECRETS_MAX + 1);
        assert_eq!((more.params.get(), more.secrets.len()), (r#""[redacted]""#, SECRETS_MAX + 1));
        assert_eq!(scrub("a text", more.secrets.iter()).unwrap(), REDACTED);
        assert_eq!(secrets(90_000).secrets.len(), SECRETS_MAX + 1);
    }

    /// A tool that is about secrets has its values forgotten.
    #[test]
    fn tools_about_secrets() {
        let raw = greenroom_core::raw::parse(r#"{"name":"theme","value":"dark"}"#.to_owned()).unwrap();
        let clues = Clues { tool: "browser_cookie_set", names: &[], fields: &HashSet::new() };
        assert_eq!(redact(Some(&raw), &clues).params.get(), r#"{"name":"theme","value":"[redacted]"}"#);
    }

    /// A secret is also taken out of the answer that repeats it, however it is spelled there; short ones are not looked for.
    #[test]
    fn answers_are_scrubbed() {
        let secrets = ["hun\"ter2".to_owned(), "a".to_owned()];
        assert_eq!(
            scrub(r#"fill('hun\"ter2') hun"ter2 a"#, secrets.iter()).unwrap(),
            "fill('[redacted]') [redacted] a"
        );
        assert_eq!(scrub("nothing", secrets.iter()), None);
        let secret = ["hunter 2&".to_owned()];
        assert_eq!(scrub("http://a/?p=hunter+2%26", secret.iter()).unwrap(), "http://a/?p=[redacted]");
        let secrets = [r#"it's "q" \"#.to_owned()];
        let code = [r#"fill('it\'s "q" \\')"#, r#"fill("it's \"q\" \\")"#, r#"it's "q" \"#];
        for text in code {
            let kept = encode(&[text]);
            let scrubbed = scrub(kept.get(), secrets.iter()).unwrap();
            let read: Vec<String> = serde_json::from_str(&scrubbed).unwrap();
            assert!(read[0].contains(REDACTED) && !read[0].contains("it"), "{read:?}");
        }
    }
}
