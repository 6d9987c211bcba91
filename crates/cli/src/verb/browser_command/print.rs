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

use crate::{progress, report};

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
        report::problem(without_headings(&answer.text), None);
    }
    Ok(if answer.ok && !answer.found_nothing { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The error of an engine without the words that introduce it: the line begins with `error:` already.
fn without_headings(error: &str) -> &str {
    let error = error.strip_prefix("### Error\n").unwrap_or(error);
    error.strip_prefix("Error: ").unwrap_or(error)
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

/// The kind of a picture whose file name ends like another kind. Programs that trust the name refuse such a file.
fn misnamed<'a>(path: &Path, mime: &'a str) -> Option<&'a str> {
    let kind = mime.strip_prefix("image/")?;
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    let named = if extension == "jpg" { "jpeg" } else { &extension };
    (["png", "jpeg", "webp", "gif"].contains(&named) && named != kind).then_some(kind)
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
        if let Some(kind) = misnamed(path, &image.mime) {
            progress::note(&format!("note: `{}` holds a picture of the kind {kind}", path.display()));
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// An engine's error begins with what went wrong, and errors of other forms stay as they are.
    #[test]
    fn errors_lose_their_headings() {
        let check = |error, expected| assert_eq!(without_headings(error), expected);
        check("### Error\nError: Ref e3 not found\n### Page\n", "Ref e3 not found\n### Page\n");
        check("### Error\nTimeoutError: 5000ms exceeded", "TimeoutError: 5000ms exceeded");
        check("no such session: \"a\"", "no such session: \"a\"");
    }

    /// Only a name that ends like another kind of picture is noted.
    #[test]
    fn misnamed_pictures_are_noted() {
        let check =
            |path: &str, expected| assert_eq!(misnamed(Path::new(path), "image/png"), expected, "{path}");
        check("a.jpg", Some("png"));
        check("a.JPEG", Some("png"));
        check("a.png", None);
        check("a", None);
        check("a.out", None);
        assert_eq!(misnamed(Path::new("a.jpg"), "image/jpeg"), None);
    }
}
