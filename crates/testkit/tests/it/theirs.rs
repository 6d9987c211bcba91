//! The browser of somebody else's, by itself.

use greenroom_testkit::{Theirs, process::alive};

/// It lists its tabs, is killed with nothing left, and comes back at its old address with its old profile.
#[tokio::test]
async fn killed_and_started_again() {
    let mut theirs = Theirs::start().await;
    let (url, pid) = (theirs.url(), theirs.pid().unwrap());
    assert_eq!(theirs.urls().await, ["about:blank"]);
    let tab = theirs.open("about:blank?mine").await;
    theirs.wait_for_urls(&["about:blank", "about:blank?mine"]).await;
    theirs.close(&tab).await;
    theirs.wait_for_urls(&["about:blank"]).await;
    let before = theirs.ws_endpoint().await;

    theirs.kill().await;
    assert!(!alive(pid) && !theirs.runs());

    theirs.start_again().await;
    assert_eq!(theirs.url(), url);
    assert_ne!(theirs.pid().unwrap(), pid);
    assert_ne!(theirs.ws_endpoint().await, before);
}
