//! Key-value service: placeholder.
use crate::tokio_tasks::Flavour;
use quaver_bench_common::{Outcome, spec::KvSpec};
pub fn kernel_threads(_: &KvSpec) -> Outcome {
    Outcome::unsupported("x")
}
pub fn tokio_tasks(_: Flavour, _: &KvSpec) -> Outcome {
    Outcome::unsupported("x")
}
