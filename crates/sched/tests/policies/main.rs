//! The rules of the built-in policies: by hand, against reference models, in simulated time, and
//! with real threads.

mod contest;
mod fairness;
mod fifo_rr;
mod host;
mod lost;
mod model;
mod ordered;
mod priority;
mod properties;
mod shenango;
mod simulation;
mod stress;
mod two_queue;
mod ws;

use quaver_sched::{
    Attributes, Class, Pick, Place, Policy, Running, Service, Spec, Task, Time, Why,
};

/// The names of all policies.
fn all() -> impl Iterator<Item = &'static str> {
    Spec::names().iter().map(|&(name, _)| name)
}

/// Make a policy; time is in nanoseconds.
fn build(spec: &str, workers: usize, max_tasks: u32) -> Box<dyn Policy> {
    let spec: Spec = spec.parse().unwrap();
    spec.build(workers, max_tasks, |duration| duration.as_nanos() as Time)
}

/// What a worker that looks for work does.
fn next(policy: &dyn Policy, worker: usize, now: Time) -> Option<Pick> {
    policy.task_dequeue(worker, now).or_else(|| policy.balance(worker, now))
}

/// Let `worker` take tasks until there are none; returns their numbers.
fn drain(policy: &dyn Policy, worker: usize, now: Time) -> Vec<u32> {
    std::iter::from_fn(|| next(policy, worker, now)).map(|pick| pick.task.0).collect()
}

fn enqueue(policy: &dyn Policy, place: Place, why: Why, tasks: impl IntoIterator<Item = u32>) {
    tasks.into_iter().for_each(|task| policy.task_enqueue(place, Task(task), why, 0));
}

fn running(class: Class, since: Time) -> Running {
    Running { task: Task(0), since, class }
}
