//! The load generator against the servers: what is offered is answered, and what goes wrong is
//! counted.

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use quaver_load::net::{Offered, Options, Pool, PoolError, Protocol, fill, operations};
use quaver_load::{ArrivalProcess, Limit, Mix, RealClock, Recorder, Schedule};
use quaver_serve::store::{Store, memory::Memory};
use quaver_serve::{Limits, UdpServer, aspen};

const REQUESTS: u64 = 400;

fn options(protocol: Protocol, to: SocketAddr) -> Options {
    Options { protocol, to, connections: 4, depth: 1, keys: 100, value_bytes: 32, rows: 50 }
}

/// Offers 400 requests at 4000 a second.
fn offer(options: Options, mix: &str) -> Result<Offered, PoolError> {
    let mix: Mix = mix.parse().unwrap();
    let limit = Limit::Requests(REQUESTS);
    let schedule = Schedule::new(ArrivalProcess::Poisson, 4000.0, &mix, limit, 1).unwrap();
    let recorder = Recorder::for_schedule(&schedule).unwrap();
    let operations = operations(&mix).unwrap();
    let clock = RealClock::with_spin_ns(0);
    Pool::connect(options)?
        .offer(&schedule, &operations, &recorder, clock, |open| open.grace(common::PATIENCE))
}

fn assert_all_done(offered: &Offered) {
    let total = &offered.summary.total;
    assert_eq!((total.offered, total.completed), (REQUESTS, REQUESTS), "{offered:?}");
    assert_eq!((offered.summary.stray, offered.broken_connections), (0, 0));
    assert!(offered.errors.iter().all(|errors| errors.refused == 0 && errors.lost == 0));
    assert!(total.latency_ns.unwrap().p50.value > 0);
}

#[test]
fn all_requests_of_resp_are_answered() {
    let running = common::resp(Limits::default());
    fill(Protocol::Resp, running.address(), 100, 32).unwrap();
    for depth in [1, 8] {
        let options = Options { depth, ..options(Protocol::Resp, running.address()) };
        let offered = offer(options, "get:60,set:20,incr:10,range:10").unwrap();
        assert_all_done(&offered);
        let classes: Vec<_> = offered.summary.classes.iter().map(|c| c.completed).collect();
        assert!(classes.iter().all(|completed| *completed > 0), "{classes:?}");
    }
}

#[test]
fn all_requests_of_memcached_are_answered() {
    let running = common::memcached(Limits::default());
    fill(Protocol::Memcached, running.address(), 100, 32).unwrap();
    assert_all_done(
        &offer(options(Protocol::Memcached, running.address()), "get:80,set:20").unwrap(),
    );
}

#[test]
fn all_datagrams_are_answered() {
    let (runtime, _turn) = common::runtime();
    let store: Arc<dyn Store> = Arc::new(Memory::new(1 << 24));
    quaver_serve::store::fill(store.as_ref(), 100, 32, &|| true).unwrap();
    let answers = Arc::new(aspen::KeyValue::new(store, 50, 32));
    let address = ([127, 0, 0, 1], 0).into();
    let server = Arc::new(UdpServer::bind(address, Limits::default(), answers).unwrap());
    let running = Arc::clone(&server);
    let receiving = runtime.spawn(move || running.run());
    let options = options(Protocol::AspenUdp, server.local_addr().unwrap());
    assert_all_done(&offer(options, "get:90,range:10").unwrap());
    assert_eq!(server.stop(), 0);
    receiving.join().unwrap();
    runtime.shutdown();
}

#[test]
fn what_a_server_refuses_is_no_answer() {
    let running = common::resp(Limits::default());
    // There are no keys.
    let offered = offer(options(Protocol::Resp, running.address()), "get:50,set:50").unwrap();
    let (get, set) = (&offered.errors[0], &offered.errors[1]);
    assert!(get.refused > 0 && set.refused == 0, "{offered:?}");
    let class = &offered.summary.classes[0];
    assert_eq!(class.dropped, get.refused);
    assert_eq!(class.offered, class.completed + class.dropped);
}

#[test]
fn a_server_that_breaks_off_loses_requests_and_ends_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        for stream in listener.incoming().take(4) {
            let mut stream = stream.unwrap();
            let mut request = [0; 20];
            // One answer, then the end, with the next request unread.
            let _ = stream.read_exact(&mut request);
            let _ = stream.write_all(b"$1\r\nx\r\n");
        }
    });
    let offered = offer(options(Protocol::Resp, address), "get").unwrap();
    server.join().unwrap();
    let (total, errors) = (&offered.summary.total, &offered.errors[0]);
    assert_eq!(offered.broken_connections, 4);
    assert!(total.completed <= 4, "{offered:?}");
    assert_eq!(total.completed + errors.lost, REQUESTS, "{offered:?}");
    assert_eq!(total.unfinished, 0);
}

#[test]
fn an_end_that_comes_with_an_answer_is_noticed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let streams: Vec<_> = listener.incoming().take(4).map(Result::unwrap).collect();
        for mut stream in &streams {
            // In one segment.
            socket2::SockRef::from(stream).set_tcp_cork(true).unwrap();
            let _ = stream.read_exact(&mut [0; 20]);
            let _ = stream.write_all(b"$1\r\nx\r\n");
            let _ = stream.shutdown(std::net::Shutdown::Write);
        }
        // They are no error until the client has given up.
        for mut stream in &streams {
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    let many = REQUESTS as usize;
    let offered = offer(Options { depth: many, ..options(Protocol::Resp, address) }, "get");
    let offered = offered.unwrap();
    drop(server);
    let (total, errors) = (&offered.summary.total, &offered.errors[0]);
    assert_eq!((offered.broken_connections, total.unfinished), (4, 0));
    assert_eq!(total.completed + errors.lost, REQUESTS, "{offered:?}");
}

#[test]
fn strange_answers_break_a_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let streams: Vec<_> = listener.incoming().take(4).map(Result::unwrap).collect();
        for mut stream in &streams {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
        // They stay open until the client has given up.
        for mut stream in &streams {
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    let offered = offer(options(Protocol::Resp, address), "get").unwrap();
    server.join().unwrap();
    assert_eq!((offered.broken_connections, offered.summary.total.completed), (4, 0));
    assert_eq!(offered.errors[0].lost, REQUESTS);
}

#[test]
fn a_server_that_is_not_there_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = offer(options(Protocol::Resp, address), "get").unwrap_err().to_string();
    assert!(error.contains("cannot connect") && error.contains("connection 1"), "{error}");
    let error = fill(Protocol::Resp, address, 1, 1).unwrap_err().to_string();
    assert!(error.contains("cannot fill"), "{error}");
    let error = fill(Protocol::AspenUdp, address, 1, 1).unwrap_err().to_string();
    assert!(error.contains("--fill"), "{error}");
}

#[test]
fn a_request_that_the_protocol_has_not_is_an_error() {
    let running = common::memcached(Limits { grace: Duration::from_secs(1), ..Limits::default() });
    let error = offer(options(Protocol::Memcached, running.address()), "range").unwrap_err();
    assert!(error.to_string().contains("memcached has no request for class range"), "{error}");
}
