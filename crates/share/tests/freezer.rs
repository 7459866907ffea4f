//! Plain programs that raise themselves.

// The other tests use the rest of it.
#[allow(dead_code)]
mod common;

use common::{Here, Place, cpus, is_actor, say, socket, soon, start};
use quaver_share::broker::Options;
use quaver_share::class::Class;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// A plain program that takes the usual class again and again, and computes.
#[test]
#[ignore = "an actor of the other tests"]
fn role_climber() {
    if !is_actor() {
        return;
    }
    let at = format!("be@{}", socket().display()).parse().expect("a role");
    quaver_share::join_plain(&at, "climber").unwrap_or_else(|e| panic!("{e}"));
    say("ready");
    loop {
        let _ = Class::Other(0).set(0);
        (0..100_000).for_each(|_| std::hint::spin_loop());
    }
}

fn unified() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mounts: Vec<Vec<&str>> = mounts.lines().map(|line| line.split(' ').collect()).collect();
    mounts.iter().find(|m| m[2] == "cgroup2").map(|m| m[1].into())
}

/// What a process has used, in ticks.
fn used(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it is there");
    let fields = stat.rsplit_once(')').expect("a name").1;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    fields[11].parse::<u64>().expect("a number") + fields[12].parse::<u64>().expect("a number")
}

#[test]
fn who_raises_itself_over_and_over_is_frozen_until_the_broker_ends() {
    let Some(root) = unified().filter(|root| {
        let tried = root.join(format!("quaver-test-{}", std::process::id()));
        fs::create_dir(&tried).is_ok_and(|()| {
            let can = tried.join("cgroup.freeze").exists();
            fs::remove_dir(&tried).expect("it is empty");
            can
        })
    }) else {
        return eprintln!("skipped: it takes a cgroup v2 that can be written");
    };
    let place = Place::new("share-freeze", "share.sock");
    let broker = Here::start(Options::new(place.socket(), vec![cpus()[0]]));
    let frozen = || {
        let gone = broker.status().expelled;
        gone.iter().filter(|gone| gone.why.contains("raises its own rank")).count()
    };
    let mut climber = start("role_climber", &place.socket());
    climber.line("ready").expect("it has joined");
    soon("it is expelled", || frozen() == 1);
    let mut another = start("role_climber", &place.socket());
    another.line("ready").expect("it has the number of the first");
    soon("it is expelled, too", || frozen() == 2);
    let pid = climber.child.id();
    let group = root.join(format!("quaver-share-{}-{pid}", std::process::id()));
    let events = || fs::read_to_string(group.join("cgroup.events")).expect("it is frozen there");
    soon("it is frozen", || events().contains("frozen 1"));
    let before = used(pid);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(used(pid), before);
    broker.end();
    assert!(!group.exists());
    soon("it goes on", || used(pid) > before);
}
