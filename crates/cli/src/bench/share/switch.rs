//! What it costs when a core goes from one application's thread to another's, on one CPU: by a
//! common queue, and by the futex alone. (Skyloft, Table 7.)

use std::os::fd::{AsFd, OwnedFd};
use std::process::Stdio;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use quaver_bench_common::affinity::pin;
use quaver_bench_common::{Outcome, Sample};
use quaver_sched::{Attributes, Place, Policy, Spec, Task, Time, Why};
use quaver_share::common::Common;
use rustix::thread::futex;
use serde::{Deserialize, Serialize};

use super::run::{Running, command};
use crate::bench::child::Work;
use crate::bench::context::{self, Context};
use crate::bench::plan::{Aim, Bound, Group, Reading};
use crate::process;

/// What a switch between applications should come to by one of the kernel's within one.
const AIM: f64 = 1.3;
const ROW: &str = "switch between applications";

/// How two threads take turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum How {
    /// Kernel threads of one process, by a futex each.
    Futex,
    /// Two parts in a common queue, in one process.
    Parts,
    /// In two.
    Processes,
}

impl How {
    const ALL: [How; 3] = [How::Futex, How::Parts, How::Processes];

    fn name(self) -> &'static str {
        match self {
            How::Futex => "futex, one process",
            How::Parts => "quaver queue, one process",
            How::Processes => "quaver queue, two processes",
        }
    }
}

/// The work of one child.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SwitchSpec {
    how: How,
    cpu: usize,
    turns: u32,
    /// It is the other process, and has the queue as its standard input.
    other: bool,
}

/// The jobs.
pub fn group(context: &Context) -> Group {
    let cpu = context.place.worker;
    let jobs = How::ALL.map(|how| {
        let turns = context.effort.pick(20_000, 200_000);
        let spec = SwitchSpec { how, cpu, turns, other: false };
        let readings = vec![Reading::new(ROW, "ns_per_op", "ns")];
        let task = context::Task { cpus: vec![cpu], expected: Duration::from_secs(2), readings };
        let mut job = task.job(how.name(), context.child(&Work::ShareSwitch(spec)));
        if how == How::Processes {
            let against = [How::Futex.name().to_owned()];
            let bound = Bound::AtMost(AIM);
            job.aims.push(Aim::new(format!("{ROW}, ratio"), "ns_per_op", bound, &against));
        }
        job
    });
    Group { title: "share switch".into(), jobs: jobs.into() }
}

/// Measures, or is the other process until it is killed.
///
/// # Errors
///
/// There can be no queue, or no other process.
pub fn run(spec: &SwitchSpec) -> anyhow::Result<Outcome> {
    pin(&[spec.cpu])?;
    if spec.other {
        let file = std::io::stdin().as_fd().try_clone_to_owned()?;
        Part::join(file)?.take_turns(u32::MAX);
        anyhow::bail!("nobody has ended it");
    }
    let took = match spec.how {
        How::Futex => futexes(spec.turns),
        How::Parts => parts(spec)?,
        How::Processes => processes(spec)?,
    };
    let switches = 2 * u64::from(spec.turns);
    let ns = took.as_nanos() as f64 / switches as f64;
    Ok(Sample { ops: switches, ..Sample::default() }.with("ns_per_op", ns).into())
}

fn now() -> Time {
    // SAFETY: every x86-64 has this instruction.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// An application with one thread that yields.
struct Part(Arc<Common>);

impl Part {
    fn join(file: OwnedFd) -> anyhow::Result<Part> {
        let part = Part(Arc::new(Common::join(file)?));
        let common = part.0.clone();
        thread::spawn(move || common.watch());
        part.0.task_init(Task(0), &Attributes::default(), now());
        part.0.task_enqueue(Place::Shared, Task(0), Why::New, now());
        Ok(part)
    }

    /// Runs its thread so often, each time until it yields; how long that took, without the first
    /// tenth.
    fn take_turns(&self, turns: u32) -> Duration {
        let mut begun = Instant::now();
        for turn in 0..turns {
            if turn == turns / 10 {
                begun = Instant::now();
            }
            while self.0.task_dequeue(0, now()).is_none() {
                self.0.rests(0);
                self.0.wait(0, || true, None);
            }
            self.0.task_enqueue(Place::Local(0), Task(0), Why::Yielded, now());
        }
        begun.elapsed().mul_f64(10.0 / 9.0)
    }
}

fn queue(cpu: usize) -> anyhow::Result<OwnedFd> {
    let spec: Spec = "rr".parse()?;
    Ok(Common::create(&spec, &[cpu], 16)?)
}

fn parts(spec: &SwitchSpec) -> anyhow::Result<Duration> {
    let file = queue(spec.cpu)?;
    let (one, other) = (Part::join(file.try_clone()?)?, Part::join(file)?);
    // The other one takes its turns for as long as this one does.
    thread::spawn(move || other.take_turns(u32::MAX));
    Ok(one.take_turns(spec.turns))
}

fn processes(spec: &SwitchSpec) -> anyhow::Result<Duration> {
    let file = queue(spec.cpu)?;
    let part = Part::join(file.try_clone()?)?;
    let work = Work::ShareSwitch(SwitchSpec { other: true, ..spec.clone() });
    let work = serde_json::to_string(&work).expect("work is valid JSON");
    let mut command = command(&["bench", "--child", &work])?;
    command.stdin(Stdio::from(file));
    let _other = Running(process::spawn(&mut command, &[spec.cpu])?);
    while part.0.switches() < 10 {
        part.take_turns(10);
        thread::sleep(Duration::from_millis(1));
    }
    Ok(part.take_turns(spec.turns))
}

/// Two kernel threads, each of which wakes the other and sleeps.
fn futexes(turns: u32) -> Duration {
    let words = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
    let begin = Arc::new(Barrier::new(2));
    let signal = |word: &AtomicU32| {
        word.store(1, Release);
        let _ = futex::wake(word, futex::Flags::empty(), 1);
    };
    let wait = |word: &AtomicU32| {
        while word.load(Acquire) == 0 {
            let _ = futex::wait(word, futex::Flags::empty(), 0, None);
        }
        word.store(0, Relaxed);
    };
    let (theirs, ready) = (words.clone(), begin.clone());
    let other = thread::spawn(move || {
        ready.wait();
        for _ in 0..turns {
            wait(&theirs[1]);
            signal(&theirs[0]);
        }
    });
    begin.wait();
    let begun = Instant::now();
    for _ in 0..turns {
        signal(&words[1]);
        wait(&words[0]);
    }
    other.join().expect("no panic");
    begun.elapsed()
}
