//! Every implementation answers every spec, as `quaver bench` would ask.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use quaver_bench_common::net::{FAST, Kind, MESSAGE, SLOW};
use quaver_bench_common::outcome::CPU_NS_PER_OP;
use quaver_bench_common::spec::{AnswerSpec, Answers, KvSpec, ServeSpec, Service};
use quaver_bench_common::{Budget, Op, Outcome, Sample, Spec, kv, overshoot, parked};
use quaver_load::net::aspen::{GET, Message, REFUSED, SCAN};

const PROGRAM: &str = env!("CARGO_BIN_EXE_quaver-bench-peers");
const SHORT: Budget = Budget { warmup_ms: 1, measure_ms: 2 };

fn names() -> Vec<String> {
    let output = Command::new(PROGRAM).arg("list").output().expect("the program starts");
    String::from_utf8(output.stdout).expect("UTF-8").lines().map(String::from).collect()
}

fn ask(name: &str, spec: &Spec) -> Outcome {
    let spec = serde_json::to_string(spec).expect("a spec is JSON");
    let output = Command::new(PROGRAM).args([name, &spec]).output().expect("the program starts");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    Outcome::parse(&text).unwrap_or_else(|error| {
        panic!("{name} {spec}: {error}; {}", String::from_utf8_lossy(&output.stderr))
    })
}

fn sample(name: &str, spec: &Spec) -> Sample {
    match ask(name, spec) {
        Outcome::Sample(sample) => sample,
        other => panic!("{name} {spec:?}: {other:?}"),
    }
}

#[test]
fn all_do_all_operations() {
    let mut expected = vec!["pthread", "tokio-current-thread", "tokio-multi-thread", "may"];
    if cfg!(boost_fiber) {
        expected.push("boost-fiber");
    }
    assert_eq!(names(), expected);
    for name in names() {
        for op in Op::ALL {
            let sample = sample(&name, &Spec::Ops { op, budget: SHORT });
            assert!(sample.ops >= op.per_iteration(), "{name} {op:?}: {sample:?}");
            assert!(sample.metrics[CPU_NS_PER_OP] > 0.0, "{name} {op:?}: {sample:?}");
        }
    }
}

#[test]
fn all_sleepers_wake() {
    for name in names() {
        let sample = sample(&name, &Spec::Wake { hogs: 2, sleep_us: 1000, duration_ms: 30 });
        assert!(sample.ops >= 1, "{name}: {sample:?}");
        let quantiles = overshoot::METRICS.map(|metric| sample.metrics[metric]);
        assert!(quantiles.is_sorted(), "{name}: {quantiles:?}");
    }
}

#[test]
fn threads_park_and_wake() {
    for name in ["pthread", "tokio-current-thread", "tokio-multi-thread"] {
        let sample = sample(name, &Spec::Parked { threads: 100 });
        assert_eq!(sample.ops, 100);
        assert!(parked::METRICS.iter().all(|metric| sample.metrics.contains_key(*metric)));
    }
}

#[test]
fn several_workers_share_the_operations() {
    for name in ["pthread", "tokio-multi-thread"] {
        for op in [Op::Yield, Op::SpawnJoin] {
            let sample = sample(name, &Spec::Throughput { op, workers: 2, budget: SHORT });
            assert!(sample.ops >= 2 * op.per_iteration(), "{name}: {sample:?}");
        }
    }
    let one = Spec::Throughput { op: Op::Yield, workers: 2, budget: SHORT };
    assert!(matches!(ask("tokio-current-thread", &one), Outcome::Unsupported { .. }));
}

#[test]
fn the_service_answers() {
    // Whatever CPU there is, and service times far above the real ones: the test is about answers,
    // not about speed.
    let allowed = rustix::thread::sched_getaffinity(None).expect("the affinity");
    let cpu = (0..).find(|&cpu| allowed.is_set(cpu)).expect("a CPU");
    let spec = KvSpec {
        keys: 200,
        get_keys: 1,
        scan_keys: 100,
        get_ns: 100_000.0,
        scan_ns: 200_000.0,
        scan_percent: 5.0,
        // An hour: every load passes.
        slo_us: 3_600_000_000,
        loads: vec![50.0, 100.0],
        duration_ms: 50,
        seed: 1,
        worker_cpu: cpu,
        client_cpu: cpu,
    };
    for name in ["pthread", "tokio-current-thread", "tokio-multi-thread"] {
        let sample = sample(name, &Spec::Kv(spec.clone()));
        assert_eq!(sample.metrics[kv::LOAD_PERCENT], 100.0, "{name}: {sample:?}");
        assert!(sample.ops > 0, "{name}: {sample:?}");
    }
}

fn serving(service: Service) -> Spec {
    Spec::Serve(ServeSpec { service, threads: 2, iterations: 1000, compute_ns: 1000 })
}

/// A server, and where it listens.
fn serve(name: &str, service: Service) -> (Child, SocketAddr) {
    start(name, &serving(service))
}

fn start(name: &str, spec: &Spec) -> (Child, SocketAddr) {
    let spec = serde_json::to_string(spec).expect("a spec is JSON");
    let mut command = Command::new(PROGRAM);
    command.args([name, &spec]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut line = String::new();
    let out = child.stdout.as_mut().expect("it was piped");
    BufReader::new(out).read_line(&mut line).expect("a line");
    let address = line.trim().strip_prefix("listening ").expect("the address");
    (child, address.parse().expect("an address"))
}

/// The end of its standard input is that of a server.
fn end(mut server: Child) {
    drop(server.stdin.take());
    assert!(server.wait().expect("it ends").success());
}

#[test]
fn messages_come_back() {
    for name in ["pthread", "tokio-current-thread", "tokio-multi-thread", "may"] {
        let (server, address) = serve(name, Service::Messages);
        let mut connections: Vec<TcpStream> =
            (0..10).map(|_| TcpStream::connect(address).expect("it listens")).collect();
        for (kind, count) in [(Kind::Get, 1), (Kind::Scan, 1), (Kind::Get, 100)] {
            let messages = |number: usize| {
                let both = [[kind.byte(); MESSAGE], [number as u8 & !1; MESSAGE]];
                both.concat().repeat(count)
            };
            for (number, connection) in connections.iter_mut().enumerate() {
                connection.write_all(&messages(number)).expect("it reads");
            }
            for (number, connection) in connections.iter_mut().enumerate() {
                let mut answer = vec![0; messages(number).len()];
                connection.read_exact(&mut answer).expect("it answers");
                assert_eq!(answer, messages(number), "{name}");
            }
        }
        end(server);
    }
    if cfg!(boost_fiber) {
        let spec = serving(Service::Messages);
        assert!(matches!(ask("boost-fiber", &spec), Outcome::Unsupported { .. }));
    }
}

#[test]
fn pages_are_served_by_tokio_only() {
    for name in ["tokio-current-thread", "tokio-multi-thread"] {
        let (server, address) = serve(name, Service::Http);
        for (path, body) in [(FAST, "fast"), (SLOW, "slow")] {
            let mut connection = TcpStream::connect(address).expect("it listens");
            let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            connection.write_all(request.as_bytes()).expect("it reads");
            let mut answer = String::new();
            connection.read_to_string(&mut answer).expect("it answers");
            assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with(body), "{answer}");
        }
        end(server);
    }
    for name in ["pthread", "may"] {
        assert!(matches!(ask(name, &serving(Service::Http)), Outcome::Unsupported { .. }));
    }
}

fn answering(answers: Answers) -> Spec {
    Spec::Answer(AnswerSpec {
        answers,
        threads: 1,
        keys: 500,
        value_bytes: 64,
        get_ns: 5_000.0,
        scan_ns: 50_000.0,
        rows: vec![100; 5],
        kernel_ns: vec![1_000.0; 5],
    })
}

#[test]
fn datagrams_are_answered_or_refused() {
    let kinds = [(Answers::KeyValue, vec![GET, SCAN]), (Answers::Analytics, vec![1, 2, 3, 4, 5])];
    for name in ["tokio-current-thread", "tokio-multi-thread"] {
        for (answers, served) in &kinds {
            let (server, address) = start(name, &answering(*answers));
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a time limit");
            for kind in (0..8).chain([GET, SCAN, 77]) {
                let request = Message { id: 7, kind, key: 499, run_ns: 0 };
                socket.send_to(&request.encode(), address).expect("it receives");
                let mut bytes = [0; 64];
                let n = socket.recv(&mut bytes).expect("an answer");
                let reply = Message::decode(&bytes[..n]).expect("a message");
                let refused = if served.contains(&kind) { 0 } else { REFUSED };
                assert_eq!((reply.id, reply.kind, reply.key), (7, kind | refused, 499), "{name}");
                assert!(kind != SCAN || refused != 0 || reply.run_ns > 1000, "{reply:?}");
            }
            end(server);
        }
    }
    for name in ["pthread", "may"] {
        let outcome = ask(name, &answering(Answers::KeyValue));
        assert!(matches!(outcome, Outcome::Unsupported { .. }));
    }
}

#[test]
fn memcached_is_spoken_in_pieces_and_in_batches() {
    let (server, address) = start("tokio-current-thread", &answering(Answers::Memcached));
    let requests = "set k 0 0 5\r\nhello\r\nget k\r\nget none\r\n".repeat(3);
    let replies = "STORED\r\nVALUE k 0 5\r\nhello\r\nEND\r\nEND\r\n".repeat(3);
    for piece in [1, 7, 1000] {
        let mut connection = TcpStream::connect(address).expect("it listens");
        connection.set_nodelay(true).expect("no delay");
        for part in requests.as_bytes().chunks(piece) {
            connection.write_all(part).expect("it reads");
        }
        let mut got = vec![0; replies.len()];
        connection.read_exact(&mut got).expect("it answers");
        assert_eq!(String::from_utf8_lossy(&got), replies, "in pieces of {piece}");
        connection.write_all(b"get key:000000000499\r\n").expect("it reads");
        let mut got = vec![0; "VALUE key:000000000499 0 64\r\n\r\nEND\r\n".len() + 64];
        connection.read_exact(&mut got).expect("it answers");
        assert!(got.starts_with(b"VALUE key:000000000499 0 64\r\n"), "{got:?}");
        // What is not understood ends the connection.
        connection.write_all(b"dance\r\n").expect("it reads");
        assert_eq!(connection.read(&mut got).expect("an end"), 0);
    }
    end(server);
}

#[test]
fn mistakes_are_named() {
    for (args, part) in [
        (vec!["erlang", "{}"], "\"erlang\""),
        (vec!["may", "{}"], "no spec"),
        (vec!["may"], "usage"),
    ] {
        let output = Command::new(PROGRAM).args(&args).output().expect("the program starts");
        assert!(!output.status.success(), "{args:?}");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(part), "{args:?}: {error}");
    }
}
