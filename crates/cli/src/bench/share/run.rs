//! One measurement: starts broker and best-effort program, serves, and counts.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicU32;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use quaver_bench_common::affinity::{on_cpu, pin};
use quaver_bench_common::{Outcome, Sample};
use quaver_load::{ArrivalProcess, Limit, Mix, Schedule, Summary};
use quaver_sched::share::Membership;
use quaver_share::broker::Status;
use quaver_share::{Member, Tally};

use super::critical::{Server, Waiting};
use super::page::Page;
use super::windows;
use super::{BestEffortSpec, ShareSpec, Variant};
use crate::bench::child::Work;
use crate::process;
use crate::slice;
use quaver_validate::real::{self, Speed};

/// Of [`Variant::Slices`].
pub const SLICE: Duration = Duration::from_micros(100);

/// A process that is killed when the measurement is over. Where this one dies before, the kernel
/// kills it.
pub struct Running(pub Child);

impl Running {
    /// Whether it has not ended.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Measures.
///
/// # Errors
///
/// No broker or program can be started, or nothing was served in time.
pub fn run(spec: &ShareSpec) -> anyhow::Result<Outcome> {
    let (critical, best_effort) = spec.variant.classes();
    for class in [critical, best_effort] {
        let tried = thread::spawn(move || class.set(0)).join().expect("no panic");
        if let Err(error) = tried {
            return Ok(Outcome::unsupported(format!("the class is not allowed: {error}")));
        }
    }
    // The worker is alone on its CPU while it finds out how long its requests are.
    let speed = on_cpu("worker", spec.worker, || Ok(Speed::measure(None)))?;
    pin(&[spec.client])?;
    let socket = spec.folder.join("share.sock");
    let broker = spec.variant.is_shared().then(|| start_broker(spec, &socket)).transpose()?;
    let mut program =
        spec.variant.has_best_effort().then(|| Program::start(spec, &socket)).transpose()?;
    let socket_text = socket.to_str().context("the folder's path is not UTF-8")?;
    let member = broker
        .as_ref()
        .map(|_| Member::join(&Membership::critical().at(socket_text), "server"))
        .transpose()?;
    let seen = serve(spec, speed, member.as_ref(), program.as_mut(), &socket)?;
    let all = &seen.summary.total;
    ensure!(all.completed > 0, "no request was served");
    let latency = all.latency_ns.context("no request was served")?;
    let mut sample = Sample { ops: all.completed, ..Sample::default() }
        .with("p50_us", latency.p50.value as f64 / 1e3)
        .with("p99_us", latency.p99.value as f64 / 1e3);
    for (name, value) in seen.metrics {
        sample = sample.with(name, value);
    }
    let missing = all.offered - all.completed;
    if missing > 0 {
        sample = sample.note(format!("{missing} of {} requests were not served", all.offered));
    }
    if let Some(binding) = seen.binding {
        sample = sample.note(format!("binding {binding}"));
    }
    Ok(sample.into())
}

/// This executable, as one of its commands.
pub fn command(words: &[&str]) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("cannot find this executable")?);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null());
    Ok(command)
}

/// `quaver share`, as a user starts it. The next one replaces the socket of one that was killed.
fn start_broker(spec: &ShareSpec, socket: &Path) -> anyhow::Result<Running> {
    let cpu = spec.worker.to_string();
    let mut command = command(&["share", "--cpus", &cpu, "--socket"])?;
    command.arg(socket).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = process::spawn(&mut command, &[spec.worker, spec.broker]);
    let mut broker = Running(child.context("cannot start the broker")?);
    let mut line = String::new();
    let said = broker.0.stdout.take().context("it has no output")?;
    BufReader::new(said).read_line(&mut line)?;
    if !line.contains("serving at") {
        let mut complaint = String::new();
        let _ = broker.0.kill();
        broker.0.stderr.take().map(|mut err| err.read_to_string(&mut complaint));
        bail!("the broker does not serve: {}", complaint.trim());
    }
    Ok(broker)
}

/// The best-effort program.
struct Program {
    page: Page,
    /// Computes until it is dropped.
    _process: Running,
    /// Turns in a microsecond, alone.
    speed: f64,
}

impl Program {
    /// Starts it, and waits until it computes.
    fn start(spec: &ShareSpec, socket: &Path) -> anyhow::Result<Program> {
        let path = spec.folder.join("best-effort");
        let page = Page::create(&path)?;
        let work = Work::ShareBestEffort(BestEffortSpec {
            variant: spec.variant,
            page: path,
            cpu: spec.other.unwrap_or(spec.worker),
            socket: socket.to_owned(),
        });
        let work = serde_json::to_string(&work).expect("work is valid JSON");
        let mut command = if spec.variant == Variant::Plain {
            let mut command = command(&["share", "run", "--socket"])?;
            command.arg(socket).arg("--").arg(std::env::current_exe()?);
            command
        } else {
            command(&[])?
        };
        command.args(["bench", "--child", &work]);
        let cpus: Vec<usize> = [spec.worker, spec.client].into_iter().chain(spec.other).collect();
        let child = process::spawn(&mut command, &cpus).context("cannot start the program")?;
        let mut process = Running(child);
        let speed = page.begun(|| process.is_alive())?;
        Ok(Program { page, _process: process, speed })
    }
}

/// What one run has shown.
struct Seen {
    summary: Summary,
    metrics: Vec<(&'static str, f64)>,
    binding: Option<String>,
}

fn serve(
    spec: &ShareSpec,
    speed: Speed,
    member: Option<&Member>,
    program: Option<&mut Program>,
    socket: &Path,
) -> anyhow::Result<Seen> {
    let service = Duration::from_micros(spec.service_us);
    let mix: Mix = format!("request:100%:fixed={}us", spec.service_us).parse()?;
    let capacity = mix.capacity(1).context("a request takes no time")?;
    let rate = capacity * f64::from(spec.load_percent) / 100.0;
    let (span, warm_up) = (Duration::from_millis(spec.span_ms), Duration::from_millis(50));
    let limit = Limit::Duration(span);
    let schedule =
        Schedule::new(ArrivalProcess::Poisson, rate, &mix, limit, u64::from(spec.load_percent))?
            .warm_up(warm_up);
    let client = real::client(spec.client);
    let answers = client.answers(&schedule)?;
    let at_bell = member.map(|member| Some((member, member.doors().place_of(spec.worker)?)));
    let waiting = match (spec.variant, at_bell) {
        (Variant::AloneSpinning, _) => Waiting::Spin,
        (_, Some(Some((member, place)))) => Waiting::Bell { doors: member.doors(), place },
        (_, Some(None)) => bail!("CPU {} is not shared", spec.worker),
        (_, None) => Waiting::Futex(AtomicU32::new(0)),
    };
    let at_bell = at_bell.flatten();
    let (server, to, from) = Server::new(waiting);
    thread::scope(|scope| {
        let worker = scope.spawn(|| -> anyhow::Result<()> {
            // The class before the CPU: a BE of the same class may be there.
            match member {
                Some(member) => member.rank()?,
                None => spec.variant.classes().0.set(0)?,
            }
            if spec.variant == Variant::Slices {
                slice::set(SLICE);
            }
            pin(&[spec.worker])?;
            server.work(from, service, speed, &answers);
            Ok(())
        });
        let measured = scope.spawn(|| -> anyhow::Result<_> {
            thread::sleep(warm_up);
            let turns = || program.as_ref().map_or(0, |program| program.page.turns());
            let tally = || at_bell.map(|(member, place)| member.doors().tally(place));
            let (begun, before, tally_before) = (Instant::now(), turns(), tally());
            thread::sleep(span.mul_f64(0.9));
            let (took, done) = (begun.elapsed(), turns() - before);
            let bells = tally().zip(tally_before).map(|(now, then)| of_bells(now, then, took));
            let binding = member.map(|_| Ok(status(socket)?.binding)).transpose();
            binding.map(|binding| (took, done, bells, binding))
        });
        let result = client.run(|| {
            let (limit, grace) = (2 * span + Duration::from_secs(1), Duration::from_secs(1));
            Ok(answers.offer(
                |open| open.max_outstanding(100_000).time_limit(limit).grace(grace),
                &schedule,
                |request| server.send(&to, request.id),
            ))
        });
        server.close();
        worker.join().expect("no panic")?;
        let (took, done, bells, binding) = measured.join().expect("no panic")?;
        let mut metrics = bells.unwrap_or_default();
        let p99 = windows::p99_ns(answers.recorder());
        metrics.extend(p99.map(|ns| ("window_p99_us", ns as f64 / 1e3)));
        if let Some(program) = &program {
            let left = 1.0 - f64::from(spec.load_percent) / 100.0;
            let whole = took.as_nanos() as f64 / 1e3 * program.speed;
            metrics.push(("be_share_percent", 100.0 * done as f64 / (whole * left)));
        }
        Ok(Seen { summary: result?, metrics, binding })
    })
}

fn status(socket: &Path) -> anyhow::Result<Status> {
    serde_json::from_str(&quaver_share::status(socket)?)
        .context("the broker answers as another version would")
}

/// What has happened at the worker's bell meanwhile.
fn of_bells(now: Tally, then: Tally, took: Duration) -> Vec<(&'static str, f64)> {
    let parks = now.parks - then.parks;
    let rings = (now.rings - then.rings) as f64;
    let mut metrics = vec![("parks_per_s", parks as f64 / took.as_secs_f64())];
    if rings > 0.0 {
        let percent = |of: u64| 100.0 * of as f64 / rings;
        metrics.push(("answered_percent", percent(now.answered - then.answered)));
        metrics.push(("forced_percent", percent(now.forced - then.forced)));
        let waited = (now.waited - then.waited).as_nanos() as f64 / 1e3;
        metrics.push(("wait_us", waited / rings));
    }
    metrics
}
