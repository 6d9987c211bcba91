//! Scripts that the proxy puts into pages.

/// A script in the form that is sent. A document's script of more than 4 KB costs nearly a megabyte a page in Chromium.
pub(super) fn without_comments(script: &str) -> String {
    let lines = script.lines().map(str::trim_start);
    lines.filter(|line| !line.is_empty() && !line.starts_with("//")).collect::<Vec<_>>().join("\n")
}
