//! `quaver l3fwd` as users call it: between kernels in network namespaces. Needs root, and says so
//! where it is not.

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

#[path = "../../net/tests/xdp/place.rs"]
mod place;

use place::{Place, connect};

const QUAVER: &str = env!("CARGO_BIN_EXE_quaver");
const PORTS: [&str; 4] =
    ["--port", "afxdp:pl,address=10.1.0.1/24", "--port", "afxdp:pr,address=10.2.0.1/24"];

fn quaver(args: &[&str]) -> Output {
    Command::new(QUAVER).arg("l3fwd").args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A forwarder in `place`, whose first line has been read.
struct Forwarder {
    child: Child,
    stdout: BufReader<ChildStdout>,
    first: String,
}

impl Forwarder {
    fn start(place: &Place, args: &[&str]) -> Forwarder {
        let args: Vec<String> = PORTS.iter().chain(args).map(ToString::to_string).collect();
        place.run(move || {
            let mut command = Command::new(QUAVER);
            command.arg("l3fwd").args(args).stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let mut stdout = BufReader::new(child.stdout.take().unwrap());
            let mut first = String::new();
            stdout.read_line(&mut first).unwrap();
            Forwarder { child, stdout, first }
        })
    }

    /// What it has said since.
    fn stop(mut self, signal: Signal) -> String {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let mut more = String::new();
        self.stdout.read_to_string(&mut more).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        more
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        // It has ended before if nothing went wrong.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn kernels_reach_each_other_through_it_until_a_signal_comes() {
    if place::skipped() {
        return;
    }
    let (left, middle, right) = (Place::new(), Place::new(), Place::new());
    connect((&middle, "pl", None), (&left, "vl", Some("10.1.0.2/24")), "");
    connect((&middle, "pr", None), (&right, "vr", Some("10.2.0.2/24")), "");
    left.ip("route add default via 10.1.0.1");
    right.ip("route add default via 10.2.0.1");
    right.ip("addr add 10.3.0.1/32 dev lo");
    let routes = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&routes, "10.3.0.0/16 pr 10.2.0.2 # behind it\n").unwrap();
    let routes = routes.path().to_str().unwrap();
    for (signal, spin) in [(Signal::INT, None), (Signal::TERM, Some("--spin"))] {
        let args: Vec<&str> = ["--routes", routes, "--stats"].into_iter().chain(spin).collect();
        let forwarder = Forwarder::start(&middle, &args);
        assert_eq!(forwarder.first, "forwarding between pl (skb), pr (skb): 3 routes\n");
        left.command("ping -c 3 -i 0.2 -W 10 10.2.0.2");
        left.command("ping -c 3 -i 0.2 -W 10 10.3.0.1");
        let server = right.run(|| UdpSocket::bind("10.3.0.1:7").unwrap());
        let client = left.run(|| UdpSocket::bind("10.1.0.2:0").unwrap());
        server.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let mut tries = 0;
        for n in 0..1000u32 {
            let mut got = [0; 4];
            // A busy kernel may drop one.
            while got != n.to_be_bytes() || n == 0 && tries == 0 {
                client.send_to(&n.to_be_bytes(), "10.3.0.1:7").unwrap();
                let _ = server.recv(&mut got);
                tries += 1;
            }
        }
        assert!(tries < 1010, "datagrams are lost all the time: {tries}");
        client.send_to(b"nowhere", "192.0.2.1:7").unwrap();
        left.command("ping -c 1 -W 20 10.2.0.2");
        let said = forwarder.stop(signal);
        let last = said.lines().last().unwrap();
        assert!(last.starts_with("received ") && last.contains("no route 1"), "{said}");
        let ip = middle.ip("link show pl");
        assert!(!ip.contains("xdp"), "{ip}");
    }
    // As DPDK's is measured.
    let forwarder = Forwarder::start(&middle, &["--routes", "16000"]);
    assert!(forwarder.first.ends_with(": 16002 routes\n"), "{}", forwarder.first);
    // A kernel may ask by ARP whether its gateway is still there.
    let said = forwarder.stop(Signal::TERM);
    assert!(said.contains("forwarded 0, dropped 0\n"), "{said}");
}

#[test]
fn what_is_wrong_is_said_before_anything_is_opened() {
    let routes = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&routes, "# all\n10.1.0.0/16 pl\n10.1.2.3/16 pl\n").unwrap();
    let routes = routes.path().to_str().unwrap();
    for (args, code, parts) in [
        (&["--port", "va"][..], 2, &["afxdp:NAME"][..]),
        (&[], 2, &["--port"]),
        (
            &["--port", "afxdp:pl", "--routes", routes],
            1,
            &[routes, "line 3", "10.1.0.0/16 is meant"],
        ),
        (
            &["--port", "afxdp:pl", "--routes", "/none/routes"],
            1,
            &["/none/routes", "cannot be read"],
        ),
        (&["--port", "afxdp:pl", "--routes", "2000000"], 1, &["1000000"]),
        (&["--port", "afxdp:quaver-none"], 1, &["quaver-none"]),
    ] {
        let output = quaver(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        let said = text(&output.stderr);
        assert!(parts.iter().all(|part| said.contains(part)), "{args:?}: {said}");
        assert!(output.stdout.is_empty());
    }
}
