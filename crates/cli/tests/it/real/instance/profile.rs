//! Instances that are not isolated: one persistent profile, one seat at a time in the browser's own context.

use std::{fs, os::unix::fs::PermissionsExt};

use greenroom_core::{
    View,
    settings::{Pool, Viewport},
};
use greenroom_engine::{
    EngineOptions,
    browser::{self, BrowserChoice, BrowserKind},
};
use greenroom_testkit::{Site, eventually};
use serde_json::json;

use super::{GRACE, InstanceFixture, TestSeat};

const KEEP: &str =
    "() => { document.cookie = 'kept=yes; max-age=3600'; localStorage.setItem('kept', 'too'); }";
const KEPT: &str = "() => document.cookie + ' ' + localStorage.getItem('kept')";

/// Cookies and storage stay over seats and over restarts of the instance; tabs end with their seat. The observer sees the
/// seat's pages, and no page of an earlier seat.
#[tokio::test]
async fn profile_survives_seats_and_restarts() {
    let fixture = InstanceFixture::new().await;
    let site = Site::start().await;
    let profile = fixture.path("profiles/POOL/0");
    let instance = fixture.start(fixture.with_profile(&profile)).await;
    assert_eq!(fs::metadata(&profile).unwrap().permissions().mode() & 0o777, 0o700);

    let mut seat = TestSeat::open(&instance).await;
    seat.navigate(&site.url("/title?t=first")).await.unwrap();
    seat.evaluate(KEEP).await;
    let view = seat.0.view();
    assert_eq!(*view.borrow(), View { url: site.url("/title?t=first"), title: "first".into(), tabs: 1 });
    seat.call("browser_tabs", json!({ "action": "new", "url": site.url("/title?t=second") })).await.unwrap();
    assert_eq!(seat.0.view().borrow().tabs, 2);
    // Emptied, and used again.
    seat.call("browser_close", json!({})).await.unwrap();
    assert_eq!(*seat.0.view().borrow(), View::default());
    seat.navigate(&site.url("/title?t=third")).await.unwrap();
    assert_eq!(seat.0.view().borrow().tabs, 1);
    assert!(seat.evaluate(KEPT).await.contains("kept=yes too"));
    seat.close().await;

    let mut seat = TestSeat::open(&instance).await;
    let tabs = seat.call("browser_tabs", json!({ "action": "list" })).await.unwrap();
    assert!(!tabs.contains("third"), "{tabs}");
    seat.navigate(&site.url("/title?t=fourth")).await.unwrap();
    assert_eq!(seat.0.view().borrow().tabs, 1, "the tabs before are gone");
    assert!(seat.evaluate(KEPT).await.contains("kept=yes too"), "over seats");
    // The browser writes this cookie to disk only at its end, so it must be allowed to end in order.
    seat.evaluate("() => { document.cookie = 'late=yes; max-age=3600'; }").await;
    seat.close().await;
    instance.stop(GRACE).await;

    let instance = fixture.start(fixture.with_profile(&profile)).await;
    let mut seat = TestSeat::open(&instance).await;
    seat.navigate(&site.url("/show")).await.unwrap();
    let with_profile = seat.evaluate(KEPT).await;
    assert!(
        with_profile.contains("kept=yes")
            && with_profile.contains("late=yes")
            && with_profile.contains("too"),
        "{with_profile}"
    );
    seat.close().await;
    instance.stop(GRACE).await;
    assert!(profile.join("Default").is_dir(), "the profile stays");
}

/// A page that hangs is closed with its seat as well, and the next seat finds an empty browser.
#[tokio::test]
async fn hung_page_is_closed_with_its_seat() {
    let fixture = InstanceFixture::new().await;
    let site = Site::start().await;
    let instance = fixture.start(fixture.with_profile(&fixture.path("profile"))).await;
    let mut seat = TestSeat::open(&instance).await;
    seat.navigate(&site.url("/title?t=hung")).await.unwrap();
    // The fetch is sent before the page blocks for ever; nothing is answered after that.
    let hang = "() => { fetch('/hung').then(() => { for (;;); }); return new Promise(() => {}); }";
    tokio::select! {
        answer = seat.call("browser_evaluate", json!({ "function": hang })) => panic!("{answer:?}"),
        () = site.wait_for_hit("/hung") => {}
    }
    tokio::time::timeout(std::time::Duration::from_secs(5), seat.close()).await.unwrap();
    let mut seat = TestSeat::open(&instance).await;
    seat.navigate(&site.url("/title?t=next")).await.unwrap();
    assert_eq!(
        *seat.0.view().borrow(),
        View { url: site.url("/title?t=next"), title: "next".into(), tabs: 1 }
    );
    seat.close().await;
    instance.stop(GRACE).await;
}

/// Two instances with a profile each share nothing, and a profile has one browser at a time.
#[tokio::test]
async fn profiles_share_nothing() {
    let fixture = InstanceFixture::new().await;
    let site = Site::start().await;
    let one = fixture.path("profiles/0");
    let other = fixture.path("profiles/1");
    let first = fixture.start(fixture.with_profile(&one)).await;
    let mut seat = TestSeat::open(&first).await;
    seat.navigate(&site.url("/title")).await.unwrap();
    seat.evaluate(KEEP).await;

    let second = fixture.start(fixture.with_profile(&other)).await;
    let mut stranger = TestSeat::open(&second).await;
    stranger.navigate(&site.url("/title")).await.unwrap();
    let with_profile = stranger.evaluate(KEPT).await;
    assert!(!with_profile.contains("yes") && !with_profile.contains("too"), "{with_profile}");
    stranger.close().await;
    second.stop(GRACE).await;

    let refused = fixture.try_start(fixture.with_profile(&one)).await.err().unwrap();
    assert!(
        refused.message.starts_with("the profile is in use by another instance of greenroom"),
        "{refused}"
    );
    assert!(refused.message.contains(one.to_str().unwrap()) && refused.hint.is_some());
    seat.close().await;
    first.stop(GRACE).await;
}

/// The lock of a running Chromium that is not greenroom's is respected.
#[tokio::test]
async fn profile_lock_of_another_chromium_is_respected() {
    let fixture = InstanceFixture::new().await;
    let profile = fixture.path("profile");
    let options = fixture.with_profile(&profile);
    let Ok(chromium) =
        browser::find(&options.install_paths, false, BrowserChoice::Only(BrowserKind::Chromium), None)
    else {
        panic!("these tests need Chromium")
    };
    let mut foreign = std::process::Command::new(chromium.path)
        .args(["--headless=new", "--no-sandbox", "--no-startup-window", "--remote-debugging-port=0"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    eventually("Chromium's lock", || fs::symlink_metadata(profile.join("SingletonLock")).ok()).await;
    let refused = fixture.try_start(options).await.err().unwrap();
    foreign.kill().unwrap();
    foreign.wait().unwrap();
    assert!(refused.message.contains(&format!("a running browser, process {}", foreign.id())), "{refused}");
}

/// User agent, viewport and invalid certificates are the browser's own here, in the headless shell and in Chromium.
#[tokio::test]
async fn profile_browser_has_its_own_settings() {
    let fixture = InstanceFixture::new().await;
    let site = Site::start().await;
    let install_paths = fixture.options().install_paths;
    let chromium =
        browser::find(&install_paths, false, BrowserChoice::Only(BrowserKind::Chromium), None).unwrap();
    for (name, executable) in [("shell", None), ("chromium", Some(chromium.path))] {
        let with_profile = fixture.with_profile(&fixture.path(name));
        let pool = Pool {
            executable_path: executable,
            viewport_size: Viewport { width: 900, height: 500 },
            user_agent: Some("greenroom test agent".into()),
            ignore_https_errors: true,
            ..with_profile.pool.clone()
        };
        let options = EngineOptions { pool, ..with_profile };
        let instance = fixture.start(options).await;
        let mut seat = TestSeat::open(&instance).await;
        seat.navigate(&site.url("/title")).await.unwrap();
        let shown = seat.evaluate("() => [innerWidth, innerHeight, navigator.userAgent].join()").await;
        assert!(shown.contains("\"900,500,greenroom test agent\""), "{name}: {shown}");
        seat.call("browser_tabs", json!({ "action": "new", "url": site.url("/show") })).await.unwrap();
        let shown = seat.evaluate("() => [innerWidth, innerHeight].join()").await;
        assert!(shown.contains("\"900,500\""), "{name}: {shown}");
        let pid = instance.process_ids()[1];
        let flags = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
        assert!(String::from_utf8_lossy(&flags).contains("--ignore-certificate-errors"));
        seat.close().await;
        instance.stop(GRACE).await;
    }
    let agents: Vec<_> = site.requests().into_iter().filter_map(|seen| seen.user_agent).collect();
    assert!(!agents.is_empty() && agents.iter().all(|agent| agent == "greenroom test agent"), "{agents:?}");

    let mut crowded = fixture.with_profile(&fixture.path("crowded"));
    crowded.pool.slots = 2;
    let refused = fixture.try_start(crowded).await.err().unwrap();
    assert!(refused.message.contains("one slot, not 2") && refused.hint.is_some(), "{refused}");
    let mut refused = fixture.with_profile(&fixture.path("device"));
    refused.pool.device = Some("iPhone 15".into());
    let refused = fixture.try_start(refused).await.err().unwrap();
    assert!(refused.message.contains("isolated contexts only") && refused.hint.is_some(), "{refused}");
}
