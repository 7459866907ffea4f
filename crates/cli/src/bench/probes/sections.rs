//! Which programs are measured beside which.

use std::path::PathBuf;
use std::time::Duration;

use super::make::{Assembly, Placements};
use super::work::{CPU_MS, How, ProbesSpec};
use super::{Material, Subject};
use crate::bench::child::Work;
use crate::bench::context::Task;
use crate::bench::plan::{Group, Job, Labels, Plan, Reading};
use crate::run;

/// Names of sections.
pub const TAX: &str = "tax";
pub const CLOCK: &str = "clock";
pub const SWITCH: &str = "switch";
pub const SWEEP: &str = "sweep";

/// What can be chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Section {
    /// While nobody waits
    Tax,
    /// While somebody does
    Clock,
    /// Two copies on one worker
    Switch,
    /// Other places for probes
    Sweep,
}

impl Section {
    fn name(self) -> &'static str {
        match self {
            Section::Tax => TAX,
            Section::Clock => CLOCK,
            Section::Switch => SWITCH,
            Section::Sweep => SWEEP,
        }
    }
}

/// Table 2's, in µs.
const QUANTA_US: [u64; 3] = [50, 20, 5];
/// So short that a program looks for its end by itself, so long that preemptions take little: four
/// of the machine's interruptions.
const AUTO: &str = "auto";
/// Percent of the time for preemptions: no bound.
const ALL: u64 = 100;
/// The shortest of the POSIX timer, who keeps time for signals.
const LEAST_BY_SIGNAL_US: u64 = 10;
/// What starting a process takes.
const START: Duration = Duration::from_millis(20);

/// Fig. 2's programs, and where probes stand: copies, instructions for each probe.
const SWEPT: [&str; 2] = ["lu", "pca"];
/// Also at the entries of functions, as Concord's passes put them.
const CONCORD: &str = "concord";
const PLACES: [(&str, usize, usize); 7] = [
    (CONCORD, 0, 0),
    ("loops", 0, 0),
    ("placed", 4, 16),
    ("placed", 8, 32),
    ("placed", 16, 64),
    ("placed", 32, 128),
    ("placed", 64, 256),
];

/// How much each executable of a build does, of which there are `placements`.
pub fn scale_of_one(scale: f64, placements: usize) -> f64 {
    (scale / placements as f64).max(0.001)
}

/// How much each of a pair does: there are two, in many variants.
pub fn scale_of_pair(scale: f64) -> f64 {
    (0.3 * scale).max(0.001)
}

/// One job in the making.
struct Variant<'a> {
    name: &'static str,
    quantum_us: Option<u64>,
    instructions: Option<usize>,
    executables: &'a [PathBuf],
    how: How,
    /// By how much it may take longer than the plain program.
    longer: f64,
}

impl<'a> Variant<'a> {
    fn new(name: &'static str, executables: &'a [PathBuf], how: How) -> Self {
        Variant { name, quantum_us: None, instructions: None, executables, how, longer: 1.0 }
    }

    fn at(self, quantum_us: u64) -> Self {
        Variant { quantum_us: Some(quantum_us), ..self }
    }
}

/// The sections of these names, or all, and of how many rounds one is enough.
pub fn all(
    material: &Material<'_>,
    names: &[Section],
    notes: &mut Vec<String>,
) -> Vec<(Plan, usize)> {
    let wanted = |section| names.is_empty() || names.contains(&section);
    let helper = material.context.place.helper;
    if helper.is_none() {
        notes.push("probes: no clock and no sweep: these take a second CPU".into());
    }
    let threads = match run::find_shim() {
        Ok(_) => true,
        Err(error) => {
            notes.push(format!("probes: no user threads: {error:#}"));
            false
        }
    };
    let each = |section: Section, variants: &dyn Fn(&Subject) -> Vec<Job>| {
        let subjects = material.subjects.iter().filter(|_| wanted(section));
        let section = section.name();
        let groups = subjects.map(|subject| Group {
            title: format!("{section} {} {}", subject.program.name, subject.compiler.name),
            jobs: variants(subject),
        });
        Plan { groups: groups.filter(|group| group.jobs.len() > 1).collect(), notes: vec![] }
    };
    let quick = material.context.effort.quick;
    let mut stages = vec![
        (each(Section::Tax, &|subject| tax(material, subject)), 1),
        (each(Section::Clock, &|subject| clock(material, subject, helper, threads)), 3),
        (
            each(Section::Switch, &|subject| {
                if threads { switch(material, subject, helper) } else { vec![] }
            }),
            7,
        ),
    ];
    if let Some(helper) = helper.filter(|_| !quick && wanted(Section::Sweep)) {
        stages.push((sweep(material, helper, notes), 3));
    }
    stages
}

/// How long a job should take.
pub fn expected(job: &Job) -> Duration {
    // The inverse of what a task's limit is.
    job.limit.saturating_sub(crate::bench::context::OVERHEAD) / 10
}

fn tax(material: &Material<'_>, subject: &Subject) -> Vec<Job> {
    let built = &subject.built;
    let ways = [("plain", &built.plain), ("control", &built.control), ("probes", &built.probes)];
    let variant = |(name, build): (_, &'_ Placements)| {
        job(material, subject, TAX, Variant::new(name, build, How::Alone))
    };
    ways.map(variant).into()
}

fn clock(
    material: &Material<'_>,
    subject: &Subject,
    helper: Option<usize>,
    threads: bool,
) -> Vec<Job> {
    let built = &subject.built;
    let mut variants = vec![
        Variant::new("plain", &built.plain, How::Alone),
        Variant::new("control", &built.control, How::Alone),
    ];
    let beside = |quantum: String| How::UserThreads {
        quantum,
        notification: "probe".into(),
        pair: None,
        timer_core: None,
        tax: ALL,
    };
    if threads {
        variants.push(Variant::new("armed", &built.probes, beside(AUTO.into())));
        variants.push(Variant::new("yielder", &built.probes, beside(of_us(5))).at(5));
    }
    for (name, by_signal) in [("word", false), ("signal", true)] {
        for (quantum_us, cpu) in quanta(material).into_iter().zip(helper.into_iter().cycle()) {
            let build = if by_signal { &built.plain } else { &built.probes };
            let how = How::Clock { quantum_us, cpu, by_signal };
            // A signal takes up to 20 us.
            let longer = if by_signal { 1.0 + 20.0 / quantum_us as f64 } else { 1.0 };
            let variant = Variant { longer, ..Variant::new(name, build, how) };
            variants.push(variant.at(quantum_us));
        }
    }
    variants.into_iter().map(|variant| job(material, subject, CLOCK, variant)).collect()
}

fn switch(material: &Material<'_>, subject: &Subject, helper: Option<usize>) -> Vec<Job> {
    let Some(pair) = &subject.built.pair else { return vec![] };
    let how = |notification: &str, quantum_us: Option<u64>, timer_core| How::UserThreads {
        quantum: quantum_us.map_or("off".into(), of_us),
        notification: notification.into(),
        pair: Some(pair.clone()),
        timer_core,
        tax: ALL,
    };
    let runner = std::slice::from_ref(&material.pair);
    let mut variants = vec![Variant::new("off", runner, how("probe", None, None))];
    let by_timer = [("probe", "probe", 0), ("signal", "signal", LEAST_BY_SIGNAL_US)];
    let by_core = [("probe-core", "probe", 0), ("signal-core", "signal", 0)];
    let by_timer = by_timer.map(|way| (way, None));
    let by_core = helper.into_iter().flat_map(|cpu| by_core.map(|way| (way, Some(cpu))));
    for ((name, notification, least), timer_core) in by_timer.into_iter().chain(by_core) {
        for quantum_us in quanta(material).into_iter().filter(|&quantum| quantum >= least) {
            let how = how(notification, Some(quantum_us), timer_core);
            variants.push(Variant::new(name, runner, how).at(quantum_us));
        }
    }
    let longer = |variant| Variant { longer: 1.5, ..variant };
    variants.into_iter().map(|v| job(material, subject, SWITCH, longer(v))).collect()
}

fn sweep(material: &Material<'_>, helper: usize, notes: &mut Vec<String>) -> Plan {
    let mut plan = Plan::default();
    for subject in material.subjects.iter().filter(|s| SWEPT.contains(&s.program.name)) {
        let plain = Variant::new("plain", &subject.built.plain, How::Alone);
        let mut group = Group {
            title: format!("{SWEEP} {} {}", subject.program.name, subject.compiler.name),
            jobs: vec![job(material, subject, SWEEP, plain)],
        };
        for (name, copies, target) in PLACES {
            let entries = name == CONCORD;
            let assembly = Assembly::Placed { copies, target, entries };
            let what = format!("{name}{target}");
            let Subject { compiler, program, .. } = subject;
            match material.workshop.executable(compiler, program, &what, assembly) {
                Ok(build) => {
                    let how = How::Clock { quantum_us: 5, cpu: helper, by_signal: false };
                    let mut variant = Variant::new(name, &build, how).at(5);
                    variant.instructions = (target > 0).then_some(target);
                    group.jobs.push(job(material, subject, SWEEP, variant));
                }
                Err(error) => notes.push(format!("probes: {} left out: {error:#}", group.title)),
            }
        }
        plan.groups.push(group);
    }
    plan
}

/// A quantum, as `quaver run` takes it.
fn of_us(quantum_us: u64) -> String {
    format!("{quantum_us}us")
}

fn quanta(material: &Material<'_>) -> Vec<u64> {
    material.context.effort.pick(vec![20, 5], QUANTA_US.into())
}

fn job(
    material: &Material<'_>,
    subject: &Subject,
    section: &'static str,
    variant: Variant<'_>,
) -> Job {
    let Variant { name, quantum_us, instructions, executables, how, longer } = variant;
    let (program, compiler) = (subject.program.name, &subject.compiler.name);
    let cpu = material.context.place.worker;
    let (scale, prints, took) = match how {
        How::UserThreads { pair: Some(_), .. } => {
            // Two lines, of which either may come first: they are the same.
            let (line, took) = &subject.of_pair;
            (scale_of_pair(material.scale), line.repeat(2), 2 * *took)
        }
        _ => {
            let scale = scale_of_one(material.scale, executables.len());
            (scale, subject.line.clone(), executables.len() as u32 * subject.took)
        }
    };
    // Who measures another one's cost is none of ours.
    let ours = !matches!((section, name), (_, "plain") | (CLOCK, "signal"));
    let mut implementation = if ours { format!("quaver {name}") } else { name.to_owned() };
    for part in [instructions.map(|n| format!(" {n}")), quantum_us.map(|us| format!(" {us}us"))] {
        implementation += &part.unwrap_or_default();
    }
    let task = Task {
        cpus: vec![cpu],
        expected: took.mul_f64(longer) + executables.len() as u32 * START,
        readings: vec![Reading::new(format!("{section} {program} {compiler}"), CPU_MS, "ms")],
    };
    let spec = ProbesSpec { programs: executables.to_vec(), scale, prints, cpu, how };
    let labels = Labels {
        section,
        program: program.into(),
        compiler: compiler.clone(),
        variant: name,
        quantum_us,
        instructions,
    };
    let job = task.job(implementation, material.context.child(&Work::Probes(spec)));
    Job { labels: Some(labels), ..job }
}
