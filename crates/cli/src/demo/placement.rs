//! Which CPUs the workers, the client and the clock get: pure logic over the usable CPUs.
//!
//! What is measured is a server, so it gets the CPUs; but the client must keep its schedule, or the
//! latencies are its own. So the client has a CPU to itself wherever there are two, and a spinning
//! timer core another. A timer thread has one where there are enough: it takes more of it the more
//! workers there are. The first usable CPU is the client's, because the kernel likes to handle
//! device interrupts there.

use quaver::Clock;

/// Who runs where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    /// One CPU for each worker.
    pub workers: Vec<usize>,
    /// The client's CPU.
    pub client: usize,
    /// The clock's CPU, if it needs one.
    pub timer: Option<usize>,
    /// What disturbs the measurement for want of CPUs, as a sentence without its full stop.
    pub crowded: Option<&'static str>,
}

/// With as many CPUs or more a timer thread has one to itself.
const ENOUGH: usize = 4;

/// As many workers the client can keep busy: it offers some 600,000 requests a second at most, and
/// a worker serves up to 75,000.
const BUSY: usize = 8;

/// Does a clock need a CPU of its own, where so many are usable?
pub fn needs_cpu(clock: Clock, cpus: usize) -> bool {
    match clock {
        Clock::TimerCore => true,
        Clock::TimerThread => cpus >= ENOUGH,
        _ => false,
    }
}

/// Places `workers` workers, or as many as fit and the client can keep busy, on `cpus`, of which a
/// control group pays for `quota` at a time.
///
/// # Errors
///
/// A message that names the accepted range when more workers are asked for than there are CPUs, or
/// none.
pub fn place(
    cpus: &[usize],
    workers: Option<usize>,
    clock: bool,
    quota: Option<f64>,
) -> Result<Placement, String> {
    let &[client, ..] = cpus else { return Err("there is no usable CPU".to_owned()) };
    let others = 1 + usize::from(clock);
    let paid = quota.map_or(usize::MAX, |quota| quota.floor() as usize).min(cpus.len());
    let count = match workers {
        None => paid.saturating_sub(others).clamp(1, BUSY),
        Some(count) if (1..=cpus.len()).contains(&count) => count,
        Some(count) => {
            let max = cpus.len();
            return Err(format!("{count} workers, but accepted are 1 to {max}, the usable CPUs"));
        }
    };
    // From the far end, so that the client's CPU is the last to be shared.
    let workers = cpus[cpus.len() - count..].to_vec();
    let free: Vec<usize> = cpus.iter().copied().filter(|cpu| !workers.contains(cpu)).collect();
    let timer = clock.then(|| free.get(1).or(free.first()).copied().unwrap_or(client));
    let crowded = if workers.contains(&client) {
        Some("the client shares a CPU with a worker")
    } else if timer == Some(client) {
        Some("the client shares a CPU with the clock")
    } else if count + others > paid {
        Some("the control group's quota pays for fewer CPUs than are in use")
    } else {
        None
    };
    Ok(Placement { workers, client, timer, crowded })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(cpus: &[usize], workers: Option<usize>, clock: bool) -> Placement {
        place(cpus, workers, clock, None).unwrap()
    }

    #[test]
    fn two_cpus_are_a_client_and_a_worker() {
        let placement = placed(&[0, 1], None, false);
        assert_eq!(
            placement,
            Placement { workers: vec![1], client: 0, timer: None, crowded: None }
        );
    }

    #[test]
    fn larger_machines_leave_one_cpu_for_the_client_and_one_for_the_clock() {
        let placement = placed(&[2, 3, 6, 7], None, false);
        assert_eq!((placement.workers, placement.client), (vec![3, 6, 7], 2));
        let placement = placed(&[2, 3, 6, 7], None, true);
        assert_eq!(
            (placement.workers, placement.client, placement.timer),
            (vec![6, 7], 2, Some(3))
        );
        assert_eq!(placement.crowded, None);
    }

    #[test]
    fn a_timer_thread_has_a_cpu_where_there_are_enough() {
        assert_eq!([2, 3, 4].map(|cpus| needs_cpu(Clock::TimerThread, cpus)), [false, false, true]);
        assert!(needs_cpu(Clock::TimerCore, 2) && !needs_cpu(Clock::PosixTimer, 64));
    }

    #[test]
    fn no_more_workers_than_the_client_can_keep_busy() {
        let cpus: Vec<usize> = (0..64).collect();
        assert_eq!(placed(&cpus, None, true).workers, [56, 57, 58, 59, 60, 61, 62, 63]);
        assert_eq!(placed(&cpus, Some(32), true).workers.len(), 32);
    }

    #[test]
    fn sharing_a_cpu_is_admitted() {
        assert!(placed(&[5], None, false).crowded.unwrap().contains("worker"));
        assert!(placed(&[0, 1], Some(2), false).crowded.unwrap().contains("worker"));
        assert!(placed(&[0, 1], None, true).crowded.unwrap().contains("clock"));
        assert_eq!(placed(&[0, 1, 2], None, true).crowded, None);
    }

    #[test]
    fn a_quota_limits_the_workers_and_is_admitted_when_it_is_too_small() {
        let place = |workers, quota| place(&[0, 1, 2, 3, 4, 5], workers, false, quota).unwrap();
        assert_eq!(place(None, Some(4.5)).workers, [3, 4, 5]);
        assert_eq!(place(None, Some(64.0)).workers.len(), 5);
        assert_eq!(place(None, Some(2.0)).crowded, None);
        assert!(place(None, Some(1.5)).crowded.unwrap().contains("quota"));
        assert!(place(Some(4), Some(4.0)).crowded.unwrap().contains("quota"));
    }

    #[test]
    fn impossible_numbers_of_workers_name_the_range() {
        assert!(place(&[0, 1], Some(0), false, None).unwrap_err().contains("1 to 2"));
        assert!(place(&[0, 1], Some(3), false, None).unwrap_err().contains("1 to 2"));
        assert!(place(&[], None, false, None).is_err());
    }
}
