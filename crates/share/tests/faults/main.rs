//! Applications and brokers that end, stop, lie and go wild, while others go on.
//!
//! Work is handed from one process to another through a core that both share; nothing is decided by
//! a time. Where this process may not rank threads, the kernel's classes do less, and the tests are
//! the same.

#[path = "../common/mod.rs"]
mod common;
mod roles;

use common::{Actor, Here, Place, cpus, left, signal, soon, start};
use quaver_share::broker::{Broker, BrokerError, Options, Policy};
use quaver_share::class::Class;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The core that all tests share.
static CORE: RwLock<()> = RwLock::new(());

/// For a test that others may disturb.
fn beside_others(name: &str) -> (RwLockReadGuard<'static, ()>, Place) {
    let core = CORE.read().unwrap_or_else(PoisonError::into_inner);
    (core, Place::new(name, "share.sock"))
}

/// For one in which threads of low rank must run: those of other tests spin above them.
fn alone(name: &str) -> (RwLockWriteGuard<'static, ()>, Place) {
    let core = CORE.write().unwrap_or_else(PoisonError::into_inner);
    (core, Place::new(name, "share.sock"))
}

fn started(name: &str, socket: &std::path::Path) -> Actor {
    let mut actor = start(&format!("roles::{name}"), socket);
    assert_eq!(actor.line("ready").as_deref(), Some(""), "{name}");
    actor
}

/// So many rounds of the critical application, all of which it has finished.
fn goes_on(critical: &mut Actor, lines: usize) -> String {
    let mut last = String::new();
    for _ in 0..lines {
        last = critical.line("done ").expect("it goes on");
    }
    last
}

fn options(place: &Place) -> Options {
    Options::new(place.socket(), vec![cpus()[0]])
}

fn number(line: &str, after: &str) -> u64 {
    let mut words = line.split_whitespace().skip_while(|word| *word != after).skip(1);
    words.next().and_then(|word| word.parse().ok()).expect(line)
}

#[test]
fn who_looks_at_bells_answers_them() {
    let (_core, place) = alone("share-answers");
    let broker = Here::start(options(&place));
    let mut effort = started("effort", &place.socket());
    let mut critical = started("critical", &place.socket());
    // However slow this machine is, once an answer comes in time.
    soon("an answer", || number(&goes_on(&mut critical, 1), "answered") > 0);
    assert!(effort.line("computed").is_some());
    let status = broker.status();
    let roles: Vec<_> = status.applications.iter().map(|a| a.role.as_str()).collect();
    assert_eq!(roles, ["be", "lc"]);
    soon("a share is measured", || {
        broker.status().applications.iter().any(|a| a.role == "lc" && a.rings_per_s > 0)
    });
    broker.end();
    assert_eq!(left(&place), 0, "something is left");
}

/// Who computes would keep the thread from the CPU that hears of newcomers.
#[test]
fn who_is_bound_to_one_cpu_hears_of_newcomers() {
    let (_core, place) = alone("share-bound");
    let _broker = Here::start(options(&place));
    let mut bound = started("bound", &place.socket());
    assert!(bound.line("computed").is_some());
    let mut critical = started("critical", &place.socket());
    soon("an answer", || number(&goes_on(&mut critical, 1), "answered") > 0);
}

#[test]
fn a_killed_best_effort_application_leaves_nothing_and_stops_nobody() {
    let (_core, place) = beside_others("share-kill-be");
    let broker = Here::start(options(&place));
    let mut critical = started("critical", &place.socket());
    for round in 0..5 {
        let mut effort = started("effort", &place.socket());
        goes_on(&mut critical, 1 + round % 3);
        effort.kill();
        goes_on(&mut critical, 2);
        broker.wait_for(1);
    }
}

#[test]
fn a_stopped_one_costs_no_more_than_the_bound() {
    let (_core, place) = beside_others("share-stop-be");
    let broker = Here::start(options(&place));
    let mut critical = started("critical", &place.socket());
    let mut effort = started("effort", &place.socket());
    signal(&effort, libc::SIGSTOP);
    soon("it is forced", || number(&goes_on(&mut critical, 1), "forced") > 0);
    signal(&effort, libc::SIGCONT);
    assert!(effort.line("computed").is_some());
    goes_on(&mut critical, 2);
    // A stopped critical one is nobody's affair either.
    signal(&critical, libc::SIGSTOP);
    (0..3).for_each(|_| assert!(effort.line("computed").is_some()));
    signal(&critical, libc::SIGCONT);
    goes_on(&mut critical, 2);
    assert_eq!(broker.status().applications.len(), 2);
}

#[test]
fn a_killed_critical_one_leaves_the_core_to_others() {
    let (_core, place) = beside_others("share-kill-lc");
    let broker = Here::start(options(&place));
    let mut effort = started("effort", &place.socket());
    for _ in 0..5 {
        let mut critical = started("critical", &place.socket());
        goes_on(&mut critical, 1);
        critical.kill();
        assert!(effort.line("computed").is_some());
        broker.wait_for(1);
    }
}

#[test]
fn programs_of_a_critical_one_have_no_rank() {
    let (_core, place) = beside_others("share-parent");
    let _broker = Here::start(options(&place));
    let mut parent = start("roles::parent", &place.socket());
    assert_eq!(parent.line("child ").as_deref(), Some("Other(0)"));
}

#[test]
fn a_liar_is_overruled() {
    let (_core, place) = beside_others("share-liar");
    let _broker = Here::start(options(&place));
    let _liar = started("liar", &place.socket());
    let mut critical = started("critical", &place.socket());
    let line = goes_on(&mut critical, 3);
    assert_eq!(number(&line, "answered"), 0, "{line}");
    assert!(number(&line, "forced") > 0, "{line}");
}

#[test]
fn without_a_broker_bells_work_and_a_new_one_serves_newcomers() {
    let (_core, place) = beside_others("share-kill-broker");
    let mut first = started("broker", &place.socket());
    let mut effort = started("effort", &place.socket());
    let mut critical = started("critical", &place.socket());
    goes_on(&mut critical, 1);
    first.kill();
    soon("it knows", || goes_on(&mut critical, 1).ends_with("Alone"));
    soon("it knows, too", || effort.line("computed").unwrap() == "Alone");
    goes_on(&mut critical, 3);
    let second = Here::start(options(&place));
    let _newcomer = started("sleeper", &place.socket());
    assert_eq!(second.status().applications.len(), 1);
    second.end();
    assert_eq!(left(&place), 0);
}

#[test]
fn who_loses_its_broker_keeps_no_turn() {
    let (_core, place) = beside_others("share-lower");
    let classes = |actor: &Actor| {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", actor.child.id())).unwrap();
        let tid = |name: std::ffi::OsString| name.to_str().unwrap().parse().unwrap();
        tasks.map(|t| Class::of(tid(t.unwrap().file_name())).unwrap()).collect::<Vec<_>>()
    };
    for kills in [true, false] {
        let mut broker = started("broker", &place.socket());
        let mut effort = started("effort", &place.socket());
        let mut critical = started("critical", &place.socket());
        goes_on(&mut critical, 1);
        let raised = classes(&critical).contains(&Class::Fifo(3));
        if raised {
            soon("a turn", || classes(&effort).iter().all(|&class| class == Class::Fifo(1)));
        }
        // A broker that ends gives everyone back what everyone has.
        let class = if kills { Class::Idle } else { Class::Other(0) };
        match kills {
            true => broker.kill(),
            false => signal(&broker, libc::SIGTERM),
        }
        soon("it is lowered", || classes(&effort).iter().all(|&found| found == class));
        assert_eq!(raised && kills, classes(&critical).contains(&Class::Fifo(3)));
        goes_on(&mut critical, 2);
        assert!(effort.line("computed").is_some());
    }
}

#[test]
fn a_stopped_broker_stops_nobody() {
    let (_core, place) = beside_others("share-stop-broker");
    let broker = started("broker", &place.socket());
    let mut effort = started("effort", &place.socket());
    let mut critical = started("critical", &place.socket());
    signal(&broker, libc::SIGSTOP);
    goes_on(&mut critical, 3);
    (0..3).for_each(|_| assert!(effort.line("computed").is_some()));
    signal(&broker, libc::SIGCONT);
    soon("it serves again", || quaver_share::status(&place.socket()).is_ok());
}

#[test]
fn who_never_stops_loses_its_rank() {
    let (_core, place) = beside_others("share-greedy");
    let broker = Here::start(Options { budget: 40, ..options(&place) });
    let greedy = started("greedy", &place.socket());
    let mut effort = started("effort", &place.socket());
    soon("it is demoted", || broker.status().applications.iter().any(|a| a.demoted));
    assert!(effort.line("computed").is_some());
    if Class::Fifo(1).set(0).is_ok() {
        Class::Other(0).set(0).unwrap();
        let tids = || std::fs::read_dir(format!("/proc/{}/task", greedy.child.id())).unwrap();
        soon("its threads are lowered", || {
            tids().all(|entry| {
                let tid = entry.unwrap().file_name().to_str().unwrap().parse().unwrap();
                !matches!(Class::of(tid), Ok(Class::Fifo(3)))
            })
        });
    }
    // It rests, and has its rank again.
    signal(&greedy, libc::SIGSTOP);
    soon("it is raised", || broker.status().applications.iter().all(|a| !a.demoted));
}

#[test]
fn a_plain_program_is_bound_and_a_member_until_it_ends() {
    let (_core, place) = beside_others("share-plain");
    let broker = Here::start(options(&place));
    let mut plain = started("plain", &place.socket());
    let app = broker.status().applications[0].clone();
    assert!(app.plain && app.role == "be" && app.weight == 2, "{app:?}");
    assert_eq!(plain.line("class ").as_deref(), Some("Idle"));
    assert_eq!(plain.line("cpus ").unwrap(), format!("{:?}", [cpus()[0]]));
    plain.kill();
    broker.wait_for(0);
}

#[test]
fn turns_follow_the_weights_where_they_can() {
    let (_core, place) = alone("share-turns");
    let options = Options { policy: Policy::Weights, ..options(&place) };
    let broker = Here::start(options);
    let _one = started("effort", &place.socket());
    let _other = started("liar", &place.socket());
    let used = || broker.status().applications.iter().map(|a| a.used_s).collect::<Vec<_>>();
    // Both get something, whatever else runs here.
    soon("both run", || used().iter().all(|&used| used > 0.05));
}

#[test]
fn one_broker_serves_a_socket_and_bad_options_are_named() {
    let (_core, place) = beside_others("share-twice");
    let _broker = Here::start(options(&place));
    assert!(matches!(Broker::bind(options(&place)), Err(BrokerError::Running(_))));
    let error = |options| Broker::bind(options).unwrap_err().to_string();
    assert!(error(Options::new(place.socket(), vec![])).starts_with("0 CPUs"));
    assert!(error(Options::new(place.socket(), vec![5000])).contains("CPU 5000"));
    let guard = Options { guard: Some(cpus()[0]), ..options(&place) };
    assert!(error(guard).contains("the guard spins there"));
}

#[test]
fn noise_in_a_page_harms_its_owner_only() {
    let (_core, place) = beside_others("share-wild");
    let broker = Here::start(options(&place));
    let mut effort = started("effort", &place.socket());
    let mut critical = started("critical", &place.socket());
    for _ in 0..6 {
        let mut wild = started("wild", &place.socket());
        goes_on(&mut critical, 2);
        let why = wild.line("quaver-share: expelled by the broker: ").expect("it says so");
        assert!(!why.is_empty());
        assert_eq!(wild.line("ended ").as_deref(), Some("Expelled"));
        goes_on(&mut critical, 1);
        assert!(effort.line("computed").is_some());
    }
    let status = broker.status();
    assert_eq!((status.applications.len(), status.expelled.len()), (2, 6), "{status:?}");
}

#[test]
fn a_member_can_write_one_page() {
    let (_core, place) = beside_others("share-burglar");
    let _broker = Here::start(options(&place));
    let _critical = started("critical", &place.socket());
    let _effort = started("effort", &place.socket());
    let mut burglar = start("roles::burglar", &place.socket());
    assert_eq!(burglar.line("writable ").as_deref(), Some("1"));
}

#[test]
fn strange_messages_and_many_connections_are_no_matter() {
    use rustix::net::{
        AddressFamily, SendFlags, SocketAddrUnix, SocketType, connect, send, socket,
    };
    let (_core, place) = beside_others("share-strange");
    let broker = Here::start(options(&place));
    let mut critical = started("critical", &place.socket());
    let at = SocketAddrUnix::new(place.socket()).unwrap();
    let mut state = 7;
    let mut open = Vec::new();
    for i in 0..300usize {
        let socket = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
        connect(&socket, &at).unwrap();
        let mut bytes = [0u8; 256];
        for chunk in bytes.chunks_mut(8) {
            let word = quaver_sched::random::splitmix64(&mut state).to_ne_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
        if i.is_multiple_of(3) {
            // A head that is right, and a subject that may be.
            bytes[..4].copy_from_slice(b"QvSh");
            bytes[4..8].copy_from_slice(&1u32.to_ne_bytes());
            bytes[8..12].copy_from_slice(&(i as u32 % 12).to_ne_bytes());
        }
        let _ = send(&socket, &bytes[..1 + i % 256], SendFlags::NOSIGNAL);
        if i.is_multiple_of(2) {
            open.push(socket);
        }
    }
    goes_on(&mut critical, 2);
    drop(open);
    soon("it serves", || broker.status().applications.iter().any(|a| a.role == "lc"));
}
