//! Makes the [`Reply`] of an answer of the engine: reads the files to which it links, and copies out the
//! files that the agent asked for. The text stays unchanged; the gateway's `render.rs` decides what part of
//! the reply the agent gets.

use std::{path::Path, sync::Arc, time::Duration};

use greenroom_core::{Artifact, ArtifactKind, Call, Fields, Raw, Reply, port::Content, raw::encode};

use super::{
    file_links::{self, AnswerContent, PlaywrightAnswer, SnapshotFiles},
    files::{self, PlaywrightOutput},
};
use crate::{output_files, tool_answer::OWN_WAIT_MAX};

pub(super) use crate::tool_answer::{ensure_success, failed_reply};

/// The tool whose named file is a snapshot.
const SNAPSHOT: &str = "browser_snapshot";

/// Reads the files to which the answer links, and copies out the file that the agent asked for.
pub(super) async fn to_reply(
    tool: &str,
    body: Result<Raw, Raw>,
    outgoing: Option<PlaywrightOutput>,
    folder: &Path,
    snapshots: &mut SnapshotFiles,
) -> Reply {
    let reply = Reply::from(body);
    let Ok(result) = &reply.body else { return reply };
    let answer = PlaywrightAnswer { tool, body: result.get(), failed: reply.is_failure(), folder };
    let mut found = file_links::read(answer, outgoing.is_some(), snapshots).await;
    if let Some(outgoing) = outgoing {
        add_named_file(&mut found, answer, &outgoing).await;
        if let Err(refused) = files::copy_out(&outgoing, folder).await {
            return failed_reply(
                "file_refused",
                &format!("the result was made but cannot be written: {refused}"),
            );
        }
    }
    // A terminal escape is no link: nothing replaces it.
    let links =
        found.artifacts.iter().any(|artifact| artifact.instead.as_ref().is_some_and(|text| !text.is_empty()));
    let folder = links.then(|| folder.to_owned());
    Reply { artifacts: found.artifacts, console: found.console, folder, ..reply }
}

/// Replaces the engine's name for a file by the agent's, and adds the file itself.
async fn add_named_file(
    found: &mut AnswerContent,
    answer: PlaywrightAnswer<'_>,
    outgoing: &PlaywrightOutput,
) {
    let PlaywrightAnswer { tool, body, folder, .. } = answer;
    let PlaywrightOutput { engine_name, agent_name, .. } = outgoing;
    let (kind, content) = match output_files::file_in_folder(folder, engine_name).await {
        None => (ArtifactKind::Path, Content::Nothing),
        Some(file) if tool == SNAPSHOT => match output_files::read_text_file(&file).await {
            Some(Ok(text)) => (ArtifactKind::Snapshot, Content::Text(Arc::from(text.trim_end()))),
            _ => (ArtifactKind::Path, Content::Nothing),
        },
        Some(file) => (ArtifactKind::Path, found.keep(tool, &file, Some(agent_name)).await),
    };
    let escaped = encode(engine_name);
    // The quotes around it are not part of the name.
    let escaped = escaped.get().get(1..escaped.get().len() - 1).unwrap_or_default();
    let linked = |open: &str| {
        let start = body.find(&format!("{open}{escaped})"))? + open.len();
        Some(start..start + escaped.len())
    };
    // A file to which the answer does not link gets an empty range at its start.
    let range = linked("](").or_else(|| linked("](./")).unwrap_or(0..0);
    found.artifacts.retain(|artifact| !artifact.range.contains(&range.start));
    let renamed = engine_name != agent_name;
    if renamed {
        // The name may also be elsewhere, as in the code that was run.
        let elsewhere = body.match_indices(escaped).filter(|(at, _)| *at != range.start);
        found.artifacts.extend(elsewhere.map(|(at, name)| Artifact {
            kind: ArtifactKind::Path,
            range: at..at + name.len(),
            instead: Some(agent_name.clone()),
            content: Content::Nothing,
        }));
    }
    let instead = (renamed && !range.is_empty()).then(|| agent_name.clone());
    // The answer keeps its link to the file, so the snapshot gets a range of its own, which is empty.
    if kind == ArtifactKind::Snapshot {
        found.artifacts.push(Artifact { kind, range: 0..0, instead: None, content });
        found.artifacts.extend(instead.map(|name| Artifact {
            kind: ArtifactKind::Path,
            range,
            instead: Some(name),
            content: Content::Nothing,
        }));
    // A call that failed has written nothing.
    } else if instead.is_some() || !matches!(content, Content::Nothing) {
        found.artifacts.push(Artifact { kind, range, instead, content });
    }
    found.artifacts.sort_by_key(|artifact| artifact.range.start);
}

/// `browser_wait_for` sets its own duration, in seconds.
pub(super) fn own_wait(call: &Call) -> Duration {
    if &*call.tool != "browser_wait_for" {
        return Duration::ZERO;
    }
    let arguments =
        Fields::open(&call.params).ok().and_then(|params| params.read::<Fields>("arguments").ok()?);
    let seconds = arguments.and_then(|arguments| arguments.read::<f64>("time").ok()?).unwrap_or_default();
    Duration::try_from_secs_f64(seconds).unwrap_or_default().min(OWN_WAIT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::OutputTarget;
    use greenroom_core::raw::parse;
    use serde_json::json;

    /// Shapes the answer to a tool that writes a file: returns the reply, and the agent's file.
    async fn reply_to(
        tool: &str,
        text: &str,
        engine_name: &str,
        agent_name: &str,
    ) -> (Reply, Option<String>) {
        let folder = tempfile::tempdir().unwrap();
        let workspace = tempfile::tempdir().unwrap();
        let written = folder.path().join(engine_name);
        std::fs::create_dir_all(written.parent().unwrap()).unwrap();
        std::fs::write(&written, "- own\n").unwrap();
        let target = OutputTarget::in_root(workspace.path(), "file");
        let outgoing = PlaywrightOutput {
            engine_name: engine_name.to_owned(),
            agent_name: agent_name.to_owned(),
            target,
        };
        let body = encode(&json!({ "content": [{ "type": "text", "text": text }] }));
        let reply =
            to_reply(tool, Ok(body), Some(outgoing), folder.path(), &mut SnapshotFiles::default()).await;
        assert!(!written.exists(), "it is moved to the agent");
        (reply, std::fs::read_to_string(workspace.path().join("file")).ok())
    }

    /// A named file is kept once, at its link, under the agent's name, which replaces the engine's everywhere.
    #[tokio::test]
    async fn named_file_is_kept_under_the_agents_name() {
        let text = "### Result\n- [Page as pdf](outbox/a.pdf)\n### Ran Playwright code\npath: 'outbox/a.pdf'";
        let (reply, written) = reply_to("browser_pdf_save", text, "outbox/a.pdf", "../w/a.pdf").await;
        assert_eq!(written.as_deref(), Some("- own\n"));
        let [link, code] = &reply.artifacts[..] else { panic!("{reply:?}") };
        assert!(
            matches!(&link.content, Content::File { name, data, .. } if name == "a.pdf" && data == b"- own\n")
        );
        assert!(matches!(code.content, Content::Nothing));
        assert_eq!((link.instead.as_deref(), &code.instead), (Some("../w/a.pdf"), &link.instead));
    }

    /// A name that needs escapes is found; a file whose name is not shown is kept all the same; a name of one letter matches
    /// no other link.
    #[tokio::test]
    async fn unusual_file_names_are_found() {
        let (reply, _) =
            reply_to("browser_pdf_save", "- [Page as pdf](./a\"b.pdf)", "a\"b.pdf", "a\"b.pdf").await;
        let [link] = &reply.artifacts[..] else { panic!("{reply:?}") };
        let body = reply.body.as_ref().unwrap().get();
        assert_eq!((&body[link.range.clone()], &link.instead), (r#"a\"b.pdf"#, &None));
        let (reply, _) = reply_to("browser_pdf_save", "done\u{1b}[2m", "e", "e").await;
        let [file, escape] = &reply.artifacts[..] else { panic!("{reply:?}") };
        assert!(matches!(file.content, Content::File { .. }) && file.range.is_empty());
        assert_eq!(escape.instead.as_deref(), Some(""));
    }

    /// A snapshot in an agent's file is a snapshot. A requested file that was not written is none.
    #[tokio::test]
    async fn snapshot_in_a_named_file_is_a_snapshot() {
        let (reply, _) =
            reply_to("browser_snapshot", "### Snapshot\n- [Snapshot](./a.yml)", "a.yml", "a.yml").await;
        let content = &reply.snapshot().unwrap().content;
        assert!(matches!(content, Content::Text(text) if &**text == "- own"), "{reply:?}");

        let body = parse(r#"{"content":[],"isError":true}"#.to_owned()).unwrap();
        let target = OutputTarget::in_root(Path::new("/nowhere"), "a");
        let outgoing = PlaywrightOutput { engine_name: "a".to_owned(), agent_name: "a".to_owned(), target };
        let folder = tempfile::tempdir().unwrap();
        let reply = to_reply(
            "browser_snapshot",
            Ok(body),
            Some(outgoing),
            folder.path(),
            &mut SnapshotFiles::default(),
        )
        .await;
        assert!(reply.is_failure() && reply.artifacts.is_empty(), "{reply:?}");
    }
}
