//! Shapes an answer for the agent: finds its snapshot, keeps the files that it names, and copies out those that the agent
//! asked for, under the agent's names.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use greenroom_core::{Artifact, ArtifactKind, Raw, Reply, port::Content, raw::encode};

use super::{
    console,
    files::{self, CopiedResult, DevtoolsOutput},
    text,
};
use crate::{
    output_files::{OutputFiles, file_in_folder, read_text_file},
    tool_answer::{failed_reply, first_text, unescape},
};

/// The tool whose file is a snapshot.
const SNAPSHOT: &str = "take_snapshot";

/// The tool that only begins to write its file.
pub(super) const START_RECORDING: &str = "screencast_start";

/// An answer to shape.
pub(super) struct DevtoolsAnswer<'a> {
    pub(super) tool: &'a str,
    pub(super) body: Result<Raw, Raw>,
    /// Whether it contains a snapshot of the page.
    pub(super) shows_page: bool,
    /// The session's folder, links resolved.
    pub(super) folder: &'a Path,
    /// Downloads that finished since the last answer.
    pub(super) downloads: &'a [PathBuf],
}

/// Finds snapshot and files in an answer, and copies out the files that the agent asked for.
pub(super) async fn to_reply(answer: DevtoolsAnswer<'_>, outgoing: &[DevtoolsOutput]) -> Reply {
    let DevtoolsAnswer { tool, body, shows_page, folder, downloads } = answer;
    let mut reply = Reply::from(body);
    let is_failure = reply.is_failure();
    let Ok(result) = &reply.body else { return reply };
    let body = result.get();
    let mut found = Vec::new();
    let page = text::snapshot(body).filter(|_| shows_page && !is_failure);
    if let Some(range) = page.clone()
        && let Some(snapshot) = body.get(range.clone()).and_then(unescape)
    {
        let content = Content::Text(Arc::from(snapshot));
        found.push(Artifact { kind: ArtifactKind::Snapshot, range, instead: None, content });
    }
    let mut output_files = OutputFiles::default();
    for outgoing in outgoing {
        // Files of a failed tool are no result: a recording that cannot begin leaves an empty file.
        if is_failure {
            files::remove_result(outgoing).await;
            continue;
        }
        let written = match files::copy_out(outgoing).await {
            Ok(written) => written,
            Err(error) => {
                let text = format!("the result was made but cannot be written: {error}");
                return failed_reply("file_refused", &text);
            }
        };
        for written in &written {
            add_result_file(&mut found, &mut output_files, tool, body, written).await;
        }
        if tool != START_RECORDING {
            files::remove_result(outgoing).await;
        }
    }
    for range in text::paths(body, &folder.display().to_string()) {
        let is_free = |other: &Artifact| other.range.end <= range.start || range.end <= other.range.start;
        let in_page = page.as_ref().is_some_and(|page| page.contains(&range.start));
        if in_page || !found.iter().all(is_free) {
            continue;
        }
        let Some(file) = file_of_path(folder, body.get(range.clone()).unwrap_or_default()).await else {
            continue;
        };
        let content =
            if tool == START_RECORDING { Content::Nothing } else { output_files.keep(&file, None).await };
        found.push(Artifact { kind: ArtifactKind::Path, range, instead: None, content });
    }
    for file in downloads {
        let content = output_files.keep(file, None).await;
        found.push(Artifact { kind: ArtifactKind::Path, range: 0..0, instead: None, content });
    }
    found.sort_by_key(|artifact| artifact.range.start);
    if !is_failure {
        reply.console = first_text(body).map(|text| console::lines(tool, &text)).unwrap_or_default();
    }
    reply.artifacts = found;
    reply
}

/// Replaces the engine's path by the agent's name for the file, and adds the file itself.
async fn add_result_file(
    found: &mut Vec<Artifact>,
    output_files: &mut OutputFiles,
    tool: &str,
    body: &str,
    CopiedResult { file, agent_name }: &CopiedResult,
) {
    let (kind, mut content) = match tool {
        SNAPSHOT => match read_text_file(file).await {
            Some(Ok(text)) => (ArtifactKind::Snapshot, Content::Text(Arc::from(text.trim_end()))),
            _ => (ArtifactKind::Path, Content::Nothing),
        },
        START_RECORDING => (ArtifactKind::Path, Content::Nothing),
        _ => (ArtifactKind::Path, output_files.keep(file, Some(agent_name)).await),
    };
    let escaped = encode(&file.display().to_string());
    // The quotes around it are not part of the name.
    let escaped = escaped.get().get(1..escaped.get().len() - 1).unwrap_or_default();
    for (at, _) in body.match_indices(escaped) {
        // An answer with a snapshot's file name keeps the name: the snapshot itself is added below.
        let content = match kind {
            ArtifactKind::Snapshot => Content::Nothing,
            _ => std::mem::replace(&mut content, Content::Nothing),
        };
        let range = at..at + escaped.len();
        let instead = Some(agent_name.clone());
        found.push(Artifact { kind: ArtifactKind::Path, range, instead, content });
    }
    // Content that replaces no name in the answer gets an empty range at its start.
    if !matches!(content, Content::Nothing) {
        found.push(Artifact { kind, range: 0..0, instead: None, content });
    }
}

/// The file at this path, if it lies in the session's folder.
async fn file_of_path(folder: &Path, path: &str) -> Option<PathBuf> {
    let relative = Path::new(path).strip_prefix(folder).ok()?;
    file_in_folder(folder, relative.to_str()?).await
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    async fn reply_to(tool: &str, text: &str, folder: &Path) -> Reply {
        let body = Ok(encode(&json!({ "content": [{ "type": "text", "text": text }] })));
        let shows_page = text::has_snapshot(tool, true);
        to_reply(DevtoolsAnswer { tool, body, shows_page, folder, downloads: &[] }, &[]).await
    }

    /// The snapshot of an answer is kept unescaped, and stays in place.
    #[tokio::test]
    async fn snapshot_is_kept_unescaped() {
        let text = "## Latest page snapshot\nuid=1_0 RootWebArea \"ü\\\"\n  uid=1_1 button \"Go\"\n";
        let reply = reply_to("take_snapshot", text, Path::new("/nowhere")).await;
        let snapshot = reply.snapshot_text().unwrap();
        assert_eq!(&**snapshot, "uid=1_0 RootWebArea \"ü\\\"\n  uid=1_1 button \"Go\"");
        assert!(reply.artifacts.iter().all(|artifact| artifact.instead.is_none()));
    }

    /// A file that the engine named itself is kept; a file outside of the session's folder is not, nor one that is still
    /// being written.
    #[tokio::test]
    async fn only_files_of_the_session_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        fs::write(folder.join("shot.png"), b"\x89PNG\r\n").unwrap();
        std::os::unix::fs::symlink("/etc/hostname", folder.join("link.txt")).unwrap();
        let saved = |name: &str| format!("Saved screenshot to {}/{name}.", folder.display());

        let reply = reply_to("take_screenshot", &saved("shot.png"), &folder).await;
        let [artifact] = &reply.artifacts[..] else { panic!("{reply:?}") };
        assert!(
            matches!(&artifact.content, Content::File { name, mime, .. } if name == "shot.png" && *mime == "image/png")
        );
        assert!(reply_to("take_screenshot", &saved("link.txt"), &folder).await.artifacts.is_empty());
        assert!(reply_to("take_screenshot", &saved("../x"), &folder).await.artifacts.is_empty());
        let begun = reply_to(START_RECORDING, &saved("shot.png"), &folder).await;
        assert!(matches!(begun.artifacts[0].content, Content::Nothing));
    }
}
