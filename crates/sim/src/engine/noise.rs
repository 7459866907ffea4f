//! The machine stops workers: at random, or as it was recorded.

use std::collections::VecDeque;

use super::{Engine, NOISE};
use crate::calendar::NEVER;
use crate::scenario::{Noise, Scenario, ScenarioError};

/// What is still to come.
pub(super) struct Disturbances {
    kinds: Vec<Noise>,
    /// When each of them comes next.
    next: Vec<u64>,
    /// Recorded stops: when, and how long.
    recorded: VecDeque<(u64, u64)>,
}

impl Disturbances {
    /// Those of the scenario; recorded ones from `begin` on.
    pub(super) fn new(scenario: &Scenario, begin: u64) -> Result<Self, ScenarioError> {
        let recorded = scenario.recorded_stops()?.into_iter();
        Ok(Disturbances {
            kinds: scenario.noise.clone(),
            next: Vec::new(),
            recorded: recorded.filter_map(|(at, ns)| Some((at.checked_sub(begin)?, ns))).collect(),
        })
    }

    fn first(&self, now: u64) -> u64 {
        let recorded = self.recorded.front().map(|&(at, _)| at.max(now));
        self.next.iter().copied().chain(recorded).min().unwrap_or(NEVER)
    }
}

impl Engine<'_> {
    pub(super) fn begin_noise(&mut self) {
        for kind in 0..self.noise.kinds.len() {
            let first = self.next_noise(kind);
            self.noise.next.push(first);
        }
        self.calendar.set(NOISE, self.noise.first(self.now));
    }

    /// When a disturbance of this kind comes to some worker.
    fn next_noise(&mut self, kind: usize) -> u64 {
        let every = self.noise.kinds[kind].every as f64 / self.workers.len() as f64;
        self.now + self.random.gap(every)
    }

    pub(super) fn disturb(&mut self) {
        let worker = self.random.below(self.workers.len());
        let recorded = self.noise.recorded.pop_front_if(|&mut (at, _)| at <= self.now);
        let lasts = if let Some((_, lasts)) = recorded {
            lasts
        } else if let Some(kind) = self.noise.next.iter().position(|&at| at == self.now) {
            let lasts = self.noise.kinds[kind].lasts.sample(&mut self.random);
            self.noise.next[kind] = self.next_noise(kind);
            lasts
        } else {
            return;
        };
        let me = &mut self.workers[worker];
        me.stopped = me.stopped.max(self.now) + lasts;
        if me.running.is_some() {
            self.lose(worker, lasts);
        } else {
            me.stalled = me.stalled.max(self.now) + lasts;
        }
        self.schedule(worker);
        self.calendar.set(NOISE, self.noise.first(self.now));
    }
}
