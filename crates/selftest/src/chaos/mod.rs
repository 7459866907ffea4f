//! Programs that share cores ([`quaver share`](../../../docs/share.md)), some of which die or stop
//! at any instant: the others must not notice.
//!
//! ```text
//!   broker ── scene: one run queue, or a latency-critical program beside best-effort ones
//!     │
//!     ├─ actor ─ program, program, ...    each a process of some of the fuzzer's programs,
//!     ├─ actor ─ program, program, ...    with a fate
//!     └─ actor ─ ...
//! ```
//!
//! # Fates
//!
//! * *undisturbed*: its records must be those of a native run, whatever becomes of its neighbours
//! * *killed*, by SIGKILL: that may happen while it joins, holds a lock of the queue's, or ends
//! * *stopped*, by SIGSTOP and SIGCONT, over and over: it must end as ever. Its records do not
//!   count: some calls return another result after a stop, natively, too
//!
//! # A scene
//!
//! 1. Actors start one program after the other, for the scene's time.
//! 2. The broker is killed. Who has joined must end as ever.
//! 3. Another broker at the same place must serve: each actor runs one undisturbed program.
//! 4. Asked to end, it must, and leave no socket behind.
//!
//! A process in which nothing moves for 30 s hangs, which is a difference. Nothing of this is
//! repeatable to the instruction: the seed chooses programs and fates only.

mod broker;
mod fate;
mod judge;
mod report;

pub use report::{Difference, Report, Row};

use crate::fuzz::run::{Place, Trace};
use crate::fuzz::ways::Way;
use crate::fuzz::{Operation, Program};
use crate::torture::Rng;
use broker::Broker;
use fate::Fate;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How cores are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scene {
    /// All threads in one run queue of this policy.
    Queue(&'static str),
    /// A latency-critical program beside best-effort ones.
    Classes,
}

impl Scene {
    /// All.
    pub const ALL: [Scene; 4] = [
        Scene::Queue("two-queue:quantum=50us"),
        Scene::Queue("eevdf"),
        Scene::Queue("ws:quantum=100us"),
        Scene::Classes,
    ];

    /// As users call it.
    pub fn name(self) -> &'static str {
        match self {
            Scene::Queue(policy) => policy.split(':').next().unwrap_or(policy),
            Scene::Classes => "classes",
        }
    }

    fn role(self, actor: usize) -> &'static str {
        match (self, actor) {
            (Scene::Queue(_), _) => "queue",
            (Scene::Classes, 0) => "lc",
            (Scene::Classes, _) => "be",
        }
    }
}

/// What to do.
#[derive(Clone, Debug)]
pub struct Chaos {
    /// The program `quaver`.
    pub quaver: PathBuf,
    /// The CPUs that are shared, as `quaver share` reads them.
    pub cpus: String,
    /// Which scenes.
    pub scenes: Vec<Scene>,
    /// How long each.
    pub time: Duration,
    /// Chooses programs and fates.
    pub seed: u64,
}

/// Is told how far it has come.
pub trait Progress: Sync {
    /// In a scene, so many processes have ended.
    fn so_far(&self, scene: &str, row: &Row);
    /// Something is wrong.
    fn found(&self, difference: &Difference);
    /// Is it to end?
    fn stop(&self) -> bool;
}

/// Programs at a time: more than there are usually cores, so that they wait for each other.
const ACTORS: usize = 3;
/// Programs of the fuzzer in a process.
const BATCH: u64 = 10;
/// Processes that are known natively.
const BATCHES: u64 = 6;
/// Nothing moves for so long: it hangs, also on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(30);

/// A process's programs, and what they do natively.
struct Batch {
    operations: Vec<Vec<Operation>>,
    native: Trace,
}

/// One scene.
struct Stage<'a> {
    chaos: &'a Chaos,
    scene: Scene,
    place: &'a Place,
    batches: &'a [Batch],
    progress: &'a dyn Progress,
    row: Mutex<Row>,
    report: &'a Mutex<Report>,
    /// There is no broker, or soon not any more.
    no_broker: AtomicBool,
}

impl Chaos {
    /// Plays all scenes.
    ///
    /// # Errors
    ///
    /// Files cannot be written, or processes not started.
    pub fn run(&self, progress: &dyn Progress) -> io::Result<Report> {
        let place = Place::new(&self.quaver)?;
        let batches: Vec<Batch> =
            (0..BATCHES).map(|n| self.batch(&place, n)).collect::<io::Result<_>>()?;
        let report = Mutex::new(Report { seed: self.seed, ..Report::default() });
        for &scene in &self.scenes {
            if progress.stop() {
                break;
            }
            let stage = Stage {
                chaos: self,
                scene,
                place: &place,
                batches: &batches,
                progress,
                row: Mutex::new(Row { scene: scene.name().into(), ..Row::default() }),
                report: &report,
                no_broker: AtomicBool::new(false),
            };
            stage.play()?;
            let row = stage.row.into_inner().unwrap_or_else(PoisonError::into_inner);
            lock(&report).rows.push(row);
        }
        Ok(report.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn batch(&self, place: &Place, number: u64) -> io::Result<Batch> {
        let numbers = number * BATCH..(number + 1) * BATCH;
        let operations: Vec<_> =
            numbers.map(|n| Program::generate(self.seed, n).operations()).collect();
        let native = place.run(&operations, 0, Way::Native, PATIENCE)?;
        match native.trouble {
            None => Ok(Batch { operations, native }),
            Some(trouble) => Err(io::Error::other(format!(
                "programs with seed {} do not end natively: {trouble:?}",
                self.seed
            ))),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stage<'_> {
    fn play(&self) -> io::Result<()> {
        let broker = self.broker()?;
        let end = Instant::now() + self.chaos.time;
        std::thread::scope(|scope| {
            let actors: Vec<_> =
                (0..ACTORS).map(|actor| scope.spawn(move || self.act(actor, end))).collect();
            while Instant::now() < end && !self.over() {
                std::thread::sleep(Duration::from_millis(20));
            }
            self.no_broker.store(true, SeqCst);
            if let Err(what) = broker.kill()? {
                self.differs("the broker", what);
            }
            actors
                .into_iter()
                .try_for_each(|actor| actor.join().unwrap_or_else(|p| std::panic::resume_unwind(p)))
        })?;
        if self.over() {
            return Ok(());
        }
        let broker = self.broker()?;
        self.no_broker.store(false, SeqCst);
        for actor in 0..ACTORS {
            self.program(actor, &self.batches[0], Fate::Undisturbed)?;
        }
        if let Err(what) = broker.end(PATIENCE)? {
            self.differs("the broker", what);
        } else if self.place.socket().exists() {
            self.differs("the broker", "it leaves its socket behind".into());
        }
        Ok(())
    }

    fn broker(&self) -> io::Result<Broker> {
        let queue = match self.scene {
            Scene::Queue(policy) => Some(policy),
            Scene::Classes => None,
        };
        Broker::start(&self.chaos.quaver, &self.chaos.cpus, &self.place.socket(), queue)
    }

    fn over(&self) -> bool {
        self.progress.stop() || lock(self.report).differences > 0
    }

    /// One program after the other.
    fn act(&self, actor: usize, end: Instant) -> io::Result<()> {
        let mut rng = Rng(self.chaos.seed ^ (actor as u64) << 32);
        while Instant::now() < end && !self.over() {
            let batch = &self.batches[rng.below(BATCHES) as usize];
            self.program(actor, batch, Fate::choose(&mut rng))?;
            self.progress.so_far(self.scene.name(), &lock(&self.row));
        }
        Ok(())
    }

    fn program(&self, actor: usize, batch: &Batch, mut fate: Fate) -> io::Result<()> {
        let role = self.scene.role(actor);
        let started = self.place.start(&batch.operations, 0, Way::Shared { role })?;
        let mut stops = 0;
        let trace = started.end(PATIENCE, |process| stops += u64::from(fate.come(process)))?;
        let wrong = judge::wrong(batch, &trace, &fate, stops > 0, self.no_broker.load(SeqCst));
        {
            let mut row = lock(&self.row);
            row.runs += 1;
            row.killed += u64::from(fate.has_killed());
            row.stops += stops;
            row.compared += u64::from(matches!(fate, Fate::Undisturbed));
        }
        if let Some(what) = wrong {
            self.differs(&format!("a program with --share {role}, {}", fate.name()), what);
        }
        Ok(())
    }

    fn differs(&self, who: &str, what: String) {
        let Chaos { seed, .. } = self.chaos;
        let scene = self.scene.name();
        let reproducer = format!("quaver selftest share --only {scene} --seed {seed}");
        let difference = Difference { scene: scene.into(), who: who.into(), what, reproducer };
        self.progress.found(&difference);
        lock(&self.row).differences += 1;
        let mut report = lock(self.report);
        report.differences += 1;
        report.details.push(difference);
    }
}
