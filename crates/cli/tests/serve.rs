//! `quaver serve` and `quaver load` as users and scripts call them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const QUAVER: &str = env!("CARGO_BIN_EXE_quaver");

/// A server, and where it listens.
struct Server {
    child: Child,
    stdout: BufReader<ChildStdout>,
    address: String,
}

impl Server {
    fn start(args: &[&str]) -> Server {
        let mut command = Command::new(QUAVER);
        command.arg("serve").args(args).args(["--port", "0", "--workers", "2"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let address = line.strip_prefix("listening ").expect("the address comes first").trim();
        Server { address: address.to_owned(), child, stdout }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Ends the server, which must have nothing more to say.
    fn stop(mut self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let mut more = String::new();
        self.stdout.read_to_string(&mut more).unwrap();
        assert_eq!(more, "");
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended before if nothing went wrong.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn quaver(args: &[&str]) -> Output {
    Command::new(QUAVER).args(args).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_server_answers_and_ends_in_order() {
    let server = Server::start(&["kv"]);
    let mut client = server.connect();
    client.write_all(b"SET k v\r\nGET k\r\n").unwrap();
    let mut reply = [0; 12];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+OK\r\n$1\r\nv\r\n");
    server.stop(Signal::TERM);
    assert_eq!(client.read(&mut reply).unwrap(), 0);
}

#[test]
fn what_redb_was_given_is_there_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kv");
    let args = ["kv", "--store", "redb", "--path", file.to_str().unwrap()];
    let server = Server::start(&args);
    let mut reply = [0; 5];
    let mut client = server.connect();
    client.write_all(b"SET k v\r\n").unwrap();
    client.read_exact(&mut reply).unwrap();
    server.stop(Signal::INT);
    let server = Server::start(&args);
    let mut client = server.connect();
    client.write_all(b"EXISTS k\r\n").unwrap();
    client.read_exact(&mut reply[..4]).unwrap();
    assert_eq!(&reply[..4], b":1\r\n");
    server.stop(Signal::TERM);
}

#[test]
fn a_store_that_is_being_filled_ends_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kv");
    let path = file.to_str().unwrap();
    let args = ["serve", "kv", "--port", "0", "--store", "redb", "--path", path];
    let child = Command::new(QUAVER)
        .args(args)
        .args(["--fill", "99999999999", "--workers", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Until it has begun: the table is there.
    let until = Instant::now() + Duration::from_secs(60);
    while std::fs::metadata(&file).map_or(0, |file| file.len()) == 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = stderr(&output);
    assert!(output.status.success() && said.contains("SIGTERM, stopping: the store has"), "{said}");
    assert_eq!(output.stdout, b"");
}

#[test]
fn load_reports_every_class() {
    let server = Server::start(&["kv", "--protocol", "memcached", "--fill", "100"]);
    let output = quaver(&[
        "load",
        "--protocol",
        "memcached",
        "--to",
        &server.address,
        "--rate",
        "1000",
        "--mix",
        "get=90,set=10",
        "--keys",
        "100",
        "--duration",
        "200ms",
        "--warm-up",
        "50ms",
        "--grace",
        "60s",
        "--json",
        "-",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let classes = report["summary"]["classes"].as_array().unwrap();
    let names: Vec<_> = classes.iter().map(|class| class["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["get", "set"]);
    assert_eq!(report["summary"]["total"]["completed"], report["summary"]["total"]["offered"]);
    server.stop(Signal::TERM);
}

#[test]
fn mistakes_are_named_before_anything_starts() {
    for (args, part) in [
        (&["serve", "kv", "--workers", "many"][..], "workers"),
        (&["serve", "kv", "--listen", "nowhere:x"], "127.0.0.1:6379"),
        (&["serve", "kv", "--listen", "127.0.0.1:7000", "--port", "7001"], "leave one of them out"),
        (&["serve", "kv", "--listen", "192.0.2.1", "--port", "0"], "cannot listen at 192.0.2.1"),
        (&["serve", "kv", "--port", "0", "--path", "x"], "--store redb"),
        (
            &["serve", "kv", "--port", "0", "--store", "redb", "--max-memory", "1g"],
            "--store memory",
        ),
        (&["serve", "kv", "--max-value", "1"], "1024"),
        (&["serve", "kv", "--port", "0", "--fill", "99999999999"], "room for"),
        (
            &["serve", "kv", "--port", "0", "--store", "redb", "--fill", "99999999999"],
            "this machine's memory",
        ),
        (&["serve", "analytics", "--rows", "1,2"], "five numbers"),
        (&["load", "--protocol", "http", "--to", "127.0.0.1:1", "--rate", "1"], "aspen-udp"),
        (&["load", "--protocol", "resp", "--to", "127.0.0.1:1", "--rate", "1"], "cannot connect"),
        (&["load", "--protocol", "resp", "--to", "127.0.0.1", "--rate", "1"], "127.0.0.1:6379"),
        (
            &["load", "--protocol=memcached", "--to=127.0.0.1:1", "--rate=1", "--mix=range=1"],
            "memcached has no request for class range",
        ),
        (
            &["load", "--protocol=resp", "--to=127.0.0.1:1", "--rate=1", "--fill", "--mix=ad=1"],
            "resp has no request for class ad",
        ),
    ] {
        let output = quaver(args);
        assert!(!output.status.success() && output.stdout.is_empty(), "{args:?}");
        let text = stderr(&output);
        assert!(text.contains(part), "{args:?}: {text}");
        assert!(text.matches("refused").count() <= 1, "said twice: {text}");
    }
}
