//! Programs, and how they are put together.

use super::steps;
use crate::torture::Rng;
use std::collections::HashMap;
use std::fmt::Write;

/// Threads, objects: as many as the interpreter has room for.
const THREADS: usize = 32;
const OBJECTS: usize = 512;
/// Calls that a program has at least.
const CALLS: usize = 50;

/// What an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct After {
    /// The other's number.
    pub operation: usize,
    /// Until it has begun, as it blocks; otherwise until it is done.
    pub begun: bool,
}

/// A call of a thread, or a few.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The number of the thread.
    pub thread: usize,
    /// Its name in the interpreter.
    pub name: &'static str,
    /// Its arguments.
    pub arguments: Vec<i64>,
    /// Microseconds before it begins: computing, or asleep if negative.
    pub delay: i64,
    /// What it waits for.
    pub after: Vec<After>,
}

/// A program: it is determined by these numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Threads that live from its beginning to its end, the main thread among them.
    pub threads: usize,
    /// How they begin and end.
    pub seed: u64,
    /// The seeds of its steps.
    pub steps: Vec<u64>,
}

impl Program {
    /// Program `index` of the sequence that begins with `seed`.
    pub fn generate(seed: u64, index: u64) -> Program {
        let mut rng =
            Rng(seed.wrapping_mul(0x2545_f491_4f6c_dd1d)
                ^ index.wrapping_mul(0xd129_8a2e_3c9b_7f15));
        let threads = 4 + rng.below(5) as usize;
        let mut program = Program { threads, seed: rng.next(), steps: Vec::new() };
        let wanted = CALLS + rng.below(60) as usize;
        loop {
            program.steps.push(rng.next());
            let mut builder = program.assemble();
            if !builder.fits() {
                program.steps.pop();
                break;
            }
            if builder.finish(program.seed).len() >= wanted {
                break;
            }
        }
        program
    }

    fn assemble(&self) -> Builder {
        let mut builder = Builder::new(self.threads);
        builder.begin(self.seed);
        for &step in &self.steps {
            steps::add(&mut builder, step);
        }
        builder
    }

    /// Its operations, in an order in which none waits for a later one.
    pub fn operations(&self) -> Vec<Operation> {
        self.assemble().finish(self.seed)
    }

    /// What the steps are.
    pub fn step_names(&self) -> Vec<&'static str> {
        self.steps.iter().map(|&seed| steps::name(seed)).collect()
    }
}

/// The text that the interpreter reads.
pub fn text(programs: &[Vec<Operation>]) -> String {
    let mut out = String::new();
    for operations in programs {
        let threads = operations.iter().map(|o| o.thread + 1).max().unwrap_or(1);
        let _ = writeln!(out, "program {threads}");
        for o in operations {
            let _ = write!(out, "{} {}", o.thread, o.name);
            o.arguments.iter().for_each(|a| {
                let _ = write!(out, " {a}");
            });
            let _ = write!(out, " ; {} ;", o.delay);
            for a in &o.after {
                let _ = write!(out, " {}{}", if a.begun { "b" } else { "" }, a.operation);
            }
            out.push('\n');
        }
        out.push_str("end\n");
    }
    out
}

/// Puts operations together.
pub struct Builder {
    threads: usize,
    operations: Vec<Operation>,
    next_thread: usize,
    next_object: usize,
    /// The last operations of the last step that used a signal.
    signals: HashMap<i64, Vec<After>>,
    detached: Vec<usize>,
}

impl Builder {
    fn new(threads: usize) -> Builder {
        Builder {
            threads,
            operations: Vec::new(),
            next_thread: threads,
            next_object: 0,
            signals: HashMap::new(),
            detached: Vec::new(),
        }
    }

    fn fits(&self) -> bool {
        self.next_thread <= THREADS && self.next_object <= OBJECTS
    }

    /// Makes the threads that live to the end, each by one that is there already. They do nothing
    /// until there are all.
    fn begin(&mut self, seed: u64) {
        let mut rng = Rng(seed);
        let threads = self.threads;
        let mut detached = Vec::new();
        let mut chain = Chain::new(self, rng.next());
        let mut first = Vec::new();
        for new in 1..threads {
            let by = rng.below(new as u64) as usize;
            let flags = i64::from(rng.below(5) == 0) | if rng.below(4) == 0 { 2 } else { 0 };
            chain.step(by, "create", &[new as i64, flags]);
            first.push((new, "attributes", vec![flags]));
            if flags & 1 == 1 {
                detached.push(new);
            }
        }
        first.push((0, "equal", vec![1]));
        chain.all(&first);
        drop(chain);
        self.detached = detached;
    }

    /// The main thread waits for the others: joins them if it can.
    fn finish(&mut self, seed: u64) -> Vec<Operation> {
        let last = |operations: &[Operation], thread| {
            let operation = operations.iter().rposition(|o| o.thread == thread)?;
            Some(After { operation, begun: false })
        };
        let mut unjoined: Vec<_> =
            (self.threads..self.next_thread).filter_map(|t| last(&self.operations, t)).collect();
        for thread in 1..self.threads {
            let previous = last(&self.operations, thread);
            if self.detached.contains(&thread) {
                unjoined.extend(previous);
                continue;
            }
            let mut chain = Chain::new(self, seed ^ thread as u64);
            chain.previous.extend(previous);
            chain.step(0, "join", &[thread as i64]);
        }
        let mut chain = Chain::new(self, seed);
        chain.previous = unjoined;
        chain.step(0, "compute", &[1, 1]);
        drop(chain);
        self.operations.clone()
    }
}

/// Operations one after the other, for a step.
pub(super) struct Chain<'a> {
    builder: &'a mut Builder,
    pub(super) rng: Rng,
    /// What the next operation waits for.
    previous: Vec<After>,
    /// Those that have begun and block.
    open: Vec<After>,
    signals: Vec<i64>,
}

impl<'a> Chain<'a> {
    pub(super) fn new(builder: &'a mut Builder, seed: u64) -> Chain<'a> {
        let (previous, open, signals) = (Vec::new(), Vec::new(), Vec::new());
        Chain { builder, rng: Rng(seed), previous, open, signals }
    }

    fn push(
        &mut self,
        thread: usize,
        name: &'static str,
        arguments: &[i64],
        after: &[After],
    ) -> usize {
        let delay = match self.rng.below(8) {
            0 => self.rng.below(100) as i64,
            1 => -1 - self.rng.below(300) as i64,
            _ => 0,
        };
        let all = &self.builder.operations;
        // Its own thread's earlier operations are done anyway.
        let after = after.iter().copied().filter(|a| all[a.operation].thread != thread).collect();
        self.builder.operations.push(Operation {
            thread,
            name,
            arguments: arguments.into(),
            delay,
            after,
        });
        self.builder.operations.len() - 1
    }

    /// The next operation waits until this one is done.
    pub(super) fn step(&mut self, thread: usize, name: &'static str, arguments: &[i64]) -> usize {
        let after = core::mem::take(&mut self.previous);
        let operation = self.push(thread, name, arguments, &after);
        self.previous = vec![After { operation, begun: false }];
        operation
    }

    /// This one blocks until a later one has released it: that begins when this has begun.
    pub(super) fn start(&mut self, thread: usize, name: &'static str, arguments: &[i64]) -> usize {
        let operation = self.step(thread, name, arguments);
        self.previous = vec![After { operation, begun: true }];
        self.open.push(After { operation, begun: false });
        operation
    }

    /// What has been started is done before the next one begins.
    pub(super) fn finish(&mut self) {
        self.previous.append(&mut self.open);
    }

    /// All at the same time.
    pub(super) fn all(&mut self, operations: &[(usize, &'static str, Vec<i64>)]) {
        let after = core::mem::take(&mut self.previous);
        for (thread, name, arguments) in operations {
            let operation = self.push(*thread, name, arguments, &after);
            self.previous.push(After { operation, begun: false });
        }
    }

    /// Different threads, of those that live to the end.
    pub(super) fn threads<const N: usize>(&mut self) -> [usize; N] {
        let mut all: Vec<usize> = (0..self.builder.threads).collect();
        core::array::from_fn(|_| all.swap_remove(self.rng.below(all.len() as u64) as usize))
    }

    /// Two or more of them.
    pub(super) fn some_threads(&mut self) -> Vec<usize> {
        let mut all: Vec<usize> = (0..self.builder.threads).collect();
        let wanted = 2 + self.rng.below(all.len() as u64 - 1) as usize;
        while all.len() > wanted {
            all.swap_remove(self.rng.below(all.len() as u64) as usize);
        }
        all
    }

    /// A thread of this step alone: somebody creates it, and it ends.
    pub(super) fn new_thread(&mut self) -> usize {
        self.builder.next_thread += 1;
        self.builder.next_thread - 1
    }

    pub(super) fn object(&mut self) -> i64 {
        self.builder.next_object += 1;
        self.builder.next_object as i64 - 1
    }

    /// Takes a signal that no other step uses at the same time.
    pub(super) fn take_signal(&mut self, signal: i64) -> i64 {
        if let Some(last) = self.builder.signals.get(&signal) {
            self.previous.extend(last);
        }
        self.signals.push(signal);
        signal
    }

    /// One of `of`.
    pub(super) fn pick(&mut self, of: &[i64]) -> i64 {
        of[self.rng.below(of.len() as u64) as usize]
    }

    pub(super) fn chance(&mut self, of: u64) -> bool {
        self.rng.below(of) == 0
    }
}

impl Drop for Chain<'_> {
    fn drop(&mut self) {
        self.finish();
        for &signal in &self.signals {
            self.builder.signals.insert(signal, self.previous.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_large_enough_and_do_not_deadlock() {
        for index in 0..2000 {
            let program = Program::generate(1, index);
            let operations = program.operations();
            assert!(program.threads >= 4 && operations.len() >= CALLS, "{program:?}");
            for (i, o) in operations.iter().enumerate() {
                assert!(o.after.iter().all(|a| a.operation < i) && o.after.len() <= 32, "{o:?}");
                assert!(o.arguments.len() <= 6, "{o:?}");
            }
            assert_eq!(program, Program::generate(1, index));
        }
        assert_ne!(Program::generate(1, 0), Program::generate(2, 0));
    }

    #[test]
    fn a_program_without_a_step_is_one() {
        let program = Program::generate(1, 3);
        for i in 0..program.steps.len() {
            let mut smaller = program.clone();
            smaller.steps.remove(i);
            let operations = smaller.operations();
            for (i, o) in operations.iter().enumerate() {
                assert!(o.after.iter().all(|a| a.operation < i));
            }
        }
    }
}
