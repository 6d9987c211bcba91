pub(crate) enum Diff { Same, Changed(String), Fresh }
pub(crate) fn diff(a: &str, b: &str) -> Diff { if a == b { Diff::Same } else if a.is_empty() { Diff::Changed(b.into()) } else { Diff::Fresh } }
