//! The pictures of an answer: as the engine sent them, scaled down, or as links to their blobs.
//!
//! greenroom changes a picture only if the record keeps it whole. A picture that cannot be read or is too large to decode
//! stays as it is: agents may get pictures that greenroom does not know.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use greenroom_core::{Fields, Raw, Reply, raw::encode, record::BlobRef, settings::Pictures};
use serde_json::{json, value::RawValue};

use super::EndedCall;
use crate::offload::offload_if_large;

/// In which form pictures are sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PictureOptions {
    pub(crate) form: Pictures,
    /// The longest side of a picture that is sent small.
    pub(crate) side_pixels: u32,
    /// Whether the client knows content of the type `resource_link`.
    pub(crate) links: bool,
}

/// A picture in another form than the engine's.
#[derive(Debug)]
pub(crate) struct SentPicture {
    /// The number of the content part that it replaces.
    pub(crate) part: usize,
    pub(crate) content: Raw,
    /// The picture as the record keeps it.
    pub(crate) blob: BlobRef,
    /// What the answer says about it.
    pub(crate) note: Option<String>,
}

/// The pictures of a reply that are sent in another form than the engine's.
pub(crate) async fn prepare(reply: &Reply, call: &EndedCall, options: PictureOptions) -> Vec<SentPicture> {
    let (Ok(body), Some(_), false) = (&reply.body, call.record(), call.embedded.is_empty()) else {
        return Vec::new();
    };
    if options.form == Pictures::Inline {
        return Vec::new();
    }
    let content = Fields::open(body).ok().and_then(|fields| fields.read::<Vec<Raw>>("content").ok()?);
    let content = content.unwrap_or_default();
    let mut pictures = Vec::new();
    for (embedded, blob) in call.embedded.iter().zip(&call.blobs) {
        let Some(picture) = content.get(embedded.part).and_then(|part| EnginePicture::open(part)) else {
            continue;
        };
        let changed = match options.form {
            Pictures::Inline => None,
            Pictures::Small => picture.scaled_down(options.side_pixels, blob).await,
            Pictures::Link => Some((picture.link(blob, options.links), None)),
        };
        if let Some((content, note)) = changed {
            pictures.push(SentPicture { part: embedded.part, content, blob: blob.clone(), note });
        }
    }
    pictures
}

/// A content part of the type `image`.
struct EnginePicture {
    part: Fields,
    data: Vec<u8>,
}

impl EnginePicture {
    fn open(part: &RawValue) -> Option<Self> {
        let part = Fields::open(part).ok()?;
        part.read::<String>("type").ok()?.filter(|kind| kind == "image")?;
        let data = BASE64_STANDARD.decode(part.read::<String>("data").ok()??).ok()?;
        Some(Self { part, data })
    }

    async fn scaled_down(mut self, side_pixels: u32, blob: &BlobRef) -> Option<(Raw, Option<String>)> {
        let size = greenroom_pictures::size(&self.data).ok()?;
        if size.longest_side() <= side_pixels {
            return None;
        }
        // A small file may have many pixels.
        let _guard = offload_if_large(size.decoded_bytes()).await;
        let scaled = match greenroom_pictures::scale_down(&self.data, side_pixels) {
            Ok(scaled) => scaled?,
            Err(error) => {
                tracing::debug!(%error, "cannot scale a picture down; sending it unchanged");
                return None;
            }
        };
        self.part.set("data", encode(&BASE64_STANDARD.encode(&scaled.data)));
        self.part.set("mimeType", encode(scaled.mime));
        let note = format!("picture: {size}, sent as {}; whole: greenroom://blobs/{}", scaled.size, blob.id);
        Some((self.part.to_raw(), Some(note)))
    }

    /// A link to the picture as a resource.
    fn link(&self, blob: &BlobRef, as_resource_link: bool) -> Raw {
        let BlobRef { id, mime, bytes, .. } = blob;
        let uri = format!("greenroom://blobs/{id}");
        let size = greenroom_pictures::size(&self.data).map(|size| format!("{size}, ")).unwrap_or_default();
        if as_resource_link {
            let name = format!("picture.{}", mime.strip_prefix("image/").unwrap_or("bin"));
            let description = format!("{size}{bytes} bytes");
            return encode(&json!({
                "type": "resource_link", "uri": uri, "name": name, "description": description, "mimeType": mime, "size": bytes,
            }));
        }
        encode(&json!({ "type": "text", "text": format!("picture: {uri} ({mime}, {size}{bytes} bytes)") }))
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, pin::pin, sync::Arc, task::Poll, time::SystemTime};

    use greenroom_core::{
        RefId,
        record::{BlobId, Status},
    };
    use greenroom_testkit::{TEST_TIMEOUT, picture::png, within};
    use serde_json::Value;

    use super::*;
    use crate::{
        offload::{block_all, offloadable},
        recall::result::embedded,
    };

    const SMALL: PictureOptions = PictureOptions { form: Pictures::Small, side_pixels: 100, links: true };

    /// A recorded reply with these bytes as its pictures, between other parts.
    fn recorded(pictures: &[Vec<u8>]) -> (Reply, EndedCall) {
        let mut content = vec![json!({ "type": "audio", "data": "AAAA", "mimeType": "audio/wav" })];
        for data in pictures {
            let data = BASE64_STANDARD.encode(data);
            content.push(json!({ "type": "image", "data": data, "mimeType": "image/png", "x": 1.5 }));
        }
        let reply = Reply::from(Ok(encode(&json!({ "content": content }))));
        let embedded = embedded(reply.body.as_ref().unwrap());
        let blob = |n: usize| BlobRef {
            id: BlobId::parse(&format!("{n:064}")).unwrap(),
            mime: "image/png".to_owned(),
            name: None,
            bytes: 7,
        };
        let call = EndedCall {
            tool: Arc::from("t"),
            ref_id: Some(RefId::parse("0199f3a2-5b0c-4e1d-8f00-1c2d3e4f5a6b").unwrap()),
            not_recorded: None,
            session: None,
            status: Status::Success,
            error: None,
            at: SystemTime::UNIX_EPOCH,
            has_snapshot: false,
            snapshot: None,
            console: 0,
            console_errors: 0,
            blobs: (0..embedded.len()).map(blob).collect(),
            embedded,
        };
        (reply, call)
    }

    /// Only pictures that are too large change, each into its own part and with its own blob; other bytes and bytes that
    /// are no picture stay.
    #[tokio::test]
    async fn each_picture_has_its_part_and_blob() {
        let pictures = [png(10, 10), png(200, 100), b"no picture".to_vec(), png(50, 400)];
        let (reply, call) = recorded(&pictures);
        let sent = prepare(&reply, &call, SMALL).await;
        let said: Vec<_> = sent.iter().map(|one| (one.part, one.note.clone().unwrap())).collect();
        let note = |says: &str, n: usize| format!("picture: {says}; whole: greenroom://blobs/{n:064}");
        assert_eq!(said, [(2, note("200x100, sent as 100x50", 2)), (4, note("50x400, sent as 13x100", 4))]);
        let part: Value = serde_json::from_str(sent[0].content.get()).unwrap();
        assert_eq!((&part["type"], &part["x"]), (&json!("image"), &json!(1.5)));
        let links = prepare(&reply, &call, PictureOptions { form: Pictures::Link, ..SMALL }).await;
        assert_eq!(links.iter().map(|one| one.part).collect::<Vec<_>>(), [1, 2, 3, 4]);
        let none = prepare(&reply, &call, PictureOptions { form: Pictures::Inline, ..SMALL }).await;
        assert!(none.is_empty());
        let unrecorded = EndedCall { not_recorded: Some("full".into()), ..call };
        assert!(prepare(&reply, &unrecorded, SMALL).await.is_empty());
    }

    /// A picture of few bytes and many pixels is scaled on a thread for large data, not on the runtime's.
    #[tokio::test]
    async fn scaling_does_not_block_the_runtime() {
        let (reply, call) = recorded(&[png(1000, 200)]);
        assert!(reply.bytes() < 20_000, "{} bytes", reply.bytes());
        let threads = within(TEST_TIMEOUT, block_all()).await;
        let mut scaled = pin!(offloadable(async move { prepare(&reply, &call, SMALL).await.len() }));
        // The first poll does all that needs no other thread.
        let first = poll_fn(|context| Poll::Ready(scaled.as_mut().poll(context))).await;
        assert!(first.is_pending(), "it did not wait for a thread");
        drop(threads);
        assert_eq!(within(TEST_TIMEOUT, scaled).await, 1);
    }
}
