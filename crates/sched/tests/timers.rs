//! The timer heap against a sorted map.

use std::{collections::BTreeMap, sync::Arc};

use proptest::{prelude::*, test_runner::RngSeed};
use quaver_sched::{Task, Time, TimerHeap, TimerRoom, TimerTable};

const TASKS: u32 = 40;

fn heaps<const N: usize>() -> (Arc<TimerTable>, [TimerHeap; N]) {
    let table = Arc::new(TimerTable::new(TASKS));
    let heaps = core::array::from_fn(|id| TimerHeap::new(id as u32, table.clone()));
    (table, heaps)
}

#[test]
fn expire_in_order_of_time_then_of_insertion() {
    let (_, [mut heap]) = heaps();
    for (task, at) in [(0, 50), (1, 10), (2, 50), (3, 10), (4, 20)] {
        heap.insert(Task(task), at);
    }
    assert_eq!((heap.len(), heap.peek()), (5, Some(10)));
    assert_eq!(heap.pop_expired(9), None);
    let expired = |heap: &mut TimerHeap, now| {
        let next = || heap.pop_expired(now);
        std::iter::from_fn(next).map(|t| t.0).collect::<Vec<_>>()
    };
    assert_eq!(expired(&mut heap, 10), [1, 3]);
    assert_eq!(expired(&mut heap, Time::MAX), [4, 0, 2]);
    assert_eq!((heap.is_empty(), heap.peek()), (true, None));
}

#[test]
fn inserting_again_moves_the_timer() {
    let (_, [mut heap]) = heaps();
    heap.insert(Task(1), 10);
    heap.insert(Task(2), 20);
    heap.insert(Task(1), 30);
    assert_eq!(heap.len(), 2);
    assert_eq!(heap.pop_expired(40), Some(Task(2)));
    assert_eq!(heap.pop_expired(40), Some(Task(1)));
    assert_eq!(heap.pop_expired(40), None);
}

#[test]
fn heaps_share_a_table() {
    let (table, [mut a, mut b]) = heaps();
    a.insert(Task(1), 10);
    b.insert(Task(2), 10);
    assert_eq!(table.heap_of(Task(1)), Some(0));
    assert_eq!(table.heap_of(Task(2)), Some(1));
    assert_eq!(table.heap_of(Task(3)), None);
    assert!(!b.cancel(Task(1)), "it is in the other heap");
    assert!(a.cancel(Task(1)));
    assert!(!a.cancel(Task(1)), "only once");
    b.insert(Task(1), 5);
    assert_eq!(table.heap_of(Task(1)), Some(1));
    assert_eq!(b.pop_expired(5), Some(Task(1)));
    assert_eq!(table.heap_of(Task(1)), None);
    drop(b);
    assert_eq!(table.heap_of(Task(2)), None);
}

#[test]
#[should_panic = "Task(1) has a timer in heap 0"]
fn a_task_has_one_timer_in_all_heaps() {
    let (_, [mut a, mut b]) = heaps();
    a.insert(Task(1), 10);
    b.insert(Task(1), 10);
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u32, Time),
    Cancel(u32),
    Expire(Time),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..TASKS, 0..100u64).prop_map(|(task, at)| Step::Insert(task, at)),
        2 => (0..TASKS).prop_map(Step::Cancel),
        1 => (0..100u64).prop_map(Step::Expire),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Two heaps do what two sorted maps from (time, order of insertion) to task do.
    #[test]
    fn like_a_sorted_map(steps in prop::collection::vec((0..2usize, step()), 1..300)) {
        let (table, mut heaps) = heaps::<2>();
        let mut models: [BTreeMap<(Time, usize), u32>; 2] = Default::default();
        let find = |model: &BTreeMap<_, u32>, task| {
            model.iter().find(|entry| *entry.1 == task).map(|(&key, _)| key)
        };
        for (seq, (at_heap, step)) in steps.into_iter().enumerate() {
            let (heap, model) = (&mut heaps[at_heap], &mut models[at_heap]);
            match step {
                Step::Insert(task, at) => {
                    // In the other heap it would be a mistake of the host.
                    if table.heap_of(Task(task)) != Some(1 - at_heap as u32) {
                        heap.insert(Task(task), at);
                        if let Some(key) = find(model, task) {
                            model.remove(&key);
                        }
                        model.insert((at, seq), task);
                    }
                }
                Step::Cancel(task) => {
                    let key = find(model, task);
                    prop_assert_eq!(heap.cancel(Task(task)), key.is_some());
                    key.map(|key| model.remove(&key));
                }
                Step::Expire(now) => {
                    while let Some(entry) = model.first_entry().filter(|e| e.key().0 <= now) {
                        prop_assert_eq!(heap.pop_expired(now), Some(Task(entry.remove())));
                    }
                    prop_assert_eq!(heap.pop_expired(now), None);
                }
            }
            prop_assert_eq!(heap.len(), model.len());
            prop_assert_eq!(heap.peek(), model.keys().next().map(|key| key.0));
            for task in 0..TASKS {
                let owner = (0..2).find(|&i| find(&models[i], task).is_some());
                prop_assert_eq!(table.heap_of(Task(task)), owner.map(|i| i as u32));
            }
        }
    }
}

#[test]
fn room_made_outside_is_used_and_nothing_is_lost() {
    let mut heap = TimerHeap::new(0, Arc::new(TimerTable::new(1000)));
    for i in 0..200 {
        if let Some(n) = heap.room_wanted() {
            heap.exchange_room(TimerRoom::new(n));
        }
        assert_eq!(heap.room_wanted(), None);
        heap.insert(Task(i), Time::from(200 - i));
    }
    // Too small: refused.
    heap.exchange_room(TimerRoom::new(1));
    for i in (0..200).rev() {
        assert_eq!(heap.pop_expired(1000), Some(Task(i)));
    }
}
