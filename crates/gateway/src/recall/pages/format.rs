//! Writes a page of an answer as YAML, which takes fewer tokens, or as JSON.

use serde::Deserialize;
use serde_json::Value;

/// `output_format`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OutputFormat {
    #[default]
    Yaml,
    Json,
}

impl OutputFormat {
    /// The value as text. A value that YAML cannot express is written as JSON, which YAML parsers read as well.
    pub(crate) fn write(self, value: &Value) -> String {
        match self {
            Self::Yaml => serde_saphyr::to_string(value).unwrap_or_else(|_| value.to_string()),
            Self::Json => value.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(value: &Value, yaml: &str) {
        assert_eq!(OutputFormat::Yaml.write(value), yaml);
        assert_eq!(
            serde_json::from_str::<Value>(&OutputFormat::Json.write(value)).ok().as_ref(),
            Some(value)
        );
    }

    /// Texts that look like another type are quoted, and nothing is lost.
    #[test]
    fn ambiguous_texts_are_quoted_in_yaml() {
        check(
            &json!([{"role": "button", "name": "Pay: now", "level": 1, "x": null, "t": true}]),
            "- role: button\n  name: \"Pay: now\"\n  level: 1\n  x: null\n  t: true\n",
        );
        check(
            &json!({"no": "no", "one": "1", "empty": "", "dash": "- a", "date": "2026-01-02"}),
            "\"no\": \"no\"\none: \"1\"\nempty: \"\"\ndash: \"- a\"\ndate: \"2026-01-02\"\n",
        );
        check(&json!([]), "[]\n");
        check(&json!({"text": "two\nlines"}), "text: |-\n  two\n  lines\n");
        check(&json!({"escape": "\u{1b}[0m"}), "escape: \"\\e[0m\"\n");
    }
}
