//! How an attached browser is lost, and what happens to the tabs in it.

use std::{fs, sync::Arc};

use greenroom_core::{InstanceId, Lost, NoAgent};
use greenroom_engine::run_folder;
use greenroom_testkit::{
    DebuggerProxy, Site, UserBrowser, eventually,
    process::{Signal, alive, signal},
};

use super::{
    super::{GRACE, data_folder},
    ADAPTERS, Adapter, AttachedFixture, at, wait_for_loss,
};

/// A crash of a user's tab is not reported; a crash of the seat's own tab is, and with playwright the seat goes
/// on in another page. The devtools engine cannot: its seat is lost, and the browser goes on.
pub async fn only_own_tabs_count_as_crashed(
    site: &Site,
    user_browser: &UserBrowser,
    fixture: &mut AttachedFixture,
) {
    let adapter = fixture.adapter;
    let users = user_browser.tabs().await[0].id.clone();
    fixture.open_seat().await;
    fixture.navigate(&site.url("/title?t=own")).await;
    user_browser.crash(&users).await;
    assert!(fixture.evaluate("() => document.title").await.contains("own"));
    assert_eq!(*fixture.seat().lost().borrow(), None);

    let own = user_browser.tabs().await.into_iter().find(|tab| tab.id != users).unwrap().id;
    assert_eq!(fixture.seat_mut().take_crashes(), []);
    user_browser.crash(&own).await;
    if adapter == Adapter::Devtools {
        let lost = wait_for_loss(fixture.seat().lost()).await;
        assert!(matches!(lost, Lost::Page(_)), "{lost:?}");
    }
    let seat = fixture.seat_mut();
    let told = eventually("the crash", || seat.take_crashes().pop()).await;
    assert!(told.url.ends_with("t=own"), "{adapter:?}: {told:?}");
    if adapter == Adapter::Playwright {
        // The engine may learn of the crash a moment later; then the first call fails.
        let _ = fixture.try_evaluate("() => 1").await.unwrap();
        fixture.navigate(&site.url("/title?t=after")).await;
        assert!(fixture.evaluate("() => document.title").await.contains("after"));
        assert_eq!(*fixture.seat().lost().borrow(), None);
    }
    fixture.close_seat().await;
    assert_eq!(*fixture.instance.lost().borrow(), None);
    assert_eq!(user_browser.tabs().await.len(), 1);
    // An engine cannot attach to a crashed tab.
    user_browser.navigate(&users, &site.url("/title?t=again")).await;
    fixture.open_seat().await;
    fixture.close_seat().await;
}

/// A browser that dies is lost at once, as a browser; so is the call that runs in it.
#[tokio::test]
async fn killed_browser_is_lost() {
    for adapter in ADAPTERS {
        let site = Site::start().await;
        let mut user_browser = UserBrowser::start().await;
        let mut fixture = AttachedFixture::with_seat(adapter, &user_browser).await;
        fixture.navigate(&site.url("/title?t=own")).await;
        assert_eq!(fixture.instance.process_ids().len(), 1, "the browser's is not ours");
        fixture.instance.ping().await.unwrap();
        let url = user_browser.url();
        let lost = [fixture.instance.lost(), fixture.seat().lost()];
        let hang = "() => { fetch('/canary?name=hang'); return new Promise(() => {}); }";
        let kill = async {
            site.wait_for_hit("/canary").await;
            user_browser.kill().await;
        };
        let (answer, ()) = tokio::join!(fixture.try_evaluate(hang), kill);
        let message = answer.unwrap_err().to_string();
        assert_eq!(message, format!("the browser ended (its debugger at {url} is gone)"));
        for lost in lost {
            let lost = wait_for_loss(lost).await;
            assert!(matches!(lost, Lost::Browser { .. }), "{adapter:?}: {lost:?}");
        }
        assert!(fixture.instance.open(Arc::new(NoAgent)).await.is_err());
        fixture.stop().await;
    }
}

/// An engine that dies ends its seat, whose tabs are closed, and not the browser. With playwright the instance is lost too;
/// with devtools the next seat has another engine.
#[tokio::test]
async fn killed_engine_ends_its_seat() {
    let site = Site::start().await;
    for adapter in ADAPTERS {
        let user_browser = UserBrowser::showing(&site.url("/title?t=home")).await;
        let before = user_browser.tabs().await;
        let mut fixture = AttachedFixture::with_seat(adapter, &user_browser).await;
        fixture.navigate(&site.url("/title?t=own")).await;
        let [node] = fixture.instance.process_ids()[..] else { panic!("one process") };
        signal(node, Signal::KILL);
        let lost = wait_for_loss(fixture.seat().lost()).await;
        assert!(matches!(lost, Lost::Process { .. }), "{adapter:?}: {lost:?}");
        match adapter {
            Adapter::Playwright => {
                let lost = wait_for_loss(fixture.instance.lost()).await;
                assert!(matches!(lost, Lost::Process { .. }), "{lost:?}");
            }
            Adapter::Devtools => {
                assert_eq!(*fixture.instance.lost().borrow(), None);
                fixture.close_seat().await;
                assert_eq!(user_browser.tabs().await, before);
                fixture.open_seat().await;
                fixture.navigate(&site.url("/title?t=again")).await;
            }
        }
        fixture.stop().await;
        assert!(!alive(node));
        assert_eq!(user_browser.tabs().await, before);
    }
}

/// The next greenroom that attaches to a browser closes the tabs of one that was killed; the user's tabs, and those of a
/// living greenroom, stay.
#[tokio::test]
async fn tabs_of_a_dead_greenroom_are_closed() {
    for adapter in ADAPTERS {
        let user_browser = UserBrowser::start().await;
        let before = user_browser.tabs().await;
        let dead = user_browser.open("about:blank?dead").await;
        let data = data_folder();
        let folder = data.path().join("run/4194304-1-0/instances/0");
        fs::create_dir_all(&folder).unwrap();
        let apart = user_browser.make_context().await;
        fs::write(folder.join("tabs"), format!("opened {dead}\nown {dead}\nown ABC\ncontext {apart}\n"))
            .unwrap();
        let users = user_browser.make_context().await;
        let neighbour = adapter.engine(data.path(), at(user_browser.url()));
        let living = neighbour.engine.start(InstanceId(0)).await.unwrap();
        let seat = living.open(Arc::new(NoAgent)).await.unwrap();
        assert_eq!(user_browser.tabs().await.len(), before.len() + 2, "no greenroom has reaped yet");

        assert_eq!(run_folder::reap(data.path()).folders, 1);
        let attached = adapter.engine(data.path(), at(user_browser.url()));
        let instance = attached.engine.start(InstanceId(0)).await.unwrap();
        let now = user_browser.tabs().await;
        assert!(now.len() == before.len() + 1 && now.iter().all(|tab| tab.id != dead), "{now:?}");
        assert_eq!(user_browser.contexts().await, [users], "only what is listed");
        assert_eq!(fs::read_dir(data.path().join("run/left")).unwrap().count(), 0);
        seat.close().await;
        living.stop(GRACE).await;
        instance.stop(GRACE).await;
        assert_eq!(user_browser.tabs().await, before);
    }
}

/// A broken connection leaves no tab open for good: the next instance closes it.
#[tokio::test]
async fn tabs_of_a_lost_connection_are_closed() {
    for adapter in ADAPTERS {
        let user_browser = UserBrowser::start().await;
        let before = user_browser.tabs().await;
        let data = data_folder();
        let door = DebuggerProxy::open(user_browser.port(), &[]).await;
        let attached = adapter.engine(data.path(), at(door.url()));
        let instance = attached.engine.start(InstanceId(0)).await.unwrap();
        let seat = instance.open(Arc::new(NoAgent)).await.unwrap();
        // This is the line that an engine writes for a tab that it made.
        let list = attached.run.path().join("instances/0/tabs");
        let noted =
            fs::read_to_string(&list).unwrap() + &format!("context {}\n", user_browser.make_context().await);
        fs::write(&list, noted).unwrap();
        door.cut();
        let lost = wait_for_loss(instance.lost()).await;
        assert!(matches!(lost, Lost::Browser { .. }), "{adapter:?}: {lost:?}");
        seat.close().await;
        instance.stop(GRACE).await;
        assert_eq!(user_browser.tabs().await.len(), 2, "greenroom could not close it");
        let instance = attached.engine.start(InstanceId(0)).await.unwrap();
        assert_eq!((user_browser.tabs().await, user_browser.contexts().await.len()), (before, 0));
        instance.stop(GRACE).await;
    }
}
