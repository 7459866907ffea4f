//! Runtimes whose threads are in one run queue. The broker and peers are other processes, some of
//! which are killed; one runtime is in this process. Nothing is decided by a time.

#[path = "support/actors.rs"]
mod actors;
#[path = "support/alone.rs"]
mod alone;

use actors::{Actor, Place, soon};
use alone::{alone, cpus};
use quaver::sched::share::Membership;
use quaver::{BuildError, Builder, Runtime};
use quaver_share::broker::{Broker, Options};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream as KernelStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

/// Names the broker's socket to an actor, and the policy to a broker.
const AT: &str = "QUAVER_TEST_QUEUE_AT";
const POLICY: &str = "QUAVER_TEST_QUEUE_POLICY";

fn socket() -> Option<PathBuf> {
    std::env::var_os(AT).map(PathBuf::from)
}

#[test]
#[ignore = "a role"]
fn role_broker() {
    let Some(socket) = socket() else { return };
    let policy = std::env::var(POLICY).expect("a policy");
    let queue = Some(policy.parse().expect("a policy"));
    let cpus: Vec<usize> = cpus().into_iter().take(2).collect();
    let mut broker = Broker::bind(Options { queue, ..Options::new(socket, cpus) }).unwrap();
    println!("\nserves");
    broker.run(|| false).unwrap();
}

/// A runtime that computes, sleeps and talks through a socket, and says how far it has come.
#[test]
#[ignore = "a role"]
fn role_peer() {
    let Some(socket) = socket() else { return };
    let rt = joined(&socket).build().unwrap();
    let life = Life::begin(&rt);
    println!("\nserves");
    for round in 1.. {
        soon("progress of a peer", || life.least() >= round);
        println!("\nround {round}");
    }
}

fn joined(socket: &Path) -> Builder {
    Builder::new().share(Membership::common().at(socket.to_str().unwrap()))
}

/// What a program may do, each by threads that count their rounds.
struct Life {
    rounds: Arc<[AtomicU64; 4]>,
    stop: Arc<AtomicBool>,
}

impl Life {
    fn begin(rt: &Runtime) -> Life {
        let rounds: Arc<[AtomicU64; 4]> = Arc::default();
        let stop = Arc::new(AtomicBool::new(false));
        let begin = |which: usize, mut round: Box<dyn FnMut() + Send>| {
            let (rounds, stop) = (rounds.clone(), stop.clone());
            rt.handle().spawn(move || {
                while !stop.load(Relaxed) {
                    round();
                    rounds[which].fetch_add(1, Relaxed);
                }
            })
        };
        let spin = || (0..20_000).for_each(|_| std::hint::spin_loop());
        // Two that never give up their core, and must be preempted.
        begin(0, Box::new(spin));
        begin(1, Box::new(spin));
        begin(2, Box::new(|| quaver::sleep(Duration::from_millis(1))));
        // One that waits for a socket, to which a kernel thread writes.
        let (mut here, mut there) = KernelStream::pair().expect("a pair");
        std::thread::spawn(move || {
            while there.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        begin(3, Box::new(move || here.read_exact(&mut [0]).expect("somebody writes")));
        Life { rounds, stop }
    }

    fn least(&self) -> u64 {
        self.rounds.iter().map(|n| n.load(Relaxed)).min().unwrap_or(0)
    }

    /// Every kind of thread does some more.
    fn goes_on(&self) {
        for (which, n) in self.rounds.iter().enumerate() {
            let before = n.load(Relaxed);
            soon(["spins", "spins, too", "sleeps", "reads"][which], || {
                n.load(Relaxed) > before + 3
            });
        }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
    }
}

fn start(name: &str, socket: &Path, policy: &str) -> Actor {
    let mut command = actors::role(name);
    command.env(AT, socket).env(POLICY, policy);
    let mut actor = Actor::start(command);
    actor.line("serves").expect("it has begun");
    actor
}

/// The peer does something more.
fn comes_on(peer: &mut Actor) {
    let round = |peer: &mut Actor| -> u64 {
        peer.line("round ").expect("it goes on").parse().expect("a number")
    };
    let before = round(peer);
    while round(peer) < before + 3 {}
}

#[test]
fn runtimes_of_several_processes_take_turns() {
    let _alone = alone();
    for policy in ["two-queue", "cfs", "rr:quantum=200us"] {
        let place = Place::new("rt-queue", "q.sock");
        let _broker = start("role_broker", &place.socket(), policy);
        let rt = joined(&place.socket()).build().unwrap();
        assert!(rt.policy().to_string().contains(policy), "{}", rt.policy());
        let life = Life::begin(&rt);
        life.goes_on();
        let mut peers = [(); 2].map(|()| start("role_peer", &place.socket(), policy));
        for peer in &mut peers {
            comes_on(peer);
        }
        life.goes_on();
        drop(peers);
        life.goes_on();
        drop(life);
        rt.shutdown();
    }
}

#[test]
fn a_peer_that_is_killed_keeps_nothing() {
    let _alone = alone();
    let place = Place::new("rt-queue-kill", "q.sock");
    let _broker = start("role_broker", &place.socket(), "two-queue");
    let rt = joined(&place.socket()).build().unwrap();
    let life = Life::begin(&rt);
    for round in 0..8 {
        let mut peer = start("role_peer", &place.socket(), "");
        std::thread::sleep(Duration::from_micros(700 * round));
        peer.kill();
        life.goes_on();
    }
    drop(life);
    rt.shutdown();
    // Its place is free, and the memory can be used again.
    let rt = joined(&place.socket()).build().unwrap();
    assert_eq!(rt.run(|| quaver::spawn(|| 7).join().unwrap()), 7);
}

#[test]
fn what_cannot_be_joined_is_said() {
    let _alone = alone();
    let place = Place::new("rt-queue-no", "q.sock");
    let _broker = start("role_broker", &place.socket(), "ws");
    let error = joined(&place.socket()).cpus(vec![cpus()[0]]).build();
    match error.map(|_| ()) {
        Err(BuildError::Share { reason }) => assert!(reason.contains("each of its CPUs")),
        other => assert!(cpus().len() == 1, "{other:?}"),
    }
    let rt = joined(&place.socket()).build().unwrap();
    drop(rt);
}
