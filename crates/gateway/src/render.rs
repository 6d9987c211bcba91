//! Renders an answer for its agent: decides how much of it is sent, replaces links by the linked files and a
//! whole page by its changes, and adds notes at the end. All other bytes of the engine's answer stay as they
//! are. The engine's adapter has found and read the linked files before (`reply.rs` in each adapter's
//! folder).

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    ops::Range,
};

use greenroom_core::{
    Artifact, ArtifactKind, Fields, Raw, RefId, Reply, port::Content, raw::encode, record::BlobId,
    settings::Responses,
};
use serde_json::{Value, json, value::RawValue};

use crate::recall::{
    EndedCall, ResponseMode,
    diff::{SnapshotDiff, diff},
    fold::{cut, head},
    pictures::SentPicture,
    sent_pages::PageForm,
    tokens::{estimate, exceeds},
};

/// The field of `_meta` with the record's `ref_id`, and with the notes if they may not be added to the text.
pub(crate) const REF_ID: &str = "greenroom/ref_id";
const NOTES: &str = "greenroom/notes";
/// The field of `_meta` with the folder to which relative paths in an unchanged (`raw`) answer refer.
const FOLDER: &str = "greenroom/folder";

/// How an answer is rendered.
pub(crate) struct RenderOptions<'a> {
    pub(crate) mode: ResponseMode,
    pub(crate) call: &'a EndedCall,
    pub(crate) inline_tokens: usize,
    /// The session's previous snapshot, if the answer is to have the changes only.
    pub(crate) before: Option<(RefId, String)>,
    /// The pictures that are sent in another form than the engine's.
    pub(crate) pictures: Vec<SentPicture>,
    /// The address from which blobs can be fetched, if this greenroom has one.
    pub(crate) base_url: Option<&'a str>,
}

/// An answer in its final form.
pub(crate) struct Rendered {
    /// The body to send.
    pub(crate) body: Result<Raw, Raw>,
    /// How much of a page it carries, if it carries one.
    pub(crate) page: Option<PageForm>,
}

/// Renders an answer.
pub(crate) fn answer(reply: Reply, notes: &[String], options: &RenderOptions<'_>) -> Rendered {
    let Reply { body, artifacts, folder, .. } = reply;
    let mut notes = notes.to_vec();
    if let Some(why) = &options.call.not_recorded {
        notes.push(not_recorded(why));
    }
    let mut page = None;
    let body = match (body, options.mode) {
        (Err(error), _) => Err(annotate_error(error, &notes)),
        (Ok(result), ResponseMode::As(Responses::Raw)) => {
            let result = with_meta(result, options.call.record(), &notes);
            let folder = folder.map(|folder| (FOLDER, json!(folder.to_string_lossy())));
            Ok(with_members(result, folder.as_slice()))
        }
        (Ok(result), ResponseMode::As(Responses::Refs)) if options.call.record().is_some() => {
            Ok(with_meta(annotate(short(&result, options.call), &notes), options.call.record(), &[]))
        }
        (Ok(result), _) => {
            let (result, sent) = inline(result, &artifacts, &mut notes, options);
            page = sent;
            Ok(with_meta(annotate(result, &notes), options.call.record(), &[]))
        }
    };
    Rendered { body, page }
}

/// The note for an answer that is not recorded.
pub(crate) fn not_recorded(why: &str) -> String {
    format!("not recorded: {why}; this answer cannot be recalled")
}

/// A text of greenroom's own, with the `ref_id` of its record.
pub(crate) fn text_result(text: &str, ref_id: Option<&RefId>, notes: &[String]) -> Raw {
    let result = encode(&json!({ "content": [{ "type": "text", "text": text }] }));
    with_meta(annotate(result, notes), ref_id, &[])
}

/// The call's status and its `ref_id`, instead of the answer.
fn short(result: &Raw, call: &EndedCall) -> Raw {
    let text = Fields::from(call).to_raw();
    let mut fields = Fields::default();
    fields.set("content", encode(&json!([{ "type": "text", "text": text.get() }])));
    for name in ["isError", "_meta"] {
        if let Some(value) =
            Fields::open(result).ok().and_then(|result| result.get(name).map(ToOwned::to_owned))
        {
            fields.set(name, value);
        }
    }
    fields.to_raw()
}

fn inline(
    result: Raw,
    artifacts: &[Artifact],
    notes: &mut Vec<String>,
    options: &RenderOptions<'_>,
) -> (Raw, Option<PageForm>) {
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    let mut snapshot = None;
    for artifact in artifacts {
        match (artifact.kind, &artifact.content) {
            // A snapshot that the engine wrote to a file for the agent is not in the answer, and stays out of it.
            (ArtifactKind::Snapshot, Content::Text(_)) if artifact.range.is_empty() => {}
            (ArtifactKind::Snapshot, Content::Text(text)) => snapshot = Some((artifact, &**text)),
            _ => edits.extend(artifact.instead.clone().map(|text| (artifact.range.clone(), text))),
        }
    }
    let rest_bytes = result.get().len() + edits.iter().map(|(_, text)| text.len()).sum::<usize>()
        - snapshot.map_or(0, |(artifact, _)| artifact.range.len());
    let mut page = None;
    if let Some((artifact, text)) = snapshot {
        // Compare both as they are recorded: redacted secrets would otherwise count as changes each time.
        let now = options.call.snapshot.as_deref().unwrap_or(text);
        let changed = options.before.as_ref().and_then(|(since, before)| {
            let since = match options.mode {
                // The agent has that page, and needs no `ref_id` for it.
                ResponseMode::As(Responses::Auto) => "the page you were last sent".to_owned(),
                _ => format!("ref_id {since}"),
            };
            changes(&since, before, now)
        });
        // Without a record nothing is cut: the agent could not ask for the rest.
        let left =
            options.inline_tokens.saturating_sub(rest_bytes / TOKEN_BYTES).max(options.inline_tokens / 4);
        // A diff beyond the budget is no shorter than a cut page.
        let changed = changed.filter(|changed| !exceeds(changed, left));
        // For a small page, the diff's first line alone may be longer than the page.
        let is_shorter = |changed: &String| options.mode == ResponseMode::Diff || changed.len() < text.len();
        let changed = changed.filter(is_shorter);
        page = Some(if changed.is_some() { PageForm::Changes } else { PageForm::Whole });
        let shorter = match (&changed, options.call.record()) {
            (None, Some(ref_id)) => shortened(text, left, ref_id, notes),
            _ => None,
        };
        // An agent might take an empty block for a fault.
        let empty = text.trim().is_empty().then(|| EMPTY_PAGE.to_owned());
        let instead = changed.or(shorter).or(empty).or_else(|| artifact.instead.clone());
        edits.extend(instead.map(|text| (artifact.range.clone(), text)));
        edits.sort_by_key(|(range, _)| range.start);
    }
    let mut result = splice(result, &edits);
    if let Some(ref_id) = options.call.record() {
        if rest_bytes > options.inline_tokens
            && let Some(cut) = cut_texts(&result, snapshot.is_some(), options.inline_tokens, ref_id, notes)
        {
            result = cut;
        }
        result = with_pictures(result, &options.pictures);
        notes.extend(recallable(options, ref_id));
    }
    (result, page)
}

/// Replaces a snapshot without elements. Playwright's snapshot has none while a dialog of the page is open, too.
const EMPTY_PAGE: &str = "(no elements: the page is empty, or a dialog is open)";

/// Bytes of a token, roughly: good enough for the texts around a snapshot.
const TOKEN_BYTES: usize = 4;

/// How an agent that no longer has the page gets it.
const WHOLE: &str = "whole page: mode inline";

/// The changes since the previous snapshot, if they are shorter than the whole snapshot.
fn changes(since: &str, before: &str, now: &str) -> Option<String> {
    match diff(before, now) {
        SnapshotDiff::Same => Some(format!("no changes since {since} ({WHOLE})")),
        SnapshotDiff::Changed(text) => {
            Some(format!("changes since {since} ({WHOLE}):\n```diff\n{}\n```", text.trim_end()))
        }
        SnapshotDiff::TooDifferent => None,
    }
}

/// A snapshot that is too long, cut to its budget.
fn shortened(text: &str, tokens_max: usize, ref_id: &RefId, notes: &mut Vec<String>) -> Option<String> {
    let cut = cut(text, tokens_max)?;
    notes.push(format!(
        "snapshot cut: {} of {} lines, about {} tokens are left out; get_content {{\"ref_id\": \"{ref_id}\"}} with search_for, or with offset and limit (lines), has them",
        cut.lines_total - cut.lines_shown, cut.lines_total, cut.tokens_left
    ));
    Some(format!("```yaml\n{}\n```", cut.text.trim_end()))
}

/// A result whose texts are too long, cut to the budget. A snapshot among them has been cut already.
fn cut_texts(
    result: &Raw,
    has_snapshot: bool,
    tokens_max: usize,
    ref_id: &RefId,
    notes: &mut Vec<String>,
) -> Option<Raw> {
    let mut fields = Fields::open(result).ok()?;
    let mut content: Vec<Raw> = fields.read("content").ok()??;
    let mut left = if has_snapshot { 2 * tokens_max } else { tokens_max };
    let mut left_out = 0;
    for part in &mut content {
        let mut opened = Fields::open(part).ok()?;
        let Ok(Some(text)) = opened.read::<String>("text") else { continue };
        if let Some(cut) = head(&text, left) {
            left_out += cut.tokens_left;
            opened.set("text", encode(cut.text.trim_end()));
            *part = opened.to_raw();
        }
        left = left.saturating_sub(estimate(&text));
    }
    if left_out == 0 {
        return None;
    }
    notes.push(format!(
        "answer cut: about {left_out} tokens are left out; get_content {{\"ref_id\": \"{ref_id}\"}} with search_for, or with offset and limit (lines), has them; all of it is greenroom://records/{ref_id}"
    ));
    fields.set("content", encode(&content));
    Some(fields.to_raw())
}

/// A result with these pictures instead of the engine's.
fn with_pictures(result: Raw, pictures: &[SentPicture]) -> Raw {
    if pictures.is_empty() {
        return result;
    }
    let replaced = || {
        let mut fields = Fields::open(&result).ok()?;
        let mut content: Vec<Raw> = fields.read("content").ok()??;
        for picture in pictures {
            content.get_mut(picture.part)?.clone_from(&picture.content);
        }
        fields.set("content", encode(&content));
        Some(fields.to_raw())
    };
    replaced().unwrap_or(result)
}

/// The notes with the `ref_id` and the files of an answer. Without anything to recall they are not worth their tokens.
fn recallable(options: &RenderOptions<'_>, ref_id: &RefId) -> Vec<String> {
    let EndedCall { has_snapshot, console, blobs, embedded, .. } = options.call;
    if !has_snapshot && *console == 0 && blobs.is_empty() {
        return Vec::new();
    }
    let mut notes = vec![format!("ref_id: {ref_id}")];
    // Bytes within the answer need no note: the agent has them already. A blob that is also a file does: the engine's
    // path is a private one, which other programs cannot reach.
    let (_, files) = blobs.split_at_checked(embedded.len()).unwrap_or((blobs, &[]));
    let mut named = HashSet::new();
    let with_site = |mut note: String, id: &BlobId| {
        if let Some(base_url) = options.base_url {
            note += &format!(", {base_url}/api/blobs/{id}");
        }
        note
    };
    for SentPicture { blob, note, .. } in &options.pictures {
        named.insert(&blob.id);
        notes.extend(note.clone().map(|note| with_site(note, &blob.id)));
    }
    for file in files.iter().filter(|file| named.insert(&file.id)) {
        let name = file.name.as_deref().unwrap_or("file");
        let note = format!("{name}: greenroom://blobs/{} ({}, {} bytes)", file.id, file.mime, file.bytes);
        notes.push(with_site(note, &file.id));
    }
    notes
}

/// Replaces parts of the strings in a JSON text.
fn splice(body: Raw, edits: &[(Range<usize>, String)]) -> Raw {
    if edits.is_empty() {
        return body;
    }
    let json = body.get();
    let grown = edits.iter().map(|(_, text)| text.len()).sum::<usize>();
    let mut text = String::with_capacity(json.len() + grown + grown / 8);
    let mut done = 0;
    for (range, replacement) in edits {
        // Edits are in order and do not overlap; an edit that does not fit is skipped.
        let Some(before) = json.get(done..range.start) else { continue };
        text.push_str(before);
        let escaped = encode(replacement);
        // Drop the quotes: the text becomes a part of the surrounding string.
        let escaped = escaped.get();
        text.push_str(escaped.get(1..escaped.len() - 1).unwrap_or_default());
        done = range.end;
    }
    text.push_str(json.get(done..).unwrap_or_default());
    greenroom_core::raw::parse(text).unwrap_or(body)
}

/// Adds the `ref_id` and the notes to `_meta`, where programs look. No other byte changes.
pub(crate) fn with_meta(result: Raw, ref_id: Option<&RefId>, notes: &[String]) -> Raw {
    let mut members: Vec<(&str, Value)> = ref_id.map(|id| (REF_ID, json!(id))).into_iter().collect();
    if !notes.is_empty() {
        members.push((NOTES, json!(notes)));
    }
    with_members(result, &members)
}

/// Adds members to the `_meta` of a result.
fn with_members(result: Raw, members: &[(&str, Value)]) -> Raw {
    if members.is_empty() {
        return result;
    }
    let members: Vec<_> = members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    let members = members.join(",");
    let text = result.get();
    let meta = range_of(text, "_meta").filter(|range| text[range.clone()].starts_with('{'));
    let (object, added) = match meta {
        Some(range) => (range, members),
        None => (0..text.trim_end().len(), format!("\"_meta\":{{{members}}}")),
    };
    let Some(open) = text.get(object.clone()).and_then(|object| object.strip_suffix('}')) else {
        return result;
    };
    let comma = if open.trim_end().ends_with('{') { "" } else { "," };
    let end = object.start + open.len();
    let named = format!("{}{comma}{added}{}", &text[..end], &text[end..]);
    greenroom_core::raw::parse(named).unwrap_or(result)
}

/// Where a member's value stands in the text of an object.
fn range_of(object: &str, name: &str) -> Option<Range<usize>> {
    // Most answers do not contain the word: do not parse those.
    if !object.contains(name) {
        return None;
    }
    let members: HashMap<Cow<'_, str>, &RawValue> = serde_json::from_str(object).ok()?;
    let value = members.get(name)?.get();
    // The value is a slice of this text, so its address gives its position.
    let start = (value.as_ptr() as usize).checked_sub(object.as_ptr() as usize)?;
    Some(start..start + value.len())
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

/// A result followed by the content of another.
pub(crate) fn joined(result: Raw, other: &Raw) -> Raw {
    let join = || {
        let mut fields = Fields::open(&result).ok()?;
        let mut content: Vec<Raw> = fields.read("content").ok()??;
        content.extend(Fields::open(other).ok()?.read::<Vec<Raw>>("content").ok()??);
        fields.set("content", encode(&content));
        Some(fields.to_raw())
    };
    join().unwrap_or(result)
}

/// Adds notes to the message: the only part of an error object that people read.
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
mod tests;
