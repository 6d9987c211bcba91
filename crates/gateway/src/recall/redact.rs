//! Removes secrets from arguments before they are recorded: values whose name looks like a secret's, texts typed into a
//! field that is described as one, and what the operator named.
//!
//! In doubt this module removes too much. Agents still get the whole answer; only the record has less.

use std::collections::HashSet;

use greenroom_core::{
    Raw,
    raw::{encode, parse, tree},
};
use serde_json::{Map, Value, value::RawValue};

use super::secret_values::{REDACTED, SecretValues};

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

/// Members that describe the element for which a value is meant.
const DESCRIPTIONS: [&str; 5] = ["element", "name", "target", "selector", "uid"];

/// Members that hold a value for the element.
const VALUES: [&str; 3] = ["text", "value", "values"];

/// Up to this many fields are searched for by name in the unparsed arguments. With more fields the arguments are
/// parsed, which costs the same for any number.
const FIELDS_FEW: usize = 16;

/// Arguments without their secrets, and the secrets.
pub(crate) struct RedactedParams {
    pub(crate) params: Raw,
    pub(crate) secrets: SecretValues,
}

/// What is known of secrets in addition to their names.
pub(crate) struct SecretClues<'a> {
    pub(crate) tool: &'a str,
    /// The operator's names; case does not matter.
    pub(crate) names: &'a [String],
    /// Refs of fields that take secrets.
    pub(crate) fields: &'a HashSet<String>,
    /// Secrets that the session has seen before.
    pub(crate) known: &'a SecretValues,
}

impl SecretClues<'_> {
    /// Whether this is the name of a secret, or of a field for one.
    pub(crate) fn looks_secret(&self, text: &str) -> bool {
        looks_secret(text, self.names)
    }

    fn names_secret(&self, text: &str) -> bool {
        self.fields.contains(text) || self.looks_secret(text)
    }
}

pub(crate) fn redact(arguments: Option<&RawValue>, clues: &SecretClues<'_>) -> RedactedParams {
    let Some(arguments) = arguments else {
        return RedactedParams { params: encode(&Map::new()), secrets: SecretValues::default() };
    };
    // Arguments that cannot be parsed are recorded as they are only if nothing in them looks like a secret. Names and
    // secrets may be spelt with escapes (`p\u0061ssword`), which the text does not show.
    let text = arguments.get();
    let fields = clues.fields;
    let has_escapes = text.contains('\\');
    let may_hold = clues.looks_secret(clues.tool)
        || clues.looks_secret(text)
        || has_escapes
        || fields.len() > FIELDS_FEW
        || fields.iter().any(|field| text.contains(field.as_str()));
    if !may_hold {
        let params = without(clues.known, arguments.to_owned());
        return RedactedParams { params, secrets: SecretValues::default() };
    }
    let Some(mut value) = tree(arguments) else {
        return RedactedParams { params: encode(REDACTED), secrets: SecretValues::default() };
    };
    let mut found = FoundSecrets::default();
    walk(&mut value, clues.looks_secret(clues.tool), clues, &mut found);
    let FoundSecrets { is_any, secrets } = found;
    let is_respelled = is_any || (has_escapes && !clues.known.is_empty());
    let params = if is_respelled { encode(&value) } else { arguments.to_owned() };
    // A secret under one name is a secret under every other.
    let params = without(clues.known, without(&secrets, params));
    RedactedParams { params, secrets }
}

/// The parameters without these secrets. If the rest is not valid JSON, all of it is redacted.
fn without(secrets: &SecretValues, params: Raw) -> Raw {
    if secrets.are_too_many() {
        return encode(REDACTED);
    }
    match secrets.scrub(params.get()) {
        Some(scrubbed) => parse(scrubbed).unwrap_or_else(|_| encode(REDACTED)),
        None => params,
    }
}

/// The secrets found in arguments.
#[derive(Default)]
struct FoundSecrets {
    /// Whether at least one was removed, perhaps only one that is too short to be searched for elsewhere.
    is_any: bool,
    secrets: SecretValues,
}

/// `of_secret`: the parent says that this value is about a secret.
fn walk(value: &mut Value, of_secret: bool, clues: &SecretClues<'_>, found: &mut FoundSecrets) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| walk(item, false, clues, found)),
        Value::Object(members) => {
            let described = members.iter().any(|(name, value)| {
                let text = value.as_str().filter(|_| DESCRIPTIONS.contains(&name.as_str()));
                text.is_some_and(|text| clues.names_secret(text))
            });
            for (name, member) in members.iter_mut() {
                let is_secret = (of_secret || described) && VALUES.contains(&name.as_str());
                if is_secret || (is_value(member) && is_secret_name(name, clues)) {
                    forget(member, found);
                } else {
                    walk(member, false, clues, found);
                }
            }
        }
        _ => {}
    }
}

/// A flag or a number of tokens is no secret, whatever its name.
fn is_value(value: &Value) -> bool {
    matches!(value, Value::String(_) | Value::Array(_) | Value::Object(_))
}

/// Removes a value, and notes every text in it: an answer may repeat one text without the rest.
fn forget(value: &mut Value, found: &mut FoundSecrets) {
    found.is_any = true;
    texts(&std::mem::replace(value, Value::String(REDACTED.to_owned())), &mut found.secrets);
}

fn texts(value: &Value, secrets: &mut SecretValues) {
    match value {
        Value::String(text) => secrets.add(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| texts(item, secrets)),
        Value::Object(members) => members.values().for_each(|member| texts(member, secrets)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn is_secret_name(name: &str, clues: &SecretClues<'_>) -> bool {
    // `element` and the like describe a field; they are not the secret.
    !DESCRIPTIONS.contains(&name) && clues.looks_secret(name)
}

/// Whether this is the name of a secret, or of a field for one.
pub(crate) fn looks_secret(text: &str, names: &[String]) -> bool {
    let plain: String =
        text.chars().filter(|c| !matches!(c, '_' | '-' | ' ' | '.')).flat_map(char::to_lowercase).collect();
    SECRET_NAMES.iter().any(|secret| plain.contains(secret))
        || names.iter().any(|name| text.to_lowercase().contains(&name.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recall::secret_values::{SECRETS_MAX, SPELLED_BYTES_MAX};

    fn check(arguments: &str, names: &[&str], expected: &str, secrets: &[&str]) {
        let raw = greenroom_core::raw::parse(arguments.to_owned()).unwrap();
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let fields = HashSet::from(["e77".to_owned()]);
        let clues = SecretClues {
            tool: "browser_type",
            names: &names,
            fields: &fields,
            known: &SecretValues::default(),
        };
        let redacted = redact(Some(&raw), &clues);
        assert_eq!(redacted.params.get(), expected);
        assert_eq!(redacted.secrets, values(secrets));
    }

    fn values(secrets: &[&str]) -> SecretValues {
        let mut values = SecretValues::default();
        secrets.iter().for_each(|secret| values.add((*secret).to_owned()));
        values
    }

    /// Secrets are recognised by their own names, by the field they are typed into, and by the operator's names.
    #[test]
    fn secrets_are_not_recorded() {
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
            &["Bearer x"],
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

    /// Secrets are found however their names are spelt; arguments that cannot be parsed at all are not recorded.
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

    /// However a call spells a secret that it types into a field for one, the record does not contain the secret, and
    /// the secret is known from then on.
    #[test]
    fn hostile_calls_record_no_secret() {
        use greenroom_testkit::{HostileJson, NodeValue};
        const SECRET: &str = "hunter2 and more";
        let fields = HashSet::from(["e77".to_owned()]);
        let clues = SecretClues {
            tool: "browser_type",
            names: &[],
            fields: &fields,
            known: &SecretValues::default(),
        };
        let mut kept = 0;
        for seed in 0..5_000 {
            let mut odd = HostileJson::new(seed);
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
            assert_eq!(redacted.secrets.scrub(SECRET).as_deref(), Some(REDACTED), "seed {seed}: {arguments}");
        }
        assert!(kept > 1_000, "{kept}");
    }

    /// If a call brings so many secrets that searching for each would take too long, nothing that could contain one is
    /// recorded: neither its arguments nor its other texts.
    #[test]
    fn call_with_too_many_secrets_is_not_recorded() {
        let secrets = |count: usize| {
            let members: Vec<_> = (0..count).map(|n| format!(r#""token{n}":"secret {n:05}""#)).collect();
            let raw = parse(format!("{{{},\"kept\":1}}", members.join(","))).unwrap();
            redact(
                Some(&raw),
                &SecretClues {
                    tool: "t",
                    names: &[],
                    fields: &HashSet::new(),
                    known: &SecretValues::default(),
                },
            )
        };
        let most = secrets(SECRETS_MAX);
        assert!(most.params.get().ends_with(r#""kept":1}"#), "{}", most.params);
        assert_eq!(most.secrets.scrub("a secret 00191").unwrap(), "a [redacted]");
        for count in [SECRETS_MAX + 1, 90_000] {
            let more = secrets(count);
            assert_eq!((more.params.get(), more.secrets.are_too_many()), (r#""[redacted]""#, true));
            assert_eq!(more.secrets.scrub("a text").unwrap(), REDACTED);
        }
    }

    /// Secrets that are too short to be searched for, and repeated ones, do not count towards the limit. They are not
    /// recorded either.
    #[test]
    fn short_and_repeated_secrets_do_not_count() {
        let fields: Vec<_> = (0..1_000).map(|n| format!(r#""token{n}":"{}""#, n % 10)).collect();
        let again: Vec<_> = (0..1_000).map(|n| format!(r#""password{n}":"hunter2""#)).collect();
        let raw = parse(format!("{{{},{},\"kept\":1}}", fields.join(","), again.join(","))).unwrap();
        let redacted = redact(
            Some(&raw),
            &SecretClues { tool: "t", names: &[], fields: &HashSet::new(), known: &SecretValues::default() },
        );
        let kept: Map<String, Value> = serde_json::from_str(redacted.params.get()).unwrap();
        assert_eq!((kept.len(), &kept["kept"]), (2_001, &Value::from(1)));
        assert!(kept.iter().all(|(name, value)| name == "kept" || value == REDACTED));
        assert_eq!(redacted.secrets, values(&["hunter2"]));
        let short = parse(r#"{"pin_token":"123"}"#.to_owned()).unwrap();
        let redacted = redact(
            Some(&short),
            &SecretClues { tool: "t", names: &[], fields: &HashSet::new(), known: &SecretValues::default() },
        );
        assert_eq!(redacted.params.get(), r#"{"pin_token":"[redacted]"}"#);
    }

    /// Secrets in lists and objects are known one by one; secrets that the session has seen before are removed from
    /// arguments that do not look like secrets; and very long ones count as too many.
    #[test]
    fn nested_and_known_secrets_are_removed() {
        check(
            r#"{"cookies":[{"name":"sid","value":"abc123"}],"Authorization":{"bearer":"xyz789"},"note":"abc123 xyz789"}"#,
            &[],
            r#"{"cookies":"[redacted]","Authorization":"[redacted]","note":"[redacted] [redacted]"}"#,
            &["abc123", "xyz789"],
        );
        let known = values(&["hunter2"]);
        let clues = SecretClues { tool: "browser_type", names: &[], fields: &HashSet::new(), known: &known };
        let raw = parse(r#"{"element":"Repeat it","text":"hunter2"}"#.to_owned()).unwrap();
        let redacted = redact(Some(&raw), &clues);
        assert_eq!(redacted.params.get(), r#"{"element":"Repeat it","text":"[redacted]"}"#);
        for escaped in [r"\u0068unter2", r"hun\u0074er2"] {
            let raw = parse(format!(r#"{{"element":"Repeat it","text":"{escaped}"}}"#)).unwrap();
            assert_eq!(
                redact(Some(&raw), &clues).params.get(),
                r#"{"element":"Repeat it","text":"[redacted]"}"#
            );
        }
        check(r#"{"card\/no":"12345"}"#, &["card/no"], r#"{"card/no":"[redacted]"}"#, &["12345"]);
        assert!(values(&[&"x".repeat(SPELLED_BYTES_MAX + 1)]).are_too_many());
    }

    /// All values of a tool whose name is about secrets are removed.
    #[test]
    fn all_values_of_secret_tools_are_removed() {
        let raw = greenroom_core::raw::parse(r#"{"name":"theme","value":"dark"}"#.to_owned()).unwrap();
        let clues = SecretClues {
            tool: "browser_cookie_set",
            names: &[],
            fields: &HashSet::new(),
            known: &SecretValues::default(),
        };
        assert_eq!(redact(Some(&raw), &clues).params.get(), r#"{"name":"theme","value":"[redacted]"}"#);
    }
}
