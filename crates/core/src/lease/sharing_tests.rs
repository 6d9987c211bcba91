//! Owners that share no instance, case by case. `random.rs` tests the same in random orders of events.

use super::*;

/// Running instances with this many slots each, for one owner each.
fn ledger(instances: usize, slots: usize) -> Ledger {
    let mut ledger = Ledger::new(Strategy::Fifo);
    ledger.set_sharing(Sharing::OneOwner);
    for _ in 0..instances {
        let id = ledger.add(slots, false).unwrap();
        ledger.started(id);
    }
    ledger
}

fn ask(ledger: &mut Ledger, owner: &str) -> SlotAnswer {
    ledger.request(SlotRequest::any(&Owner::new(owner)))
}

#[track_caller]
fn leased(ledger: &mut Ledger, owner: &str) -> LeaseId {
    match ask(ledger, owner) {
        SlotAnswer::Leased(lease) => lease,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn waits(ledger: &mut Ledger, owner: &str) -> WaiterId {
    match ask(ledger, owner) {
        SlotAnswer::Wait(waiter) => waiter,
        other => panic!("{other:?}"),
    }
}

fn waiters(granted: Vec<Grant>) -> Vec<WaiterId> {
    granted.into_iter().map(|grant| grant.waiter).collect()
}

/// Restarts a cleared instance, as its supervisor does.
#[track_caller]
fn restart(ledger: &mut Ledger, id: u32) -> Vec<Grant> {
    assert!(ledger.recycle(InstanceId(id)), "instance {id} is not to be restarted");
    ledger.started(InstanceId(id)).granted
}

/// An instance that one owner uses gives no slot to another, and no new slot to the first while the other waits. When the
/// last lease is back it is restarted, and serves the other owner.
#[test]
fn instance_serves_one_owner_at_a_time() {
    let mut ledger = ledger(1, 16);
    let kept = leased(&mut ledger, "a");
    let short = leased(&mut ledger, "a");
    let b = waits(&mut ledger, "b");
    let late = waits(&mut ledger, "a");
    assert_eq!(ledger.release(short), [], "the slot is free, and nobody gets it");
    assert!(!ledger.recycle(InstanceId(0)), "a lease is out");
    assert!(ledger.is_valid(kept));
    assert_eq!(ledger.release(kept), []);
    let granted = restart(&mut ledger, 0);
    assert_eq!((granted.len(), &granted[0].waiter), (1, &b));
    // Now the first owner waits, and the second gets no more.
    waits(&mut ledger, "b");
    ledger.release(granted[0].lease);
    assert_eq!(waiters(restart(&mut ledger, 0)), [late]);
}

/// An owner's instance that is not in use is restarted at once for another owner; an instance that never held a lease
/// needs no restart, also if it has a spare.
#[test]
fn unused_instances_change_owners() {
    let mut ledger = ledger(2, 1);
    let InternalSlot::Slot(spare) = ledger.take_spare(|_, _| true) else { panic!("a slot is free") };
    ledger.release(spare);
    let a = leased(&mut ledger, "a");
    let b = leased(&mut ledger, "b");
    assert_ne!(a.instance, b.instance);
    assert_eq!(ledger.take_cleared(), None);
    ledger.release(a);
    let c = waits(&mut ledger, "c");
    assert_eq!((ledger.take_cleared(), ledger.take_cleared()), (Some(a.instance), None));
    assert_eq!(waiters(restart(&mut ledger, a.instance.0)), [c]);
}

/// A cold instance is started for a new owner, though the first one's instance has free slots; none is started for an owner
/// whose own instance has room, and none is cleared while one can be started.
#[test]
fn cold_instance_starts_for_another_owner() {
    let mut ledger = Ledger::new(Strategy::Fill);
    ledger.set_sharing(Sharing::OneOwner);
    for _ in 0..3 {
        ledger.add(2, true).unwrap();
    }
    let waiting = [waits(&mut ledger, "a"), waits(&mut ledger, "b"), waits(&mut ledger, "b")];
    assert_eq!([0; 3].map(|_| ledger.take_start()), [Some(InstanceId(0)), Some(InstanceId(1)), None]);
    assert_eq!(waiters(ledger.started(InstanceId(0)).granted), waiting[..1]);
    assert_eq!(waiters(ledger.started(InstanceId(1)).granted), waiting[1..]);
    assert_eq!(leased(&mut ledger, "a").instance, InstanceId(0));
    assert_eq!((ledger.take_start(), ledger.take_cleared()), (None, None));
    let c = waits(&mut ledger, "c");
    assert_eq!(ledger.take_start(), Some(InstanceId(2)));
    assert_eq!(waiters(ledger.started(InstanceId(2)).granted), [c]);
}

/// When the owner that waits gives up, the instance serves its own owner again, waiters first.
#[test]
fn clearing_ends_with_the_last_foreign_waiter() {
    let mut ledger = ledger(1, 2);
    let kept = leased(&mut ledger, "a");
    let [b, c] = [waits(&mut ledger, "b"), waits(&mut ledger, "c")];
    let late = waits(&mut ledger, "a");
    assert_eq!(ledger.remove_waiter(&b), [], "another owner still waits");
    assert_eq!(waiters(ledger.remove_waiter(&c)), [late]);
    assert!(ledger.is_valid(kept) && !ledger.recycle(InstanceId(0)));
}

/// An instance that becomes empty is restarted for the waiting owner, rather than the one that was being cleared.
#[test]
fn first_empty_instance_is_restarted() {
    let mut ledger = ledger(2, 1);
    let leases = [leased(&mut ledger, "a"), leased(&mut ledger, "a")];
    let b = waits(&mut ledger, "b");
    assert_eq!(ledger.clearing.iter().copied().collect::<Vec<_>>(), [0]);
    assert_eq!(ledger.release(leases[1]), []);
    assert_eq!(ledger.clearing.iter().copied().collect::<Vec<_>>(), [1]);
    assert_eq!(waiters(restart(&mut ledger, 1)), [b]);
    waits(&mut ledger, "a");
    assert!(ledger.clearing.is_empty(), "each owner has one");
    assert_eq!(ledger.release(leases[0]).len(), 1, "the first owner goes on in its own");
}

/// Two owners that want everything end up with as many instances each, and then take none from each other.
#[test]
fn owners_share_the_instances_evenly() {
    let mut ledger = ledger(6, 1);
    let leases: Vec<_> = (0..6).map(|_| leased(&mut ledger, "a")).collect();
    let wants: Vec<_> = (0..10).map(|_| waits(&mut ledger, "b")).collect();
    (0..10).for_each(|_| drop(waits(&mut ledger, "a")));
    assert_eq!(ledger.clearing.len(), 3);
    let cleared: Vec<_> = ledger.clearing.iter().copied().collect();
    let mut held = Vec::new();
    for at in cleared {
        assert_eq!(ledger.release(leases[at]), []);
        held.extend(restart(&mut ledger, u32::try_from(at).unwrap()));
    }
    assert_eq!(
        held.iter().map(|grant| &grant.waiter).collect::<Vec<_>>(),
        wants[..3].iter().collect::<Vec<_>>()
    );
    assert!(ledger.clearing.is_empty());
    for grant in held {
        assert_eq!(waiters(ledger.release(grant.lease))[0].owner, Owner::new("b"));
    }
}

/// A caller that wants one instance gets that one, after its restart; it takes no other.
#[test]
fn named_instance_is_cleared_for_its_waiter() {
    let mut ledger = ledger(2, 1);
    let a = leased(&mut ledger, "a");
    let b = SlotRequest::keyed(&Owner::new("b"), a.instance);
    let SlotAnswer::Wait(waiter) = ledger.request(b) else { panic!("another owner has it") };
    assert_eq!(ledger.release(a), []);
    assert_eq!(waiters(restart(&mut ledger, a.instance.0)), [waiter]);
}

/// Owners that shared an instance when the setting changed keep their leases; the instance serves neither until it is
/// restarted. With the setting changed back, waiters are served at once.
#[test]
fn sharing_can_change_while_slots_are_leased() {
    let mut ledger = ledger(1, 4);
    ledger.set_sharing(Sharing::All);
    let leases = [leased(&mut ledger, "a"), leased(&mut ledger, "b")];
    ledger.set_sharing(Sharing::OneOwner);
    let [a, b] = [waits(&mut ledger, "a"), waits(&mut ledger, "b")];
    assert!(leases.iter().all(|lease| ledger.is_valid(*lease)));
    assert_eq!(waiters(ledger.set_sharing(Sharing::All).granted), [a, b]);
    ledger.set_sharing(Sharing::OneOwner);
    waits(&mut ledger, "a");
    assert_eq!(ledger.release(leases[0]), []);
    assert_eq!(ledger.release(leases[1]), []);
    assert!(!ledger.recycle(InstanceId(0)), "two leases are out");
}
