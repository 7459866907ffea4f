//! The run queue that applications of the broker's user may have in common: the broker makes it and
//! hands it out, and has no part in it.

use super::peer::Peer;
use super::status::{QueueMember, QueueStatus};
use super::usage::Usage;
use super::{Broker, Options};
use crate::common::{Common, Files, Glance, QueueError, open_device};
use crate::wire::{self, Message, Subject};
use quaver_sched::Spec;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Threads that each application can have in it.
const TASKS: u32 = 1 << 16;

/// A queue as the broker has it.
#[derive(Debug)]
pub(super) struct Queue {
    policy: String,
    files: Files,
    glance: Glance,
    users: Vec<User>,
    /// Seconds since the rates were taken, and the counts then.
    passed: f64,
    before: Counts,
    rates: Rates,
}

/// An application's use of the CPUs.
#[derive(Debug)]
struct User {
    pid: u32,
    usage: Usage,
    before: Duration,
    share_percent: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    switches: u64,
    taken: u64,
    waited: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    switches_per_s: u64,
    /// Ticks.
    wait: Option<f64>,
}

/// The queue, if there is to be one.
pub(super) fn create(options: &Options) -> io::Result<Option<Queue>> {
    let create = |spec: &Spec| {
        let memory = Common::create(spec, &options.cpus, TASKS)?;
        let glance = Glance::at(&memory)?;
        let files = Files { memory, device: open_device() };
        Ok(Queue {
            policy: spec.to_string(),
            files,
            glance,
            users: Vec::new(),
            passed: 0.0,
            before: Counts::default(),
            rates: Rates::default(),
        })
    };
    let queue = options.queue.as_ref().map(create).transpose();
    queue.map_err(|error: QueueError| io::Error::other(error))
}

impl Queue {
    /// Looks at who uses it; `span` has passed since the last look.
    pub(super) fn look(&mut self, cpus: &[usize], span: Duration) {
        let pids: Vec<u32> = self.glance.processes().into_iter().map(|(_, pid)| pid).collect();
        self.users.retain(|user| pids.contains(&user.pid));
        for pid in pids {
            if !self.users.iter().any(|user| user.pid == pid) {
                let (usage, before) = (Usage::default(), Duration::ZERO);
                self.users.push(User { pid, usage, before, share_percent: 0.0 });
            }
        }
        for user in &mut self.users {
            user.usage.look(&[user.pid as i32], cpus);
        }
        self.passed += span.as_secs_f64();
        if self.passed < 1.0 {
            return;
        }
        let (taken, waited) = self.glance.waits();
        let now = Counts { switches: self.glance.switches(), taken, waited };
        let (then, passed) = (self.before, self.passed);
        // Members may have spoilt the memory.
        let since = |now: u64, then: u64| now.saturating_sub(then);
        let (taken, waited) = (since(now.taken, then.taken), since(now.waited, then.waited));
        self.rates = Rates {
            switches_per_s: (since(now.switches, then.switches) as f64 / passed) as u64,
            wait: (taken > 0).then(|| waited as f64 / taken as f64),
        };
        for user in &mut self.users {
            let used = (user.usage.used - user.before).as_secs_f64();
            user.share_percent = 100.0 * used / passed / cpus.len() as f64;
            user.before = user.usage.used;
        }
        (self.before, self.passed) = (now, 0.0);
    }

    /// What is to be shown; `us` makes microseconds of ticks.
    pub(super) fn status(&self, cpus: &[usize], us: impl Fn(u64) -> f64) -> QueueStatus {
        let application = |(number, pid)| {
            let has = |core: &usize| self.glance.owner(*core) == Some(number);
            let cpus = (0..cpus.len()).filter(has).map(|core| cpus[core]).collect();
            let user = self.users.iter().find(|user| user.pid == pid);
            QueueMember { pid, cpus, share_percent: user.map_or(0.0, |user| user.share_percent) }
        };
        QueueStatus {
            policy: self.policy.clone(),
            applications: self.glance.processes().into_iter().map(application).collect(),
            switches: self.glance.switches(),
            switches_per_s: self.rates.switches_per_s,
            wait_us: self.rates.wait.map(|ticks| us(ticks as u64)),
            switches_by: if self.files.device.is_some() { "module" } else { "futex" }.into(),
            rebuilt: self.glance.rebuilt(),
        }
    }
}

impl Broker {
    /// Hands it out, to those who are trusted like the broker.
    pub(super) fn lend_queue(&self, socket: &OwnedFd) -> Result<(), String> {
        let queue = self.queue.as_ref().ok_or("it has no common queue (--queue POLICY)")?;
        let uid = Peer::of(socket)?.uid;
        if uid != rustix::process::geteuid().as_raw() {
            return Err(format!("user {uid} is not the owner of the common queue"));
        }
        let message = Message::new(Subject::Queue, [0; 4]);
        let files = [Some(&queue.files.memory), queue.files.device.as_ref()];
        let files: Vec<_> = files.into_iter().flatten().map(OwnedFd::as_fd).collect();
        wire::send(socket, &message, &files).map_err(|e| e.to_string())
    }
}
