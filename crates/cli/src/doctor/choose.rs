//! Which mechanism to use on a machine, and why: pure logic over a few numbers.
//!
//! # Rules
//!
//! * **Workers.** One for each usable CPU, less those that are asked to stay free (a load generator, a timer core), and
//!   no more than the control group's CPU quota pays for: a throttled group stands still for the rest of its period,
//!   which is thousands of quanta. At least one.
//! * **Clock.** Never burn a core that was not offered. The POSIX timer of each carrier is armed only while other work
//!   waits and needs no CPU of its own, so it is the default on machines of any size. A timer thread takes its place
//!   where timers cannot be made. A spinning timer core is chosen only on request.
//! * **Quantum.** As short as the clock's cost allows: about a tenth of the CPU is lost at worst, when every quantum
//!   ends in a preemption. What a clock's event costs was measured (`COST`); where nothing waits nothing is lost.
//! * **Notification.** The signal, which every kernel has. User interrupts need a kernel that offers them.
//! * **Resume.** In user mode; by `rt_sigreturn` under shadow stacks, where `ret` to an address that no `call` pushed
//!   is a fault.

use std::time::Duration;

/// What keeps time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// One kernel timer for each carrier, armed only while other work waits.
    PosixTimer,
    /// One thread that sleeps until the next decision.
    TimerThread,
    /// One pinned thread that spins.
    TimerCore,
}

impl Clock {
    /// The name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Clock::PosixTimer => "posix-timer",
            Clock::TimerThread => "timer-thread",
            Clock::TimerCore => "timer-core",
        }
    }

    /// What one preemption costs the worker, in the typical state of a virtual machine.
    fn cost(self) -> Duration {
        match self {
            Clock::TimerCore => Duration::from_nanos(2_800),
            // The thread runs on the worker's own CPU when there is no other: two kernel switches more.
            Clock::TimerThread => Duration::from_nanos(5_000),
            Clock::PosixTimer => Duration::from_nanos(7_000),
        }
    }
}

/// How a preempted thread's registers are reloaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resume {
    /// Without entering the kernel.
    UserMode,
    /// By the kernel's `rt_sigreturn`.
    Sigreturn,
}

/// What the choice depends on.
#[derive(Clone, PartialEq, Debug)]
pub struct Machine {
    /// CPUs that the affinity mask and the cpuset leave.
    pub usable_cpus: usize,
    /// The control group's quota, in CPUs.
    pub cpu_quota: Option<f64>,
    /// POSIX timers that notify one thread can be made.
    pub posix_timers: bool,
    /// Signals that may be queued; each POSIX timer holds one. `None`: unlimited.
    pub queued_signals: Option<u64>,
    /// This process runs with a shadow stack.
    pub shadow_stack: bool,
    /// The kernel has switched user interrupts on.
    pub user_interrupts: bool,
}

/// What the user asked for; `None` leaves it to the rules.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Wish {
    /// A clock.
    pub clock: Option<Clock>,
    /// A number of workers.
    pub workers: Option<usize>,
    /// CPUs that must stay free for others.
    pub reserved_cpus: usize,
}

/// A value and the reason for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reasoned<T> {
    /// What was chosen.
    pub value: T,
    /// Why, as a sentence without its full stop.
    pub why: String,
}

/// The mechanisms to use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice {
    /// How many workers.
    pub workers: Reasoned<usize>,
    /// Who keeps time.
    pub clock: Reasoned<Clock>,
    /// How long a thread may run while other work waits.
    pub quantum: Reasoned<Duration>,
    /// How a worker is told: its name.
    pub notification: Reasoned<&'static str>,
    /// How preempted threads continue.
    pub resume: Reasoned<Resume>,
}

/// From this number of CPUs on, giving one to a clock is worth a thought.
const TIMER_CORE_CPUS: usize = 4;

/// Chooses for `machine` what `wish` leaves open.
pub fn choose(machine: &Machine, wish: &Wish) -> Choice {
    let clock = clock(machine, wish);
    Choice {
        workers: workers(machine, wish, clock.value),
        quantum: quantum(clock.value),
        notification: notification(machine),
        resume: resume(machine),
        clock,
    }
}

fn clock(machine: &Machine, wish: &Wish) -> Reasoned<Clock> {
    let cpus = machine.usable_cpus;
    if let Some(value) = wish.clock {
        let why = match value {
            Clock::TimerCore if cpus < TIMER_CORE_CPUS => format!(
                "it was asked for, although it spins on one of only {cpus} usable CPUs; the other clocks burn none"
            ),
            _ => "it was asked for".to_owned(),
        };
        return Reasoned { value, why };
    }
    // Each carrier holds a timer, spares included, and the program may queue signals of its own.
    let enough = machine.queued_signals.is_none_or(|limit| limit >= 4 * cpus as u64 + 16);
    let (value, why) = if !machine.posix_timers {
        (
            Clock::TimerThread,
            "POSIX timers cannot be made here, and a sleeping thread burns no core".to_owned(),
        )
    } else if !enough {
        (
            Clock::TimerThread,
            "the limit of queued signals (ulimit -i) leaves too few POSIX timers".to_owned(),
        )
    } else if cpus < TIMER_CORE_CPUS {
        (
            Clock::PosixTimer,
            format!(
                "it is armed only while other work waits; with {cpus} usable CPUs none is left to spin on"
            ),
        )
    } else {
        (
            Clock::PosixTimer,
            "it is armed only while other work waits; 'timer-core' halves a preemption's cost and takes a whole CPU"
                .to_owned(),
        )
    };
    Reasoned { value, why }
}

fn workers(machine: &Machine, wish: &Wish, clock: Clock) -> Reasoned<usize> {
    if let Some(value) = wish.workers {
        return Reasoned { value, why: "it was asked for".to_owned() };
    }
    let cpus = machine.usable_cpus;
    let taken = wish.reserved_cpus + usize::from(clock == Clock::TimerCore);
    let left = cpus.saturating_sub(taken).max(1);
    let paid = machine.cpu_quota.map_or(usize::MAX, |quota| (quota.floor() as usize).max(1));
    let why = if paid < left {
        let quota = machine.cpu_quota.unwrap_or_default();
        format!(
            "the control group pays for {quota} CPUs of {cpus}; more workers would be throttled"
        )
    } else if taken == 0 {
        format!("one for each of {cpus} usable CPUs")
    } else {
        format!("{cpus} usable CPUs, of which {} for others", taken.min(cpus))
    };
    Reasoned { value: left.min(paid), why }
}

fn quantum(clock: Clock) -> Reasoned<Duration> {
    let cost = clock.cost();
    // Ten times the cost, rounded down to a multiple of 10 µs: about a tenth is lost at worst.
    let value = Duration::from_micros((cost * 10).as_micros() as u64 / 10 * 10);
    let cost_us = cost.as_nanos() as f64 / 1e3;
    let why = format!(
        "a preemption by {} costs about {cost_us} µs, so this loses a tenth at worst, when other work always waits",
        clock.name()
    );
    Reasoned { value, why }
}

fn notification(machine: &Machine) -> Reasoned<&'static str> {
    let why = if machine.user_interrupts {
        "this kernel has user interrupts, but no receive path for them is built in; a signal works everywhere"
    } else {
        "it works on every kernel; user interrupts are not offered here"
    };
    Reasoned { value: "signal", why: why.to_owned() }
}

fn resume(machine: &Machine) -> Reasoned<Resume> {
    if machine.shadow_stack {
        let why = "this process has a shadow stack, under which user mode cannot return to an arbitrary address";
        Reasoned { value: Resume::Sigreturn, why: why.to_owned() }
    } else {
        let why =
            "it saves the rt_sigreturn system call, about half a microsecond for each preemption";
        Reasoned { value: Resume::UserMode, why: why.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(usable_cpus: usize) -> Machine {
        Machine {
            usable_cpus,
            cpu_quota: None,
            posix_timers: true,
            queued_signals: None,
            shadow_stack: false,
            user_interrupts: false,
        }
    }

    #[test]
    fn no_machine_gives_a_core_to_a_clock_unasked() {
        for cpus in 1..=256 {
            for posix_timers in [true, false] {
                let choice = choose(&Machine { posix_timers, ..machine(cpus) }, &Wish::default());
                assert_ne!(choice.clock.value, Clock::TimerCore);
                assert_eq!(choice.workers.value, cpus);
            }
        }
    }

    #[test]
    fn a_timer_core_on_request_takes_a_cpu_and_small_machines_are_told() {
        let wish = Wish { clock: Some(Clock::TimerCore), ..Wish::default() };
        let choice = choose(&machine(8), &wish);
        assert_eq!((choice.clock.value, choice.workers.value), (Clock::TimerCore, 7));
        assert!(!choice.clock.why.contains("only"), "{}", choice.clock.why);

        let choice = choose(&machine(2), &wish);
        assert_eq!((choice.clock.value, choice.workers.value), (Clock::TimerCore, 1));
        assert!(choice.clock.why.contains("only 2"), "{}", choice.clock.why);
    }

    #[test]
    fn without_posix_timers_a_thread_sleeps() {
        let none = Machine { posix_timers: false, ..machine(2) };
        assert_eq!(choose(&none, &Wish::default()).clock.value, Clock::TimerThread);
        let few = Machine { queued_signals: Some(20), ..machine(2) };
        assert_eq!(choose(&few, &Wish::default()).clock.value, Clock::TimerThread);
        let many = Machine { queued_signals: Some(10_000), ..machine(64) };
        assert_eq!(choose(&many, &Wish::default()).clock.value, Clock::PosixTimer);
    }

    #[test]
    fn workers_leave_reserved_cpus_and_respect_the_quota() {
        let wish = Wish { reserved_cpus: 1, ..Wish::default() };
        for (cpus, quota, workers) in [
            (1, None, 1),
            (2, None, 1),
            (4, None, 3),
            (4, Some(2.5), 2),
            (4, Some(0.5), 1),
            (4, Some(64.0), 3),
        ] {
            let machine = Machine { cpu_quota: quota, ..machine(cpus) };
            assert_eq!(choose(&machine, &wish).workers.value, workers, "{cpus} CPUs, {quota:?}");
        }
        let quota = Machine { cpu_quota: Some(1.5), ..machine(8) };
        assert!(choose(&quota, &wish).workers.why.contains("1.5"));
    }

    #[test]
    fn what_was_asked_for_is_taken() {
        let wish = Wish { workers: Some(3), clock: Some(Clock::TimerThread), reserved_cpus: 1 };
        let choice = choose(&machine(2), &wish);
        assert_eq!((choice.workers.value, choice.clock.value), (3, Clock::TimerThread));
    }

    #[test]
    fn a_cheaper_clock_gets_a_shorter_quantum() {
        let quantum = |clock| choose(&machine(8), &Wish { clock: Some(clock), ..Wish::default() });
        let core = quantum(Clock::TimerCore).quantum.value;
        let posix = quantum(Clock::PosixTimer).quantum.value;
        assert!(core < posix, "{core:?} {posix:?}");
        assert!(posix >= 9 * Clock::PosixTimer.cost());
    }

    #[test]
    fn shadow_stacks_need_the_kernel_to_resume() {
        let with = Machine { shadow_stack: true, ..machine(2) };
        assert_eq!(choose(&with, &Wish::default()).resume.value, Resume::Sigreturn);
        assert_eq!(choose(&machine(2), &Wish::default()).resume.value, Resume::UserMode);
    }

    #[test]
    fn user_interrupts_are_mentioned_when_the_kernel_has_them() {
        let with = Machine { user_interrupts: true, ..machine(2) };
        let choice = choose(&with, &Wish::default());
        assert_eq!(choice.notification.value, "signal");
        assert!(choice.notification.why.contains("has user interrupts"));
    }
}
