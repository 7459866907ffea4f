//! Frames to and from a device: the kernel or another device at the other end.

use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::thread;

use quaver_net::device::Device;
use quaver_net::xdp::{Filter, Mode, Xdp, open, open_in};

use crate::frames::*;
use crate::place::{Place, have, pair, skipped};

/// An address that no kernel has.
const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);

fn only(mut devices: Vec<Xdp>) -> Xdp {
    assert_eq!(devices.len(), 1);
    devices.remove(0)
}

/// The device of `va`, for [`OURS`], which the kernel in `b` knows how to reach.
fn ours(a: &Place, b: &Place, mode: Option<Mode>) -> Xdp {
    let filter = Filter::Addresses(vec![Ipv4Addr::new(10, 9, 9, 9), OURS]);
    let device = only(a.run(move || match mode {
        Some(mode) => open_in("va", None, &filter, mode).unwrap(),
        None => open("va", Some(1), &filter).unwrap(),
    }));
    let mac = device.address().map(|byte| format!("{byte:02x}")).join(":");
    b.ip(&format!("neigh add {OURS} lladdr {mac} dev vb"));
    device
}

/// A client in `b` that has 1,000 datagrams of `len` bytes answered by [`OURS`], in windows. The
/// kernel may drop some on a busy machine: those are sent again.
fn client(b: &Place, len: usize) -> thread::JoinHandle<()> {
    let socket = b.run(|| UdpSocket::bind("10.0.0.2:0").unwrap());
    socket.set_read_timeout(Some(PATIENCE / 10)).unwrap();
    thread::spawn(move || {
        let mut buffer = vec![0; len + 1];
        let mut tries = 0;
        for window in 0..100u32 {
            let mut missing: Vec<u32> = (window * 10..window * 10 + 10).collect();
            while !missing.is_empty() {
                for n in &missing {
                    buffer[..4].copy_from_slice(&n.to_be_bytes());
                    assert_eq!(socket.send_to(&buffer[..len], (OURS, 7)).unwrap(), len);
                }
                while !missing.is_empty() {
                    let Ok((got, from)) = socket.recv_from(&mut buffer) else { break };
                    assert_eq!((got, from), (len, (OURS, 7).into()));
                    missing.retain(|n| buffer[..4] != n.to_be_bytes());
                }
                tries += 1;
                assert!(tries < 110, "datagrams are lost all the time");
            }
        }
    })
}

/// Answers until the client has all.
fn answer(device: &mut Xdp, client: thread::JoinHandle<()>) {
    let mut answers = Vec::new();
    while !client.is_finished() {
        device.receive(64, &mut |frame| answers.push(turn(frame))).unwrap();
        for answer in answers.drain(..) {
            assert!(is_udp(&answer), "{answer:02x?}");
            send(device, &answer);
        }
        device.flush().unwrap();
        thread::yield_now();
    }
    client.join().unwrap();
}

#[test]
fn the_kernel_has_a_thousand_datagrams_answered() {
    if skipped() {
        return;
    }
    for mode in [None, Some(Mode::Skb), Some(Mode::Native)] {
        let (a, b) = pair("");
        let mut device = ours(&a, &b, mode);
        assert_eq!(device.mode(), mode.unwrap_or(Mode::Skb));
        assert_eq!((device.interface(), device.queue(), device.mtu()), ("va", 0, 1500));
        for len in [4, 64, 1472] {
            answer(&mut device, client(&b, len));
        }
        assert_eq!(device.counts(), Default::default());
    }
}

#[test]
fn what_is_for_the_kernel_goes_to_the_kernel() {
    if skipped() {
        return;
    }
    let (a, b) = pair("");
    let mut device = ours(&a, &b, None);
    let server = a.run(|| UdpSocket::bind("10.0.0.1:7").unwrap());
    let echo = thread::spawn(move || {
        let mut buffer = [0; 100];
        for _ in 0..1000 {
            let (len, from) = server.recv_from(&mut buffer).unwrap();
            server.send_to(&buffer[..len], from).unwrap();
        }
    });
    // Beside datagrams that are ours.
    let beside = client(&b, 100);
    let socket = b.run(|| UdpSocket::bind("10.0.0.2:0").unwrap());
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let kernel = thread::spawn(move || {
        for _ in 0..1000 {
            socket.send_to(b"kernel", "10.0.0.1:7").unwrap();
            assert_eq!(socket.recv(&mut [0; 100]).unwrap(), 6);
        }
    });
    // Asserts that all it receives is for it; kernels ask for each other's addresses by ARP.
    answer(&mut device, beside);
    kernel.join().unwrap();
    echo.join().unwrap();
    assert!(drain(&mut device).is_empty());
}

#[test]
fn a_question_for_our_address_is_ours_and_so_is_the_answer() {
    if skipped() {
        return;
    }
    let (a, b) = pair("");
    let mut device = ours(&a, &b, None);
    b.ip(&format!("neigh del {OURS} dev vb"));
    b.run(|| UdpSocket::bind("10.0.0.2:0").unwrap().send_to(b"?", (OURS, 7)).unwrap());
    let question = receive(&mut device, 1).remove(0);
    assert_eq!(question[12..14], [8, 6]);
    assert_eq!(question[ETHERNET + 24..ETHERNET + 28], OURS.octets());
    // The same, the other way round: who has 10.0.0.2?
    let mut ours = question.clone();
    ours[..6].fill(0xff);
    ours[6..12].copy_from_slice(&device.address());
    ours[ETHERNET + 8..ETHERNET + 14].copy_from_slice(&device.address());
    ours[ETHERNET + 14..ETHERNET + 18].copy_from_slice(&OURS.octets());
    ours[ETHERNET + 24..ETHERNET + 28].copy_from_slice(&[10, 0, 0, 2]);
    send(&mut device, &ours);
    device.flush().unwrap();
    let is_answer = |frame: &Vec<u8>| frame[12..14] == [8, 6] && frame[21] == 2;
    receive_while(&mut device, |frames| !frames.iter().any(is_answer));
}

#[test]
fn checksums_that_were_left_out_are_completed() {
    if skipped() {
        return;
    }
    for mode in [Mode::Skb, Mode::Native] {
        let (a, b) = pair("");
        let mut device = ours(&a, &b, Some(mode));
        let socket = b.run(|| UdpSocket::bind("10.0.0.2:0").unwrap());
        for len in [0, 1, 2, 777, 1472] {
            socket.send_to(&vec![0xa5; len], (OURS, 7)).unwrap();
            let frame = receive(&mut device, 1).remove(0);
            assert!(is_udp(&frame) && verifies(&frame), "{len}: {frame:02x?}");
        }
    }
}

/// Both ends of a pair, everything to user space.
fn two(modes: Mode) -> (Xdp, Xdp) {
    let (a, b) = pair("");
    let open = move |name| move || only(open_in(name, None, &Filter::All, modes).unwrap());
    // A namespace stays as long as a socket of it is open.
    (a.run(open("va")), b.run(open("vb")))
}

#[test]
fn indices_wrap_and_frames_of_all_lengths_come_unchanged() {
    if skipped() {
        return;
    }
    for mode in [Mode::Skb, Mode::Native] {
        let (mut a, mut b) = two(mode);
        let mut sent = 0;
        // Several times around each ring, in uneven batches, both ways.
        for round in 0..200 {
            let batch = 1 + round * 7 % 97;
            let frames: Vec<_> =
                (sent..sent + batch).map(|n| numbered(n, 14 + (n * 13 % 1501) as usize)).collect();
            for _ in 0..2 {
                frames.iter().for_each(|frame| send(&mut a, frame));
                a.flush().unwrap();
                assert!(receive(&mut b, batch as usize) == frames, "round {round}");
                std::mem::swap(&mut a, &mut b);
            }
            sent += batch;
        }
        assert!(sent > 4 * 2048, "{sent}");
        assert_eq!((a.counts(), b.counts()), Default::default());
    }
}

/// Both sides work at the same time as the kernel, which shows what has come before it shows that
/// there is room for more.
#[test]
fn windows_go_to_and_fro_between_threads() {
    const WINDOWS: u32 = 3000;
    const WINDOW: usize = 32;
    if skipped() {
        return;
    }
    let (mut a, mut b) = two(Mode::Skb);
    let echo = thread::spawn(move || {
        for _ in 0..WINDOWS {
            receive(&mut b, WINDOW).iter().for_each(|frame| send(&mut b, frame));
            b.flush().unwrap();
        }
        b.counts()
    });
    for n in 0..WINDOWS {
        (0..WINDOW).for_each(|_| send(&mut a, &numbered(n, 100)));
        a.flush().unwrap();
        assert!(receive(&mut a, WINDOW).iter().all(|frame| *frame == numbered(n, 100)));
    }
    assert_eq!((a.counts(), echo.join().unwrap()), Default::default());
}

#[test]
fn full_rings_drop_and_recover() {
    if skipped() {
        return;
    }
    let (mut a, mut b) = two(Mode::Skb);
    let put = |device: &mut Xdp| {
        let mut n = 0;
        while device.transmit(60, &mut |to| to.copy_from_slice(&numbered(n, 60))) {
            n += 1;
        }
        n
    };
    for _ in 0..3 {
        // Without a flush there is room for a ring of them.
        assert_eq!(put(&mut a), 2048);
        a.flush().unwrap();
        // The other does not look: it keeps a ring of them, and the rest is dropped.
        assert_eq!(put(&mut a), 2048);
        a.flush().unwrap();
        let kept = drain(&mut b);
        assert_eq!(kept.len(), 2048);
        assert!(kept.iter().zip(0..).all(|(frame, n)| *frame == numbered(n, 60)));
    }
    let counts = b.counts();
    assert_eq!((counts.ring_full + counts.no_frames, counts.too_long), (3 * 2048, 0));
    send(&mut a, &numbered(9, 1514));
    a.flush().unwrap();
    assert_eq!(receive(&mut b, 1), [numbered(9, 1514)]);
    // Longer than a frame: nothing was called.
    assert!(!a.transmit(2049, &mut |_| unreachable!()));
}

#[test]
fn segments_to_be_cut_by_hardware_are_counted() {
    if skipped() {
        return;
    }
    let (a, b) = pair("");
    let mut device = ours(&a, &b, Some(Mode::Skb));
    let socket = b.run(|| UdpSocket::bind("10.0.0.2:0").unwrap());
    let (option, segment): (_, libc::c_int) = (libc::UDP_SEGMENT, 1000);
    // SAFETY: the value is as long as is said.
    let result = unsafe {
        let value = (&raw const segment).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, option, value, 4)
    };
    assert_eq!(result, 0);
    socket.send_to(&[7; 10_000], (OURS, 7)).unwrap();
    assert!(drain(&mut device).is_empty());
    assert_eq!((device.counts().too_long, device.counts().no_frames), (1, 0));
    if !have("ethtool") {
        return eprintln!("skipped in part: no `ethtool` command");
    }
    b.command("ethtool -K vb tx off");
    socket.send_to(&[7; 10_000], (OURS, 7)).unwrap();
    assert!(receive(&mut device, 10).iter().all(|frame| is_udp(frame) && verifies(frame)));
}

#[test]
fn each_queue_is_a_device() {
    if skipped() {
        return;
    }
    let (a, b) = pair("numrxqueues 2 numtxqueues 2");
    let filter = Filter::Addresses(vec![OURS]);
    let mut devices = a.run(move || open("va", Some(2), &filter).unwrap());
    assert_eq!(devices.iter().map(Xdp::queue).collect::<Vec<_>>(), [0, 1]);
    let mac = devices[0].address().map(|byte| format!("{byte:02x}")).join(":");
    b.ip(&format!("neigh add {OURS} lladdr {mac} dev vb"));
    // The sender spreads flows over its queues.
    let sockets = b.run(|| [0; 64].map(|_| UdpSocket::bind("10.0.0.2:0").unwrap()));
    for socket in &sockets {
        socket.send_to(b"flow", (OURS, 7)).unwrap();
    }
    let mut came = [0; 2];
    while came.iter().sum::<usize>() < 64 {
        for (device, came) in devices.iter_mut().zip(&mut came) {
            *came += device.receive(64, &mut |frame| assert!(is_udp(frame))).unwrap();
        }
    }
    assert!(came[0] > 0 && came[1] > 0, "{came:?}");
}

#[test]
fn a_thread_can_wait_for_the_file() {
    if skipped() {
        return;
    }
    let (mut a, mut b) = two(Mode::Skb);
    let ready = |device: &Xdp, ms| {
        let fd = device.file().unwrap().as_fd().as_raw_fd();
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: there is one.
        unsafe { libc::poll(&raw mut poll, 1, ms) };
        poll.revents & libc::POLLIN != 0
    };
    for n in 0..10 {
        assert!(!ready(&b, 0));
        let sender = thread::spawn(move || {
            thread::sleep(std::time::Duration::from_millis(5));
            send(&mut a, &numbered(n, 60));
            a.flush().unwrap();
            a
        });
        assert!(ready(&b, PATIENCE.as_millis() as i32));
        assert_eq!(receive(&mut b, 1), [numbered(n, 60)]);
        a = sender.join().unwrap();
    }
}
