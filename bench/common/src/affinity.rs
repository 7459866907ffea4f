//! Which CPU a kernel thread runs on.

use std::io;

use anyhow::Context as _;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The CPUs that the calling thread may run on, ascending.
///
/// # Errors
///
/// The kernel refuses to say, which it does on machines with more CPUs than the C library's sets
/// hold (1024).
pub fn allowed() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Lets the calling kernel thread run on these CPUs only. Not for user threads: it would act on
/// their carrier.
///
/// # Errors
///
/// None of the CPUs exists and is allowed.
pub fn pin(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU) {
        set.set(cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// Runs `work` on a kernel thread of its own that is called `name` and runs on this CPU only, and
/// waits for it.
///
/// # Errors
///
/// The thread cannot be started, the CPU cannot be used, or those of `work`.
///
/// # Panics
///
/// When `work` does.
pub fn on_cpu<T: Send>(
    name: &str,
    cpu: usize,
    work: impl FnOnce() -> anyhow::Result<T> + Send,
) -> anyhow::Result<T> {
    let pinned = || {
        pin(&[cpu]).with_context(|| format!("the thread `{name}` cannot use CPU {cpu}"))?;
        work()
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name(name.into()).spawn_scoped(scope, pinned);
        let thread = thread.with_context(|| format!("cannot start the thread `{name}`"))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_may_run_there_only() {
        let last = *allowed().unwrap().last().unwrap();
        let seen = on_cpu("test", last, || {
            assert!(pin(&[]).is_err());
            Ok((allowed()?, std::thread::current().name().map(str::to_owned)))
        });
        assert_eq!(seen.unwrap(), (vec![last], Some("test".into())));
        let error = on_cpu("test", CpuSet::MAX_CPU, || Ok(())).unwrap_err().to_string();
        assert!(error.contains("`test` cannot use CPU"), "{error}");
    }
}
