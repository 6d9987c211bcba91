//! Prints the answer to a command: its text for an agent to read, or one JSON object; pictures as files.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use greenroom_core::printable::printable_lines;
use greenroom_gateway::control::{AnswerImage, CommandAnswer};
use serde_json::{Value, json};

use crate::report;

/// Prints the answer, and writes its pictures: the first one to `picture`, if that is given.
pub fn answer(answer: &CommandAnswer, json: bool, picture: Option<&Path>) -> anyhow::Result<ExitCode> {
    let mut files = Vec::new();
    for (index, image) in answer.images.iter().enumerate() {
        files.push(write_image(answer, index, image, picture.filter(|_| index == 0))?);
    }
    if json {
        let line = as_json(answer, &files).to_string() + "\n";
        io::stdout().lock().write_all(line.as_bytes())?;
    } else if answer.ok {
        let mut text = printable_lines(&answer.text).into_owned();
        for file in &files {
            text = format!("{text}\nimage: {}", file.display());
        }
        io::stdout().lock().write_all(format!("{}\n", text.trim_start_matches('\n')).as_bytes())?;
    } else {
        report::problem(&answer.text, None);
    }
    Ok(if answer.ok && !answer.found_nothing { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn as_json(answer: &CommandAnswer, files: &[PathBuf]) -> Value {
    let mut object = json!({
        "session": answer.session,
        "tool": answer.tool,
        "ok": answer.ok && !answer.found_nothing,
        "text": answer.text,
    });
    if let Some(ref_id) = &answer.ref_id {
        object["ref_id"] = json!(ref_id);
    }
    if let Some(error) = &answer.error {
        object["error"] = json!(error);
    }
    if !files.is_empty() {
        object["files"] = files.iter().map(|file| json!(file.to_string_lossy())).collect();
    }
    object
}

/// Writes a picture to the given file, or to a new one that only this user can read.
fn write_image(
    answer: &CommandAnswer,
    index: usize,
    image: &AnswerImage,
    given: Option<&Path>,
) -> anyhow::Result<PathBuf> {
    let bytes = STANDARD.decode(&image.data).context("the picture in the answer cannot be read")?;
    if let Some(path) = given {
        let context = || format!("cannot write the picture: `{}`", path.display());
        fs::write(path, bytes).with_context(context)?;
        return Ok(path.to_owned());
    }
    let name = answer.ref_id.clone().unwrap_or_else(|| format!("picture-{}", std::process::id()));
    let kind = image.mime.strip_prefix("image/").filter(|kind| kind.chars().all(char::is_alphanumeric));
    let file = format!("greenroom-{name}-{index}.{}", kind.unwrap_or("bin"));
    let path = std::env::temp_dir().join(file);
    let context = || format!("cannot write the picture: `{}`", path.display());
    let new = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    new.and_then(|mut new| new.write_all(&bytes)).with_context(context)?;
    Ok(path)
}
