//! Whether a browser really opens a page, from the engine down to Chromium. The last check: what it needs, the
//! others have looked at.

use super::{Patient, Verdict};

/// The place to open a session, navigate and read the page back. This version has no way to do so from here, and
/// says that it did not.
pub(super) async fn check(_patient: &Patient) -> Verdict {
    Verdict::skipped("this version does not try to open a page")
}
