//! Blobs and records as MCP resources: blobs are listed and read, records are read by name.
//!
//! If records are off, the gateway does not declare the capability and the methods are unknown. A caller reads only
//! what belongs to its owner. The front calls this for every revision of the protocol; the revisions differ in the
//! error code for a missing resource.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use greenroom_core::{
    BlobId, Fields, Owner, Records, RefId,
    excerpt::echoed,
    raw::encode,
    record::{Blob, BlobRef, Unreadable},
};
use greenroom_mcp::{
    RpcError,
    error::{INVALID_PARAMS, METHOD_NOT_FOUND, SERVER},
};
use serde_json::{Value, json, value::RawValue};

use crate::{Gateway, offload::offload_if_large, rest::whole_record};

/// The scheme of all URIs of greenroom's resources.
pub(crate) const OWN: &str = "greenroom://";

const BLOBS: &str = BlobId::URI;
const RECORDS: &str = "greenroom://records/";

/// How many resources a page of the list has. At some 200 bytes each it stays a small message.
const PAGE: usize = 100;

/// The biggest blob that can be read as a resource. In base64 it fits into one message with room to spare; bigger ones
/// are fetched over HTTP.
const READ_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The error code of revisions before 2026-07-28 for a missing resource. Later revisions use the code for invalid
/// parameters.
pub(crate) const NOT_FOUND_BEFORE_2026: i64 = -32002;

/// The methods for resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResourceMethod {
    List,
    Templates,
    Read,
}

impl ResourceMethod {
    pub(crate) fn from_name(method: &str) -> Option<Self> {
        match method {
            "resources/list" => Some(Self::List),
            "resources/templates/list" => Some(Self::Templates),
            "resources/read" => Some(Self::Read),
            _ => None,
        }
    }

    fn method(self) -> &'static str {
        match self {
            Self::List => "resources/list",
            Self::Templates => "resources/templates/list",
            Self::Read => "resources/read",
        }
    }
}

/// Answers a request for resources. `not_found` is the revision's code for a missing one.
pub(crate) async fn answer(
    gateway: &Gateway,
    owner: &Owner,
    resource_method: ResourceMethod,
    params: Option<&RawValue>,
    not_found: i64,
) -> Result<Fields, RpcError> {
    let Some(records) = gateway.recall.records.as_deref() else { return Err(unserved(resource_method)) };
    let params = params.and_then(|params| Fields::open(params).ok()).unwrap_or_default();
    match resource_method {
        ResourceMethod::List => list(records, owner, &params).await,
        ResourceMethod::Templates => templates(&params),
        ResourceMethod::Read => read(records, owner, &params, not_found).await,
    }
}

/// The error for these methods if records are off.
pub(crate) fn unserved(resource_method: ResourceMethod) -> RpcError {
    let message = format!("method not found: `{}`; records are off on this server", resource_method.method());
    RpcError::new(METHOD_NOT_FOUND, message)
}

fn bad(why: impl Into<String>) -> RpcError {
    RpcError::new(INVALID_PARAMS, why)
}

/// The resource exists, but cannot be read.
fn unreadable(error: &Unreadable) -> RpcError {
    RpcError::new(SERVER, error.to_string())
}

/// Where a page begins. The cursor is the number of resources before it.
fn skipped(params: &Fields) -> Result<usize, RpcError> {
    let cursor = params.get("cursor").filter(|cursor| cursor.get() != "null");
    let Some(cursor) = cursor else { return Ok(0) };
    let number = serde_json::from_str::<String>(cursor.get()).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| bad(format!("unknown cursor: `{}`", echoed(cursor.get()))))
}

async fn list(records: &dyn Records, owner: &Owner, params: &Fields) -> Result<Fields, RpcError> {
    let skip = skipped(params)?;
    // One more than a page holds shows whether there is another page.
    let found = records.blobs(owner, skip, PAGE + 1).await;
    let mut found = found.map_err(|error| unreadable(&error))?;
    let more = found.len() > PAGE;
    found.truncate(PAGE);
    let resources: Vec<_> = found.iter().map(resource).collect();
    let mut answer = Fields::default();
    answer.set("resources", encode(&resources));
    if more {
        answer.set("nextCursor", encode(&skip.saturating_add(PAGE).to_string()));
    }
    Ok(answer)
}

fn resource(blob: &BlobRef) -> Value {
    // MCP requires a name; people can distinguish blobs by twelve digits.
    let name = blob.name.clone().unwrap_or_else(|| blob.id.as_str().chars().take(12).collect());
    json!({ "uri": format!("{BLOBS}{}", blob.id), "name": name, "mimeType": blob.mime, "size": blob.bytes })
}

fn templates(params: &Fields) -> Result<Fields, RpcError> {
    if skipped(params)? > 0 {
        return Err(bad("unknown cursor: the list has one page"));
    }
    let mut answer = Fields::default();
    let all = json!([
        {
            "uriTemplate": format!("{BLOBS}{{sha256}}"),
            "name": "blob",
            "description": "A blob by its SHA-256: an image, a PDF or a download",
        },
        {
            "uriTemplate": format!("{RECORDS}{{ref_id}}"),
            "name": "record",
            "description": "The record of one call, by its ref_id",
            "mimeType": "application/json",
        },
    ]);
    answer.set("resourceTemplates", encode(&all));
    Ok(answer)
}

async fn read(
    records: &dyn Records,
    owner: &Owner,
    params: &Fields,
    not_found: i64,
) -> Result<Fields, RpcError> {
    let Some(uri) = params.read::<String>("uri").ok().flatten() else {
        return Err(bad("`uri` must be the address of a resource, as text"));
    };
    let mut guard = None;
    let content = if let Some(id) = uri.strip_prefix(BLOBS).and_then(BlobId::parse) {
        match records.blob(owner, &id).await.map_err(|error| unreadable(&error))? {
            Some(blob) => {
                guard = offload_if_large(blob.data.len()).await;
                Some(bytes(&uri, blob)?)
            }
            None => None,
        }
    } else if let Some(id) = uri.strip_prefix(RECORDS).and_then(|id| RefId::parse(id).ok()) {
        let text = whole_record(records, owner, &id).await.map_err(|error| unreadable(&error))?;
        guard = offload_if_large(text.as_ref().map_or(0, String::len)).await;
        text.map(|text| json!({ "uri": uri, "mimeType": "application/json", "text": text }))
    } else {
        None
    };
    let Some(content) = content else {
        let data = Some(encode(&json!({ "uri": echoed(&uri) })));
        return Err(RpcError {
            code: not_found,
            message: format!("no such resource: `{}`", echoed(&uri)),
            data,
        });
    };
    let mut answer = Fields::default();
    answer.set("contents", encode(&[content]));
    drop(guard);
    Ok(answer)
}

/// Text as text, so that a model can read it; all other bytes in base64.
fn bytes(uri: &str, blob: Blob) -> Result<Value, RpcError> {
    let Blob { about, data } = blob;
    if data.len() > READ_BYTES_MAX {
        let message = format!(
            "the resource is too big to be read here: {} bytes\n\nhint: fetch it at `/api/blobs/{}`",
            data.len(),
            about.id
        );
        return Err(RpcError::new(SERVER, message));
    }
    let text = if is_text(&about.mime) { std::str::from_utf8(&data).ok() } else { None };
    Ok(match text {
        Some(text) => json!({ "uri": uri, "mimeType": about.mime, "text": text }),
        None => json!({ "uri": uri, "mimeType": about.mime, "blob": STANDARD.encode(&data) }),
    })
}

/// Whether bytes of this type are text.
fn is_text(mime: &str) -> bool {
    let kind = mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let (family, subtype) = kind.split_once('/').unwrap_or_default();
    let subtype = subtype.rsplit('+').next().unwrap_or_default();
    family == "text" || matches!(subtype, "json" | "xml" | "yaml" | "javascript")
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenroom_core::settings::Scope;

    use crate::testing::{self, BUILT_IN, DAY, MemoryRecords, store_blob};

    async fn ask(
        gateway: &Gateway,
        resource_method: ResourceMethod,
        params: Value,
    ) -> Result<Value, RpcError> {
        let owner = Owner::local();
        let params = encode(&params);
        let answer = answer(gateway, &owner, resource_method, Some(&params), NOT_FOUND_BEFORE_2026);
        answer.await.map(|fields| serde_json::from_str(fields.to_raw().get()).unwrap())
    }

    /// The owner's blobs are listed newest first, page by page, each once; other owners' are not.
    #[tokio::test]
    async fn blobs_are_listed_by_page() {
        let records = MemoryRecords::new();
        for n in 0..PAGE + 5 {
            store_blob(&records, "local", &n.to_string(), "text/plain").await;
        }
        store_blob(&records, "other", "secret", "text/plain").await;
        let (gateway, _folder) = testing::recalling(records);
        let first = ask(&gateway, ResourceMethod::List, json!({})).await.unwrap();
        let names = |page: &Value| -> Vec<String> {
            let resources = page["resources"].as_array().unwrap();
            resources.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
        };
        let all = |numbers: std::ops::Range<usize>| -> Vec<_> {
            numbers.rev().map(|n| format!("{n}.file")).collect()
        };
        assert_eq!(names(&first), all(5..PAGE + 5));
        let one = &first["resources"][0];
        assert_eq!((&one["mimeType"], &one["size"]), (&json!("text/plain"), &json!(3)));
        let rest = ask(&gateway, ResourceMethod::List, json!({"cursor": first["nextCursor"]})).await.unwrap();
        assert_eq!((names(&rest), rest.get("nextCursor")), (all(0..5), None));
        for cursor in [json!("x"), json!(7), json!("-1"), json!({})] {
            let refused = ask(&gateway, ResourceMethod::List, json!({ "cursor": cursor })).await.unwrap_err();
            assert_eq!(refused.code, INVALID_PARAMS);
        }
    }

    /// Text is read as text, other bytes in base64, a record whole; another owner's resource looks as if it did not
    /// exist.
    #[tokio::test]
    async fn resources_are_read_by_owner() {
        let records = MemoryRecords::new();
        let (text, _) = store_blob(&records, "local", "h\u{e4}", "application/ld+json").await;
        let (bytes, record) = store_blob(&records, "local", "abc", "image/png").await;
        let (secret, secrets) = store_blob(&records, "other", "secret", "text/plain").await;
        let (gateway, _folder) = testing::recalling(records);
        let read = async |uri: String| {
            let answer = ask(&gateway, ResourceMethod::Read, json!({ "uri": uri })).await?;
            Ok::<_, RpcError>(answer["contents"][0].clone())
        };
        let uri = format!("{BLOBS}{text}");
        let expected = json!({"uri": uri, "mimeType": "application/ld+json", "text": "h\u{e4}"});
        assert_eq!(read(uri).await.unwrap(), expected);
        assert_eq!(read(format!("{BLOBS}{bytes}")).await.unwrap()["blob"], "YWJj");
        let resource = read(format!("{RECORDS}{record}")).await.unwrap();
        let whole: Value = serde_json::from_str(resource["text"].as_str().unwrap()).unwrap();
        assert_eq!((&whole["ref_id"], &whole["snapshot"]), (&json!(record), &json!("- page")));
        assert_eq!((&whole["blobs"][0]["sha256"], &whole["console"]), (&json!(bytes), &json!([])));
        for absent in [
            format!("{BLOBS}{secret}"),
            format!("{RECORDS}{secrets}"),
            format!("{BLOBS}{}", "0".repeat(64)),
            format!("{BLOBS}../x"),
            "file:///etc/passwd".to_owned(),
            String::new(),
        ] {
            let refused = read(absent.clone()).await.unwrap_err();
            assert_eq!(refused.code, NOT_FOUND_BEFORE_2026, "{absent}");
            assert_eq!(refused.data.unwrap().get(), json!({ "uri": absent }).to_string());
        }
        let refused = ask(&gateway, ResourceMethod::Read, json!({"uri": 7})).await.unwrap_err();
        assert_eq!(refused.code, INVALID_PARAMS);
    }

    /// The templates are listed; bytes that are not text are never sent as text.
    #[tokio::test]
    async fn binary_resources_are_never_sent_as_text() {
        let (gateway, _folder) = testing::recalling(MemoryRecords::new());
        let templates = ask(&gateway, ResourceMethod::Templates, json!({})).await.unwrap();
        assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "greenroom://blobs/{sha256}");
        assert_eq!(templates["resourceTemplates"][1]["uriTemplate"], "greenroom://records/{ref_id}");
        for text in ["text/html; charset=utf-8", "application/json", "image/svg+xml", "application/ld+JSON"] {
            assert!(is_text(text), "{text}");
        }
        for other in ["image/png", "application/octet-stream", "", "json"] {
            assert!(!is_text(other), "{other}");
        }
    }

    /// If records are off, these methods are unknown.
    #[tokio::test]
    async fn methods_are_unknown_without_records() {
        let (gateway, _folder) = testing::gateway(&[BUILT_IN], Scope::Connection, DAY);
        for resource_method in [ResourceMethod::List, ResourceMethod::Templates, ResourceMethod::Read] {
            assert_eq!(ask(&gateway, resource_method, json!({})).await.unwrap_err().code, METHOD_NOT_FOUND);
            assert_eq!(ResourceMethod::from_name(resource_method.method()), Some(resource_method));
        }
    }
}
