//! Settings that name a file, a folder or a program. Nothing here checks whether it exists.

use std::path::PathBuf;

use super::value_type::{FlagShape, GivenValue, InvalidValue, ValueType};

/// A file or folder. Relative paths start from [`GivenValue::base`], so the result is absolute.
pub(super) struct FilePath;

impl ValueType for FilePath {
    type Value = PathBuf;

    fn parse(&self, given: GivenValue<'_>) -> Result<PathBuf, InvalidValue> {
        match given.text() {
            None | Some("") => Err(InvalidValue(None)),
            // No shell has expanded this value; if it were accepted, greenroom would make a folder named `~`.
            Some(text) if text == "~" || text.starts_with("~/") => {
                Err(InvalidValue(Some("`~` is not expanded here".to_owned())))
            }
            Some(text) if text.contains('\0') => Err(InvalidValue(None)),
            Some(text) => Ok(given.base.join(text)),
        }
    }

    fn show(&self, value: &PathBuf) -> String {
        value.display().to_string()
    }

    fn allowed(&self) -> String {
        "a path".to_owned()
    }

    fn shape(&self) -> FlagShape {
        FlagShape::One("PATH".to_owned())
    }
}

/// A program: a path, or a bare name that is looked up on `PATH` when it is started.
pub(super) struct ProgramPath;

impl ValueType for ProgramPath {
    type Value = PathBuf;

    fn parse(&self, given: GivenValue<'_>) -> Result<PathBuf, InvalidValue> {
        let path = FilePath.parse(given)?;
        match given.text() {
            Some(text) if !text.contains('/') && !text.starts_with('.') => Ok(PathBuf::from(text)),
            _ => Ok(path),
        }
    }

    fn show(&self, value: &PathBuf) -> String {
        FilePath.show(value)
    }

    fn allowed(&self) -> String {
        "a path, or the name of a program on `PATH`".to_owned()
    }

    fn shape(&self) -> FlagShape {
        FlagShape::One("PATH".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::value_type::tests::{text, toml};

    /// Relative paths start from the base, `~` is refused rather than taken literally, and only programs keep bare names.
    #[test]
    fn relative_paths_start_from_the_base() {
        assert_eq!(text(&FilePath, "/abs/x"), Ok(PathBuf::from("/abs/x")));
        assert_eq!(text(&FilePath, "rel/x"), Ok(PathBuf::from("/base/rel/x")));
        assert_eq!(text(&FilePath, "rel"), Ok(PathBuf::from("/base/rel")));
        assert_eq!(text(&FilePath, ""), Err(InvalidValue(None)));
        assert!(text(&FilePath, "~/x").unwrap_err().0.unwrap().contains('~'));
        assert_eq!(text(&ProgramPath, "node22"), Ok(PathBuf::from("node22")));
        assert_eq!(text(&ProgramPath, "./node"), Ok(PathBuf::from("/base/./node")));
        assert_eq!(toml(&ProgramPath, "\"bin/node\""), Ok(PathBuf::from("/base/bin/node")));
    }
}
