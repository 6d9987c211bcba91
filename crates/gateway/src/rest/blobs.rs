//! `/api/blobs`: lists blobs, and serves them to browsers and programs.
//!
//! Their bytes came from untrusted web pages, and a person may open them at greenroom's own address. So the type is
//! never guessed from the bytes, nothing in them runs, and a browser shows only types that cannot run code and saves
//! the rest.

use std::time::Duration;

use axum::{
    Json,
    body::Body,
    http::{HeaderMap, HeaderValue, Response, StatusCode, header},
};
use greenroom_core::BlobId;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    RestContext, RestError, RestState,
    body::{self, BodyLimits},
    input::{PathName, QueryParams},
    record::BlobLink,
    rest_error::{BadRequest, BodyTooLarge, NotFound, Unavailable},
};
use crate::recall::upload;

/// The characters that a name in a header need not encode: the unreserved ones of a URL.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

pub(super) fn routes() -> OpenApiRouter<RestState> {
    OpenApiRouter::new().routes(routes!(list, upload)).routes(routes!(show)).routes(routes!(head))
}

/// How many blobs a list has by default; and at most.
const LIST_DEFAULT: usize = 50;
const LIST_MAX: usize = 1_000;

/// How many blobs of a list may be skipped: the database has to count through all of them.
const OFFSET_MAX: usize = 1_000_000;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct BlobListQuery {
    /// The maximum number of entries; 50 by default.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<usize>,
    /// How many entries to skip: the `next_offset` of the previous list.
    #[serde(default)]
    #[param(value_type = Option<usize>, maximum = 1_000_000)]
    offset: usize,
}

/// Blobs, newest first.
#[derive(Serialize, ToSchema)]
struct BlobList {
    blobs: Vec<BlobLink>,
    /// The `offset` of the next part; `null` at the end.
    #[schema(required)]
    next_offset: Option<usize>,
}

/// List blobs, newest first
#[utoipa::path(
    get, operation_id = "list_blobs", path = "/blobs", tag = "blobs", params(BlobListQuery),
    responses((status = 200, body = BlobList), BadRequest, Unavailable)
)]
async fn list(
    RestContext(rest_state): RestContext,
    QueryParams(query): QueryParams<BlobListQuery>,
) -> Result<Json<BlobList>, RestError> {
    let limit = query.limit.unwrap_or(LIST_DEFAULT);
    for (name, given, range) in [("limit", limit, 1..=LIST_MAX), ("offset", query.offset, 0..=OFFSET_MAX)] {
        if !range.contains(&given) {
            let least = range.start();
            let most = range.end();
            return Err(RestError::bad_query(&format!("`{name}` must be {least} to {most}: `{given}`")));
        }
    }
    // One more than the limit shows whether there are more.
    let mut found = rest_state.records()?.blobs(&rest_state.owner, query.offset, limit + 1).await?;
    let next_offset = (found.len() > limit).then_some(query.offset + limit);
    found.truncate(limit);
    Ok(Json(BlobList { blobs: found.iter().map(Into::into).collect(), next_offset }))
}

/// How long a file may take to arrive: 256 MiB at the speed of a slow home connection.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(300);

/// How long a name or a type may be, in characters: file systems allow about as many.
const NAME_CHARS_MAX: usize = 255;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct UploadQuery {
    /// The file's name, which pages see when it is uploaded to them.
    #[param(min_length = 1, max_length = 255, pattern = r"^[^/\x00-\x1f\x7f-\x9f]+$")]
    name: Option<String>,
}

/// An uploaded file.
#[derive(Serialize, ToSchema)]
struct UploadedBlob {
    #[serde(flatten)]
    blob: BlobLink,
    /// The address by which `browser_file_upload` takes it as a path.
    uri: String,
    /// greenroom removes the file when it was not used for this long.
    ttl_seconds: u64,
}

/// The bytes of a file.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary, min_length = 1)]
struct FileBytes(#[allow(dead_code, reason = "describes the body, which is read as bytes")] Vec<u8>);

/// Upload a file, for `browser_file_upload`
///
/// The body is the file itself, `Content-Type` its type. An agent names it in `paths` by its `uri`.
#[utoipa::path(
    put, operation_id = "upload_blob", path = "/blobs", tag = "blobs", params(UploadQuery),
    request_body(content = FileBytes, content_type = "application/octet-stream"),
    responses((status = 201, body = UploadedBlob), BadRequest, BodyTooLarge, Unavailable)
)]
async fn upload(
    RestContext(rest_state): RestContext,
    QueryParams(query): QueryParams<UploadQuery>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<UploadedBlob>), RestError> {
    let gateway = &rest_state.gateway;
    let uploads = &gateway.recall.uploads;
    let name = query.name;
    let mime = match headers.get(header::CONTENT_TYPE).map(HeaderValue::to_str) {
        None => "application/octet-stream",
        Some(Ok(mime)) if mime.len() <= NAME_CHARS_MAX => mime,
        Some(_) => {
            return Err(RestError::bad_body("`Content-Type` is not a type of at most 255 ASCII characters"));
        }
    };
    if name.as_ref().is_some_and(|name| !is_file_name(name)) {
        let why = "`name` must be a file's name: 1 to 255 characters, without `/` and control characters";
        return Err(RestError::bad_query(why));
    }
    let records = rest_state.records()?;
    // Each upload is in memory until it is written. A client that finds all in use tries again.
    let Ok(_permit) = uploads.permits.try_acquire() else { return Err(RestError::uploads_busy()) };
    let data = body::bytes(body, BodyLimits { bytes_max: uploads.bytes_max, within: UPLOAD_TIMEOUT }).await?;
    // An empty body cannot be told from a missing one.
    if data.is_empty() {
        return Err(RestError::bad_body("the body is empty: send the file as the body"));
    }
    let pool = gateway.fleet.default_pool();
    let kept = upload::keep(records, &rest_state.owner, pool, mime.to_owned(), name, data.into()).await;
    let blob = kept.map_err(|not_kept| RestError::not_kept(&not_kept))?;
    let uri = format!("{}{}", BlobId::URI, blob.id);
    let ttl_seconds = uploads.ttl.as_secs();
    Ok((StatusCode::CREATED, Json(UploadedBlob { blob: (&blob).into(), uri, ttl_seconds })))
}

/// Whether this can be shown as a file's name. The engine's adapter gives a file whose name no folder takes another one.
fn is_file_name(name: &str) -> bool {
    (1..=NAME_CHARS_MAX).contains(&name.chars().count())
        && !name.contains(|letter: char| letter == '/' || letter.is_control())
}

/// A browser that opens a blob runs nothing of it, gives it no origin, and loads nothing for it.
const SANDBOX: &str = "sandbox; default-src 'none'; frame-ancestors 'none'";

/// Download a blob, with its content type
///
/// A blob never changes, so a client may cache it for ever.
#[utoipa::path(
    get, operation_id = "fetch_blob", path = "/blobs/{sha256}", tag = "blobs",
    params(("sha256" = String, Path, pattern = "^[0-9a-f]{64}$"), ("If-None-Match" = Option<String>, Header)),
    responses(
        (status = 200, content_type = "*/*", body = Vec<u8>),
        (status = 304, description = "The client already has this blob"),
        BadRequest, NotFound, Unavailable
    )
)]
async fn show(
    RestContext(rest_state): RestContext,
    name: PathName,
    headers: HeaderMap,
) -> Result<Response<Body>, RestError> {
    let Some(id) = BlobId::parse(&name.0) else { return Err(RestError::bad_blob_id(&name.0)) };
    let blob = rest_state.records()?.blob(&rest_state.owner, &id).await?;
    let blob = blob.ok_or_else(|| RestError::no_blob(&id))?;
    let tag = format!("\"{id}\"");
    let mut response = Response::new(Body::empty());
    let known = headers.get_all(header::IF_NONE_MATCH).iter();
    if known.filter_map(|value| value.to_str().ok()).any(|list| names(list, &tag)) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    } else {
        let response_headers = response.headers_mut();
        response_headers.insert(header::CONTENT_TYPE, mime(&blob.about.mime));
        response_headers.insert(header::CONTENT_LENGTH, blob.data.len().into());
        response_headers
            .insert(header::CONTENT_DISPOSITION, disposition(&blob.about.mime, blob.about.name.as_deref()));
        response_headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        response_headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(SANDBOX));
        *response.body_mut() = Body::from(blob.data);
    }
    let response_headers = response.headers_mut();
    response_headers.insert(header::ETAG, text(&tag));
    // Private: a proxy must not give them to another owner.
    response_headers
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("private, max-age=31536000, immutable"));
    Ok(response)
}

/// Show the headers of a blob
#[utoipa::path(
    head, operation_id = "describe_blob", path = "/blobs/{sha256}", tag = "blobs",
    params(("sha256" = String, Path, pattern = "^[0-9a-f]{64}$"), ("If-None-Match" = Option<String>, Header)),
    responses(
        (status = 200, description = "The headers that a download would have"),
        (status = 304, description = "The client already has this blob"),
        (status = 400, description = "The request is invalid"),
        (status = 404, description = "What the request names does not exist"),
        (status = 503, description = "Records are off, or greenroom cannot read them now"),
    )
)]
async fn head(
    http_state: RestContext,
    name: PathName,
    headers: HeaderMap,
) -> Result<Response<Body>, RestError> {
    // The server omits the body and keeps the length that it would have.
    show(http_state, name, headers).await
}

/// Whether a list of tags contains this one. A weak tag counts like a strong one: blobs never change.
fn names(list: &str, tag: &str) -> bool {
    list.split(',').map(str::trim).any(|one| one == "*" || one.trim_start_matches("W/") == tag)
}

fn mime(stored: &str) -> HeaderValue {
    HeaderValue::from_str(stored)
        .ok()
        .filter(|_| stored.contains('/'))
        .unwrap_or(HeaderValue::from_static("application/octet-stream"))
}

/// Whether a browser shows the bytes or saves them, and under what name.
fn disposition(mime: &str, name: Option<&str>) -> HeaderValue {
    let kind = mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    // An SVG is a document that can contain scripts, although its type is an image.
    let shown = (kind.starts_with("image/") && kind != "image/svg+xml")
        || kind == "application/pdf"
        || kind == "text/plain";
    let how = if shown { "inline" } else { "attachment" };
    match name {
        None => HeaderValue::from_static(how),
        Some(name) => text(&format!("{how}; filename*=UTF-8''{}", utf8_percent_encode(name, PLAIN))),
    }
}

/// A header value made here, of ASCII alone.
fn text(value: &str) -> HeaderValue {
    HeaderValue::from_str(value).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Images, PDFs and plain text are shown; types that could run in a browser are saved; names may contain any
    /// letters.
    #[test]
    fn only_safe_types_are_inline() {
        let header = |mime, name| disposition(mime, name).to_str().unwrap().to_owned();
        assert_eq!(header("image/png", None), "inline");
        assert_eq!(header("Text/Plain; charset=utf-8", None), "inline");
        assert_eq!(
            header("application/pdf", Some("a \"b\"\r\n\u{e4}.pdf")),
            "inline; filename*=UTF-8''a%20%22b%22%0D%0A%C3%A4.pdf"
        );
        for mime in ["text/html", "image/svg+xml", "IMAGE/SVG+XML", "application/xhtml+xml", "", "x"] {
            assert_eq!(header(mime, None), "attachment", "{mime}");
        }
    }

    /// An invalid type becomes plain bytes.
    #[test]
    fn invalid_types_become_plain_bytes() {
        for odd in ["", "png", "a/b\n"] {
            assert_eq!(mime(odd), "application/octet-stream", "{odd:?}");
        }
        assert_eq!(mime("image/png"), "image/png");
    }

    /// A tag is found among others, weak or strong, and `*` matches every tag.
    #[test]
    fn etags_are_matched() {
        for list in ["\"a\"", "\"b\", W/\"a\"", "*"] {
            assert!(names(list, "\"a\""), "{list}");
        }
        assert!(!names("\"b\", \"aa\"", "\"a\"") && !names("", "\"a\""));
    }
}
