//! The servers that are compared, and how each is started.

use std::ffi::OsString;

use quaver_bench_common::Spec;
use quaver_bench_common::spec::{AnswerSpec, Answers};
use quaver_serve::analytics::MICROSECONDS;

use super::services::Services;
use super::workload::{KEYS, VALUE_BYTES, Workload};
use crate::bench::context::Context;
use crate::bench::net::server::{Manner, PORT};
use crate::bench::told::Told;
use crate::run::find_shim;

/// The name of Quaver's server without preemption.
pub const RUN_TO_COMPLETION: &str = "quaver off";

/// A program that serves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// Its name in rows.
    pub name: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// How it is started and ended.
    pub manner: Manner,
    /// Is it ours, and does it preempt?
    pub preempts: bool,
}

/// The programs that are here, and what is left out.
pub struct Programs<'a> {
    context: &'a Context,
    services: &'a Services,
    workload: &'static Workload,
    /// In the order of the table.
    pub found: Vec<Program>,
    /// What is left out, and why.
    pub notes: Vec<String>,
}

impl<'a> Programs<'a> {
    /// None yet.
    pub fn new(
        context: &'a Context,
        services: &'a Services,
        workload: &'static Workload,
    ) -> Programs<'a> {
        Programs { context, services, workload, found: Vec::new(), notes: Vec::new() }
    }

    /// Adds all that there are.
    pub fn add_all(&mut self) {
        let Some(me) = text(self.context.program()) else {
            return self.leave_out("all", "the path of this program is no UTF-8");
        };
        // What runs to completion is the reference.
        let quanta: &[&str] = match (self.workload.long, self.context.effort.quick) {
            (None, _) => &["off", "auto", "50us"],
            (Some(_), true) => &["off", "auto", "50us"],
            (Some(_), false) => &["off", "auto", "20us", "50us", "200us"],
        };
        let cpu = self.context.place.worker;
        let (services, workload) = (self.services, self.workload);
        for &told in Told::possible() {
            // Without a quantum nobody is told anything.
            let quanta = quanta.iter().filter(|&&q| told == Told::BySignals || q != "off");
            let ours = quanta.map(|quantum| ours(&me, cpu, services, workload, quantum, told));
            self.found.extend(ours);
        }
        self.add_peer("tokio-current-thread", "tokio");
        self.add_peer("go", "go");
        if self.workload.answers == Answers::Memcached {
            self.add_memcached(&me);
        }
    }

    fn add_peer(&mut self, peer: &str, name: &str) {
        let Some(peer) = self.context.peers.get(peer) else { return };
        let spec = Spec::Answer(AnswerSpec {
            answers: self.workload.answers,
            threads: 1,
            keys: KEYS,
            value_bytes: VALUE_BYTES,
            get_ns: self.services.get_ns,
            scan_ns: self.services.scan_ns,
            rows: self.services.rows.0.into(),
            kernel_ns: MICROSECONDS.iter().map(|&us| us as f64 * 1e3).collect(),
        });
        let spec = serde_json::to_string(&spec).expect("a spec is valid JSON");
        let words = peer.command.iter().cloned().chain([OsString::from(spec)]);
        match words.map(OsString::into_string).collect() {
            Ok(command) => self.found.push(Program {
                name: name.into(),
                command,
                manner: Manner::Peer,
                preempts: false,
            }),
            Err(path) => self.leave_out(name, &format!("{path:?} is no UTF-8")),
        }
    }

    fn add_memcached(&mut self, me: &str) {
        let Some(memcached) = super::natives::find("memcached") else {
            return self.leave_out("memcached", "it is not installed");
        };
        let native = memcached_command(&memcached, PORT);
        let program = |name: &str, command| Program {
            name: name.into(),
            command,
            manner: Manner::Foreign,
            preempts: false,
        };
        self.found.push(program("memcached", native.clone()));
        let cpus = [self.context.place.worker];
        match find_shim() {
            Ok(_) => {
                let command = under_quaver(me, &cpus, "auto", native);
                self.found.push(program("quaver run memcached", command));
            }
            Err(why) => self.leave_out("quaver run memcached", &format!("{why:#}")),
        }
    }

    fn leave_out(&mut self, what: &str, why: &str) {
        self.notes.push(format!("{}: {what} left out: {why}", self.workload.name));
    }
}

/// Quaver's server of a workload, on one worker.
pub fn ours(
    me: &str,
    cpu: usize,
    services: &Services,
    workload: &Workload,
    quantum: &str,
    told: Told,
) -> Program {
    let kv = |protocol: &str, store: &str| {
        let words = ["kv", "--protocol", protocol, "--store", store, "--scan-rows"];
        let mut words: Vec<String> = words.map(Into::into).into();
        words.extend([services.scan_rows.to_string(), "--fill".into(), KEYS.to_string()]);
        words.extend(["--value-size".into(), VALUE_BYTES.to_string()]);
        words
    };
    let what = match workload.answers {
        Answers::KeyValue => kv("aspen-udp", services.store),
        Answers::Memcached => kv("memcached", "memory"),
        Answers::Analytics => {
            vec!["analytics".into(), "--rows".into(), services.rows.to_string()]
        }
    };
    let mut command = vec![me.to_owned(), "serve".into()];
    command.extend(what);
    let cpu = cpu.to_string();
    let runtime = ["--port", "0", "--workers", "1", "--cpus", &cpu, "--quantum", quantum];
    command.extend(runtime.map(Into::into));
    command.extend(["--notification".into(), told.notification().to_string()]);
    Program {
        name: told.name(&format!("quaver {quantum}")),
        command,
        manner: Manner::Serve,
        preempts: quantum != "off",
    }
}

/// Debian's memcached, with the number of threads that it has by default.
pub fn memcached_command(program: &str, port: &str) -> Vec<String> {
    let mut words = vec![program, "-l", "127.0.0.1", "-p", port, "-U", "0"];
    // It does not run as root unless told to.
    if rustix::process::geteuid().is_root() {
        words.extend(["-u", "root"]);
    }
    words.into_iter().map(Into::into).collect()
}

/// A command under `quaver run`, with a worker on each CPU.
pub fn under_quaver(me: &str, cpus: &[usize], quantum: &str, command: Vec<String>) -> Vec<String> {
    let workers = cpus.len().to_string();
    let list = cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let words = [me, "run", "--quantum", quantum, "--workers", &workers, "--cpus", &list, "--"];
    words.map(Into::into).into_iter().chain(command).collect()
}

/// A path as text.
pub fn text(path: &std::path::Path) -> Option<String> {
    path.to_str().map(Into::into)
}

#[cfg(test)]
mod tests {
    use clap::Args as _;

    use super::super::workload::WORKLOADS;
    use super::*;

    #[test]
    fn our_servers_can_be_started_so() {
        let services = Services::example();
        for workload in &WORKLOADS {
            let Program { name, command, manner, preempts } =
                ours("quaver", 3, &services, workload, "off", Told::BySignals);
            assert_eq!(
                (name.as_str(), manner, preempts),
                (RUN_TO_COMPLETION, Manner::Serve, false)
            );
            assert_eq!(command[..2], ["quaver", "serve"]);
            let parser = crate::serve::Args::augment_args(clap::Command::new("serve"));
            parser.try_get_matches_from(&command[1..]).unwrap();
        }
        let probes = ours("quaver", 3, &services, &WORKLOADS[0], "auto", Told::AtProbes);
        assert!(
            probes.preempts && probes.command.ends_with(&["--notification".into(), "probe".into()])
        );
    }

    #[test]
    fn commands_run_under_quaver_with_a_worker_on_each_cpu() {
        let native = memcached_command("/bin/memcached", PORT);
        let command = under_quaver("quaver", &[1, 0], "auto", native.clone());
        assert!(command.ends_with(&native) && native.iter().any(|word| word == PORT));
        let text = command.join(" ");
        assert!(
            text.starts_with("quaver run --quantum auto --workers 2 --cpus 1,0 -- /bin/"),
            "{text}"
        );
    }
}
