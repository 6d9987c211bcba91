//! How an attached browser is lost, and what happens to the tabs in it.

use std::{fs, sync::Arc};

use greenroom_core::{InstanceId, Lost, NoAgent};
use greenroom_engine::run_folder;
use greenroom_testkit::{
    Door, Site, Theirs, eventually,
    process::{Signal, alive, signal},
};

use super::{
    super::{GRACE, data_folder},
    ADAPTERS, Adapter, Guest, at, why,
};

/// A tab of the user's that crashes is nobody's business; of the seat's own one it is told, and the seat goes on in
/// another page; with devtools, which cannot, the seat is lost, and its browser goes on.
pub async fn only_own_tabs_count_as_crashed(site: &Site, theirs: &Theirs, guest: &mut Guest) {
    let adapter = guest.adapter;
    let users = theirs.tabs().await[0].id.clone();
    guest.sit().await;
    guest.navigate(&site.url("/title?t=own")).await;
    theirs.crash(&users).await;
    assert!(guest.evaluate("() => document.title").await.contains("own"));
    assert_eq!(*guest.seat().lost().borrow(), None);

    let own = theirs.tabs().await.into_iter().find(|tab| tab.id != users).unwrap().id;
    assert_eq!(guest.seat_mut().take_crashes(), []);
    theirs.crash(&own).await;
    if adapter == Adapter::Devtools {
        let lost = why(guest.seat().lost()).await;
        assert!(matches!(lost, Lost::Page(_)), "{lost:?}");
    }
    let seat = guest.seat_mut();
    let told = eventually("the crash", || seat.take_crashes().pop()).await;
    assert!(told.url.ends_with("t=own"), "{adapter:?}: {told:?}");
    if adapter == Adapter::Playwright {
        // The engine may hear of it a moment later: then the first call fails by it.
        let _ = guest.try_evaluate("() => 1").await.unwrap();
        guest.navigate(&site.url("/title?t=after")).await;
        assert!(guest.evaluate("() => document.title").await.contains("after"));
        assert_eq!(*guest.seat().lost().borrow(), None);
    }
    guest.rise().await;
    assert_eq!(*guest.instance.lost().borrow(), None);
    assert_eq!(theirs.tabs().await.len(), 1);
    // An engine cannot take hold of a tab that has crashed.
    theirs.navigate(&users, &site.url("/title?t=again")).await;
    guest.sit().await;
    guest.rise().await;
}

/// A browser that dies is lost at once, as a browser; so is the call that runs in it.
#[tokio::test]
async fn a_killed_browser_is_lost() {
    for adapter in ADAPTERS {
        let (site, mut theirs) = (Site::start().await, Theirs::start().await);
        let mut guest = Guest::sitting(adapter, &theirs).await;
        guest.navigate(&site.url("/title?t=own")).await;
        assert_eq!(guest.instance.process_ids().len(), 1, "the browser's is not ours");
        guest.instance.ping().await.unwrap();
        let url = theirs.url();
        let lost = [guest.instance.lost(), guest.seat().lost()];
        let hang = "() => { fetch('/canary?name=hang'); return new Promise(() => {}); }";
        let kill = async {
            site.wait_for_hit("/canary").await;
            theirs.kill().await;
        };
        let (answer, ()) = tokio::join!(guest.try_evaluate(hang), kill);
        let said = answer.unwrap_err().to_string();
        assert_eq!(said, format!("the browser ended (its debugger at {url} is gone)"));
        for lost in lost {
            let lost = why(lost).await;
            assert!(matches!(lost, Lost::Browser { .. }), "{adapter:?}: {lost:?}");
        }
        assert!(guest.instance.open(Arc::new(NoAgent)).await.is_err());
        guest.leave().await;
    }
}

/// An engine that dies ends its seat, whose tabs are closed, and not the browser. With playwright the instance is lost too;
/// with devtools the next seat has another engine.
#[tokio::test]
async fn a_killed_engine() {
    let site = Site::start().await;
    for adapter in ADAPTERS {
        let theirs = Theirs::showing(&site.url("/title?t=home")).await;
        let before = theirs.tabs().await;
        let mut guest = Guest::sitting(adapter, &theirs).await;
        guest.navigate(&site.url("/title?t=own")).await;
        let [node] = guest.instance.process_ids()[..] else { panic!("one process") };
        signal(node, Signal::KILL);
        let lost = why(guest.seat().lost()).await;
        assert!(matches!(lost, Lost::Process { .. }), "{adapter:?}: {lost:?}");
        match adapter {
            Adapter::Playwright => {
                let lost = why(guest.instance.lost()).await;
                assert!(matches!(lost, Lost::Process { .. }), "{lost:?}");
            }
            Adapter::Devtools => {
                assert_eq!(*guest.instance.lost().borrow(), None);
                guest.rise().await;
                assert_eq!(theirs.tabs().await, before);
                guest.sit().await;
                guest.navigate(&site.url("/title?t=again")).await;
            }
        }
        guest.leave().await;
        assert!(!alive(node));
        assert_eq!(theirs.tabs().await, before);
    }
}

/// The next greenroom that attaches to a browser closes the tabs of one that was killed; the user's tabs, and those of a
/// living greenroom, stay.
#[tokio::test]
async fn what_the_dead_left_is_closed() {
    for adapter in ADAPTERS {
        let theirs = Theirs::start().await;
        let before = theirs.tabs().await;
        let dead = theirs.open("about:blank?dead").await;
        let data = data_folder();
        let folder = data.path().join("run/4194304-1-0/instances/0");
        fs::create_dir_all(&folder).unwrap();
        let apart = theirs.make_context().await;
        fs::write(folder.join("tabs"), format!("opened {dead}\nown {dead}\nown ABC\ncontext {apart}\n"))
            .unwrap();
        let users = theirs.make_context().await;
        let neighbour = adapter.engine(data.path(), at(theirs.url()));
        let living = neighbour.engine.start(InstanceId(0)).await.unwrap();
        let seat = living.open(Arc::new(NoAgent)).await.unwrap();
        assert_eq!(theirs.tabs().await.len(), before.len() + 2, "no greenroom has reaped yet");

        assert_eq!(run_folder::reap(data.path()).folders, 1);
        let house = adapter.engine(data.path(), at(theirs.url()));
        let instance = house.engine.start(InstanceId(0)).await.unwrap();
        let now = theirs.tabs().await;
        assert!(now.len() == before.len() + 1 && now.iter().all(|tab| tab.id != dead), "{now:?}");
        assert_eq!(theirs.contexts().await, [users], "only what is listed");
        assert_eq!(fs::read_dir(data.path().join("run/left")).unwrap().count(), 0);
        seat.close().await;
        living.stop(GRACE).await;
        instance.stop(GRACE).await;
        assert_eq!(theirs.tabs().await, before);
    }
}

/// A broken connection leaves no tab open for good: the next instance closes it.
#[tokio::test]
async fn what_is_lost_is_closed() {
    for adapter in ADAPTERS {
        let theirs = Theirs::start().await;
        let before = theirs.tabs().await;
        let data = data_folder();
        let door = Door::open(theirs.port(), &[]).await;
        let house = adapter.engine(data.path(), at(door.url()));
        let instance = house.engine.start(InstanceId(0)).await.unwrap();
        let seat = instance.open(Arc::new(NoAgent)).await.unwrap();
        // As an engine notes a tab that it made.
        let list = house.run.path().join("instances/0/tabs");
        let noted =
            fs::read_to_string(&list).unwrap() + &format!("context {}\n", theirs.make_context().await);
        fs::write(&list, noted).unwrap();
        door.cut();
        let lost = why(instance.lost()).await;
        assert!(matches!(lost, Lost::Browser { .. }), "{adapter:?}: {lost:?}");
        seat.close().await;
        instance.stop(GRACE).await;
        assert_eq!(theirs.tabs().await.len(), 2, "greenroom could not close it");
        let instance = house.engine.start(InstanceId(0)).await.unwrap();
        assert_eq!((theirs.tabs().await, theirs.contexts().await.len()), (before, 0));
        instance.stop(GRACE).await;
    }
}
