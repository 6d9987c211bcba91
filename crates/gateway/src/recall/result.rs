//! Reads a tool's result: its texts, and the bytes in it that are base64.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use greenroom_core::{Fields, Raw, json_check::mended, raw::encode};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The texts of a result; without any, the result itself, so that nothing is hidden.
pub(crate) fn text_of(result: &RawValue) -> String {
    #[derive(Deserialize)]
    struct TextPart {
        #[serde(default)]
        text: Option<String>,
    }
    let content = Fields::open(result)
        .ok()
        .and_then(|fields| serde_json::from_str::<Vec<TextPart>>(&mended(fields.get("content")?.get())).ok());
    let texts: Vec<_> = content.into_iter().flatten().filter_map(|part| part.text).collect();
    if texts.is_empty() { result.get().to_owned() } else { texts.join("\n") }
}

/// The message of a JSON-RPC error.
pub(crate) fn message_of(error: &RawValue) -> String {
    let message = Fields::open(error).ok().and_then(|fields| fields.read::<String>("message").ok()?);
    message.unwrap_or_else(|| error.get().to_owned())
}

/// Bytes within a result.
#[derive(Debug, Clone)]
pub(crate) struct EmbeddedBytes {
    /// The number of the content part that contains them.
    pub(crate) part: usize,
    pub(crate) mime: String,
    /// Empty once the call record has stored them as a blob.
    pub(crate) data: Vec<u8>,
}

/// The images, sounds and other bytes of a result. Cheap if there are none.
pub(crate) fn embedded(result: &RawValue) -> Vec<EmbeddedBytes> {
    let text = result.get();
    if !["\"image\"", "\"audio\"", "\"resource\""].iter().any(|kind| text.contains(kind)) {
        return Vec::new();
    }
    let Some(parts) = parts(result) else { return Vec::new() };
    let found = parts.iter().enumerate().filter_map(|(part, raw)| {
        let place = BytesPointers::find(raw)?;
        let data = BASE64_STANDARD.decode(place.data.as_bytes()).ok()?;
        Some(EmbeddedBytes { part, mime: place.mime, data })
    });
    found.collect()
}

/// The result with each of these parts replaced by what `instead` returns for it and its number.
pub(crate) fn replace(
    result: &RawValue,
    found: &[EmbeddedBytes],
    instead: impl Fn(&RawValue, usize) -> Option<Raw>,
) -> Raw {
    let replaced = || {
        let mut fields = Fields::open(result).ok()?;
        let mut parts = parts(result)?;
        for (number, one) in found.iter().enumerate() {
            let part = parts.get_mut(one.part)?;
            *part = instead(part, number)?;
        }
        fields.set("content", encode(&parts));
        Some(fields.to_raw())
    };
    replaced().unwrap_or_else(|| result.to_owned())
}

/// A part with a name in place of its bytes.
pub(crate) fn name_instead(part: &RawValue, name: &str) -> Option<Raw> {
    let mut fields = Fields::open(part).ok()?;
    if fields.get("data").is_some() {
        fields.set("data", encode(name));
        return Some(fields.to_raw());
    }
    let mut resource: Fields = fields.read("resource").ok()??;
    resource.set("blob", encode(name));
    fields.set("resource", resource.to_raw());
    Some(fields.to_raw())
}

fn parts(result: &RawValue) -> Option<Vec<Raw>> {
    Fields::open(result).ok()?.read("content").ok()?
}

/// Where the bytes of a part are.
struct BytesPointers {
    mime: String,
    data: String,
}

impl BytesPointers {
    /// `{"type":"image"|"audio","data":…,"mimeType":…}` or `{"type":"resource","resource":{"blob":…,"mimeType":…}}`.
    fn find(part: &RawValue) -> Option<Self> {
        let fields = Fields::open(part).ok()?;
        let kind: String = fields.read("type").ok()??;
        let (holder, member) = match kind.as_str() {
            "image" | "audio" => (fields, "data"),
            "resource" => (fields.read::<Fields>("resource").ok()??, "blob"),
            _ => return None,
        };
        let mime = holder.read::<String>("mimeType").ok().flatten();
        Some(Self {
            mime: mime.unwrap_or_else(|| "application/octet-stream".to_owned()),
            data: holder.read(member).ok()??,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes are found in every kind of part, and a name replaces them; everything else stays as it was.
    #[test]
    fn bytes_are_replaced_by_their_name() {
        let result = greenroom_core::raw::parse(
            r#"{"content":[{"type":"text","text":"a"},{"type":"image","data":"AAEC","mimeType":"image/png","x":1.50},{"type":"resource","resource":{"uri":"u","blob":"/w=="}},{"type":"image","data":"not base64"}],"y":[ ]}"#.to_owned(),
        )
        .unwrap();
        let found = embedded(&result);
        let data: Vec<_> =
            found.iter().map(|one| (one.part, one.mime.as_str(), one.data.as_slice())).collect();
        assert_eq!(data, [(1, "image/png", &[0, 1, 2][..]), (2, "application/octet-stream", &[255][..])]);
        let named = replace(&result, &found, |part, number| name_instead(part, &format!("name {number}")));
        assert_eq!(
            named.get(),
            r#"{"content":[{"type":"text","text":"a"},{"type":"image","data":"name 0","mimeType":"image/png","x":1.50},{"type":"resource","resource":{"uri":"u","blob":"name 1"}},{"type":"image","data":"not base64"}],"y":[ ]}"#
        );
    }

    /// A result without a text is shown as it is.
    #[test]
    fn result_without_text_is_shown_as_it_is() {
        let text = |json: &str| text_of(&greenroom_core::raw::parse(json.to_owned()).unwrap());
        assert_eq!(
            text(r#"{"content":[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}]}"#),
            "a\nb"
        );
        assert_eq!(text(r#"{"x":1}"#), r#"{"x":1}"#);
    }
}
