//! Single-threaded tests of the queues: order, bounds, overflow, refill.

use std::{collections::VecDeque, vec::Vec};

use proptest::{prelude::*, test_runner::RngSeed};

use super::{Links, List, LocalQueue, RING_CAPACITY, Ring, RingFull, WorkerQueues};
use crate::Task;

fn numbers(next: impl FnMut() -> Option<Task>) -> Vec<u32> {
    core::iter::from_fn(next).map(|task| task.0).collect()
}

#[test]
fn ring_refuses_what_does_not_fit() {
    let ring = Ring::<4>::new();
    // Several times around, so that every slot is used again.
    for round in 0..10 {
        for i in 0..4 {
            ring.push(Task(round * 4 + i)).unwrap();
        }
        assert_eq!(ring.push(Task(99)), Err(RingFull(Task(99))));
        assert_eq!((ring.len(), ring.is_empty()), (4, false));
        assert_eq!(ring.peek(), Some(Task(round * 4)));
        let expected: Vec<_> = (round * 4..round * 4 + 4).collect();
        let pop = if round % 2 == 0 { Ring::pop } else { Ring::pop_alone };
        assert_eq!(numbers(|| pop(&ring)), expected);
        assert_eq!((ring.len(), ring.is_empty(), ring.peek()), (0, true, None));
    }
}

#[test]
fn stealing_takes_the_older_half_rounded_up() {
    for (waiting, taken) in [(0, 0), (1, 1), (2, 1), (3, 2), (7, 4), (8, 4)] {
        let (victim, thief) = (Ring::<8>::new(), Ring::<8>::new());
        (0..waiting).for_each(|i| victim.push(Task(i)).unwrap());
        let mut got: Vec<u32> = Vec::new();
        got.extend(victim.steal_into(&thief).map(|task| task.0));
        got.extend(numbers(|| thief.pop()));
        assert_eq!(got, (0..taken).collect::<Vec<_>>());
        assert_eq!(numbers(|| victim.pop()), (taken..waiting).collect::<Vec<_>>());
    }
}

#[test]
fn stealing_takes_no_more_than_the_thief_has_room_for() {
    let (victim, thief) = (Ring::<8>::new(), Ring::<8>::new());
    (0..8).for_each(|i| victim.push(Task(i)).unwrap());
    (10..17).for_each(|i| thief.push(Task(i)).unwrap());
    assert_eq!(victim.steal_into(&thief), Some(Task(0)));
    assert_eq!(victim.steal_into(&thief), Some(Task(2)));
    assert_eq!(numbers(|| thief.pop()), [10, 11, 12, 13, 14, 15, 16, 1], "room for one only");
    assert_eq!(numbers(|| victim.pop()), [3, 4, 5, 6, 7]);
}

#[test]
fn a_task_is_taken_out_of_a_list_wherever_it_is() {
    let (links, list) = (Links::new(6), List::new());
    assert!(!list.remove(&links, Task(0)));
    for out in 0..5 {
        (0..5).for_each(|i| list.push(&links, Task(i)));
        assert!(!list.remove(&links, Task(5)));
        assert!(list.remove(&links, Task(out)));
        assert!(!list.remove(&links, Task(out)));
        list.push(&links, Task(5));
        assert_eq!(list.len(), 5);
        let expected: Vec<_> = (0..6).filter(|&i| i != out).collect();
        assert_eq!(numbers(|| list.pop(&links)), expected);
    }
}

#[test]
fn list_is_fifo_and_can_be_used_again_after_running_empty() {
    let (links, list) = (Links::new(5), List::new());
    for _ in 0..3 {
        [3, 0, 4, 1].iter().for_each(|&i| list.push(&links, Task(i)));
        assert_eq!(list.pop(&links), Some(Task(3)));
        [3, 2].iter().for_each(|&i| list.push(&links, Task(i)));
        assert_eq!(list.len(), 5);
        assert_eq!(numbers(|| list.pop(&links)), [0, 4, 1, 3, 2]);
        assert!(list.is_empty());
    }
}

#[test]
fn lists_share_a_table_of_links() {
    let links = Links::new(6);
    let lists = [List::new(), List::new()];
    (0..6).for_each(|i| lists[i as usize % 2].push(&links, Task(i)));
    // A task may go from one list to the other.
    let moved = lists[0].pop(&links).unwrap();
    lists[1].push(&links, moved);
    assert_eq!(numbers(|| lists[0].pop(&links)), [2, 4]);
    assert_eq!(numbers(|| lists[1].pop(&links)), [1, 3, 5, 0]);
}

#[test]
fn a_task_outside_the_table_leaves_the_list_usable() {
    let (links, list) = (Links::new(2), List::new());
    let push = || list.push(&links, Task(2));
    assert!(std::panic::catch_unwind(core::panic::AssertUnwindSafe(push)).is_err());
    list.push(&links, Task(1));
    assert_eq!(numbers(|| list.pop(&links)), [1]);
}

#[test]
fn local_queue_steals_from_overflow_when_the_ring_is_empty() {
    let links = Links::new(20);
    let (victim, thief) = (LocalQueue::<4>::new(), LocalQueue::<4>::new());
    (0..14).for_each(|i| victim.push(&links, Task(i)));
    for _ in 0..3 {
        victim.steal_into(&links, &LocalQueue::new()).unwrap();
    }
    // Ten in the list: half would be five, one to run and four that just fit.
    assert_eq!(victim.steal_into(&links, &thief), Some(Task(4)));
    assert_eq!(numbers(|| thief.pop(&links)), [5, 6, 7, 8]);
    assert_eq!(victim.len(), 5);
    assert_eq!(victim.peek(&links), Some(Task(9)), "peek looks into the list too");
    assert_eq!(numbers(|| victim.pop(&links)), [9, 10, 11, 12, 13]);
}

#[test]
fn victims_are_visited_in_varying_order_and_none_is_forgotten() {
    let links = Links::new(8);
    let queues = WorkerQueues::<4>::new(8);
    let mut first = std::collections::BTreeSet::new();
    for _ in 0..200 {
        (1..8).for_each(|w| queues.push(w, &links, Task(w as u32)));
        let stolen = numbers(|| queues.steal(0, &links));
        assert_eq!(stolen.len(), 7);
        assert!(!queues.any_waiting());
        first.insert(stolen[0]);
    }
    assert_eq!(first.len(), 7, "every victim comes first sometimes");
}

#[test]
fn any_waiting_sees_every_queue() {
    let links = Links::new(4);
    let queues = WorkerQueues::<4>::new(4);
    for worker in 0..4 {
        assert!(!queues.any_waiting());
        queues.push(worker, &links, Task(0));
        assert!(queues.any_waiting());
        assert_eq!((queues.len(worker), queues.total()), (1, 1));
        assert!(!queues.is_empty(worker));
        assert_eq!(queues.peek(worker, &links), Some(Task(0)));
        queues.pop(worker, &links);
    }
}

/// The worker's queue of the built-in policies overflows in earnest, not only with a tiny ring.
#[test]
fn order_holds_far_beyond_the_capacity_of_the_ring() {
    let tasks = 10 * RING_CAPACITY as u32;
    let (links, queue) = (Links::new(tasks), LocalQueue::<RING_CAPACITY>::new());
    (0..tasks).for_each(|i| queue.push(&links, Task(i)));
    let half = numbers(|| queue.pop(&links).filter(|task| task.0 < tasks / 2));
    assert_eq!(half, (0..tasks / 2).collect::<Vec<_>>());
    // The task at which the filter stopped is gone; the first half goes to the tail again.
    (0..tasks / 2).for_each(|i| queue.push(&links, Task(i)));
    let rest: Vec<_> = (tasks / 2 + 1..tasks).chain(0..tasks / 2).collect();
    assert_eq!(numbers(|| queue.pop(&links)), rest);
}

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// A local queue is a FIFO queue, whatever is in ring and list, while thieves take from its
    /// head.
    #[test]
    fn local_queue_is_a_fifo(steps in prop::collection::vec(0..10u8, 1..400)) {
        let links = Links::new(400);
        let (queue, thief) = (LocalQueue::<4>::new(), LocalQueue::<4>::new());
        let mut model = VecDeque::new();
        let mut next = 0;
        for step in steps {
            match step {
                0..=5 => {
                    queue.push(&links, Task(next));
                    model.push_back(next);
                    next += 1;
                }
                6..=7 => prop_assert_eq!(queue.pop(&links).map(|t| t.0), model.pop_front()),
                8 => prop_assert_eq!(queue.peek(&links).map(|t| t.0), model.front().copied()),
                _ => {
                    let before = queue.len();
                    let mut stolen = Vec::new();
                    stolen.extend(queue.steal_into(&links, &thief).map(|t| t.0));
                    stolen.extend(numbers(|| thief.pop(&links)));
                    prop_assert!(stolen.len() <= before.div_ceil(2));
                    prop_assert_eq!(stolen.is_empty(), before == 0);
                    for task in stolen {
                        prop_assert_eq!(Some(task), model.pop_front());
                    }
                }
            }
            prop_assert_eq!(queue.len(), model.len());
            prop_assert_eq!(queue.is_empty(), model.is_empty());
        }
        prop_assert_eq!(numbers(|| queue.pop(&links)), Vec::from(model));
    }
}
