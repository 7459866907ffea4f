//! What a benchmark knows when it makes its plan, and the jobs that it makes of it.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use quaver_bench_common::Spec;

use super::child::Work;
use super::folder::Folder;
use super::peers::{Peer, Peers};
use super::place::Place;
use super::plan::{Effort, Job, Reading};
use super::settings::Settings;

/// Starting a process, loading data, calibrating: whatever comes on top of the measurement, on a
/// slow machine.
pub const OVERHEAD: Duration = Duration::from_secs(20);

/// What a benchmark knows when it makes its plan.
pub struct Context {
    /// How thorough to be.
    pub effort: Effort,
    /// Where children run.
    pub place: Place,
    /// Other thread libraries.
    pub peers: Peers,
    /// This executable: its children measure Quaver.
    me: PathBuf,
    folder: OnceCell<Folder>,
}

/// Everything about a job but who does it.
#[derive(Clone, Debug)]
pub struct Task {
    /// Where it may run.
    pub cpus: Vec<usize>,
    /// How long it should take; it is given up after many times that.
    pub expected: Duration,
    /// Which metrics become rows.
    pub readings: Vec<Reading>,
}

impl Task {
    /// A job of this task.
    pub fn job(&self, implementation: impl Into<String>, command: Vec<OsString>) -> Job {
        Job {
            implementation: implementation.into(),
            command,
            cpus: self.cpus.clone(),
            limit: OVERHEAD + 10 * self.expected,
            readings: self.readings.clone(),
            labels: None,
            about: None,
            aims: Vec::new(),
        }
    }
}

impl Context {
    /// With this executable.
    ///
    /// # Errors
    ///
    /// When the executable cannot be found out.
    pub fn new(effort: Effort, place: Place, peers: Peers) -> anyhow::Result<Self> {
        let me = std::env::current_exe().context("cannot find this executable")?;
        Ok(Self { effort, place, peers, me, folder: OnceCell::new() })
    }

    /// A folder for what is built, until all is measured.
    ///
    /// # Errors
    ///
    /// As [`Folder::new`].
    pub fn folder(&self) -> anyhow::Result<&Path> {
        if self.folder.get().is_none() {
            let _ = self.folder.set(Folder::new()?);
        }
        Ok(self.folder.get().expect("it was made").path())
    }

    /// This executable.
    pub fn program(&self) -> &Path {
        &self.me
    }

    /// The command of a child that does `work`.
    pub fn child(&self, work: &Work) -> Vec<OsString> {
        let work = serde_json::to_string(work).expect("work is valid JSON");
        vec![self.me.clone().into(), "bench".into(), "--child".into(), work.into()]
    }

    /// Quaver with `settings` doing `spec`.
    pub fn ours(&self, settings: &Settings, spec: &Spec, task: &Task) -> Job {
        let work = Work::Ours { settings: settings.clone(), spec: spec.clone() };
        task.job(settings.to_string(), self.child(&work))
    }

    /// Every peer doing `spec`.
    pub fn peers(&self, spec: &Spec, task: &Task) -> Vec<Job> {
        self.peers_if(spec, task, |_| true)
    }

    /// The peers whose names `wanted` wants, doing `spec`.
    pub fn peers_if(&self, spec: &Spec, task: &Task, wanted: impl Fn(&str) -> bool) -> Vec<Job> {
        let peers = self.peers.found.iter().filter(|peer| wanted(&peer.name));
        peers.map(|peer| Self::peer(peer, spec, task)).collect()
    }

    fn peer(peer: &Peer, spec: &Spec, task: &Task) -> Job {
        let mut command = peer.command.clone();
        command.push(serde_json::to_string(spec).expect("a spec is valid JSON").into());
        task.job(&peer.name, command)
    }
}
