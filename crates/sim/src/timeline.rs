//! What ran where, for a window of a run, in the form that Perfetto and Chrome's trace viewer read.

use serde::Serialize;

/// From and to, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// The first nanosecond.
    pub from: u64,
    /// The one after the last.
    pub to: u64,
}

/// A task on a worker, without interruption by another task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// The worker.
    pub worker: u32,
    /// The task's number, which is used again after its end.
    pub task: u32,
    /// Index of the class; see [`Timeline::classes`].
    pub class: u32,
    /// From when the worker was busy with it, with the costs of the switch.
    pub from: u64,
    /// When the task itself began to run.
    pub runs: u64,
    /// When it left.
    pub to: u64,
    /// It left because it was preempted.
    pub preempted: bool,
}

/// The spans of a window.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Timeline {
    /// Names of the classes.
    pub classes: Vec<String>,
    /// In the order of their ends.
    pub spans: Vec<Span>,
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(rename = "displayTimeUnit")]
    unit: &'static str,
    #[serde(rename = "traceEvents")]
    events: Vec<Event<'a>>,
}

#[derive(Serialize)]
struct Event<'a> {
    name: &'a str,
    cat: &'static str,
    ph: &'static str,
    /// Microseconds.
    ts: f64,
    dur: f64,
    pid: u32,
    tid: u32,
    args: Args,
}

#[derive(Serialize)]
struct Args {
    task: u32,
    preempted: bool,
}

impl Timeline {
    /// As JSON for <https://ui.perfetto.dev>: a row for each worker, a slice for each span, and a
    /// slice `switch` before it for what entering cost.
    pub fn to_perfetto(&self) -> String {
        let us = |ns: u64| ns as f64 / 1e3;
        let mut events = Vec::with_capacity(2 * self.spans.len());
        for span in &self.spans {
            let args = || Args { task: span.task, preempted: span.preempted };
            let event = |name, cat, from: u64, to: u64| Event {
                name,
                cat,
                ph: "X",
                ts: us(from),
                dur: us(to.saturating_sub(from)),
                pid: 1,
                tid: span.worker,
                args: args(),
            };
            if span.runs > span.from {
                events.push(event("switch", "overhead", span.from, span.runs.min(span.to)));
            }
            if span.to > span.runs {
                let name = self.classes.get(span.class as usize).map_or("task", String::as_str);
                events.push(event(name, "task", span.runs, span.to));
            }
        }
        let document = Document { unit: "ns", events };
        serde_json::to_string(&document).expect("numbers and texts can be written")
    }
}
