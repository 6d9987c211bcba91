//! The content behind an answer of the playwright engine: reads its links, and extracts its snapshot and its console lines.
//!
//! [`super::text`] knows where these are, [`super::console`] the form of console lines, [`crate::output_files`] which files may
//! be read.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::Arc,
};

use greenroom_core::{Artifact, ArtifactKind, port::Content, record::ConsoleLine};

use super::{
    console,
    text::{self, AnswerLink},
};
use crate::{
    output_files::{OutputFiles, file_in_folder, read_text_file},
    tool_answer::{first_text, unescape},
};

/// The tool that answers with console lines.
const CONSOLE: &str = "browser_console_messages";

/// Tools whose files are not kept: they are complete only when a recording has ended, or contain credentials such as
/// cookies.
pub(super) const NOT_KEPT: [&str; 3] =
    ["browser_start_tracing", "browser_start_video", "browser_storage_state"];

/// How many files of linked snapshots a session keeps, and how many bytes of them beyond the last. An agent that gets
/// answers `raw` reads the file of an answer soon after it; the records have all of them.
const SNAPSHOTS_MAX: usize = 16;
const SNAPSHOTS_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The snapshot files to which a session's answers linked, oldest first. Most agents get the snapshot in place of the link,
/// but an agent that gets answers `raw` gets the link.
#[derive(Default)]
pub(super) struct SnapshotFiles {
    files: VecDeque<(PathBuf, u64)>,
    bytes: u64,
}

impl SnapshotFiles {
    /// Keeps a file, and removes the oldest surplus ones.
    async fn add(&mut self, file: PathBuf, bytes: u64) {
        self.files.push_back((file, bytes));
        self.bytes += bytes;
        while self.files.len() > SNAPSHOTS_MAX || (self.bytes > SNAPSHOTS_BYTES_MAX && self.files.len() > 1) {
            let Some((oldest, bytes)) = self.files.pop_front() else { return };
            self.bytes -= bytes;
            if let Err(error) = tokio::fs::remove_file(&oldest).await {
                tracing::debug!(%error, "cannot remove a snapshot");
            }
        }
    }
}

/// An answer to read.
#[derive(Clone, Copy)]
pub(super) struct PlaywrightAnswer<'a> {
    pub(super) tool: &'a str,
    /// The JSON text of the result.
    pub(super) body: &'a str,
    pub(super) failed: bool,
    /// The session's folder.
    pub(super) folder: &'a Path,
}

/// The content found in an answer.
#[derive(Default)]
pub(super) struct AnswerContent {
    /// In order of position.
    pub(super) artifacts: Vec<Artifact>,
    pub(super) console: Vec<ConsoleLine>,
    output_files: OutputFiles,
}

/// Finds and reads the files to which the answer links. `has_named_file` is set when the agent asked for a file by name: a snapshot's
/// link is to that file then, and stays.
pub(super) async fn read(
    answer: PlaywrightAnswer<'_>,
    has_named_file: bool,
    snapshots: &mut SnapshotFiles,
) -> AnswerContent {
    let PlaywrightAnswer { tool, body, failed, folder } = answer;
    let mut found = AnswerContent::default();
    for (range, link) in text::links(body, tool, failed) {
        let artifact = match link {
            AnswerLink::Snapshot(path) if !has_named_file => {
                snapshot(folder, path, snapshots).await.map(|(instead, content)| {
                    let kind = ArtifactKind::Snapshot;
                    Artifact { kind, range, instead: Some(instead), content }
                })
            }
            AnswerLink::Snapshot(_) => None,
            AnswerLink::Inline(escaped) => unescape(escaped).map(|text| Artifact {
                kind: ArtifactKind::Snapshot,
                range,
                instead: None,
                content: Content::Text(Arc::from(text)),
            }),
            AnswerLink::Console { path, first, last } => {
                let lines = console_lines(folder, path, first, last).await;
                lines.map(|(text, lines)| {
                    found.console.extend(lines);
                    let range = if text.is_empty() { text::console_event(body, range) } else { range };
                    Artifact {
                        kind: ArtifactKind::Console,
                        range,
                        instead: Some(text),
                        content: Content::Nothing,
                    }
                })
            }
            AnswerLink::Path(path) => match file_in_folder(folder, path).await {
                Some(file) => {
                    let content = found.keep(tool, &file, None).await;
                    let instead = Some(file.display().to_string());
                    Some(Artifact { kind: ArtifactKind::Path, range, instead, content })
                }
                None => None,
            },
            AnswerLink::Escape => {
                let instead = Some(String::new());
                Some(Artifact { kind: ArtifactKind::Path, range, instead, content: Content::Nothing })
            }
        };
        found.artifacts.extend(artifact);
    }
    if tool == CONSOLE && !failed {
        let shown = first_text(body).map(|text| console::parse_answer(&text)).unwrap_or_default();
        found.console = console::merge_lines(shown, found.console);
    }
    found
}

impl AnswerContent {
    /// The bytes of a file, under the agent's name for it or else its own. No bytes if the file is too large, still being
    /// written, or was read before.
    pub(super) async fn keep(&mut self, tool: &str, file: &Path, name: Option<&str>) -> Content {
        if NOT_KEPT.contains(&tool) { Content::Nothing } else { self.output_files.keep(file, name).await }
    }
}

/// The text that replaces a link to a snapshot, and the snapshot.
async fn snapshot(folder: &Path, path: &str, snapshots: &mut SnapshotFiles) -> Option<(String, Content)> {
    let file = file_in_folder(folder, path).await?;
    let text = match read_text_file(&file).await? {
        Ok(text) => text,
        Err(bytes) => {
            let text = format!("- [Snapshot]({}) has {bytes} bytes, too many to show here", file.display());
            snapshots.add(file, bytes).await;
            return Some((text, Content::Nothing));
        }
    };
    snapshots.add(file, text.len() as u64).await;
    let text = text.trim_end();
    Some((format!("```yaml\n{text}\n```"), Content::Text(Arc::from(text))))
}

/// The text that replaces a link to console lines, and the lines. The text is empty if all lines are of levels that the
/// engine would not log by default.
async fn console_lines(
    folder: &Path,
    path: &str,
    first: usize,
    last: usize,
) -> Option<(String, Vec<ConsoleLine>)> {
    let file = file_in_folder(folder, path).await?;
    let Ok(log) = read_text_file(&file).await? else {
        return Some((format!(" {}", file.display()), Vec::new()));
    };
    let lines = log.lines().skip(first.saturating_sub(1)).take(last.saturating_add(1).saturating_sub(first));
    let part = lines.collect::<Vec<&str>>().join("\n");
    let shown = console::lines_shown_by_default(&part);
    let shown = shown.into_iter().fold(String::new(), |text, line| text + "\n  " + line.trim_start());
    let name = file.file_name()?.to_string_lossy();
    Some((shown, console::parse_file(&name, &part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer<'a>(tool: &'a str, body: &'a str, folder: &'a Path) -> PlaywrightAnswer<'a> {
        PlaywrightAnswer { tool, body, failed: false, folder }
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

    /// Reads the first answer of a session.
    async fn read(answer: PlaywrightAnswer<'_>, has_named_file: bool) -> AnswerContent {
        super::read(answer, has_named_file, &mut SnapshotFiles::default()).await
    }

    /// The last snapshots' files stay, in a bounded number and size, and the last one whatever its size.
    #[tokio::test]
    async fn files_of_snapshots_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let mut snapshots = SnapshotFiles::default();
        let file = |n: usize| folder.path().join(n.to_string());
        let present = || (0..100).filter(|n| file(*n).exists()).collect::<Vec<_>>();
        for n in 0..SNAPSHOTS_MAX + 2 {
            std::fs::write(file(n), "").unwrap();
            snapshots.add(file(n), 1).await;
        }
        assert_eq!(present(), (2..SNAPSHOTS_MAX + 2).collect::<Vec<_>>());
        std::fs::write(file(50), "").unwrap();
        snapshots.add(file(50), SNAPSHOTS_BYTES_MAX + 1).await;
        assert_eq!(present(), [50]);
        std::fs::write(file(51), "").unwrap();
        snapshots.add(file(51), SNAPSHOTS_BYTES_MAX).await;
        assert_eq!((present(), snapshots.bytes), (vec![51], SNAPSHOTS_BYTES_MAX));
    }

    /// A file outside the session's folder is never read, not even through a symbolic link; a file inside is read, and
    /// stays.
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
        assert!(folder.path().join(".playwright-mcp/page-a.yml").exists());
    }

    /// A snapshot in the answer itself stays there; it is kept without JSON's escapes.
    #[tokio::test]
    async fn inline_snapshots_are_kept() {
        let body = r####"{"content":[{"type":"text","text":"### Snapshot\n```yaml\n- button \"Go\\\\\"\n- text: ü\u2028\n```"}]}"####;
        let found = read(answer("browser_snapshot", body, Path::new("/nowhere")), false).await.artifacts;
        let [snapshot] = &found[..] else { panic!("{found:?}") };
        assert_eq!((snapshot.kind, &snapshot.instead), (ArtifactKind::Snapshot, &None));
        assert_eq!(text(snapshot), "- button \"Go\\\\\"\n- text: ü\u{2028}");
        assert!(
            body[snapshot.range.clone()].starts_with("```yaml")
                && body[snapshot.range.clone()].ends_with("```")
        );
    }

    /// Console lines are both shown and kept, those of the link's range only.
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
        // A page that imitates the engine's text can name any number.
        let last = usize::MAX;
        let body = format!(
            r####"{{"text":"### Events\n- New console entries: .playwright-mcp/{name}#L4-L{last}"}}"####
        );
        let found = read(answer("browser_click", &body, folder.path()), false).await;
        assert_eq!(found.console.len(), 1, "{:?}", found.console);
    }

    /// A file is kept once per answer, however often a page makes the answer name it, and not while it is being written.
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
}
