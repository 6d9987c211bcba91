//! What the ledger promises, case by case. `random.rs` tests the same in random orders of events.

use super::*;

fn ledger(strategy: Strategy, instances: usize, slots: usize) -> Ledger {
    let mut ledger = Ledger::new(strategy);
    for _ in 0..instances {
        let id = ledger.add(slots, false).unwrap();
        ledger.started(id);
    }
    ledger
}

fn elastic(instances: usize, slots: usize) -> Ledger {
    let mut ledger = Ledger::new(Strategy::Fill);
    for _ in 0..instances {
        ledger.add(slots, true).unwrap();
    }
    ledger
}

fn any(ledger: &mut Ledger) -> SlotAnswer {
    ledger.request(SlotRequest::any(&Owner::local()))
}

fn any_of(ledger: &mut Ledger, owner: &str) -> SlotAnswer {
    ledger.request(SlotRequest::any(&Owner::new(owner)))
}

fn keyed(ledger: &mut Ledger, id: u32) -> SlotAnswer {
    keyed_of(ledger, "local", id)
}

fn keyed_of(ledger: &mut Ledger, owner: &str, id: u32) -> SlotAnswer {
    ledger.request(SlotRequest::keyed(&Owner::new(owner), InstanceId(id)))
}

#[track_caller]
fn leased(asked: SlotAnswer) -> LeaseId {
    match asked {
        SlotAnswer::Leased(lease) => lease,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn waits(asked: SlotAnswer) -> WaiterId {
    let SlotAnswer::Wait(waiter) = asked else { panic!("{asked:?}") };
    waiter
}

#[track_caller]
fn release(ledger: &mut Ledger, lease: LeaseId) -> Option<Grant> {
    let mut granted = ledger.release(lease);
    assert!(granted.len() <= 1, "a slot for one waiter: {granted:?}");
    granted.pop()
}

fn takes(ledger: &mut Ledger, count: usize) -> Vec<u32> {
    (0..count).map(|_| leased(any(ledger)).instance.0).collect()
}

/// Slots are leased in the order of their return.
#[test]
fn fifo_leases_the_slot_returned_first() {
    let mut ledger = ledger(Strategy::Fifo, 4, 1);
    let leases: Vec<_> = (0..4).map(|_| leased(any(&mut ledger))).collect();
    for at in [2, 0, 3, 1] {
        release(&mut ledger, leases[at]);
    }
    assert_eq!(takes(&mut ledger, 4), [2, 0, 3, 1]);
}

/// Instances get their turn whatever the order of returned slots; an instance without room is passed over.
#[test]
fn round_robin_takes_instances_in_turn() {
    let mut ledger = ledger(Strategy::RoundRobin, 3, 1);
    let first = leased(any(&mut ledger));
    let second = leased(any(&mut ledger));
    release(&mut ledger, second);
    release(&mut ledger, first);
    assert_eq!(takes(&mut ledger, 3), [2, 0, 1]);
}

/// The instance with the fewest leases comes first; among equals, the one whose number of leases changed longest ago.
#[test]
fn least_used_takes_the_emptiest_instance() {
    let mut ledger = ledger(Strategy::LeastUsed, 3, 3);
    let on_0 = leased(keyed(&mut ledger, 0));
    assert_eq!(takes(&mut ledger, 5), [1, 2, 0, 1, 2]);
    release(&mut ledger, on_0);
    assert_eq!(takes(&mut ledger, 4), [0, 1, 2, 0]);
    assert_eq!(ledger.room(), 0);
}

/// A caller gets the slot that it had last, if that is free.
#[test]
fn sticky_gives_a_caller_its_last_slot() {
    let mut ledger = ledger(Strategy::Sticky, 3, 1);
    let as_caller = |ledger: &mut Ledger, caller| {
        leased(ledger.request(SlotRequest { caller: Some(caller), ..SlotRequest::any(&Owner::local()) }))
    };
    let one = as_caller(&mut ledger, 1);
    let two = as_caller(&mut ledger, 2);
    release(&mut ledger, one);
    release(&mut ledger, two);
    assert_eq!(as_caller(&mut ledger, 2).instance, two.instance);
    let elsewhere = as_caller(&mut ledger, 2);
    assert_ne!(elsewhere.instance, two.instance, "its own is taken, by itself");
    assert_eq!(as_caller(&mut ledger, 1).instance, one.instance);
}

/// A caller gets the slot that it prefers, if that slot is free.
#[test]
fn free_preferred_slot_is_leased() {
    let mut ledger = ledger(Strategy::Fifo, 2, 2);
    let prefer =
        |id, slot| SlotRequest { prefer: Some((InstanceId(id), slot)), ..SlotRequest::any(&Owner::local()) };
    let named = leased(ledger.request(prefer(1, 1)));
    assert_eq!((named.instance.0, named.slot), (1, 1));
    assert_eq!(leased(ledger.request(prefer(1, 1))).instance.0, 0, "it is taken");
    assert!(matches!(ledger.request(prefer(9, 9)), SlotAnswer::Leased(_)));
}

/// Instances are filled one after the other, started when all others are full, and no more are started than the waiters
/// need.
#[test]
fn instances_start_only_when_others_are_full() {
    let mut ledger = elastic(3, 2);
    let waiters = [waits(any(&mut ledger)), waits(any(&mut ledger))];
    assert_eq!((ledger.take_start(), ledger.take_start()), (Some(InstanceId(0)), None));
    let third = waits(any(&mut ledger));
    assert_eq!((ledger.take_start(), ledger.take_start()), (Some(InstanceId(1)), None));
    let granted: Vec<_> =
        ledger.started(InstanceId(0)).granted.iter().map(|grant| grant.waiter.clone()).collect();
    assert_eq!(granted, waiters);
    assert_eq!(ledger.started(InstanceId(1)).granted[0].waiter, third);
    assert_eq!(leased(any(&mut ledger)).instance.0, 1);
    assert_eq!(ledger.figures(), Figures { instances: 2, leased: 4, slots: 6, waiting: 0 });
}

/// No instance is started for a waiter that gave up before the start.
#[test]
fn departed_waiter_starts_no_instance() {
    let mut ledger = elastic(2, 1);
    let first = waits(any(&mut ledger));
    assert_eq!(ledger.take_start(), Some(InstanceId(0)));
    let second = waits(any(&mut ledger));
    assert_eq!(ledger.take_start(), Some(InstanceId(1)));
    ledger.remove_waiter(&first);
    ledger.remove_waiter(&second);
    ledger.lost(InstanceId(0), RestartOutlook::OnDemand);
    assert_eq!((ledger.take_start(), ledger.figures().waiting), (None, 0));
}

/// Waiters are served in order, a waiter that gave up is passed over, and newcomers do not overtake.
#[test]
fn waiters_are_served_in_order() {
    let mut ledger = ledger(Strategy::Fifo, 1, 1);
    let lease = leased(any(&mut ledger));
    let [first, second, third] = [0; 3].map(|_| waits(any(&mut ledger)));
    assert_eq!(
        [&first, &second, &third].map(|waiter| ledger.queue_position(waiter)),
        [Some(1), Some(2), Some(3)]
    );
    ledger.remove_waiter(&second);
    assert_eq!(ledger.queue_position(&third), Some(2));
    let grant = release(&mut ledger, lease).unwrap();
    assert_eq!(grant.waiter, first);
    let grant = release(&mut ledger, grant.lease).unwrap();
    assert_eq!(grant.waiter, third);
    assert_eq!(release(&mut ledger, grant.lease), None);
    leased(any(&mut ledger));
}

/// Of a waiter for this instance and a waiter for any slot, the earlier one is served first, both ways.
#[test]
fn keyed_and_unkeyed_waiters_are_served_in_order() {
    let mut ledger = ledger(Strategy::Fifo, 2, 1);
    let leases = [leased(any(&mut ledger)), leased(any(&mut ledger))];
    let wants_0 = waits(keyed(&mut ledger, 0));
    let takes_any = waits(any(&mut ledger));
    let wants_1 = waits(keyed(&mut ledger, 1));
    let takes_any_too = waits(any(&mut ledger));
    assert_eq!(ledger.queue_position(&wants_1), Some(2));
    let first = release(&mut ledger, leases[1]).unwrap();
    assert_eq!(first.waiter, takes_any, "it came before the one who wants this instance");
    let second = release(&mut ledger, leases[0]).unwrap();
    assert_eq!(second.waiter, wants_0);
    assert_eq!(release(&mut ledger, first.lease).unwrap().waiter, wants_1);
    assert_eq!(release(&mut ledger, second.lease).unwrap().waiter, takes_any_too);
}

/// A waiter whose slot turned out unusable is served before later ones.
#[test]
fn waiter_with_an_unusable_slot_is_served_first() {
    let mut ledger = ledger(Strategy::Fifo, 2, 1);
    let leases = [leased(any(&mut ledger)), leased(any(&mut ledger))];
    let [first, second] = [0; 2].map(|_| waits(any(&mut ledger)));
    assert_eq!(release(&mut ledger, leases[0]).unwrap().waiter, first);
    ledger.lost(InstanceId(0), RestartOutlook::Soon);
    assert_eq!(ledger.request_again(first.clone()), SlotAnswer::Wait(first.clone()));
    assert_eq!(release(&mut ledger, leases[1]).unwrap().waiter, first);
    assert_eq!(ledger.started(InstanceId(0)).granted[0].waiter, second);
}

/// An owner with a thousand waiters delays another owner's first waiter by no lease but those that are out, whatever
/// instance the waiters want; each owner's own waiters keep their order.
#[test]
fn owners_take_turns() {
    let mut ledger = ledger(Strategy::Fifo, 1, 1);
    let mut lease = leased(any_of(&mut ledger, "many"));
    let many: Vec<_> = (0..1_000)
        .map(|n| match n % 2 {
            0 => waits(any_of(&mut ledger, "many")),
            _ => waits(keyed_of(&mut ledger, "many", 0)),
        })
        .collect();
    let few = [waits(keyed_of(&mut ledger, "few", 0)), waits(any_of(&mut ledger, "few"))];
    let one = waits(any_of(&mut ledger, "one"));
    assert_eq!(few.each_ref().map(|waiter| ledger.queue_position(waiter)), [Some(1), Some(4)]);
    assert_eq!(ledger.queue_position(&many[999]), Some(1_003));
    let mut granted = Vec::new();
    while let Some(grant) = release(&mut ledger, lease) {
        granted.push(grant.waiter);
        lease = grant.lease;
    }
    let expected = [&few[0], &one, &many[0], &few[1], &many[1], &many[2], &many[3]];
    assert_eq!(granted.iter().take(7).collect::<Vec<_>>(), expected);
    assert_eq!(granted.len(), 1_003);
    assert!(granted.iter().filter(|waiter| waiter.owner == Owner::new("many")).is_sorted());
}

/// An owner that holds leases and asks for the next slot as soon as it has one gets no more turns than another owner.
#[test]
fn owner_that_asks_again_at_once_waits_for_its_turn() {
    let mut ledger = ledger(Strategy::Fifo, 1, 2);
    let mut leases = vec![leased(any_of(&mut ledger, "eager")), leased(any_of(&mut ledger, "eager"))];
    waits(any_of(&mut ledger, "eager"));
    (0..50).for_each(|_| drop(waits(any_of(&mut ledger, "patient"))));
    let mut turns = Vec::new();
    for _ in 0..20 {
        let grant = release(&mut ledger, leases.remove(0)).unwrap();
        if grant.waiter.owner == Owner::new("eager") {
            waits(any_of(&mut ledger, "eager"));
        }
        turns.push(grant.waiter.owner);
        leases.push(grant.lease);
    }
    assert_eq!(turns.iter().filter(|owner| **owner == Owner::new("patient")).count(), 10, "{turns:?}");
}

/// An instance that is gone leases nothing, its leases are void, and waiters that want only it are refused at once;
/// the others wait for another instance or for its return.
#[test]
fn dead_instance_leases_nothing() {
    let mut ledger = ledger(Strategy::Fifo, 1, 1);
    let lease = leased(any(&mut ledger));
    let wants_0 = waits(keyed(&mut ledger, 0));
    let takes_any = waits(any(&mut ledger));
    let changes = ledger.lost(InstanceId(0), RestartOutlook::Soon);
    assert_eq!(changes.refused, [(wants_0, LeaseRefused::Failed(InstanceId(0)))]);
    assert!(!ledger.is_valid(lease));
    assert_eq!(release(&mut ledger, lease), None);
    let blocks = waits(keyed(&mut ledger, 0));
    ledger.starting(InstanceId(0));
    let granted = ledger.started(InstanceId(0)).granted;
    assert_eq!(granted[0].waiter, takes_any);
    assert_eq!(release(&mut ledger, granted[0].lease).unwrap().waiter, blocks);
    assert_eq!(ledger.figures().leased, 1);
}

/// When no instance is left that could ever lease, all waiters are refused, and so are later callers.
#[test]
fn waiters_are_refused_when_no_instance_may_lease() {
    let mut ledger = ledger(Strategy::Fifo, 2, 1);
    takes(&mut ledger, 2);
    let waiter = waits(any(&mut ledger));
    assert_eq!(ledger.lost(InstanceId(0), RestartOutlook::None).refused, []);
    assert_eq!(
        ledger.lost(InstanceId(1), RestartOutlook::None).refused,
        [(waiter, LeaseRefused::NoInstanceLeases)]
    );
    assert_eq!(any(&mut ledger), SlotAnswer::Refused(LeaseRefused::NoInstanceLeases));
    assert_eq!(keyed(&mut ledger, 1), SlotAnswer::Refused(LeaseRefused::Failed(InstanceId(1))));
    assert_eq!(keyed(&mut ledger, 7), SlotAnswer::Refused(LeaseRefused::Gone(InstanceId(7))));
    ledger.starting(InstanceId(1));
    ledger.started(InstanceId(1));
    assert_eq!(leased(any(&mut ledger)).instance.0, 1);
}

/// Draining voids no lease: it ends when the last lease is back. A slot that comes back is not leased again.
#[test]
fn draining_keeps_leases_valid() {
    let mut ledger = ledger(Strategy::Fifo, 2, 2);
    let lease = leased(keyed(&mut ledger, 1));
    assert_eq!(ledger.drain(InstanceId(1), false), Changes::default());
    assert!(ledger.is_valid(lease));
    assert_eq!(takes(&mut ledger, 2), [0, 0]);
    assert_eq!(keyed(&mut ledger, 1), SlotAnswer::Refused(LeaseRefused::Draining(InstanceId(1))));
    let waiter = waits(any(&mut ledger));
    assert_eq!((release(&mut ledger, lease), ledger.taken(InstanceId(1))), (None, 0));
    assert_eq!(ledger.figures(), Figures { instances: 2, leased: 2, slots: 2, waiting: 1 });
    ledger.remove(InstanceId(1));
    assert_eq!(ledger.add(2, false), Some(InstanceId(1)), "its number is free again");
    assert_eq!(release(&mut ledger, lease), None, "a lease from before its restart is void");
    assert_eq!(ledger.started(InstanceId(1)).granted[0].waiter, waiter);
}

/// A draining instance that is needed after all leases its free slots again, first to waiters; its leases stay valid.
/// `reopen` does not open an instance that does not drain.
#[test]
fn draining_instance_can_be_reopened() {
    let mut ledger = ledger(Strategy::Fifo, 1, 2);
    let out = leased(any(&mut ledger));
    ledger.drain(InstanceId(0), true);
    let waiter = waits(any(&mut ledger));
    let Changes { granted, refused } = ledger.reopen(InstanceId(0));
    assert_eq!((granted.len(), &granted[0].waiter, refused.len()), (1, &waiter, 0));
    assert!(ledger.is_valid(out) && granted[0].lease.slot != out.slot);
    waits(any(&mut ledger));
    assert_eq!(release(&mut ledger, out).map(|grant| grant.lease.slot), Some(out.slot));
    assert_eq!(ledger.reopen(InstanceId(0)), Changes::default(), "it is open");
    ledger.lost(InstanceId(0), RestartOutlook::None);
    assert_eq!(ledger.reopen(InstanceId(0)), Changes::default());
    assert_eq!(any(&mut ledger), SlotAnswer::Refused(LeaseRefused::NoInstanceLeases));
}

/// An instance that did not answer leases nothing until it has answered; its leases stay valid, and another instance
/// serves the waiters that accept any slot.
#[test]
fn unresponsive_instance_leases_nothing() {
    let mut ledger = ledger(Strategy::LeastUsed, 2, 2);
    let kept = leased(keyed(&mut ledger, 0));
    ledger.withhold(InstanceId(0));
    assert!(ledger.is_withheld(InstanceId(0)) && ledger.is_valid(kept));
    assert_eq!(ledger.withheld().collect::<Vec<_>>(), [InstanceId(0)]);
    assert_eq!(takes(&mut ledger, 2), [1, 1]);
    let keyed_waiter = waits(keyed(&mut ledger, 0));
    let waiter = waits(any(&mut ledger));
    // The pool may still take a slot to close the idle seat in it, and no waiter gets the slot when it comes back.
    let cleared = ledger.take(InstanceId(0), 1 - kept.slot).unwrap();
    assert_eq!(ledger.take(InstanceId(0), 1 - kept.slot), None);
    assert_eq!(release(&mut ledger, cleared), None);
    assert_eq!(release(&mut ledger, kept), None);
    assert!(!ledger.retire(InstanceId(0)));
    let granted = ledger.responds_again(InstanceId(0)).granted;
    assert_eq!(granted.iter().map(|grant| &grant.waiter).collect::<Vec<_>>(), [&keyed_waiter, &waiter]);
    assert_eq!(ledger.responds_again(InstanceId(0)), Changes::default(), "it leases already");

    // An instance that was drained or lost meanwhile stays drained or lost when it answers.
    ledger.withhold(InstanceId(0));
    ledger.drain(InstanceId(0), true);
    assert!(ledger.is_valid(granted[0].lease));
    assert_eq!(ledger.responds_again(InstanceId(0)), Changes::default());
    ledger.lost(InstanceId(0), RestartOutlook::Soon);
    ledger.withhold(InstanceId(0));
    assert_eq!(ledger.responds_again(InstanceId(0)), Changes::default());
}

/// When the only running instance does not answer, a cold one is started.
#[test]
fn unresponsive_instance_makes_another_start() {
    let mut ledger = elastic(2, 1);
    waits(any(&mut ledger));
    let first = ledger.take_start().unwrap();
    let lease = ledger.started(first).granted[0].lease;
    ledger.withhold(first);
    assert_eq!((release(&mut ledger, lease), ledger.take_start()), (None, None), "there is no waiter");
    waits(any(&mut ledger));
    assert!(ledger.take_start().is_some_and(|second| second != first));
}

/// An instance without leases can be made cold again, an instance with a lease cannot.
#[test]
fn idle_instances_retire() {
    let mut ledger = elastic(1, 2);
    waits(any(&mut ledger));
    ledger.take_start();
    let lease = ledger.started(InstanceId(0)).granted[0].lease;
    assert!(!ledger.retire(InstanceId(0)), "it is leased");
    release(&mut ledger, lease);
    assert!(ledger.retire(InstanceId(0)));
    waits(any(&mut ledger));
    assert_eq!(ledger.take_start(), Some(InstanceId(0)));
}

/// Internal use takes free slots that suit, with `Fill` in the lowest instance first. It makes no caller wait, may
/// start an instance, and does not count as leased.
#[test]
fn internal_use_makes_no_caller_wait() {
    let mut ledger = elastic(2, 1);
    assert_eq!(ledger.take_spare(|_, _| true), InternalSlot::Soon);
    assert_eq!(
        (ledger.take_start(), ledger.take_spare(|_, _| true)),
        (Some(InstanceId(0)), InternalSlot::Soon)
    );
    ledger.started(InstanceId(0));
    assert_eq!(ledger.take_spare(|_, _| false), InternalSlot::Soon, "another instance is started");
    let InternalSlot::Slot(spare) = ledger.take_spare(|_, _| true) else { panic!("a slot is free") };
    assert_eq!((ledger.figures().leased, ledger.taken(InstanceId(0))), (0, 1));
    let waiter = waits(any(&mut ledger));
    assert_eq!(ledger.take_spare(|_, _| true), InternalSlot::NoRoom);
    assert_eq!(release(&mut ledger, spare).unwrap().waiter, waiter);
    assert_eq!(ledger.take(InstanceId(0), 0), None);
}
