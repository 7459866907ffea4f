//! The interface between a scheduler host (runtime or simulator) and a policy.

use crate::Attributes;

/// A point in time or a span, in the host's unit (TSC ticks in the runtime, nanoseconds in a
/// simulation). Never goes back.
pub type Time = u64;

/// A task: an index into the host's task table, below the `max_tasks` that the policy was built
/// with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct Task(pub u32);

/// Why a task becomes runnable.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Why {
    /// It was just created.
    New,
    /// What it waited for has happened.
    Woken,
    /// It gave up the processor of its own will.
    Yielded,
    /// It was preempted.
    Preempted,
}

/// Where a task becomes runnable.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    /// On this worker, and the caller is that worker.
    Local(usize),
    /// Anywhere: the caller is no worker (another kernel thread, the network, a timer thread).
    Shared,
}

/// What a task was when it was picked: decides which quantum applies (Aspen section 3.2, two
/// queues). Policies with one quantum answer `Fresh` for every task.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Class {
    /// It has not been preempted since it last became runnable by creation or wake-up, and counts
    /// as new.
    Fresh,
    /// It has been preempted and continues, or counts as such ([`Spec`](crate::Spec), `history`).
    Preempted,
}

/// The answer to "what runs next".
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Pick {
    /// The task, which is now in no queue.
    pub task: Task,
    /// What it was when picked; the host hands it back in [`Running`].
    pub class: Class,
}

/// The task that a worker is running, as the host knows it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Running {
    /// The task.
    pub task: Task,
    /// When it was dispatched.
    pub since: Time,
    /// From the [`Pick`].
    pub class: Class,
}

/// Whose answer of [`Policy::preempt_at`] a task that becomes runnable can change, beside that of
/// idle workers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Concerns {
    /// That of the worker in whose queue it is; of all, if the queue is shared.
    Place,
    /// Those of all workers, if nothing waited before; else nobody's.
    First,
    /// Those of all workers.
    All,
}

/// A scheduling policy.
///
/// The operations are those of Skyloft's Table 2 (SOSP '24, section 3.4), with two changes:
/// `sched_timer_tick` returned "preempt now?" at every tick, while
/// [`preempt_at`](Policy::preempt_at) answers *when*, so that a clock without ticks can be armed
/// for that moment and left off when the answer is never; and time and worker are always passed in.
///
/// # Calling rules
///
/// * A task is in at most one queue. The host enqueues only tasks that are in none and not running.
/// * Calls that act for a worker (`task_enqueue` with `Place::Local(w)`, `task_dequeue(w)`,
///   `balance(w)`, `task_stopped(w)`) come from that worker only, one at a time; `task_enqueue`
///   with `Place::Shared`, `preempt_at`, `has_work` and `waiting` may come from anywhere, at any
///   time.
/// * The host calls with preemption disabled, and maybe in a handler that has interrupted the
///   allocator. Implementations may spin briefly; once built they never block, allocate, or panic
///   on legal input.
/// * `now` never goes back on one worker; different workers may differ by a little.
///
/// # Ordering
///
/// * Who is given a task by `task_dequeue` or `balance` sees what was done before its
///   `task_enqueue`: the queues hand tasks over with release and acquire.
/// * `task_init` comes before the first enqueue, and `task_terminate` before the next `task_init`
///   of the same number; the host orders them. It also orders the calls for one worker when another
///   kernel thread takes the worker over.
/// * `preempt_at` may be asked by others than the worker, while that goes on: `running` may have
///   been stopped meanwhile, or run elsewhere. The answer may then be wrong, but nothing else may
///   come of it; the host asks again before it stops a task.
/// * `has_work` is stricter; see there.
pub trait Policy: Send + Sync {
    /// The name under which the policy is chosen, e.g. `two-queue`.
    fn name(&self) -> &'static str;

    /// A task was created (`task_init`), with what its creator says of it. Comes before its first
    /// enqueue. A task of which a policy has been told nothing has the default attributes.
    fn task_init(&self, _task: Task, _attributes: &Attributes, _now: Time) {}

    /// A task ended (`task_terminate`); it is in no queue and its number may be used again.
    fn task_terminate(&self, _task: Task, _now: Time) {}

    /// Make a task runnable (`task_enqueue`, and `task_wakeup` with [`Why::Woken`]).
    fn task_enqueue(&self, place: Place, task: Task, why: Why, now: Time);

    /// Choose what `worker` runs next and take it out of its queue (`task_dequeue`). Most policies
    /// look at what is the worker's own or shared only; one whose order demands it may take others'
    /// work here already. `None` means that the worker should try [`balance`](Policy::balance).
    fn task_dequeue(&self, worker: usize, now: Time) -> Option<Pick>;

    /// The running task stopped running, for whatever reason, after `ran` (`task_block` and the
    /// accounting part of `sched_timer_tick`). Comes before the task is enqueued again, if it is.
    ///
    /// Called only if [`accounts`](Policy::accounts) says so.
    fn task_stopped(&self, _worker: usize, _task: Task, _ran: Time) {}

    /// The running task goes on with another request, which it has got without waiting, after it
    /// has run for `ran` in this dispatch. See [`fresh_waits`](Policy::fresh_waits).
    ///
    /// Called only if [`accounts`](Policy::accounts) says so, and not at each request.
    fn task_goes_on(&self, _task: Task, _ran: Time) {}

    /// Does the policy want [`task_stopped`](Policy::task_stopped)? Asked once; policies that keep
    /// no account of running times save their host a call at every switch.
    fn accounts(&self) -> bool {
        false
    }

    /// Does the policy heed [`Attributes::priority`]?
    fn heeds_priority(&self) -> bool {
        false
    }

    /// A task has another priority from now on; larger ones than there are count as the highest.
    /// From anywhere, at any time between the task's `task_init` and `task_terminate`, whether it
    /// waits, runs or sleeps. What `preempt_at` says may change for every worker, and a task that
    /// waits may be in no queue for an instant: the host then looks for sleeping workers and tells
    /// its clock, as after an enqueue.
    fn set_priority(&self, _task: Task, _priority: u8) {}

    /// Is every runnable task in queues that all workers share? Then a host may let a dispatcher on
    /// a core of its own take tasks for the workers (`sched_poll`, Skyloft section 5.2), and it
    /// does not matter who makes a task runnable.
    fn central(&self) -> bool {
        false
    }

    /// Who must be asked [`preempt_at`](Policy::preempt_at) again when a task has become runnable.
    /// Asked once, by hosts that arm a timer for each worker.
    fn arrival_concerns(&self) -> Concerns {
        if self.central() { Concerns::All } else { Concerns::Place }
    }

    /// Take work from other workers (`sched_balance`): called when `task_dequeue` found nothing.
    /// The rest of what it takes ends in the queue of `worker`, where others can steal it: a host
    /// that sleeps should wake one more worker when a search was successful and
    /// [`has_work`](Policy::has_work) still says yes.
    fn balance(&self, worker: usize, now: Time) -> Option<Pick>;

    /// As [`balance`](Policy::balance), at a cost that does not grow with the number of workers, so
    /// one that others have may be missed: for a task that yields where nothing waits.
    fn glance(&self, worker: usize, now: Time) -> Option<Pick> {
        self.balance(worker, now)
    }

    /// The operating system runs something else where `worker` was: what waits there and cannot run
    /// may go to other workers. Returns how many tasks others can run now; the worker's running
    /// task stays. From anywhere, by one caller at a time; the worker may go on meanwhile. A task
    /// may be in no queue for an instant: the host then looks for sleeping workers and tells its
    /// clock, as after that many enqueues. (Scheduler activations, seen from outside.)
    ///
    /// Policies whose queues all workers share have nothing to do.
    fn worker_lost(&self, _worker: usize, _now: Time) -> usize {
        0
    }

    /// When must `worker` stop `running`, given what waits at this moment? `None`: not before
    /// something changes.
    ///
    /// The generalised rule of Aspen section 3.1.1: preempt only when the quantum is used *and*
    /// other work is waiting that this worker could run. `next_timer` is when the worker's earliest
    /// timer expires: a thread that becomes runnable then counts as waiting from then on. The
    /// result may lie in the past: preempt at once.
    ///
    /// The answer changes with every dispatch and arrival at this worker, and of shared work. It
    /// may also change because other workers' queues have grown: then a host asks now and then,
    /// every 16 quanta or so, while work is made and no worker is idle. Clocks also ask what would
    /// be if something had waited from the dispatch on ([`clock::quantum`](crate::clock::quantum)).
    fn preempt_at(
        &self,
        worker: usize,
        running: &Running,
        next_timer: Option<Time>,
    ) -> Option<Time>;

    /// Has every task that is dispatched a quantum to itself, whatever arrives: is `preempt_at`
    /// never earlier than that after the dispatch? Then a host whose timer is in time for it need
    /// not ask at each arrival. Asked once.
    fn grants_quantum(&self) -> bool {
        false
    }

    /// Does work wait at hand for `worker` that was not preempted? `None`: this policy makes no
    /// difference. Where it does, a host may let such work pass when a task has got its next
    /// request without waiting for it. The task is then enqueued as if it had waited and been
    /// woken.
    fn fresh_waits(&self, _worker: usize) -> Option<bool> {
        None
    }

    /// Is there anything that `worker` could run now, its own, shared, or by stealing? A task
    /// enqueued before the call and not yet taken to be run is seen, even while another worker is
    /// moving it; a wrong yes is possible for an instant while others enqueue, dequeue or steal.
    ///
    /// The loads are of acquire ordering. A host that sleeps on a no puts a sequentially consistent
    /// fence between announcing that it sleeps and this call, and one between `task_enqueue` and
    /// looking for sleepers.
    fn has_work(&self, worker: usize) -> bool;

    /// The part of [`has_work`](Policy::has_work) that `worker` can see without loads from the
    /// queues of workers that run: looking there all the time slows these down, because each look
    /// takes a line of the cache away from its owner.
    fn has_work_at_hand(&self, worker: usize) -> bool {
        self.has_work(worker)
    }

    /// How many runnable tasks wait, in all queues together. For statistics; approximate while
    /// workers run.
    fn waiting(&self) -> usize;
}
