//! `quaver bench ops`: one operation of a thread library, on one core, in CPU time (Skyloft, Table
//! 7).
//!
//! What the operations are, on the same terms for all, is said at [`Op`]. The unit is CPU time of
//! the whole process: none of the operations waits for time to pass, so it is what an operation
//! costs, whoever else uses the machine, and nothing is hidden on another core, because the process
//! has only one. Ours runs with preemption on and private TLS, as in production, once for each
//! tickless clock; the row without preemption shows what having it costs, the row with shared TLS
//! what private TLS costs. (A timer core would need a second core.)

use quaver_bench_common::outcome::CPU_NS_PER_OP;
use quaver_bench_common::{Budget, Op, Spec};

use super::context::{Context, Task};
use super::plan::{Group, Plan, Reading};
use super::settings::{Settings, TICKLESS};

/// A quantum that a server would use.
const QUANTUM_US: u64 = 50;

/// The jobs of this benchmark.
pub fn plan(context: &Context) -> Plan {
    let groups = Op::ALL.map(|op| group(context, op)).into();
    Plan { groups, notes: vec!["ops: CPU time of the process, pinned to one core".into()] }
}

fn group(context: &Context, op: Op) -> Group {
    let budget = context
        .effort
        .pick(Budget { warmup_ms: 10, measure_ms: 30 }, Budget { warmup_ms: 50, measure_ms: 200 });
    let spec = Spec::Ops { op, budget };
    let cpus = vec![context.place.worker];
    let task = Task {
        cpus: cpus.clone(),
        expected: budget.duration(),
        readings: vec![Reading::new(op.name(), CPU_NS_PER_OP, "ns")],
    };
    let preemptive = TICKLESS.map(|clock| Settings::preemptive(clock, QUANTUM_US, &cpus));
    let completion = Settings::run_to_completion(&cpus);
    let shared = Settings { shared_tls: true, ..preemptive[1].clone() };
    let settings = preemptive.into_iter().chain([completion, shared]);
    let mut jobs: Vec<_> = settings.map(|settings| context.ours(&settings, &spec, &task)).collect();
    jobs.extend(context.peers(&spec, &task));
    Group { title: format!("ops {}", op.name()), jobs }
}
