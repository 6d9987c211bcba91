use greenroom_core::Raw;
#[derive(Debug, PartialEq, serde::Deserialize)]
pub(crate) struct Asked {}
pub(crate) const NAMES: [&str; 1] = ["flatten"];
#[derive(Default)]
pub struct Pages {}
pub(crate) fn parameters() -> Vec<(&'static str, Raw)> {
    Vec::new()
}
