//! The client of the key-value service in Go.
//!
//! A Go process cannot be called from a thread that Go does not know, and going through the kernel
//! would add two system calls to a request of a microsecond. So client and server share a file of
//! 64-bit words, whose layout `bench/go/kv.go` describes: the client writes requests and a counter,
//! the server polls the counter between goroutines and writes down when each request was finished.
//! One file and one server for each load.

use std::cell::Cell;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use memmap2::{MmapMut, MmapOptions};
use quaver_bench_common::Outcome;
use quaver_bench_common::clock::monotonic_ns;
use quaver_bench_common::kv::{Load, SCAN, find_load, on_client_cpu};
use quaver_bench_common::spec::KvSpec;
use quaver_load::{Clock, Recorder, Request, Sent, Summary};
use serde_json::json;
use tempfile::NamedTempFile;

use crate::process;

const VERSION: u64 = 1;
const TOTAL: usize = 1;
const READY: usize = 2;
const GET_NS: usize = 3;
const SCAN_NS: usize = 4;
const SENT: usize = 8;
const DONE: usize = 16;
const REQUESTS: usize = 64;
const SCAN_BIT: u64 = 1 << 63;

/// Keys, and calibrating.
const START: Duration = Duration::from_secs(60);

/// Finds the highest load of `spec` that `program` bears.
///
/// # Errors
///
/// When the server cannot be started.
pub fn run(program: &str, spec: &KvSpec) -> anyhow::Result<Outcome> {
    let mut services = String::new();
    let found = find_load(spec, |load| {
        let result = offer(program, spec, load);
        let (summary, note) = result.map_err(|error| format!("{error:#}"))?;
        services = note;
        Ok(summary)
    });
    Ok(match found {
        Ok(sample) => sample
            .note("the same work in time on a sorted slice, requests through shared memory")
            .note(services)
            .into(),
        Err(error) => Outcome::failed(error),
    })
}

fn offer(program: &str, spec: &KvSpec, load: &Load) -> anyhow::Result<(Summary, String)> {
    let ring = Ring::new(load.schedule.count() as usize)?;
    let mut server = Server::start(program, spec, &ring)?;
    server.wait_until_ready(&ring)?;
    let note = format!(
        "its GETs take about {:.1} us, its SCANs {:.0} us",
        ring.word(GET_NS).load(Ordering::Relaxed) as f64 / 1e3,
        ring.word(SCAN_NS).load(Ordering::Relaxed) as f64 / 1e3
    );
    let summary =
        on_client_cpu(spec, || Ok(offer_through(&ring, load))).map_err(anyhow::Error::msg)?;
    server.finish(&ring)?;
    Ok((summary, note))
}

fn offer_through(ring: &Ring, load: &Load) -> Summary {
    let clock = RingClock { ring, recorder: load.recorder(), sent: Cell::new(0) };
    load.offer_by(&clock, |request| {
        clock.send(request);
        Sent::Accepted
    })
}

/// The shared file.
struct Ring {
    file: NamedTempFile,
    memory: MmapMut,
    total: usize,
}

impl Ring {
    /// Room for `total` requests.
    fn new(total: usize) -> anyhow::Result<Self> {
        // Memory, where there is a file system for that; a disk would do.
        let shared = std::path::Path::new("/dev/shm");
        let file =
            if shared.is_dir() { NamedTempFile::new_in(shared) } else { NamedTempFile::new() };
        let file = file.context("cannot make a shared file")?;
        let bytes = (REQUESTS + 2 * total) * 8;
        file.as_file().set_len(bytes as u64)?;
        // SAFETY: the file is new, and only a server that we start maps it, too; all access to its
        // words is atomic.
        let memory = unsafe { MmapOptions::new().populate().map_mut(file.as_file())? };
        let ring = Self { file, memory, total };
        ring.word(0).store(VERSION, Ordering::Relaxed);
        ring.word(TOTAL).store(total as u64, Ordering::Relaxed);
        Ok(ring)
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.memory.len() / 8);
        // SAFETY: the word is inside the mapping, which is aligned to a page and lives as long as
        // `self`; nobody accesses it but by atomic operations.
        unsafe { AtomicU64::from_ptr(self.memory.as_ptr().cast_mut().cast::<u64>().add(index)) }
    }

    fn finished(&self, request: usize) -> &AtomicU64 {
        self.word(REQUESTS + self.total + request)
    }
}

/// Spins, and collects completions when everything has been sent and there is nothing else to do.
struct RingClock<'a> {
    ring: &'a Ring,
    recorder: &'a Recorder,
    sent: Cell<usize>,
}

impl RingClock<'_> {
    /// Requests are sent in the order of their numbers, without gaps.
    fn send(&self, request: &Request) {
        let index = self.sent.get();
        let kind = if request.class == SCAN { SCAN_BIT } else { 0 };
        let word = request.key_random & !SCAN_BIT | kind;
        self.ring.word(REQUESTS + index).store(word, Ordering::Relaxed);
        self.sent.set(index + 1);
        self.ring.word(SENT).store(index as u64 + 1, Ordering::Release);
    }

    fn collect(&self) {
        for index in 0..self.sent.get() {
            let at = self.ring.finished(index).swap(0, Ordering::Acquire);
            if at > 0 {
                self.recorder.complete(index as u64, at);
            }
        }
    }
}

impl Clock for RingClock<'_> {
    fn now_ns(&self) -> u64 {
        monotonic_ns()
    }

    fn wait_until(&self, time_ns: u64) {
        if self.sent.get() == self.ring.total {
            self.collect();
        }
        while monotonic_ns() < time_ns {
            std::hint::spin_loop();
        }
    }
}

/// The Go process.
struct Server(Option<Child>);

impl Server {
    fn start(program: &str, spec: &KvSpec, ring: &Ring) -> anyhow::Result<Self> {
        let work = json!({
            "benchmark": "kv-ring",
            "ring": ring.file.path(),
            "keys": spec.keys,
            "get_ns": spec.get_ns,
            "scan_ns": spec.scan_ns,
        });
        let mut command = Command::new(program);
        command.arg(work.to_string()).stdin(Stdio::null()).stdout(Stdio::piped());
        let child = process::spawn(&mut command, &[spec.worker_cpu]);
        Ok(Self(Some(child.with_context(|| format!("cannot start {program}"))?)))
    }

    fn wait_until_ready(&mut self, ring: &Ring) -> anyhow::Result<()> {
        let deadline = Instant::now() + START;
        while ring.word(READY).load(Ordering::Acquire) == 0 {
            if let Some(child) = &mut self.0
                && let Some(status) = child.try_wait()?
            {
                bail!("the server ended ({status}): {}", said(child));
            }
            if Instant::now() > deadline {
                bail!("the server is not ready after {START:?}");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn finish(mut self, ring: &Ring) -> anyhow::Result<()> {
        ring.word(DONE).store(1, Ordering::Release);
        if let Some(child) = self.0.take() {
            match process::wait(child, START)? {
                Some(status) if status.success() => {}
                Some(status) => bail!("the server failed: {status}"),
                None => bail!("the server did not end and was killed"),
            }
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // An error has happened already; there is nobody to tell of another.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn said(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(out) = &mut child.stdout {
        // Whatever can be read is better than nothing.
        let _ = out.read_to_string(&mut text);
    }
    text.trim().to_owned()
}
