//! What an answer of the playwright engine stands for: its links read, its snapshot and its console lines taken out.
//!
//! [`super::text`] knows where these are, [`super::console`] what console lines look like. A page can have an answer
//! name any file, so one is read only when it lies in the session's own folder, and once in an answer, and an answer
//! brings a limited number of bytes.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use greenroom_core::{Artifact, ArtifactKind, port::Content, record::ConsoleLine};

use super::{
    console,
    text::{self, Link},
};

/// Files up to this size are put into answers. An answer may have 64 MiB; this leaves room for the escapes that
/// JSON adds, and is fifty times the largest page seen. It is also the most that is kept of one file: pictures, PDFs and
/// most downloads are far smaller, and what is kept is in memory until it is on disk.
const FILE_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// What one answer may bring of files to keep: two of the largest.
const ANSWER_BYTES_MAX: u64 = 2 * FILE_BYTES_MAX;

/// The tool that answers with console lines.
const CONSOLE: &str = "browser_console_messages";

/// Tools whose files are not to be kept: they are only begun and whole when a recording has ended, or hold what opens
/// doors, as cookies do.
const UNKEPT: [&str; 3] = ["browser_start_tracing", "browser_start_video", "browser_storage_state"];

/// An answer that is to be read.
#[derive(Clone, Copy)]
pub(super) struct Answer<'a> {
    pub(super) tool: &'a str,
    /// The JSON text of the result.
    pub(super) body: &'a str,
    pub(super) failed: bool,
    /// The session's folder.
    pub(super) folder: &'a Path,
}

/// What was found in an answer.
#[derive(Default)]
pub(super) struct Found {
    /// In the order of their places.
    pub(super) artifacts: Vec<Artifact>,
    pub(super) console: Vec<ConsoleLine>,
    kept: Kept,
}

/// What an answer has brought so far.
#[derive(Default)]
struct Kept {
    files: HashSet<PathBuf>,
    bytes: u64,
}

/// Finds and reads what the answer links to. `named` is set when the agent asked for a file by name: a snapshot's link
/// is to that file then, and stays.
pub(super) async fn read(answer: Answer<'_>, named: bool) -> Found {
    let Answer { tool, body, failed, folder } = answer;
    let mut found = Found::default();
    for (place, link) in text::links(body, tool, failed) {
        let artifact = match link {
            Link::Snapshot(path) if !named => snapshot(folder, path).await.map(|(instead, content)| {
                Artifact { kind: ArtifactKind::Snapshot, place, instead: Some(instead), content }
            }),
            Link::Snapshot(_) => None,
            Link::Inline(escaped) => unescape(escaped).map(|text| Artifact {
                kind: ArtifactKind::Snapshot,
                place,
                instead: None,
                content: Content::Text(Arc::from(text)),
            }),
            Link::Console { path, first, last } => {
                let lines = console_lines(folder, path, first, last).await;
                lines.map(|(text, lines)| {
                    found.console.extend(lines);
                    let (kind, content) = (ArtifactKind::Console, Content::Nothing);
                    Artifact { kind, place, instead: Some(text), content }
                })
            }
            Link::Path(path) => match inside(folder, path).await {
                Some(file) => {
                    let content = found.keep(tool, &file, None).await;
                    let instead = Some(file.display().to_string());
                    Some(Artifact { kind: ArtifactKind::Path, place, instead, content })
                }
                None => None,
            },
            Link::Escape => {
                let instead = Some(String::new());
                Some(Artifact { kind: ArtifactKind::Path, place, instead, content: Content::Nothing })
            }
        };
        found.artifacts.extend(artifact);
    }
    if tool == CONSOLE && !failed {
        let shown = first_text(body).map(|text| console::of_answer(&text)).unwrap_or_default();
        found.console = console::joined(shown, found.console);
    }
    found
}

impl Found {
    /// The bytes of a file, by the agent's name for it or else its own. Nothing when it is too large, or still being
    /// written, or there already.
    pub(super) async fn keep(&mut self, tool: &str, file: &Path, name: Option<&str>) -> Content {
        let Some(own) = file.file_name() else { return Content::Nothing };
        let Ok(about) = tokio::fs::metadata(file).await else { return Content::Nothing };
        let bytes = about.len();
        let fits = bytes <= FILE_BYTES_MAX && self.kept.bytes + bytes <= ANSWER_BYTES_MAX;
        if !about.is_file() || !fits || UNKEPT.contains(&tool) || !self.kept.files.insert(file.to_owned()) {
            return Content::Nothing;
        }
        let data = match tokio::fs::read(file).await {
            Ok(data) => data,
            Err(error) => {
                tracing::debug!(%error, "cannot read a file of the engine");
                return Content::Nothing;
            }
        };
        self.kept.bytes += bytes;
        let own = own.to_string_lossy();
        let name =
            name.and_then(|name| Path::new(name).file_name()).map_or(own, |name| name.to_string_lossy());
        Content::File { mime: mime(&name, &data), name: name.into_owned(), data }
    }
}

/// What kind of file this is: by its name, or by how it begins when that says nothing.
fn mime(name: &str, data: &[u8]) -> &'static str {
    const OCTETS: &str = "application/octet-stream";
    const BEGINNINGS: [(&[u8], &str); 5] = [
        (b"\x89PNG\r\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"RIFF", "image/webp"),
        (b"%PDF-", "application/pdf"),
        (b"PK\x03\x04", "application/zip"),
    ];
    let by_name = mime_guess::from_path(name).first_raw().filter(|mime| *mime != OCTETS);
    let by_beginning = || BEGINNINGS.into_iter().find(|(begins, _)| data.starts_with(begins));
    by_name.or_else(|| by_beginning().map(|(_, mime)| mime)).unwrap_or(OCTETS)
}

/// A part of a JSON string as the text it stands for.
fn unescape(escaped: &str) -> Option<String> {
    serde_json::from_str(&format!("\"{escaped}\"")).ok()
}

/// The text of an answer.
pub(super) fn first_text(body: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Result {
        content: Vec<Part>,
    }
    #[derive(serde::Deserialize)]
    struct Part {
        text: Option<String>,
    }
    let result: Result = serde_json::from_str(body).ok()?;
    result.content.into_iter().find_map(|part| part.text)
}

/// The file behind a link, if it lies in the session's folder, links followed.
pub(super) async fn inside(folder: &Path, path: &str) -> Option<PathBuf> {
    // JSON escapes in a path come from odd file names; those stay links.
    if path.contains('\\') {
        return None;
    }
    let folder = tokio::fs::canonicalize(folder).await.ok()?;
    let file = tokio::fs::canonicalize(folder.join(path)).await.ok()?;
    file.starts_with(&folder).then_some(file)
}

/// What is put in the place of a link to a snapshot, and the snapshot.
async fn snapshot(folder: &Path, path: &str) -> Option<(String, Content)> {
    let file = inside(folder, path).await?;
    let text = match text_of(&file).await? {
        Ok(text) => text,
        Err(bytes) => {
            let text = format!("- [Snapshot]({}) has {bytes} bytes, too many to show here", file.display());
            return Some((text, Content::Nothing));
        }
    };
    // The link is gone from the answer, so nobody can ask for the file again.
    if let Err(error) = tokio::fs::remove_file(&file).await {
        tracing::debug!(%error, "cannot remove a snapshot");
    }
    let text = text.trim_end();
    Some((format!("```yaml\n{text}\n```"), Content::Text(Arc::from(text))))
}

/// A file as text, or how many bytes it has when these are too many.
pub(super) async fn text_of(file: &Path) -> Option<Result<String, u64>> {
    let bytes = tokio::fs::metadata(file).await.ok()?.len();
    if bytes > FILE_BYTES_MAX {
        return Some(Err(bytes));
    }
    tokio::fs::read_to_string(file).await.ok().map(Ok)
}

/// What is put in the place of a link to console lines, and the lines.
async fn console_lines(
    folder: &Path,
    path: &str,
    first: usize,
    last: usize,
) -> Option<(String, Vec<ConsoleLine>)> {
    let file = inside(folder, path).await?;
    let Ok(log) = text_of(&file).await? else { return Some((format!(" {}", file.display()), Vec::new())) };
    let lines = || log.lines().skip(first.saturating_sub(1)).take((last + 1).saturating_sub(first));
    let shown = lines().fold(String::new(), |text, line| text + "\n  " + line.trim_start());
    let name = file.file_name()?.to_string_lossy();
    let part: Vec<&str> = lines().collect();
    Some((shown, console::of_file(&name, &part.join("\n"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer<'a>(tool: &'a str, body: &'a str, folder: &'a Path) -> Answer<'a> {
        Answer { tool, body, failed: false, folder }
    }

    fn text(artifact: &Artifact) -> &str {
        let Content::Text(text) = &artifact.content else { panic!("{artifact:?}") };
        text
    }

    /// A session's folder with one file in the engine's part of it.
    fn folder(name: &str, content: impl AsRef<[u8]>) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(".playwright-mcp")).unwrap();
        std::fs::write(folder.path().join(".playwright-mcp").join(name), content).unwrap();
        folder
    }

    /// A file outside the session's folder is never read, not even through a symbolic link; an own one is read, and goes.
    #[tokio::test]
    async fn only_own_files_are_read() {
        let folder = folder("page-a.yml", "- own\n");
        let foreign = tempfile::NamedTempFile::new().unwrap();
        std::os::unix::fs::symlink(foreign.path(), folder.path().join(".playwright-mcp/page-b.yml")).unwrap();
        let body = |path: &str| format!(r####"{{"text":"### Snapshot\n- [Snapshot]({path})"}}"####);
        for path in [".playwright-mcp/page-b.yml", "../x", "inbox/0/f", foreign.path().to_str().unwrap()] {
            let body = body(path);
            let found = read(answer("browser_click", &body, folder.path()), false).await;
            assert!(found.artifacts.is_empty(), "{path}");
        }
        let body = body(".playwright-mcp/page-a.yml");
        let own = read(answer("browser_click", &body, folder.path()), false).await.artifacts;
        assert_eq!((own[0].instead.as_deref(), text(&own[0])), (Some("```yaml\n- own\n```"), "- own"));
        assert!(!folder.path().join(".playwright-mcp/page-a.yml").exists());
    }

    /// A snapshot in the answer itself stays there; what is kept of it is what the page has, without JSON's escapes.
    #[tokio::test]
    async fn inline_snapshots_are_kept() {
        let body = r####"{"content":[{"type":"text","text":"### Snapshot\n```yaml\n- button \"Go\\\\\"\n- text: ü\u2028\n```"}]}"####;
        let found = read(answer("browser_snapshot", body, Path::new("/nowhere")), false).await.artifacts;
        let [snapshot] = &found[..] else { panic!("{found:?}") };
        assert_eq!((snapshot.kind, &snapshot.instead), (ArtifactKind::Snapshot, &None));
        assert_eq!(text(snapshot), "- button \"Go\\\\\"\n- text: ü\u{2028}");
        assert!(
            body[snapshot.place.clone()].starts_with("```yaml")
                && body[snapshot.place.clone()].ends_with("```")
        );
    }

    /// Console lines come as they are shown and as they are kept, those of the link's range only.
    #[tokio::test]
    async fn console_lines_are_kept() {
        let name = "console-2026-11-16T05-52-17-828Z.log";
        let log = "[       1ms] [LOG] old @ http://a/:1\n[       2ms] [WARNING] w\nx @ http://a/:1\n[       3ms] [LOG] later @ http://a/:1\n";
        let folder = folder(name, log);
        let body =
            format!(r####"{{"text":"### Events\n- New console entries: .playwright-mcp/{name}#L2-L3"}}"####);
        let found = read(answer("browser_click", &body, folder.path()), false).await;
        let shown = "\n  [       2ms] [WARNING] w\n  x @ http://a/:1";
        assert_eq!(found.artifacts[0].instead.as_deref(), Some(shown));
        let [line] = &found.console[..] else { panic!("{:?}", found.console) };
        assert_eq!(line.message, "w\nx");
    }

    /// A file is kept once in an answer, however often a page has it named, and not while it is being written.
    #[tokio::test]
    async fn files_are_kept_once() {
        let folder = folder("a.bin", b"%PDF-1.7");
        let body = r#"{"text":"- [x](.playwright-mcp/a.bin)\n- [x](.playwright-mcp/a.bin)"}"#;
        let found = read(answer("browser_pdf_save", body, folder.path()), false).await.artifacts;
        let Content::File { name, mime, data } = &found[0].content else { panic!("{found:?}") };
        assert_eq!((&**name, *mime, &data[..]), ("a.bin", "application/pdf", &b"%PDF-1.7"[..]));
        assert!(matches!(found[1].content, Content::Nothing));
        let begun = read(answer("browser_start_tracing", body, folder.path()), false).await.artifacts;
        assert!(matches!(begun[0].content, Content::Nothing));
    }

    /// Kinds of files, by name and by how they begin.
    #[test]
    fn kinds_of_files() {
        for (name, data, kind) in [
            ("a.pdf", &b""[..], "application/pdf"),
            ("a.csv", b"", "text/csv"),
            ("shot", b"\x89PNG\r\n", "image/png"),
            ("x", b"", "application/octet-stream"),
        ] {
            assert_eq!(mime(name, data), kind, "{name}");
        }
    }
}
