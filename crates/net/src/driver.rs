//! The user threads of a stack: two for each queue.
//!
//! The *driver* takes frames while there are some, and waits for the device's file otherwise. The
//! *keeper* sleeps until the next timer. Who sends sets timers too: if one is due before the keeper
//! wakes, it is woken. So nobody looks at the clock for nothing, and an idle stack costs nothing.

use crate::net::Net;
use crate::stack::NEVER;
use quaver::net::Pollable;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often drivers see whether the stack has ended.
const LOOK: Duration = Duration::from_millis(250);
/// How often drivers look at a device without a file.
const WITHOUT_FILE: Duration = Duration::from_micros(200);

pub(crate) fn start(
    net: &Arc<Net>,
    runtime: &quaver::Handle,
) -> io::Result<Vec<quaver::JoinHandle<()>>> {
    let mut threads = Vec::new();
    for index in 0..net.shards.len() {
        let file = net.shards[index].file()?.map(Pollable::new).transpose()?;
        let driver = net.clone();
        threads.push(runtime.spawn(move || drive(&driver, index, file.as_ref())));
        let keeper = net.clone();
        threads.push(runtime.spawn(move || keep(&keeper, index)));
    }
    Ok(threads)
}

fn drive(net: &Net, index: usize, file: Option<&Pollable<OwnedFd>>) {
    while !net.is_stopped() {
        let waited = match file {
            Some(file) => file.read_io(Some(Instant::now() + LOOK), |_| take_all(net, index)),
            None => take_all(net, index).inspect_err(|_| quaver::sleep(WITHOUT_FILE)),
        };
        match waited {
            Err(e) if matches!(e.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock) => {}
            // The stack has ended, or its device is gone and the sockets know it.
            _ => return,
        }
    }
}

/// Takes frames until there are none.
///
/// # Errors
///
/// `WouldBlock` then; the device's.
fn take_all(net: &Net, index: usize) -> io::Result<()> {
    while !net.is_stopped() {
        let turn = net.shards[index].turn()?;
        net.steer(index, turn.strays);
        if !turn.more {
            return Err(ErrorKind::WouldBlock.into());
        }
        // Those whose frames have come may run, on one worker too.
        quaver::yield_now();
    }
    Ok(())
}

/// Does what is due.
fn keep(net: &Net, index: usize) {
    let shard = &net.shards[index];
    let Some(me) = quaver::thread::current() else { return };
    shard.set_keeper(me);
    while !net.is_stopped() {
        let next = shard.sleep_until_next();
        let now = net.clock.now();
        if next == NEVER {
            quaver::thread::park();
        } else if next > now {
            quaver::thread::park_timeout(Duration::from_micros(next - now));
        }
        match shard.turn() {
            Ok(turn) => net.steer(index, turn.strays),
            Err(_) => return,
        }
    }
}
