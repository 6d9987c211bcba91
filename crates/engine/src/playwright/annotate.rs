//! Pictures with the refs of a page's elements: which elements are marked, where each is in the picture, and the answer with
//! the marked picture and the list of marks.
//!
//! The page does not change: greenroom draws on the picture that the engine took. The positions come from a snapshot with
//! boxes, which the engine takes right after the picture. If the page moves between the two, the boxes miss their elements.
//! Boxes of a snapshot are relative to the viewport of their frame; those within an iframe are moved by the iframe's own
//! position, which counts from the outside of its border.

use std::{ops::Range, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use greenroom_core::{Artifact, Call, EngineFormat, Fields, Raw, Reply, port::Content, raw::encode};
use greenroom_pictures::{LabelledBox, Rect, Size};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};

use super::{
    format::{EVALUATE, PlaywrightFormat},
    tree,
};
use crate::{arguments::CallArguments, workspace::WorkspaceRefusal};

/// Where the page is scrolled to, and how wide the viewport and the whole page are, in CSS pixels. Pages can change
/// what the function reads, so greenroom accepts nothing but plausible numbers.
pub(crate) const PAGE_VIEW: &str = "() => { const e = document.documentElement, b = document.body || e; \
    return [scrollX, scrollY, innerWidth, Math.max(b.scrollWidth, e.scrollWidth, b.offsetWidth, e.offsetWidth, \
    b.clientWidth, e.clientWidth)]; }";

/// Roles that can be clicked or filled. An element of another role counts if its cursor is a pointer.
const ROLES: [&str; 17] = [
    "button",
    "checkbox",
    "combobox",
    "link",
    "listbox",
    "menuitem",
    "menuitemcheckbox",
    "menuitemradio",
    "option",
    "radio",
    "searchbox",
    "slider",
    "spinbutton",
    "switch",
    "tab",
    "textbox",
    "treeitem",
];

/// How many elements are marked. More boxes would hide the page, and each costs the agent a line.
const MARKS_MAX: usize = 200;

/// How much of an element's name is listed, in bytes.
const NAME_BYTES_MAX: usize = 80;

/// How many device pixels a CSS pixel may have in a picture, and how few: beyond that the page's numbers are wrong.
const FACTORS: std::ops::RangeInclusive<f64> = 0.01..=16.0;

/// How many pictures are drawn on at a time, and how long one waits for its turn. Each takes a core and up to 250 MB.
static DRAW_PERMITS: Semaphore = Semaphore::const_new(2);
const DRAW_WITHIN: Duration = Duration::from_secs(20);

/// Why a picture cannot be annotated.
#[derive(Debug, thiserror::Error)]
pub(super) enum AnnotateRefusal {
    #[error(
        "`annotate` marks pictures of the viewport or of the whole page, not of one element; leave out `target`"
    )]
    Element,
    #[error(
        "`annotate` marks the picture in the answer, and with `filename` there is none; leave out `filename`"
    )]
    File,
    #[error(transparent)]
    Arguments(#[from] WorkspaceRefusal),
}

/// Checks whether the picture of this call can be annotated. Returns whether it is of the whole page.
pub(super) fn check(call: &Call) -> Result<bool, AnnotateRefusal> {
    let Some(CallArguments { fields, .. }) = CallArguments::parse(call)? else { return Ok(false) };
    let given = |name: &str| fields.get(name).is_some_and(|value| !["null", "\"\""].contains(&value.get()));
    if given("target") {
        return Err(AnnotateRefusal::Element);
    }
    if given("filename") {
        return Err(AnnotateRefusal::File);
    }
    Ok(fields.read::<bool>("fullPage").ok().flatten().unwrap_or_default())
}

/// The reply with marks on its picture and a list of them, or with the reason why there are none.
pub(super) async fn annotated(mut picture: Reply, full_page: bool, snapshot: Reply, view: Reply) -> Reply {
    let marks = match (snapshot.snapshot_text(), PageView::read(&view)) {
        (Some(text), Some(view)) => Ok((Marks::from_snapshot(text), view)),
        (None, _) => Err("the page has no snapshot"),
        (_, None) => Err("the size of the page is unknown"),
    };
    for other in [snapshot, view] {
        add_console_and_downloads(&mut picture, other);
    }
    let Ok(body) = &picture.body else { return picture };
    let edit = match (marks, timeout(DRAW_WITHIN, DRAW_PERMITS.acquire()).await) {
        (Ok((marks, view)), Ok(permit)) => {
            let body = body.clone();
            // The blocking thread holds the permit, because it goes on even if the caller drops this future.
            let draw = move || (draw(&body, &marks, view, full_page), permit).0;
            spawn_blocking(draw).await.ok().flatten()
        }
        (Err(why), _) => add_text(body, why),
        (Ok(_), Err(_)) => add_text(body, "greenroom is busy with other pictures; take it again"),
    };
    if let Some(edit) = edit {
        edit.apply_to(&mut picture);
    }
    picture
}

/// Adds the console lines and downloads of a call that greenroom made itself, whose answer the agent does not get.
fn add_console_and_downloads(reply: &mut Reply, other: Reply) {
    reply.console.extend(other.console);
    let files =
        other.artifacts.into_iter().filter(|artifact| matches!(artifact.content, Content::File { .. }));
    let files = files.map(|artifact| Artifact { range: 0..0, instead: None, ..artifact });
    reply.artifacts.splice(0..0, files);
}

/// What the page says about its size, in CSS pixels.
#[derive(Debug, Clone, Copy)]
struct PageView {
    scroll_x: f64,
    scroll_y: f64,
    viewport_width: f64,
    page_width: f64,
}

impl PageView {
    fn read(reply: &Reply) -> Option<Self> {
        let value = PlaywrightFormat.data(EVALUATE, reply.body.as_ref().ok()?.get(), None)?;
        let [scroll_x, scroll_y, viewport_width, page_width] = <[f64; 4]>::deserialize(value).ok()?;
        Some(Self { scroll_x, scroll_y, viewport_width, page_width })
    }

    /// How many pixels of the picture a CSS pixel has.
    fn factor(self, picture: Size, full_page: bool) -> Option<f64> {
        let width = if full_page { self.page_width } else { self.viewport_width };
        Some(f64::from(picture.width) / width).filter(|factor| FACTORS.contains(factor))
    }
}

/// An element to mark.
#[derive(Debug, PartialEq)]
struct Mark {
    reference: String,
    role: String,
    name: String,
    rect: CssRect,
}

/// A rectangle in CSS pixels, relative to the viewport of the page.
#[derive(Debug, Clone, Copy, PartialEq)]
struct CssRect {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

impl CssRect {
    fn from_node(node: &Value) -> Option<Self> {
        let [x, y, width, height] = <[f64; 4]>::deserialize(node.get("box")?).ok()?;
        Some(Self { x, y, width, height })
    }

    fn moved(self, (x, y): (f64, f64)) -> Self {
        Self { x: self.x + x, y: self.y + y, ..self }
    }

    fn within(self, other: Self) -> Option<Self> {
        let x = self.x.max(other.x);
        let y = self.y.max(other.y);
        let width = (self.x + self.width).min(other.x + other.width) - x;
        let height = (self.y + self.height).min(other.y + other.height) - y;
        (width > 0.0 && height > 0.0).then_some(Self { x, y, width, height })
    }

    /// In pixels of a picture that begins at this scroll position.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the cast saturates, and drawing clips to the picture"
    )]
    fn to_pixels(self, (scroll_x, scroll_y): (f64, f64), factor: f64) -> Rect {
        let pixels = |css: f64| (css * factor).round() as i64;
        Rect {
            x: pixels(self.x + scroll_x),
            y: pixels(self.y + scroll_y),
            width: pixels(self.width),
            height: pixels(self.height),
        }
    }
}

/// The elements of a snapshot that can be clicked or filled, in the order of the page.
#[derive(Debug, Default)]
struct Marks(Vec<Mark>);

impl Marks {
    fn from_snapshot(snapshot: &str) -> Self {
        let mut marks = Self::default();
        for node in tree::parse(snapshot).as_array().into_iter().flatten() {
            marks.add(node, (0.0, 0.0), None);
        }
        marks
    }

    /// Adds a node and those below it. `origin` is the position of its frame, `frame` the part of that which is visible.
    fn add(&mut self, node: &Value, origin: (f64, f64), frame: Option<CssRect>) {
        let rect = CssRect::from_node(node).map(|rect| rect.moved(origin));
        let visible = rect.and_then(|rect| match frame {
            Some(frame) => rect.within(frame),
            None => Some(rect).filter(|rect| rect.width > 0.0 && rect.height > 0.0),
        });
        let text = |name: &str| node.get(name).and_then(Value::as_str);
        let role = text("role").unwrap_or_default();
        let is_wanted = ROLES.contains(&role) || text("cursor") == Some("pointer");
        let is_disabled = node.get("disabled").is_some();
        if let (Some(rect), Some(reference), true, false) = (visible, text("ref"), is_wanted, is_disabled) {
            let reference = reference.to_owned();
            self.0.push(Mark { reference, role: role.to_owned(), name: name(node), rect });
        }
        let (origin, frame) = match (role, rect) {
            ("iframe", Some(rect)) => match visible {
                Some(visible) => ((rect.x, rect.y), Some(visible)),
                None => return,
            },
            _ => (origin, frame),
        };
        for child in node.get("children").and_then(Value::as_array).into_iter().flatten() {
            self.add(child, origin, frame);
        }
    }
}

/// The name of an element, or else the text in it. What was entered into a field is neither.
fn name(node: &Value) -> String {
    let text = |node: &Value, member: &str| node.get(member).and_then(Value::as_str).map(ToOwned::to_owned);
    let own = text(node, "name").or_else(|| text(node, "text"));
    let children = node.get("children").and_then(Value::as_array).into_iter().flatten();
    let mut child_names = children.filter_map(|child| text(child, "name").or_else(|| text(child, "text")));
    let is_field = node.get("role").is_some_and(|role| role == "textbox" || role == "searchbox");
    let name = own.or_else(|| child_names.next().filter(|_| !is_field)).unwrap_or_default();
    match name.floor_char_boundary(NAME_BYTES_MAX) {
        end if end < name.len() => format!("{}…", &name[..end]),
        _ => name,
    }
}

/// A change of a reply's body: new text replaces the old.
struct BodyEdit {
    range: Range<usize>,
    text: String,
}

impl BodyEdit {
    /// Changes the body, and moves the ranges of artifacts behind the change.
    fn apply_to(self, reply: &mut Reply) {
        let Self { range, text } = self;
        let Ok(body) = &reply.body else { return };
        let json = body.get();
        let (Some(before), Some(after)) = (json.get(..range.start), json.get(range.end..)) else { return };
        let Ok(changed) = greenroom_core::raw::parse(format!("{before}{text}{after}")) else { return };
        for artifact in &mut reply.artifacts {
            if artifact.range.start >= range.end {
                let moved = |at: usize| at - range.end + range.start + text.len();
                artifact.range = moved(artifact.range.start)..moved(artifact.range.end);
            }
        }
        reply.body = Ok(changed);
    }
}

/// The content parts of a result, each with its range in the text.
fn content_blocks(body: &RawValue) -> Option<Vec<(&RawValue, Range<usize>)>> {
    #[derive(Deserialize)]
    struct Content<'a> {
        #[serde(borrow)]
        content: Vec<&'a RawValue>,
    }
    let text = body.get();
    let Content { content } = serde_json::from_str(text).ok()?;
    let range = |part: &RawValue| {
        // The part is a slice of the text, so its address gives its position.
        let start = (part.get().as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
        Some(start..start + part.get().len())
    };
    content.into_iter().map(|part| Some((part, range(part)?))).collect()
}

/// Draws the marks on the picture in a result, and lists them behind it.
fn draw(body: &RawValue, marks: &Marks, view: PageView, full_page: bool) -> Option<BodyEdit> {
    let is_picture = |part: &RawValue| {
        let kind = Fields::open(part).ok().and_then(|part| part.read::<String>("type").ok()?);
        kind.is_some_and(|kind| kind == "image")
    };
    let Some((part, range)) = content_blocks(body)?.into_iter().find(|(part, _)| is_picture(part)) else {
        return add_text(body, "the answer has no picture: see `pool.image_responses`");
    };
    match marked(part, marks, view, full_page) {
        Ok((picture, list)) => {
            let list = encode(&json!({ "type": "text", "text": list }));
            Some(BodyEdit { range, text: format!("{},{}", picture.get(), list.get()) })
        }
        Err(why) => add_text(body, &why),
    }
}

/// The picture with marks, and the list of them.
fn marked(
    part: &RawValue,
    Marks(marks): &Marks,
    view: PageView,
    full_page: bool,
) -> Result<(Raw, String), String> {
    let unreadable = || "the picture cannot be read".to_owned();
    let mut part = Fields::open(part).map_err(|_| unreadable())?;
    let data = part.read::<String>("data").ok().flatten().ok_or_else(unreadable)?;
    let data = BASE64_STANDARD.decode(data).map_err(|_| unreadable())?;
    let refused = |error: greenroom_pictures::PictureError| format!("the picture cannot be read: {error}");
    let size = greenroom_pictures::size(&data).map_err(refused)?;
    let factor = view.factor(size, full_page).ok_or("the size of the page is unknown")?;
    let scroll = if full_page { (view.scroll_x, view.scroll_y) } else { (0.0, 0.0) };
    let whole = Rect { x: 0, y: 0, width: size.width.into(), height: size.height.into() };
    let visible = marks.iter().filter_map(|mark| {
        let rect = mark.rect.to_pixels(scroll, factor);
        rect.within(whole).map(|_| (mark, LabelledBox { rect, label: mark.reference.clone() }))
    });
    let mut drawn = Vec::new();
    let mut list = "### Marked elements".to_owned();
    let mut left_out = 0;
    for (mark, labelled) in visible {
        if drawn.len() == MARKS_MAX {
            left_out += 1;
            continue;
        }
        drawn.push(labelled);
        list += &format!("\n- {}: {}", mark.reference, mark.role);
        if !mark.name.is_empty() {
            list += &format!(" {}", Value::from(&*mark.name));
        }
    }
    if drawn.is_empty() {
        list += "\nnothing in this picture can be clicked or filled";
    }
    if left_out > 0 {
        list += &format!("\n{left_out} more are not marked; browser_snapshot has them");
    }
    let picture = greenroom_pictures::draw_boxes(&data, &drawn).map_err(refused)?;
    part.set("data", encode(&BASE64_STANDARD.encode(&picture.data)));
    part.set("mimeType", encode(picture.mime));
    Ok((part.to_raw(), list))
}

/// Says in the answer why it has no marks.
fn add_text(body: &RawValue, why: &str) -> Option<BodyEdit> {
    let (_, last) = content_blocks(body)?.pop()?;
    let text = encode(&json!({ "type": "text", "text": format!("not annotated: {why}") }));
    Some(BodyEdit { range: last.end..last.end, text: format!(",{}", text.get()) })
}

#[cfg(test)]
mod tests;
