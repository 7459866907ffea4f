//! What the processes of these tests do: each role is an ignored test of this program.

use crate::common::{compute, cpus, is_actor, join, say, socket, soon};
use quaver_share::broker::{Broker, Options};
use quaver_share::class::{Class, pin};
use quaver_share::{Rung, State};
use std::process::Command;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

/// A latency-critical application: one worker on the first core, and somebody who brings work, over
/// and over. Says how much was done, and what became of rings.
#[test]
#[ignore = "a role"]
fn critical() {
    if !is_actor() {
        return;
    }
    let member = join("lc");
    let doors = member.doors().clone();
    let (made, done) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|s| {
        s.spawn(|| {
            member.work_at(0).expect("as admitted");
            loop {
                while done.load(Relaxed) < made.load(SeqCst) {
                    done.fetch_add(1, SeqCst);
                }
                doors.park(0, || done.load(Relaxed) == made.load(SeqCst), None);
            }
        });
        say("ready");
        let mut rungs = [0u64; 5];
        for round in 1u64.. {
            made.fetch_add(1, SeqCst);
            rungs[doors.ring(0) as usize] += 1;
            soon("the work is done", || done.load(SeqCst) == made.load(Relaxed));
            if round.is_multiple_of(50) {
                say(format_args!(
                    "done {round} answered {} forced {} {:?}",
                    rungs[Rung::Answered as usize],
                    rungs[Rung::Forced as usize],
                    member.state()
                ));
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    });
}

/// A latency-critical application whose worker starts a program. Says the class of that.
#[test]
#[ignore = "a role"]
fn parent() {
    if !is_actor() {
        return;
    }
    let ranked = Class::Other(-20).is_allowed();
    let child = || {
        let mut child = Command::new("sleep").arg("100").spawn().expect("sleep is installed");
        let class = Class::of(child.id() as i32).expect("it lives");
        child.kill().expect("it lives");
        child.wait().expect("it has ended");
        class
    };
    let member = join("lc");
    std::thread::scope(|s| {
        s.spawn(|| {
            member.work_at(0).expect("as admitted");
            assert!(!ranked || Class::of(0).expect("it lives") > Class::Other(0));
            say(format_args!("child {:?}", child()));
        });
    });
}

/// A best-effort application that computes on the first core and looks at the bells.
#[test]
#[ignore = "a role"]
fn effort() {
    if !is_actor() {
        return;
    }
    look_for_ever();
}

/// The same, all of whose threads are bound to that core.
#[test]
#[ignore = "a role"]
fn bound() {
    if !is_actor() {
        return;
    }
    pin(&[cpus()[0]]).expect("its own CPU");
    look_for_ever();
}

fn look_for_ever() {
    let member = join("be");
    member.work_at(0).expect("its own CPU");
    let doors = member.doors();
    doors.looks(0, true);
    say("ready");
    for _ in 0.. {
        compute(doors, 0, Duration::from_millis(20));
        say(format_args!("computed {:?}", member.state()));
    }
}

/// One that says that it looks at the bells, and does not.
#[test]
#[ignore = "a role"]
fn liar() {
    if !is_actor() {
        return;
    }
    let member = join("be");
    member.work_at(0).expect("its own CPU");
    member.doors().looks(0, true);
    say("ready");
    loop {
        std::hint::spin_loop();
    }
}

/// One that does nothing at all.
#[test]
#[ignore = "a role"]
fn sleeper() {
    if !is_actor() {
        return;
    }
    let _member = join("be:3");
    say("ready");
    std::thread::sleep(Duration::from_secs(1000));
}

/// A latency-critical application that never stops.
#[test]
#[ignore = "a role"]
fn greedy() {
    if !is_actor() {
        return;
    }
    let member = join("lc");
    member.work_at(0).expect("as admitted");
    say("ready");
    loop {
        std::hint::spin_loop();
    }
}

/// A broker of its own.
#[test]
#[ignore = "a role"]
fn broker() {
    if !is_actor() {
        return;
    }
    let options = Options::new(socket(), vec![cpus()[0]]);
    let mut broker = Broker::bind(options).unwrap();
    // SAFETY: the handler stores to a variable.
    unsafe { libc::signal(libc::SIGTERM, terminate as *const () as usize) };
    say("ready");
    broker.run(|| TERMINATED.load(Relaxed)).unwrap();
}

static TERMINATED: AtomicBool = AtomicBool::new(false);

extern "C" fn terminate(_: i32) {
    TERMINATED.store(true, Relaxed);
}

#[test]
#[ignore = "a role"]
fn plain() {
    if !is_actor() {
        return;
    }
    let at = format!("be:2@{}", socket().display()).parse().unwrap();
    quaver_share::join_plain(&at, "plain").unwrap();
    say("ready");
    say(format_args!("class {:?}", Class::of(0).unwrap()));
    say(format_args!("cpus {:?}", cpus()));
    std::thread::sleep(Duration::from_secs(1000));
}

/// A member that writes noise into its page, and says what became of it.
#[test]
#[ignore = "a role"]
fn wild() {
    if !is_actor() {
        return;
    }
    let seed = std::process::id() as u64;
    let role = if seed.is_multiple_of(2) { "lc" } else { "be" };
    // Whatever this process complains of.
    // SAFETY: no memory is involved.
    assert_eq!(unsafe { libc::dup2(1, 2) }, 2);
    let member = join(role);
    say("ready");
    let page = own_page().expect("a page that can be written");
    let mut state = seed;
    while member.state() == State::Member {
        for _ in 0..100 {
            let word = quaver_sched::random::splitmix64(&mut state);
            let at = (word as usize >> 40) % 1024;
            let value = if word & 1 == 0 { word as u32 >> 1 } else { word as u32 % 4 };
            // SAFETY: a word of this process's own mapping of 4096 bytes.
            unsafe { page.add(at).write_volatile(value) };
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    say(format_args!("ended {:?}", member.state()));
    std::thread::sleep(Duration::from_secs(1000));
}

/// The one mapping of the broker's memory that this process may write.
fn own_page() -> Option<*mut u32> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line =
        maps.lines().find(|line| line.contains("quaver-share-page") && line.contains("rw-s"));
    let start = line?.split('-').next()?;
    Some(usize::from_str_radix(start, 16).ok()? as *mut u32)
}

/// What a member has of others it cannot write, nor can it cut or replace it.
#[test]
#[ignore = "a role"]
fn burglar() {
    if !is_actor() {
        return;
    }
    let _member = join("be");
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let ours = maps.lines().filter(|line| line.contains("quaver-share-"));
    let mut writable = 0;
    for line in ours {
        let (range, rest) = line.split_once(' ').unwrap();
        if rest.starts_with("rw-s") {
            writable += 1;
            continue;
        }
        let start = usize::from_str_radix(range.split('-').next().unwrap(), 16).unwrap();
        // SAFETY: rights of a mapping of this process, which stays as it is should that fail.
        let result =
            unsafe { libc::mprotect(start as *mut _, 4096, libc::PROT_READ | libc::PROT_WRITE) };
        assert_eq!(result, -1, "{line}");
    }
    say(format_args!("writable {writable}"));
    std::thread::sleep(Duration::from_secs(1000));
}
