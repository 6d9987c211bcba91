//! Tool lists on disk, by the engine's fingerprint. A list that cannot be read counts as missing.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use greenroom_core::{Introduction, Raw, Tool, Toolset};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct CachedTools {
    /// The whole fingerprint: file names are too short for it.
    fingerprint: String,
    tools: Vec<Raw>,
    #[serde(default)]
    capabilities: Option<Raw>,
    #[serde(default)]
    instructions: Option<Arc<str>>,
}

/// The largest cached list. A big server's list has some hundred kilobytes; an engine sends it in one message, so
/// no list is larger than a message.
const LIST_BYTES_MAX: u64 = greenroom_mcp::MESSAGE_BYTES_MAX as u64;

pub(super) fn read(folder: &Path, fingerprint: &str) -> Option<Toolset> {
    #[derive(Deserialize)]
    struct ToolName {
        name: Arc<str>,
    }
    let path = file(folder, fingerprint);
    let text = match greenroom_files::read_text(&path, LIST_BYTES_MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "cannot read the kept tool list, so the engine is asked again");
            return None;
        }
    };
    let cached: CachedTools = match serde_json::from_str(&text) {
        Ok(cached) => cached,
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "the kept tool list is damaged and will be replaced");
            return None;
        }
    };
    if cached.fingerprint != fingerprint {
        return None;
    }
    let tool = |definition: Raw| {
        let ToolName { name } = serde_json::from_str(definition.get()).ok()?;
        Some(Tool { name, definition })
    };
    let tools = cached.tools.into_iter().map(tool).collect::<Option<Vec<_>>>()?;
    let instructions = cached.instructions;
    let introduction = cached.capabilities.map(|capabilities| Introduction { capabilities, instructions });
    Some(Toolset { tools, introduction })
}

/// Writes the file whole or not at all, for this user only: a temporary file is 0600 and keeps that mode when renamed.
pub(super) fn write(folder: &Path, fingerprint: &str, set: &Toolset) -> io::Result<()> {
    let tools = set.tools.iter().map(|tool| tool.definition.clone()).collect();
    let introduction = set.introduction.as_ref();
    let cached = CachedTools {
        fingerprint: fingerprint.to_owned(),
        tools,
        capabilities: introduction.map(|introduction| introduction.capabilities.clone()),
        instructions: introduction.and_then(|introduction| introduction.instructions.clone()),
    };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mut part = tempfile::NamedTempFile::new_in(folder)?;
    part.write_all(&serde_json::to_vec(&cached)?)?;
    part.persist(file(folder, fingerprint)).map_err(|error| error.error)?;
    Ok(())
}

fn file(folder: &Path, fingerprint: &str) -> PathBuf {
    folder.join(format!("tools-{:016x}.json", fnv1a(fingerprint.as_bytes())))
}

/// FNV-1a makes a file name, not a secret. The standard library's hashers do not promise a stable result.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A list comes back as it was written, for its own fingerprint only; a damaged file counts as missing.
    #[test]
    fn cached_lists_are_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let definition = greenroom_core::raw::parse(r#"{"name":"t", "n": 1.50}"#.to_owned()).unwrap();
        let capabilities = greenroom_core::raw::parse(r#"{"prompts":{}}"#.to_owned()).unwrap();
        let introduction = Some(Introduction { capabilities, instructions: Some("Be kind.".into()) });
        let set = Toolset { tools: vec![Tool { name: "t".into(), definition }], introduction };
        write(folder.path(), "one", &set).unwrap();
        assert_eq!(
            read(folder.path(), "one").unwrap().tools[0].definition.get(),
            r#"{"name":"t", "n": 1.50}"#
        );
        let introduction = read(folder.path(), "one").unwrap().introduction.unwrap();
        assert_eq!(introduction.capabilities.get(), r#"{"prompts":{}}"#);
        assert_eq!(introduction.instructions.as_deref(), Some("Be kind."));
        assert!(read(folder.path(), "two").is_none());
        let path = file(folder.path(), "one");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, "{").unwrap();
        assert!(read(folder.path(), "one").is_none());
    }
}
