//! Streams between two stacks over a wire in memory.

mod common;

use common::{A, B, Ear, Pair, Settings, at, errno, receive, send, stream};
use quaver::net::stack::{Opt, Readiness};
use std::net::Shutdown;
use std::time::Duration;

#[test]
fn an_echo() {
    let pair = Pair::new();
    let (client, server) = pair.connected();
    let ear = Ear::of(&*server);
    assert_eq!(send(&*client, b"hello").unwrap(), 5);
    pair.settle();
    assert_eq!(ear.heard(), Readiness::READABLE.bits());
    assert_eq!(server.pending(), 5);
    assert_eq!(receive(&*server, 100).unwrap(), b"hello");
    assert_eq!(errno(receive(&*server, 100)), libc::EAGAIN);
    assert_eq!(send(&*server, b"world").unwrap(), 5);
    pair.settle();
    assert_eq!(receive(&*client, 3).unwrap(), b"wor");
    assert_eq!(receive(&*client, 3).unwrap(), b"ld");
    assert_eq!(client.peer_addr(), Some(server.local_addr()));
    assert_eq!(server.peer_addr(), Some(client.local_addr()));
}

#[test]
fn a_half_closed_stream_carries_the_other_direction() {
    let pair = Pair::new();
    let (client, server) = pair.connected();
    let ear = Ear::of(&*server);
    send(&*client, b"question").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(errno(send(&*client, b"x")), libc::EPIPE);
    pair.settle();
    assert_eq!(ear.heard(), (Readiness::READABLE | Readiness::END).bits());
    assert_eq!(receive(&*server, 100).unwrap(), b"question");
    assert_eq!(receive(&*server, 100).unwrap(), b"");
    send(&*server, b"answer").unwrap();
    pair.settle();
    assert_eq!(receive(&*client, 100).unwrap(), b"answer");
    server.close();
    pair.settle();
    assert_eq!(receive(&*client, 100).unwrap(), b"");
    assert!(client.readiness().contains(Readiness::HANG_UP));
    client.close();
    pair.pass(30);
    assert_eq!((pair.a.stats().connections, pair.a.stats().time_waits), (0, 0));
    assert_eq!(pair.b.stats().connections, 0);
}

#[test]
fn both_close_at_the_same_time() {
    let pair = Pair::new();
    let (client, server) = pair.connected();
    send(&*client, b"to the server").unwrap();
    send(&*server, b"to the client").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    server.shutdown(Shutdown::Write).unwrap();
    pair.settle();
    // What has been received can be read as long as the descriptor is open.
    pair.pass(60);
    assert_eq!(receive(&*client, 100).unwrap(), b"to the client");
    assert_eq!(receive(&*server, 100).unwrap(), b"to the server");
    assert_eq!(receive(&*client, 100).unwrap(), b"");
    client.close();
    server.close();
    pair.pass(1);
    assert_eq!((pair.a.stats().connections, pair.b.stats().connections), (0, 0));
}

#[test]
fn a_reset_is_seen_after_the_data() {
    let pair = Pair::new();
    let (client, server) = pair.connected();
    let ear = Ear::of(&*server);
    send(&*client, b"last words").unwrap();
    pair.settle();
    client.set(Opt::Linger(Some(Duration::ZERO))).unwrap();
    client.close();
    pair.settle();
    assert_ne!(ear.heard() & (Readiness::ERROR | Readiness::HANG_UP).bits(), 0);
    assert_eq!(receive(&*server, 100).unwrap(), b"last words");
    assert_eq!(errno(receive(&*server, 100)), libc::ECONNRESET);
    assert_eq!(receive(&*server, 100).unwrap(), b"");
    assert_eq!(errno(send(&*server, b"x")), libc::EPIPE);
    assert_eq!(pair.a.stats().connections, 0);
}

#[test]
fn closing_with_unread_data_resets() {
    let pair = Pair::new();
    let (client, server) = pair.connected();
    send(&*client, b"unread").unwrap();
    pair.settle();
    server.close();
    pair.settle();
    assert_eq!(errno(receive(&*client, 1)), libc::ECONNRESET);
}

#[test]
fn nobody_listens() {
    let pair = Pair::new();
    let client = stream(&pair.a);
    let ear = Ear::of(&*client);
    assert_eq!(errno(client.connect(at(B, 9))), libc::EINPROGRESS);
    assert_eq!(errno(client.connect(at(B, 9))), libc::EALREADY);
    pair.settle();
    assert_ne!(ear.heard() & Readiness::ERROR.bits(), 0);
    assert_eq!(client.take_error().unwrap().raw_os_error(), Some(libc::ECONNREFUSED));
    assert!(client.take_error().is_none());
}

#[test]
fn nobody_is_there() {
    let pair = Pair::new();
    let client = stream(&pair.a);
    assert_eq!(errno(client.connect(at([10, 1, 0, 77].into(), 9))), libc::EINPROGRESS);
    assert!(pair.until(10, || client.readiness().contains(Readiness::ERROR)));
    assert_eq!(client.take_error().unwrap().raw_os_error(), Some(libc::EHOSTUNREACH));
    assert_eq!(errno(client.connect(at([10, 2, 0, 1].into(), 9))), libc::ECONNABORTED);
    assert_eq!(errno(client.connect(at([10, 2, 0, 1].into(), 9))), libc::ENETUNREACH);
}

#[test]
fn a_peer_that_is_silent_times_out() {
    let pair = Pair::new();
    let (client, server) = pair.connected();
    for end in &pair.ends {
        end.set_faults(quaver_net::memory::Faults { loss: 1.0, ..Default::default() });
    }
    send(&*client, b"anybody?").unwrap();
    let start = pair.clock.now();
    assert!(pair.until(2000, || client.readiness().contains(Readiness::ERROR)));
    assert_eq!((pair.clock.now() - start) / 1_000_000, 924);
    assert_eq!(errno(receive(&*client, 1)), libc::ETIMEDOUT);
    // The other side has nothing to say, and knows nothing.
    assert_eq!(server.readiness(), Readiness::WRITABLE);
    server.set(Opt::KeepAlive(Some(Duration::from_secs(60)))).unwrap();
    assert!(pair.until(2000, || server.readiness().contains(Readiness::ERROR)));
    assert_eq!(errno(receive(&*server, 1)), libc::ETIMEDOUT);
}

#[test]
fn an_idle_connection_stays() {
    let pair = Pair::new();
    let (client, server) = pair.connected();
    pair.pass(100_000);
    send(&*client, b"still there?").unwrap();
    pair.settle();
    assert_eq!(receive(&*server, 100).unwrap(), b"still there?");
    pair.pass(100_000);
    client.close();
    pair.settle();
    assert_eq!(receive(&*server, 100).unwrap(), b"");
}

#[test]
fn a_slow_reader_stops_the_writer() {
    let pair = Pair::with(Settings { buffers: 8192, ..Settings::default() });
    let (client, server) = pair.connected();
    let ear = Ear::of(&*client);
    let mut sent = 0;
    while let Ok(n) = send(&*client, &[7; 1000]) {
        sent += n;
        pair.settle();
    }
    pair.pass(1);
    assert_eq!(server.pending(), 8192);
    while let Ok(n) = send(&*client, &[7; 1000]) {
        sent += n;
    }
    assert_eq!(sent, 16384);
    assert!(!client.readiness().contains(Readiness::WRITABLE));
    ear.heard();
    pair.pass(600);
    assert_eq!(ear.heard(), 0);
    let mut received = 0;
    assert!(pair.until(20, || {
        received += receive(&*server, 5000).map_or(0, |bytes| bytes.len());
        received == sent
    }));
    assert_eq!(ear.heard(), Readiness::WRITABLE.bits());
}

#[test]
fn a_stack_talks_to_itself() {
    let pair = Pair::new();
    let server = stream(&pair.a);
    server.bind(at(A, 80)).unwrap();
    server.listen(1).unwrap();
    let client = stream(&pair.a);
    assert_eq!(errno(client.connect(at(A, 80))), libc::EINPROGRESS);
    pair.settle();
    let (accepted, _) = server.accept().unwrap();
    send(&*client, b"me").unwrap();
    pair.settle();
    assert_eq!(receive(&*accepted, 9).unwrap(), b"me");
}

#[test]
fn the_backlog_is_bounded() {
    let pair = Pair::new();
    let server = stream(&pair.b);
    server.bind(at(B, 80)).unwrap();
    server.listen(4).unwrap();
    let clients: Vec<_> = (0..20).map(|_| stream(&pair.a)).collect();
    for client in &clients {
        assert_eq!(errno(client.connect(at(B, 80))), libc::EINPROGRESS);
    }
    pair.settle();
    assert!(pair.b.stats().connections <= 10, "{:?}", pair.b.stats());
    assert!(pair.b.stats().backlog_full > 0);
    // All get their turn, since they try again.
    let mut accepted = Vec::new();
    assert!(pair.until(300, || {
        while let Ok((socket, _)) = server.accept() {
            accepted.push(socket);
        }
        accepted.len() == clients.len()
    }));
}
