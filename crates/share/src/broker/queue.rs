//! The run queue that applications of the broker's user may have in common: the broker makes it and
//! hands it out, and has no part in it.

use super::peer::Peer;
use super::{Broker, Options};
use crate::common::Common;
use crate::wire::{self, Message, Subject};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Threads that each application can have in it.
const TASKS: u32 = 1 << 16;

/// Its memory, if there is to be one.
pub(super) fn create(options: &Options) -> io::Result<Option<OwnedFd>> {
    let create = |spec| Common::create(spec, &options.cpus, TASKS).map_err(io::Error::other);
    options.queue.as_ref().map(create).transpose()
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
        wire::send(socket, &message, &[queue.as_fd()]).map_err(|e| e.to_string())
    }
}
