//! Gives an answer its final form: linked files are put where their links were, and notes are added at its end.
//! All other bytes of the engine's answer stay as they are.

use greenroom_core::{Artifact, Fields, Raw, Reply, raw::encode};
use serde_json::json;

/// The body to send.
pub(crate) fn answer(reply: Reply, notes: &[String]) -> Result<Raw, Raw> {
    let Reply { body, artifacts, .. } = reply;
    match body {
        Ok(result) => Ok(annotate(splice(result, &artifacts), notes)),
        Err(error) => Err(annotate_error(error, notes)),
    }
}

/// Puts the text of each artifact in the place of its link.
fn splice(body: Raw, artifacts: &[Artifact]) -> Raw {
    let spliced = || artifacts.iter().filter_map(|one| Some((&one.place, one.instead.as_deref()?)));
    if spliced().next().is_none() {
        return body;
    }
    let json = body.get();
    let grown = spliced().map(|(_, text)| text.len()).sum::<usize>();
    let mut text = String::with_capacity(json.len() + grown + grown / 8);
    let mut done = 0;
    for (link, replacement) in spliced() {
        // Links come in order and never overlap; one that does not fit is left alone.
        let Some(before) = json.get(done..link.start) else { continue };
        text.push_str(before);
        let escaped = encode(replacement);
        // The quotes of the encoded string belong to the string around it.
        let escaped = escaped.get();
        text.push_str(escaped.get(1..escaped.len() - 1).unwrap_or_default());
        done = link.end;
    }
    text.push_str(json.get(done..).unwrap_or_default());
    greenroom_core::raw::parse(text).unwrap_or(body)
}

/// Adds notes as a last text part.
pub(crate) fn annotate(result: Raw, notes: &[String]) -> Raw {
    if notes.is_empty() {
        return result;
    }
    let add = || {
        let mut fields = Fields::open(&result).ok()?;
        let mut content: Vec<Raw> = fields.read("content").ok()?.unwrap_or_default();
        content.push(encode(&json!({ "type": "text", "text": notes.join("\n") })));
        fields.set("content", encode(&content));
        Some(fields.to_raw())
    };
    add().unwrap_or(result)
}

/// An error object has one place for people to read: its message.
fn annotate_error(error: Raw, notes: &[String]) -> Raw {
    if notes.is_empty() {
        return error;
    }
    let add = || {
        let mut fields = Fields::open(&error).ok()?;
        let message: String = fields.read("message").ok()??;
        fields.set("message", encode(&format!("{message}\n{}", notes.join("\n"))));
        Some(fields.to_raw())
    };
    add().unwrap_or(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenroom_core::{ArtifactKind, port::Content};

    fn reply(body: &str, links: &[(&str, &str)]) -> Reply {
        let artifacts = links
            .iter()
            .map(|(link, text)| {
                let at = body.find(link).unwrap();
                let kind = ArtifactKind::Snapshot;
                let (place, instead) = (at..at + link.len(), Some((*text).to_owned()));
                Artifact { kind, place, instead, content: Content::Nothing }
            })
            .collect();
        Reply { artifacts, ..Reply::from(Ok(greenroom_core::raw::parse(body.to_owned()).unwrap())) }
    }

    /// Replacements are escaped for JSON, and nothing around them moves.
    #[test]
    fn artifacts_take_the_place_of_their_links() {
        let reply = reply(
            r#"{"content":[{"type":"text","text":"a [1](x) b [2](y)"}],"x-new": 1.50}"#,
            &[("[1](x)", "\"quoted\"\n"), ("[2](y)", "ends with \\")],
        );
        let body = answer(reply, &[]).unwrap();
        assert_eq!(
            body.get(),
            r#"{"content":[{"type":"text","text":"a \"quoted\"\n b ends with \\"}],"x-new": 1.50}"#
        );
    }

    /// Notes are a last part of their own; other members keep their place.
    #[test]
    fn notes_come_last() {
        let body =
            answer(reply(r#"{"content":[{"type":"x"}],"isError":true}"#, &[]), &["n1".into(), "n2".into()]);
        assert_eq!(
            body.unwrap().get(),
            r#"{"content":[{"type":"x"},{"type":"text","text":"n1\nn2"}],"isError":true}"#
        );
        let error = Reply::from(Err(encode(&json!({ "code": 1, "message": "m" }))));
        assert_eq!(answer(error, &["n".into()]).unwrap_err().get(), r#"{"code":1,"message":"m\nn"}"#);
    }
}
