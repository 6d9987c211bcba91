//! The user's browser, by itself.

use greenroom_testkit::{Door, Theirs, http::Wire, process::alive};

/// It lists its tabs, is killed with nothing left, and comes back at its old address with its old profile.
#[tokio::test]
async fn killed_and_started_again() {
    let mut theirs = Theirs::start().await;
    let url = theirs.url();
    let pid = theirs.pid().unwrap();
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

/// The content of a tab is read and changed over the debugger, in either Chromium; a tab of another context is not among the
/// person's; a crashed tab is still there.
#[tokio::test]
async fn what_a_person_does() {
    for theirs in [Theirs::start().await, Theirs::showing("about:blank").await] {
        let first = theirs.tabs().await;
        let tab = theirs.open("about:blank?mine").await;
        assert_eq!(theirs.evaluate(&tab, "Promise.resolve(location.search)").await, "?mine");
        theirs.navigate(&tab, "about:blank?else").await;
        theirs.wait_for_urls(&["about:blank", "about:blank?else"]).await;
        let context = theirs.make_context().await;
        assert_eq!(theirs.contexts().await, [context]);
        theirs.crash(&tab).await;
        assert_eq!(theirs.tabs().await.len(), 2);
        theirs.close(&tab).await;
        assert_eq!(theirs.until(|tabs| tabs.len() == 1).await, first);
    }
}

/// A door lets in connections with its lines, and records their requests.
#[tokio::test]
async fn a_door() {
    let theirs = Theirs::start().await;
    let door = Door::open(theirs.port(), &["X-Key: sesame"]).await;
    let ask = async |key: &str| {
        let wire = Wire::connect(door.url().trim_start_matches("http://").parse().unwrap()).await;
        wire.request("GET", "/json/version", &[("x-key", key)], None).await.status
    };
    assert_eq!((ask("sesam").await, door.heads().len()), (403, 0));
    assert_eq!((ask("sesame").await, door.heads().len()), (200, 1));
    assert!(door.heads()[0].starts_with("get /json/version http/1.1\r\n"), "{:?}", door.heads());
}
