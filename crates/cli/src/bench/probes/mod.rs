//! `quaver bench probes`: what probes in compiled programs cost, and when they are taken
//! (Aspen, sections 2.1 and 2.2, Figs. 1 and 2, Table 2).
//!
//! The programs of `bench/programs`, and zstd, SQLite, redb, regex and serde_json, are built by
//! each compiler in three ways: *plain*, by the compiler alone; *probes*, as by `quaver cc`;
//! *control*, with the same loops replicated, but without probes. A row is the CPU time of one of
//! them, and its ratio to the first of its section:
//!
//! * *tax*: nobody waits, the word of the probes is never set;
//! * *clock*: somebody does.
//!   * *armed*: beside a thread that waits, with the quantum `auto`: the program counts its probes
//!     all the time, and is seldom due;
//!   * *yielder*: the same with a quantum of 5 µs: it gives way, and gets the worker back at once;
//!   * *word*: on another CPU a clock sets the word, an entry keeps what lives and answers;
//!     *signal*: the same by a signal whose handler does nothing. This is Table 2's setting;
//! * *switch*: two copies of the program, as libraries, on one worker, run to completion (*off*)
//!   and preempted by round robin, at probes or by signals; *-core*: with a timer core, which is
//!   not counted;
//! * *sweep*: other places for probes, beside the clock at 5 µs (Fig. 2, with `lu` and `pca`).
//!   *loops* has one in each loop and copies none; *concord* has one at each function's entry as
//!   well, as Concord's passes put them.
//!
//! A build is linked four times, its code lying elsewhere each time; a row is the sum of them. For
//! where a loop lies matters more than a probe in it: up to 50 % in `lu`.
//!
//! The clock sees when it asked and when it was answered, so rows of it also say how late answers
//! are. Each program's line is compared with that of the plain program; another one is an error.

mod make;
mod programs;
mod real;
mod samples;
mod sections;
mod summary;
mod text;
mod work;

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use anyhow::bail;

use self::make::{Built, Compiler, Workshop};
use self::programs::Program;
pub use self::sections::Section;
pub use self::summary::Summary;
pub use self::text::text;
pub use self::work::{ProbesSpec, run};
use super::context::Context;
use super::plan::Plan;

/// The benchmark's name.
pub const NAME: &str = "probes";

/// What the command line may choose.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'a> {
    /// None: all, or few for a look.
    pub programs: &'a [String],
    /// None: gcc, clang and rustc.
    pub compilers: &'a [String],
    /// None: all.
    pub sections: &'a [Section],
    /// How much work.
    pub scale: Option<f64>,
    /// How often.
    pub rounds: usize,
}

/// The scale of the programs, as they take it.
///
/// # Errors
///
/// What is wrong with it.
pub fn parse_scale(text: &str) -> Result<f64, String> {
    let scale = text.parse().ok().filter(|scale| (0.001..=100.0).contains(scale));
    scale.ok_or_else(|| format!("{text:?} is not a number from 0.001 to 100"))
}

/// A program that was built.
struct Subject {
    program: Program,
    compiler: Compiler,
    built: Built,
    /// What one of its executables prints, and how long it takes.
    line: String,
    took: Duration,
    /// The same of each of a pair.
    of_pair: (String, Duration),
}

/// Everything that jobs are made of.
struct Material<'a> {
    context: &'a Context,
    workshop: Workshop,
    subjects: Vec<Subject>,
    pair: PathBuf,
    scale: f64,
}

/// The plans of this benchmark, and of how many rounds one is enough for each.
///
/// # Errors
///
/// There is no such program, or no room. What cannot be built is left out with a note.
pub fn stages(context: &Context, choice: &Choice<'_>) -> anyhow::Result<Vec<(Plan, usize)>> {
    let quick = context.effort.quick;
    let chosen = chosen(choice.programs, quick)?;
    let mut notes = vec!["probes: CPU time of the program, pinned to one core".into()];
    let nothing = |notes| Ok(vec![(Plan { groups: vec![], notes }, 1)]);
    let compilers = compilers(choice.compilers, &mut notes);
    let workshop = match Workshop::open(context.folder()?, !quick) {
        Ok(workshop) if !compilers.is_empty() => workshop,
        Ok(_) => return nothing(notes),
        Err(error) => {
            notes.push(format!("probes left out: {error:#}"));
            return nothing(notes);
        }
    };
    let scale = choice.scale.unwrap_or(context.effort.pick(0.02, 1.0));
    let pair = workshop.pair(&compilers[0])?;
    compilers.iter().try_for_each(|compiler| workshop.prepare(compiler))?;
    let work: Vec<(&Program, &Compiler)> = chosen
        .iter()
        .flat_map(|program| compilers.iter().map(move |compiler| (program, compiler)))
        .filter(|(program, compiler)| compiler.takes(program))
        .collect();
    let subjects = build(&workshop, &work, scale, &mut notes);
    let material = Material { context, workshop, subjects, pair, scale };
    let mut stages = sections::all(&material, choice.sections, &mut notes);
    let expected = stages.iter().map(|(plan, of)| {
        let jobs = plan.groups.iter().flat_map(|group| &group.jobs);
        let once: Duration = jobs.map(sections::expected).sum();
        once * choice.rounds.div_ceil(*of) as u32
    });
    let minutes = expected.sum::<Duration>().as_secs_f64() / 60.0;
    if minutes > 2.0 {
        eprintln!("probes: this takes about {minutes:.0} minutes");
    }
    if let Some((first, _)) = stages.first_mut() {
        first.notes = notes;
    }
    Ok(stages)
}

/// The programs of these names.
fn chosen(names: &[String], quick: bool) -> anyhow::Result<Vec<Program>> {
    let all = || programs::ALL.iter().chain(&programs::OTHERS);
    let known = |name: &str| all().find(|program| program.name == name).copied();
    if let Some(unknown) = names.iter().find(|name| known(name).is_none()) {
        let names: Vec<_> = all().map(|program| program.name).collect();
        bail!("there is no program {unknown}; known are: {}", names.join(", "));
    }
    Ok(match (names, quick) {
        ([], false) => all().copied().collect(),
        ([], true) => programs::FEW.into_iter().filter_map(known).collect(),
        _ => names.iter().filter_map(|name| known(name)).collect(),
    })
}

fn compilers(names: &[String], notes: &mut Vec<String>) -> Vec<Compiler> {
    let usual = ["gcc".to_owned(), "clang".to_owned(), "rustc".to_owned()];
    let names = if names.is_empty() { &usual } else { names };
    let mut found = Vec::new();
    for name in names {
        match Compiler::find(name) {
            Ok(compiler) => found.push(compiler),
            Err(error) => notes.push(format!("probes: {name} left out: {error:#}")),
        }
    }
    found
}

/// Builds and runs each program once, several at a time.
fn build(
    workshop: &Workshop,
    work: &[(&Program, &Compiler)],
    scale: f64,
    notes: &mut Vec<String>,
) -> Vec<Subject> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from).min(work.len()) {
            scope.spawn(|| {
                while let Some(&(program, compiler)) = work.get(next.fetch_add(1, Relaxed)) {
                    let subject = subject(workshop, program, compiler, scale);
                    let name = format!("{} by {}", program.name, compiler.name);
                    results.lock().expect("nobody panics").push((name, subject));
                }
            });
        }
    });
    let mut subjects = Vec::new();
    for (name, result) in results.into_inner().expect("nobody panics") {
        match result {
            Ok(subject) => subjects.push(subject),
            Err(error) => notes.push(format!("probes: {name} left out: {error:#}")),
        }
    }
    let place = |subject: &Subject| {
        let is = |&(program, compiler): &(&Program, &Compiler)| {
            program.name == subject.program.name && compiler.name == subject.compiler.name
        };
        work.iter().position(is)
    };
    subjects.sort_by_key(place);
    subjects
}

fn subject(
    workshop: &Workshop,
    program: &Program,
    compiler: &Compiler,
    scale: f64,
) -> anyhow::Result<Subject> {
    let built = workshop.build(compiler, program)?;
    let [first, ..] = &built.plain[..] else { bail!("nothing was built") };
    let each = sections::scale_of_one(scale, workshop.placements());
    let (line, took) = workshop.line(first, each)?;
    let of_pair = workshop.line(first, sections::scale_of_pair(scale))?;
    Ok(Subject { program: *program, compiler: compiler.clone(), built, line, took, of_pair })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_chosen_by_name() {
        let names = |names: &[&str], quick| {
            let names: Vec<_> = names.iter().map(|name| name.to_string()).collect();
            let chosen = chosen(&names, quick).map_err(|error| error.to_string())?;
            Ok::<_, String>(chosen.iter().map(|program| program.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["pca", "lu"], true).unwrap(), ["pca", "lu"]);
        assert_eq!(names(&[], false).unwrap().len(), 29);
        assert_eq!(names(&[], true).unwrap(), programs::FEW);
        let error = names(&["lu", "doom"], false).unwrap_err();
        assert!(error.contains("no program doom") && error.contains("kvstore"), "{error}");
    }

    #[test]
    fn scales_are_those_of_the_programs() {
        assert_eq!(parse_scale("0.5"), Ok(0.5));
        for bad in ["0", "-1", "nan", "101", "x", ""] {
            assert!(parse_scale(bad).unwrap_err().contains("0.001"), "{bad}");
        }
    }
}
