//! Interfaces that go away, processes that end, devices that are in use.

use std::env;
use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use quaver_net::device::Device;
use quaver_net::xdp::{Filter, open};

use crate::frames::*;
use crate::place::{Place, pair, skipped};

#[test]
fn an_interface_that_is_deleted_ends_its_device() {
    if skipped() {
        return;
    }
    let (a, _b) = pair("");
    let mut device = a.run(|| open("va", None, &Filter::All).unwrap()).remove(0);
    send(&mut device, &numbered(1, 60));
    device.flush().unwrap();
    a.ip("link del va");
    // A receiver learns it by looking, a sender by sending.
    let error = wait_for_end(&mut device);
    assert_eq!(error.raw_os_error(), Some(libc::ENXIO), "{error}");
    send(&mut device, &numbered(2, 60));
    assert_eq!(device.flush().unwrap_err().raw_os_error(), Some(libc::ENXIO));
    // From now on at once.
    assert!(device.receive(1, &mut |_| {}).is_err());
}

#[test]
fn an_interface_that_is_down_for_a_while_is_not_the_end() {
    if skipped() {
        return;
    }
    let (a, b) = pair("");
    let mut device = a.run(|| open("va", None, &Filter::All).unwrap()).remove(0);
    let mut peer = b.run(|| open("vb", None, &Filter::All).unwrap()).remove(0);
    a.ip("link set va down");
    for n in 0..10 {
        send(&mut device, &numbered(n, 60));
        device.flush().unwrap();
    }
    for _ in 0..1000 {
        assert_eq!(device.receive(64, &mut |_| {}).unwrap(), 0);
    }
    a.ip("link set va up");
    device.flush().unwrap();
    // What waited goes now.
    assert_eq!(receive(&mut peer, 10), (0..10).map(|n| numbered(n, 60)).collect::<Vec<_>>());
    send(&mut peer, &numbered(7, 60));
    peer.flush().unwrap();
    assert_eq!(receive(&mut device, 1), [numbered(7, 60)]);
}

#[test]
fn one_interface_has_one_owner() {
    if skipped() {
        return;
    }
    let (a, _b) = pair("");
    let first = a.run(|| open("va", None, &Filter::All).unwrap());
    let error = a.run(|| open("va", None, &Filter::All).map(|_| ()).unwrap_err());
    assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
    assert!(error.to_string().contains("queue 0 of va is in use"), "{error}");
    drop(first);
    // At once again, and again.
    for _ in 0..20 {
        drop(a.run(|| open("va", None, &Filter::All).unwrap()));
    }
}

#[test]
fn the_programs_of_others_stay() {
    if skipped() {
        return;
    }
    let (a, _b) = pair("");
    let first = a.run(|| open("va", None, &Filter::All).unwrap());
    // Its sockets are on another queue than those of the second, which has only one.
    assert!(attached(&a));
    let error = a.run(|| open("va", None, &Filter::All).map(|_| ()).unwrap_err());
    assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
    assert!(attached(&a));
    drop(first);
    wait_until_detached(&a);
}

/// Does an XDP program run on `va`?
fn attached(place: &Place) -> bool {
    place.ip("link show va").contains("xdp")
}

fn wait_until_detached(place: &Place) {
    let end = Instant::now() + PATIENCE;
    while attached(place) {
        assert!(Instant::now() < end, "{}", place.ip("link show va"));
        thread::sleep(Duration::from_millis(1));
    }
}

/// Not a test: another process, which holds `va` until it is killed.
#[test]
#[ignore = "a process of the other tests"]
fn holder() {
    if env::var_os("QUAVER_TEST_HOLDER").is_none() {
        return;
    }
    let mut device = open("va", None, &Filter::All).unwrap().remove(0);
    println!("\nholding");
    loop {
        device.receive(64, &mut |_| {}).unwrap();
        thread::sleep(Duration::from_millis(1));
    }
}

/// Starts it.
fn start_holder(place: &Place) -> Child {
    place.run(|| {
        let mut holder = Command::new(env::current_exe().unwrap())
            .args(["--exact", "life::holder", "--ignored", "--nocapture"])
            .env("QUAVER_TEST_HOLDER", "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(holder.stdout.take().unwrap()).lines();
        let held = lines.map_while(Result::ok).any(|line| line == "holding");
        assert!(held, "the other process has not opened va");
        holder
    })
}

#[test]
fn a_queue_of_another_process_is_in_use_until_that_is_killed() {
    if skipped() {
        return;
    }
    let (a, b) = pair("");
    for _ in 0..3 {
        let mut holder = start_holder(&a);
        assert!(attached(&a));
        let error = a.run(|| open("va", None, &Filter::All).map(|_| ()).unwrap_err());
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        // SIGKILL. The kernel may need a moment.
        holder.kill().unwrap();
        holder.wait().unwrap();
        let mut device = a.run(|| open("va", None, &Filter::All).unwrap()).remove(0);
        let mut peer = b.run(|| open("vb", None, &Filter::All).unwrap()).remove(0);
        send(&mut peer, &numbered(3, 60));
        peer.flush().unwrap();
        assert_eq!(receive(&mut device, 1), [numbered(3, 60)]);
    }
    let mut holder = start_holder(&a);
    holder.kill().unwrap();
    holder.wait().unwrap();
    wait_until_detached(&a);
    // The interface is the kernel's again.
    b.command("ping -c 1 -W 10 10.0.0.1");
}
