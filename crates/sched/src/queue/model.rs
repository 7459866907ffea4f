//! Models of the queues for loom: every interleaving of a few operations, under the C11 memory
//! model.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p quaver-sched --release --lib`.

use alloc::{vec, vec::Vec};

use loom::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::*, fence},
    },
    thread,
};

use super::{Links, List, LocalQueue, Ring, RingFull, WorkerQueues};
use crate::Task;

/// Everybody's takings together are the tasks `0..n`, each once; each one's takings are in the
/// order of enqueueing.
fn assert_shared_out(takings: &[Vec<u32>], n: u32) {
    for taken in takings {
        assert!(taken.is_sorted(), "{taken:?} out of order");
    }
    let mut all = takings.concat();
    all.sort_unstable();
    assert_eq!(all, (0..n).collect::<Vec<_>>());
}

/// For models with too many interleavings: those in which threads are interrupted at most five
/// times.
fn bounded(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(5);
    builder.check(model);
}

fn drain<const N: usize>(ring: &Ring<N>) -> Vec<u32> {
    core::iter::from_fn(|| ring.pop()).map(|t| t.0).collect()
}

/// Steal once into a ring of one's own and take everything out of that.
fn rob<const N: usize>(victim: &Ring<N>) -> Vec<u32> {
    let mine = Ring::new();
    let oldest = victim.steal_into(&mine).map(|task| task.0);
    let mut taken: Vec<u32> = oldest.into_iter().collect();
    taken.extend(drain(&mine));
    taken
}

/// The owner takes, wraps around and takes on, while a thief steals. What the thief reads are whole
/// entries that the owner does not write over in the meantime.
#[test]
fn ring_owner_and_thief() {
    loom::model(|| {
        let ring = Arc::new(Ring::<2>::new());
        (0..2).for_each(|task| ring.push(Task(task)).unwrap());
        let victim = ring.clone();
        let thief = thread::spawn(move || rob(&victim));
        let mut mine: Vec<u32> = ring.pop().into_iter().map(|t| t.0).collect();
        // Whether or not the thief was faster, there is room now.
        ring.push(Task(2)).unwrap();
        mine.extend(drain(&ring));
        let theirs = thief.join().unwrap();
        assert_shared_out(&[mine, theirs], 3);
    });
}

/// The owner finds the ring full, or not, depending on the thief; the slot that the thief has
/// emptied is used again.
#[test]
fn ring_full() {
    loom::model(|| {
        let ring = Arc::new(Ring::<2>::new());
        (0..2).for_each(|task| ring.push(Task(task)).unwrap());
        let victim = ring.clone();
        let thief = thread::spawn(move || victim.steal_into(&Ring::new()));
        let pushed = ring.push(Task(2));
        assert_eq!(thief.join().unwrap(), Some(Task(0)));
        let left = drain(&ring);
        match pushed {
            Ok(()) => assert_eq!(left, [1, 2]),
            Err(RingFull(task)) => assert_eq!((task, left), (Task(2), vec![1])),
        }
    });
}

/// Two thieves and the owner want the same three tasks.
#[test]
fn ring_two_thieves() {
    bounded(|| {
        let ring = Arc::new(Ring::<4>::new());
        (0..3).for_each(|task| ring.push(Task(task)).unwrap());
        let thieves = [0, 1].map(|_| {
            let victim = ring.clone();
            thread::spawn(move || rob(&victim))
        });
        let mine: Vec<u32> = ring.pop().into_iter().map(|t| t.0).collect();
        let [a, b] = thieves.map(|thief| thief.join().unwrap());
        let rest = drain(&ring);
        assert_shared_out(&[mine, a, b, rest], 3);
    });
}

/// What the owner has pushed is seen by somebody who knows that it has, and `is_empty` is never
/// wrong about it.
#[test]
fn ring_push_is_seen() {
    loom::model(|| {
        let ring = Arc::new(Ring::<2>::new());
        let pushed = Arc::new(AtomicBool::new(false));
        let (ring2, pushed2) = (ring.clone(), pushed.clone());
        let observer = thread::spawn(move || {
            if pushed2.load(Acquire) {
                assert!(!ring2.is_empty());
                assert!(ring2.len() == 1);
            }
        });
        ring.push(Task(0)).unwrap();
        assert_eq!(ring.pop(), Some(Task(0)));
        ring.push(Task(1)).unwrap();
        pushed.store(true, Release);
        observer.join().unwrap();
    });
}

/// A task carries what its enqueuer wrote before, to whoever takes it, by stealing too.
#[test]
fn ring_publishes() {
    loom::model(|| {
        let ring = Arc::new(Ring::<2>::new());
        let content = Arc::new(AtomicU32::new(0));
        let (victim, content2) = (ring.clone(), content.clone());
        let thief = thread::spawn(move || {
            if let Some(Task(_)) = victim.steal_into(&Ring::new()) {
                assert_eq!(content2.load(Relaxed), 7);
            }
        });
        content.store(7, Relaxed);
        ring.push(Task(0)).unwrap();
        thief.join().unwrap();
    });
}

/// Two enqueuers and a taker on one list: nothing is lost or doubled, and each enqueuer's tasks
/// come in its order.
#[test]
fn list_shared_by_three() {
    loom::model(|| {
        let links = Arc::new(Links::new(3));
        let list = Arc::new(List::new());
        let enqueuers = [vec![0, 1], vec![2]].map(|tasks| {
            let (links, list) = (links.clone(), list.clone());
            thread::spawn(move || tasks.into_iter().for_each(|t| list.push(&links, Task(t))))
        });
        let mut taken: Vec<u32> = list.pop(&links).into_iter().map(|t| t.0).collect();
        enqueuers.into_iter().for_each(|enqueuer| enqueuer.join().unwrap());
        taken.extend(core::iter::from_fn(|| list.pop(&links)).map(|t| t.0));
        assert!(list.is_empty());
        let place = |task| taken.iter().position(|&t| t == task).unwrap();
        assert!(taken.len() == 3 && place(0) < place(1) && place(2) < 3);
    });
}

/// Owner and thief on a queue whose ring overflows: order holds across ring and list for both.
#[test]
fn local_queue_with_overflow() {
    bounded(|| {
        let links = Arc::new(Links::new(4));
        let queue = Arc::new(LocalQueue::<2>::new());
        let (links2, victim) = (links.clone(), queue.clone());
        (0..3).for_each(|task| queue.push(&links, Task(task)));
        let thief = thread::spawn(move || {
            let mine = LocalQueue::new();
            let oldest = victim.steal_into(&links2, &mine);
            let rest = core::iter::from_fn(|| mine.pop(&links2));
            let taken: Vec<u32> = oldest.into_iter().chain(rest).map(|t| t.0).collect();
            taken
        });
        let mut mine: Vec<u32> = queue.pop(&links).into_iter().map(|t| t.0).collect();
        queue.push(&links, Task(3));
        mine.extend(core::iter::from_fn(|| queue.pop(&links)).map(|t| t.0));
        let theirs = thief.join().unwrap();
        assert_shared_out(&[mine, theirs], 4);
    });
}

/// Refilling the ring from the list hides no task from an observer.
#[test]
fn refill_hides_nothing() {
    loom::model(|| {
        let links = Arc::new(Links::new(4));
        let queue = Arc::new(LocalQueue::<2>::new());
        (0..4).for_each(|task| queue.push(&links, Task(task)));
        assert!(queue.pop(&links).is_some() && queue.pop(&links).is_some());
        // Two tasks in the list, none in the ring; the owner takes one, the other is never taken.
        let observed = queue.clone();
        let observer = thread::spawn(move || assert!(!observed.is_empty()));
        assert_eq!(queue.pop(&links), Some(Task(2)));
        observer.join().unwrap();
    });
}

/// An observer always sees the task that a thief keeps in its own queue, wherever it is on its way
/// there.
#[test]
fn stealing_hides_nothing() {
    loom::model(|| {
        let links = Arc::new(Links::new(3));
        let queues = Arc::new(WorkerQueues::<4>::new(2));
        (0..3).for_each(|task| queues.push(0, &links, Task(task)));
        // Of three tasks the thief takes two and the owner one. Whoever is first: one task stays
        // that nobody runs.
        let (queues1, links1) = (queues.clone(), links.clone());
        let thief = thread::spawn(move || queues1.steal(1, &links1));
        let queues2 = queues.clone();
        let observer = thread::spawn(move || assert!(queues2.any_waiting()));
        assert!(queues.pop(0, &links).is_some());
        assert!(thief.join().unwrap().is_some());
        observer.join().unwrap();
        assert_eq!(queues.total(), 1);
    });
}

/// The same while a worker evens out, which moves single tasks.
#[test]
fn evening_out_hides_nothing() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let links = Arc::new(Links::new(4));
        let queues = Arc::new(WorkerQueues::<4>::new(2));
        (0..4).for_each(|task| queues.push(0, &links, Task(task)));
        let (queues1, links1) = (queues.clone(), links.clone());
        let mover = thread::spawn(move || queues1.even_out(1, &links1, 1));
        let queues2 = queues.clone();
        let observer = thread::spawn(move || assert!(queues2.any_waiting()));
        let mine: Vec<u32> = (0..2).filter_map(|_| queues.pop(0, &links)).map(|t| t.0).collect();
        mover.join().unwrap();
        observer.join().unwrap();
        let rest = |worker| -> Vec<u32> {
            core::iter::from_fn(|| queues.pop(worker, &links)).map(|t| t.0).collect()
        };
        assert_shared_out(&[[mine, rest(0)].concat(), rest(1)], 4);
    });
}

/// The same for a task that the thief takes from the overflow list.
#[test]
fn stealing_overflow_hides_nothing() {
    loom::model(|| {
        let links = Arc::new(Links::new(5));
        let queues = Arc::new(WorkerQueues::<2>::new(2));
        (0..5).for_each(|task| queues.push(0, &links, Task(task)));
        // Leave an empty ring and three tasks in the list.
        assert_eq!(queues.steal(1, &links), Some(Task(0)));
        assert_eq!(queues.steal(1, &links), Some(Task(1)));
        let (queues1, links1) = (queues.clone(), links.clone());
        let thief = thread::spawn(move || queues1.steal(1, &links1));
        let queues2 = queues.clone();
        let observer = thread::spawn(move || assert!(queues2.any_waiting()));
        assert_eq!(thief.join().unwrap(), Some(Task(2)));
        observer.join().unwrap();
        assert_eq!(queues.total(), 2);
    });
}

/// The host's protocol of the module documentation: either the enqueuer sees the sleeper, or the
/// sleeper sees the task.
#[test]
fn no_lost_wake_up() {
    loom::model(|| {
        let links = Arc::new(Links::new(1));
        let queues = Arc::new(WorkerQueues::<2>::new(2));
        let asleep = Arc::new(AtomicBool::new(false));
        let (queues1, asleep1) = (queues.clone(), asleep.clone());
        let sleeper = thread::spawn(move || {
            asleep1.store(true, Relaxed);
            fence(SeqCst);
            queues1.any_waiting()
        });
        queues.push(0, &links, Task(0));
        fence(SeqCst);
        let seen = asleep.load(Relaxed);
        assert!(sleeper.join().unwrap() || seen);
    });
}
