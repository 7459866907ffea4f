//! Clients of the datagram servers: one by hand, and the load generator.

mod common;

use std::net::UdpSocket;
use std::sync::Arc;

use quaver_load::net::aspen::{GET, Message, REFUSED, SCAN};
use quaver_serve::analytics::{Analytics, KINDS, Rows};
use quaver_serve::store::{Store, fill, memory::Memory};
use quaver_serve::{Answer, Limits, UdpServer, aspen};

/// Runs `f` with a socket that is connected to a server.
fn with_server(limits: Limits, answers: Arc<dyn Answer>, f: impl FnOnce(&UdpSocket)) {
    let (runtime, _turn) = common::runtime();
    let server = UdpServer::bind(([127, 0, 0, 1], 0).into(), limits, answers).unwrap();
    let server = Arc::new(server);
    let running = Arc::clone(&server);
    let receiving = runtime.spawn(move || running.run());
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.local_addr().unwrap()).unwrap();
    socket.set_read_timeout(Some(common::PATIENCE)).unwrap();
    f(&socket);
    assert_eq!(server.stop(), 0);
    receiving.join().unwrap();
    runtime.shutdown();
}

fn ask(socket: &UdpSocket, kind: u32, key: u32) -> Message {
    socket.send(&Message { id: 7, kind, key, run_ns: 0 }.encode()).unwrap();
    let mut bytes = [0; 64];
    let n = socket.recv(&mut bytes).unwrap();
    Message::decode(&bytes[..n]).unwrap()
}

#[test]
fn keys_and_ranges_are_read() {
    let store: Arc<dyn Store> = Arc::new(Memory::new(1 << 24));
    fill(store.as_ref(), 1000, 64, &|| true).unwrap();
    let answers = Arc::new(aspen::KeyValue::new(store, 1000, 64));
    with_server(Limits::default(), answers, |socket| {
        let reply = ask(socket, GET, 999);
        assert_eq!((reply.id, reply.kind, reply.key), (7, GET, 999));
        assert_eq!(ask(socket, GET, 1000).kind, GET | REFUSED);
        let scan = ask(socket, SCAN, 500);
        assert_eq!(scan.kind, SCAN);
        assert!(scan.run_ns > 0);
        // What is no request gets no answer, and harms nobody.
        for length in [0, 1, 15, 17, 1400] {
            socket.send(&vec![0xff; length]).unwrap();
        }
        assert_eq!(ask(socket, GET, 1).kind, GET);
    });
}

#[test]
fn analyses_are_computed() {
    let answers = Arc::new(Analytics::new(Rows([100; KINDS])));
    with_server(Limits::default(), answers, |socket| {
        for kind in 1..=5 {
            assert_eq!(ask(socket, kind, 0).kind, kind);
        }
        assert_eq!(ask(socket, 6, 0).kind, 6 | REFUSED);
    });
}

#[test]
fn more_requests_than_may_be_are_refused() {
    /// Answers when it is told to.
    struct Slow(quaver::sync::Semaphore);
    impl Answer for Slow {
        fn answer(&self, request: &Message) -> Message {
            self.0.acquire().unwrap().forget();
            *request
        }
    }
    let slow = Arc::new(Slow(quaver::sync::Semaphore::new(0)));
    let limits = Limits { connections: 2, ..Limits::default() };
    with_server(limits, Arc::clone(&slow) as Arc<dyn Answer>, |socket| {
        let send = |id| socket.send(&Message { id, kind: GET, key: 0, run_ns: 0 }.encode());
        let receive = || {
            let mut bytes = [0; 64];
            let n = socket.recv(&mut bytes).unwrap();
            Message::decode(&bytes[..n]).unwrap()
        };
        for id in 0..3 {
            send(id).unwrap();
        }
        assert_eq!(receive(), Message { id: 2, kind: GET | REFUSED, key: 0, run_ns: 0 });
        slow.0.add_permits(2);
        let mut answered = [receive().id, receive().id];
        answered.sort_unstable();
        assert_eq!(answered, [0, 1]);
    });
}

#[test]
fn a_receiver_stops_without_requests() {
    let answers = Arc::new(Analytics::new(Rows([16; KINDS])));
    with_server(Limits::default(), answers, |_| {});
}
