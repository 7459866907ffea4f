//! Who may have which number, and which memory.

use super::*;

#[test]
fn a_number_is_inherited_with_the_lock() {
    let mut world = World::new("two-queue", 1);
    for member in [0, 1, 2] {
        world.spawn(member, Place::Shared);
        world.spawn(member, Place::Shared);
    }
    std::mem::forget(world.views[VICTIM].lock());
    world.dead.lock().unwrap().insert(1);
    let new = world.join(4);
    assert_eq!((new.number(), new.rebuilt()), (VICTIM, 1));
    drop(new);
    world.tasks[VICTIM] = [Known::None; TASKS as usize];
    world.check(&[1, 2]);
    world.finish(&[1, 2]);
}

/// Who brings a task while its application leaves may get the lock when the number is another's.
#[test]
fn whoever_has_left_brings_nothing() {
    let world = World::new("two-queue", 1);
    let victim = &world.views[VICTIM];
    victim.task_init(Task(0), &Attributes::default(), 0);
    let section = world.views[1].lock();
    std::thread::scope(|s| {
        s.spawn(|| victim.task_enqueue(Place::Shared, Task(0), Why::New, 0));
        while !lock::has_sleepers(&world.region.head().lock) {
            std::thread::yield_now();
        }
        s.spawn(|| victim.leave());
        while !victim.has_left() {
            std::thread::yield_now();
        }
        drop(section);
    });
    let new = world.join(4);
    assert_eq!((new.number(), new.next(0, true, 0)), (VICTIM, None));
    world.check(&[]);
}

/// A process keeps the memory of all queues that it has had, of which their makers know nothing.
#[test]
fn the_next_queue_is_elsewhere() {
    let spec = Spec::default();
    let make = |_| Common::create(&spec, &[0, 1], TASKS).expect("memory");
    let queues: Vec<_> = (0..100).map(make).collect();
    for queue in queues {
        Region::open(queue.as_fd()).expect("its place is free");
    }
}

#[test]
fn others_are_refused() {
    let file = rustix::fs::memfd_create("other", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    assert_eq!(Common::join(file).unwrap_err(), QueueError::Foreign);
    let spec = Spec::default();
    assert_eq!(Common::create(&spec, &[], 1).unwrap_err(), QueueError::Sizes);
    assert_eq!(Common::create(&spec, &[0], 0).unwrap_err(), QueueError::Sizes);
    let world = World::new("rr", 0);
    let more: Vec<Common> = (4..=MOST_MEMBERS as u64).map(|who| world.join(who)).collect();
    let look: Look = Box::new(|_| Life::Runs);
    assert_eq!(Common::join_as(world.region.clone(), 99, look).unwrap_err(), QueueError::Full);
    drop(more);
    // A second time in one process: the address is taken.
    let again = world.file.try_clone().unwrap();
    assert_eq!(Common::join(again).unwrap_err(), QueueError::Address);
    world.region.head().mark.store(1, Relaxed);
    let again = world.file.try_clone().unwrap();
    assert_eq!(Common::join(again).unwrap_err(), QueueError::Version);
}
