//! The program answers as its client expects, and names mistakes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use quaver_bench_common::net::{FAST, SLOW};
use quaver_bench_common::spec::{ServeSpec, Service};
use quaver_bench_common::{Spec, affinity};

const PROGRAM: &str = env!("CARGO_BIN_EXE_quaver-bench-async");

fn spec(service: Service) -> String {
    let serve = ServeSpec { service, threads: 3, iterations: 1000, compute_ns: 1000 };
    serde_json::to_string(&Spec::Serve(serve)).expect("a spec is JSON")
}

#[test]
fn every_runtime_serves_its_connections() {
    let cpu = affinity::allowed().expect("the affinity")[0].to_string();
    let mut command = Command::new(PROGRAM);
    command.args(["auto", &cpu, &spec(Service::Http)]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = command.spawn().expect("the program starts");
    let mut line = String::new();
    let out = server.stdout.as_mut().expect("it was piped");
    BufReader::new(out).read_line(&mut line).expect("a line");
    let address = line.trim().strip_prefix("listening ").expect("the address");
    // More than runtimes, all open at once.
    let mut connections: Vec<TcpStream> =
        (0..7).map(|_| TcpStream::connect(address).expect("it listens")).collect();
    for (path, body) in [(SLOW, "slow"), (FAST, "fast")] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        for connection in &mut connections {
            connection.write_all(request.as_bytes()).expect("it reads");
        }
        for connection in &mut connections {
            let mut answer = Vec::new();
            while !answer.ends_with(body.as_bytes()) {
                let mut part = [0; 1000];
                let n = connection.read(&mut part).expect("it answers");
                assert!(n > 0, "closed after {:?}", String::from_utf8_lossy(&answer));
                answer.extend_from_slice(&part[..n]);
            }
            assert!(answer.starts_with(b"HTTP/1.1 200 OK"), "{:?}", answer.escape_ascii());
        }
    }
    drop(server.stdin.take());
    assert!(server.wait().expect("it ends").success());
}

#[test]
fn mistakes_are_named() {
    let http = spec(Service::Http);
    for (arguments, part) in [
        (vec!["auto"], "usage"),
        (vec!["auto", "x", &http], "list of CPUs"),
        (vec!["auto", "0", "{}"], "no spec"),
        (vec!["auto", "0", &spec(Service::Messages)], "only HTTP"),
        (vec!["soon", "0", &http], "soon"),
    ] {
        let output = Command::new(PROGRAM).args(&arguments).output().expect("the program starts");
        assert!(!output.status.success(), "{arguments:?}");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(part), "{arguments:?}: {error}");
    }
}
