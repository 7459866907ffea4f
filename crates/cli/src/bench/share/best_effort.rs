//! The best-effort program: computes in pieces, and counts them.

use std::path::PathBuf;

use quaver_bench_common::Outcome;
use quaver_bench_common::affinity::pin;
use quaver_sched::share::Membership;
use quaver_share::Member;
use serde::{Deserialize, Serialize};

use super::Variant;
use super::page::Page;
use crate::slice;
use quaver_validate::real::{Speed, turn};

/// Between two looks at the bells.
const PIECE: std::time::Duration = std::time::Duration::from_nanos(500);

/// What it does.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct BestEffortSpec {
    pub(super) variant: Variant,
    /// Where it counts.
    pub(super) page: PathBuf,
    /// The CPU where it runs, unless a broker says so.
    pub(super) cpu: usize,
    /// The broker.
    pub(super) socket: PathBuf,
}

/// Computes until it is killed.
///
/// # Errors
///
/// The CPU or the class is not allowed, or the broker says no.
pub fn run(spec: &BestEffortSpec) -> anyhow::Result<Outcome> {
    let page = Page::open(&spec.page)?;
    // Nobody else is there yet.
    pin(&[spec.cpu])?;
    let speed = Speed::measure(None);
    let piece = speed.turns(PIECE).max(1);
    let compute = || {
        turn(piece);
        page.add(piece);
    };
    if spec.variant == Variant::Probed {
        let socket = spec.socket.to_string_lossy();
        let member = Member::join(&Membership::best_effort(1).at(socket), "bench")?;
        let doors = member.doors();
        let place = doors.place_of(spec.cpu);
        let place = place.ok_or_else(|| anyhow::anyhow!("CPU {} is not shared", spec.cpu))?;
        member.work_at(place)?;
        doors.looks(place, true);
        page.begin(speed.per_us);
        loop {
            compute();
            doors.look(place);
        }
    }
    if !spec.variant.is_shared() {
        spec.variant.classes().1.set(0)?;
        if spec.variant == Variant::Slices {
            slice::set(super::run::SLICE);
        }
    }
    page.begin(speed.per_us);
    loop {
        compute();
    }
}
