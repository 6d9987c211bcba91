//! Cloud metadata under `open`, the preset that permits everything else.

use greenroom_core::settings::{Browser, NetworkPreset};

use super::GuardFixture;

/// Metadata services are refused by address and by name, directly and by a redirect; the page that the browser shows says
/// so, and nothing is dialled.
#[tokio::test]
async fn metadata_is_refused_under_every_policy() {
    let fixture = GuardFixture::start(Browser::HeadlessShell, NetworkPreset::Open).await;
    let mut seat = fixture.seat("a", None).await;
    let redirect = format!("http://{}/redirect?to=http://169.254.169.254/", fixture.site.host());
    for url in [
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:169.254.169.254]/",
        "http://2852039166/",
        "http://metadata.google.internal/",
        "http://100.100.100.200/",
        "http://imds.test/",
        &redirect,
    ] {
        seat.navigate(url).await.unwrap();
        let page = seat.evaluate("() => document.body.innerText").await;
        assert!(page.contains("browsers may not reach cloud metadata services"), "{url}: {page}");
        let refusals = seat.0.take_refusals();
        assert!(refusals.listed.iter().all(|refusal| refusal.reason.word() == "metadata"), "{refusals:?}");
        assert!(!refusals.is_empty(), "{url}");
    }
    assert_eq!(fixture.dials(), []);
    seat.close().await;
    fixture.end().await;
}
