//! Different browsers are driven at the same time.

use greenroom_testkit::Site;
use serde_json::json;

use super::{super::fixture::answer, AttachedFixture};

/// Two pages that answer only when both have been asked for: one lock around all browsers would wait for ever. Counted
/// at the site, not timed.
pub async fn two_browsers_at_the_same_moment(attached: &AttachedFixture) {
    let site = Site::start().await;
    let meet = site.url("/meet?count=2");
    let one = attached.begin(1, "browser_navigate", json!({ "url": &meet })).await;
    let two = attached.begin(2, "browser_navigate", json!({ "url": &meet })).await;
    for pending in [one, two] {
        answer(pending).await.ok();
    }
    assert_eq!(site.hits("/meet"), 2);
}

/// A browser that hangs in a call holds up no other.
pub async fn busy_browser_delays_no_other(attached: &AttachedFixture) {
    let site = Site::start().await;
    attached.navigate(1, &site.url("/title?t=one")).await.ok();
    let hang = "() => { fetch('/canary?name=hang'); return new Promise(() => {}); }";
    let mut hung = attached.begin(1, "browser_evaluate", json!({ "function": hang })).await;
    site.wait_for_hit("/canary").await;
    attached.navigate(2, &site.url("/title?t=two")).await.ok();
    assert!(hung.response_now().is_none());
}
