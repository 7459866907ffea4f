//! The programs that serve, and how each is started.

use std::ffi::OsString;

use quaver_bench_common::Spec;
use quaver_bench_common::spec::ServeSpec;

use super::measure::NetSpec;
use super::ours::{OursSpec, Sockets};
use crate::bench::child::Work;
use crate::bench::context::{Context, Task};
use crate::bench::plan::Job;
use crate::bench::told::Told;
use crate::companion::PEERS;
use crate::run::find_shim;

/// The file of the program that serves HTTP by tokio on user threads; it is beside the peers.
const LIBRARY: &str = "quaver-bench-async";

/// A program that serves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Server {
    /// Its name in rows.
    pub name: String,
    command: Vec<String>,
}

/// The programs that are here, and what is left out.
pub struct Servers<'a> {
    context: &'a Context,
    serve: ServeSpec,
    cpus: Vec<usize>,
    /// In the order of the table.
    pub found: Vec<Server>,
    /// What is left out, and why.
    pub notes: Vec<String>,
}

impl<'a> Servers<'a> {
    /// None yet; all serve `serve` on `cpus`.
    pub fn new(context: &'a Context, serve: ServeSpec, cpus: &[usize]) -> Servers<'a> {
        Servers { context, serve, cpus: cpus.to_vec(), found: Vec::new(), notes: Vec::new() }
    }

    /// Adds a peer, if it is here, with so many threads of its own.
    pub fn peer(&mut self, peer: &str, name: &str, threads: u32) {
        if let Some(command) = self.peer_command(peer, threads) {
            self.add(name, command);
        }
    }

    /// Adds Quaver's own server.
    pub fn ours(&mut self, sockets: Sockets, quantum: &str) {
        let name = ours(sockets, quantum);
        self.ours_by(sockets, quantum, "two-queue", Told::BySignals, &name);
    }

    /// The same by another policy, and told like this, under this name.
    pub fn ours_by(
        &mut self,
        sockets: Sockets,
        quantum: &str,
        policy: &str,
        told: Told,
        name: &str,
    ) {
        let work = Work::NetServe(OursSpec {
            sockets,
            quantum: quantum.to_owned(),
            policy: policy.to_owned(),
            told,
            cpus: self.cpus.clone(),
            serve: self.serve.clone(),
        });
        self.add(name, self.context.child(&work));
    }

    /// Adds a peer under `quaver run`, if both are here.
    pub fn run(&mut self, peer: &str, name: &str, threads: u32, quantum: &str) {
        let Some(peer) = self.peer_command(peer, threads) else { return };
        if let Err(why) = find_shim() {
            return self.notes.push(format!("net: {name} left out: {why:#}"));
        }
        let workers = self.cpus.len().to_string();
        let options = ["run", "--quantum", quantum, "--workers", &workers, "--cpus"];
        let mut command: Vec<OsString> = vec![self.context.program().into()];
        command.extend(options.map(Into::into));
        command.push(self.cpu_list().into());
        command.push("--".into());
        command.extend(peer);
        self.add(name, command);
    }

    /// Adds the server of HTTP on user threads, each of which has a runtime of tokio.
    pub fn library(&mut self, name: &str, threads: u32, quantum: &str) {
        let program = PEERS.find().map(|peers| peers.with_file_name(LIBRARY));
        match program {
            Ok(program) if program.is_file() => {
                let options = [quantum.to_owned(), self.cpu_list(), self.spec(threads)];
                let command = std::iter::once(program.into()).chain(options.map(Into::into));
                self.add(name, command.collect());
            }
            _ => self.notes.push(format!(
                "net: {name} left out: build it with `cargo build --release -p {LIBRARY}`; it is \
                 sought beside quaver-bench-peers"
            )),
        }
    }

    /// A job for each of them. `spec` has everything but the server.
    pub fn jobs(&self, spec: &NetSpec, task: &Task) -> Vec<Job> {
        let job = |server: &Server| {
            let spec = NetSpec {
                server: server.command.clone(),
                server_cpus: self.cpus.clone(),
                ..spec.clone()
            };
            task.job(&server.name, self.context.child(&Work::Net(spec)))
        };
        self.found.iter().map(job).collect()
    }

    fn peer_command(&self, peer: &str, threads: u32) -> Option<Vec<OsString>> {
        let mut command = self.context.peers.get(peer)?.command.clone();
        command.push(self.spec(threads).into());
        Some(command)
    }

    fn spec(&self, threads: u32) -> String {
        let spec = Spec::Serve(ServeSpec { threads, ..self.serve.clone() });
        serde_json::to_string(&spec).expect("a spec is valid JSON")
    }

    fn cpu_list(&self) -> String {
        self.cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    fn add(&mut self, name: &str, command: Vec<OsString>) {
        match command.into_iter().map(OsString::into_string).collect() {
            Ok(command) => self.found.push(Server { name: name.to_owned(), command }),
            Err(path) => self.notes.push(format!("net: {name} left out: {path:?} is no UTF-8")),
        }
    }
}

/// The name of Quaver's own server in rows.
pub fn ours(sockets: Sockets, quantum: &str) -> String {
    format!("quaver {} {quantum}", sockets.name())
}
