//! The run queue that applications of the broker's user may have in common: the broker makes it and
//! hands it out, and has no part in it.

use super::peer::Peer;
use super::status::{QueueMember, QueueStatus};
use super::{Broker, Options};
use crate::common::{Common, Glance, QueueError};
use crate::wire::{self, Message, Subject};
use quaver_sched::Spec;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Threads that each application can have in it.
const TASKS: u32 = 1 << 16;

/// A queue as the broker has it.
#[derive(Debug)]
pub(super) struct Queue {
    policy: String,
    memory: OwnedFd,
    glance: Glance,
}

/// The queue, if there is to be one.
pub(super) fn create(options: &Options) -> io::Result<Option<Queue>> {
    let create = |spec: &Spec| {
        let memory = Common::create(spec, &options.cpus, TASKS)?;
        let glance = Glance::at(&memory)?;
        Ok(Queue { policy: spec.to_string(), memory, glance })
    };
    let queue = options.queue.as_ref().map(create).transpose();
    queue.map_err(|error: QueueError| io::Error::other(error))
}

impl Queue {
    /// What is to be shown.
    pub(super) fn status(&self, cpus: &[usize]) -> QueueStatus {
        let application = |(number, pid)| {
            let has = |core: &usize| self.glance.owner(*core) == Some(number);
            let cpus = (0..cpus.len()).filter(has).map(|core| cpus[core]).collect();
            QueueMember { pid, cpus }
        };
        QueueStatus {
            policy: self.policy.clone(),
            applications: self.glance.processes().into_iter().map(application).collect(),
            switches: self.glance.switches(),
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
        wire::send(socket, &message, &[queue.memory.as_fd()]).map_err(|e| e.to_string())
    }
}
