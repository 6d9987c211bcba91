//! Reading while no process writes.

use greenroom_core::{Owner, Records as _};
use greenroom_store::Store;

use crate::kit::{folder, open, request, session, soon};

/// Records can be read when their writer has ended, nothing can be written, and a folder without records has none.
#[tokio::test]
async fn records_can_be_read_without_a_writer() {
    let folder = folder();
    let owner = Owner::local();
    assert!(Store::open_read_only(folder.path()).is_none());
    let store = open(folder.path());
    let begun = request(&owner, Some(&session("shop")));
    soon(store.begin(begun.clone())).await.unwrap();
    soon(store.close()).await;
    drop(store);

    let reader = Store::open_read_only(folder.path()).unwrap();
    let record = soon(reader.record(&owner, &begun.ref_id)).await.unwrap().unwrap();
    assert_eq!(record.summary.ref_id, begun.ref_id);
    let row = soon(reader.session(&owner, "shop")).await.unwrap().unwrap();
    let part = soon(reader.timeline(&owner, &row.session.uid, 0, 9)).await.unwrap();
    assert_eq!(part.events.len(), 1);
    assert!(soon(reader.begin(request(&owner, None))).await.is_err());
    soon(reader.close()).await;
}
