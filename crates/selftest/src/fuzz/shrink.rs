//! Makes a program that differs smaller.

use super::ddmin;
use super::program::{Operation, Program};
use super::record::Record;
use super::run::{Place, Trace, Trouble};
use super::ways::Way;
use std::time::{Duration, Instant};

/// What differs between two runs of a program: the operation, if one has another result, and in
/// words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deviation {
    /// The first operation that differs.
    pub operation: Option<usize>,
    /// The same for all differences of one kind.
    pub kind: String,
    /// With details.
    pub what: String,
}

/// Compares the records of program `index`.
pub fn compare(
    operations: &[Operation],
    native: &[Record],
    trace: &Trace,
    index: usize,
) -> Option<Deviation> {
    let found = &trace.programs[index];
    let first = (0..operations.len()).find(|&i| found[i] != native[i])?;
    // One that did not begin waited for another.
    let guilty = (first..operations.len())
        .find(|&i| found[i].begun && found[i] != native[i])
        .unwrap_or(first);
    let o = &operations[guilty];
    let (want, got) = (native[guilty], found[guilty]);
    let end = match &trace.trouble {
        Some(Trouble::Ended(how)) => format!("; the process ended: {how}"),
        _ => String::new(),
    };
    let kind = match &trace.trouble {
        Some(Trouble::Hangs) if got.done == 0 => format!("{} hangs", o.name),
        Some(Trouble::Ended(how)) if got.done == 0 => format!("{how} in {}", o.name),
        _ => format!("{}: {got} in place of {want}", o.name),
    };
    let what = format!("{}: {got} in place of {want}{end}", describe(guilty, o));
    Some(Deviation { operation: Some(guilty), kind, what })
}

/// An operation in words.
pub fn describe(number: usize, o: &Operation) -> String {
    let arguments: Vec<_> = o.arguments.iter().map(i64::to_string).collect();
    format!("{number}: thread {} {}({})", o.thread, o.name, arguments.join(", "))
}

/// How long a program stands still in a run that is to find out whether it is small enough.
const PATIENCE: Duration = Duration::from_secs(4);
/// How long all that may take.
const BUDGET: Duration = Duration::from_secs(90);

/// A smaller program that differs natively and in this way, if some of `runs` runs do, and what it
/// differs in.
pub fn shrink(
    place: &Place,
    program: &Program,
    way: Way,
    runs: u32,
) -> Option<(Program, Vec<Operation>, Vec<Record>, Trace)> {
    let until = Instant::now() + BUDGET;
    let mut best = None;
    let steps = ddmin::minimise(&program.steps, |steps| {
        if Instant::now() > until {
            return false;
        }
        let smaller = Program { steps: steps.to_vec(), ..program.clone() };
        let found = try_once(place, &smaller, way, runs);
        let fails = found.is_some();
        if let Some((operations, native, trace)) = found {
            best = Some((smaller, operations, native, trace));
        }
        fails
    });
    best.filter(|(program, ..)| program.steps == steps)
}

fn try_once(
    place: &Place,
    program: &Program,
    way: Way,
    runs: u32,
) -> Option<(Vec<Operation>, Vec<Record>, Trace)> {
    let programs = [program.operations()];
    let mut native = place.run(&programs, 0, Way::Native, PATIENCE).ok()?;
    if native.trouble.is_some() {
        return None;
    }
    for _ in 0..runs {
        let trace = place.run(&programs, 0, way, PATIENCE).ok()?;
        if compare(&programs[0], &native.programs[0], &trace, 0).is_some() {
            let [operations] = programs;
            return Some((operations, native.programs.remove(0), trace));
        }
    }
    None
}

/// The operations with their results: what the program did up to where it differs.
pub fn listing(operations: &[Operation], native: &[Record], found: &[Record]) -> Vec<String> {
    let line = |i: usize| {
        let (o, want, got) = (&operations[i], native[i], found[i]);
        let after: Vec<_> = o
            .after
            .iter()
            .map(|a| format!("{}{}", if a.begun { "begun " } else { "" }, a.operation))
            .collect();
        let after =
            if after.is_empty() { String::new() } else { format!(" after {}", after.join(", ")) };
        let results =
            if want == got { format!("{want}") } else { format!("{got} IN PLACE OF {want}") };
        format!("{}{after} = {results}", describe(i, o))
    };
    (0..operations.len()).map(line).collect()
}
