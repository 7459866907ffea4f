//! What preemption needs: clocks, signal frames, ways to resume and to notify.

use super::{Facts, Finding};

const GROUP: &str = "Preemption";

pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    vec![
        tsc(facts),
        posix_timer(facts),
        timer_resolution(facts),
        timer_slack(facts),
        registers(facts),
        shadow_stack(facts),
        user_interrupts(facts),
    ]
}

fn tsc(facts: &Facts) -> Finding {
    let clocks = &facts.clocks;
    let source = clocks.clocksource.clone().unwrap_or_else(|| "unknown".to_owned());
    let trusted = clocks.clocksources.iter().any(|name| name == "tsc");
    let kind = if clocks.tsc_invariant { "invariant" } else { "not invariant" };
    let finding = Finding::new(GROUP, "tsc", format!("{kind}, clock source {source}"));
    // The runtime takes the kernel's word for the processor's.
    if !clocks.tsc_invariant && source != "tsc" {
        return finding.warn(
            "the time-stamp counter may change its rate, so the runtime reads the slower system \
             clock",
            "in a virtual machine, let the host pass the 'invtsc' feature through",
        );
    }
    match source.as_str() {
        "tsc" => finding.ok("reading the time takes nanoseconds and never a system call"),
        "kvm-clock" | "hyperv_clocksource_tsc_page" => finding.ok(
            "the hypervisor's clock is read through the time-stamp counter, without a system call",
        ),
        _ if trusted => finding.warn(
            "the kernel's clock is slow to read: timestamps cost a microsecond instead of 20 ns",
            "write 'tsc' into /sys/devices/system/clocksource/clocksource0/current_clocksource",
        ),
        _ => finding.warn(
            "the kernel does not trust the time-stamp counter on this machine: clocks of CPUs may \
             differ",
            "look for 'tsc' in the kernel's messages (dmesg)",
        ),
    }
}

fn posix_timer(facts: &Facts) -> Finding {
    match (&facts.clocks.posix_timer, facts.limits.sigpending) {
        (Ok(()), None) => Finding::new(GROUP, "posix_timer", "yes")
            .ok("each carrier can have a kernel timer that signals it alone"),
        (Ok(()), Some(limit)) => {
            let finding = Finding::new(GROUP, "posix_timer", format!("yes, at most {limit}"));
            if limit >= 4 * facts.cpus.allowed.len() as u64 + 16 {
                finding.ok("each carrier can have a kernel timer that signals it alone")
            } else {
                finding.warn(
                    "each timer holds one queued signal, and the user's other processes count too",
                    "raise the limit of pending signals (ulimit -i), or use --clock timer-thread",
                )
            }
        }
        (Err(error), _) => Finding::new(GROUP, "posix_timer", format!("no: {error}"))
            .missing("the clock 'posix-timer' cannot be used; a timer thread takes its place"),
    }
}

fn timer_resolution(facts: &Facts) -> Finding {
    if facts.clocks.high_resolution {
        Finding::new(GROUP, "timer_resolution", "1 ns")
            .ok("timers fire when they are due, not at the next tick")
    } else {
        Finding::new(GROUP, "timer_resolution", "one tick").warn(
            "timers fire at the next tick, milliseconds late: quanta of microseconds need a timer \
             core",
            "boot without 'highres=off' (CONFIG_HIGH_RES_TIMERS), or use --clock timer-core",
        )
    }
}

fn timer_slack(facts: &Facts) -> Finding {
    match facts.clocks.timer_slack_ns {
        Some(slack) => Finding::new(GROUP, "timer_slack", format!("{} µs", slack as f64 / 1e3)).ok(
            "sleeps of ordinary threads may be that much late; Quaver's own threads ask for 1 ns",
        ),
        None => Finding::new(GROUP, "timer_slack", "unknown")
            .warn("prctl(PR_GET_TIMERSLACK) is refused", "allow prctl in the sandbox"),
    }
}

fn registers(facts: &Facts) -> Finding {
    let features = &facts.features;
    let widest = match features {
        f if f.amx => "AMX tiles",
        f if f.avx512 => "AVX-512",
        f if f.avx2 => "AVX2",
        _ => "SSE",
    };
    let bytes = features.xsave_bytes.map_or("?".to_owned(), |bytes| bytes.to_string());
    let value = format!("{widest}, {bytes} bytes");
    let finding = Finding::new(GROUP, "extended_state", value);
    if !features.xsave {
        return finding
            .missing(
                "without xsave a preempted thread's vector registers cannot be reloaded in user \
                 mode",
            )
            .advice("use a processor since 2011, or let the host pass 'xsave' through")
            .required();
    }
    let frame = facts.runtime.signal_frame;
    let meaning =
        format!("a preempted thread carries them on its stack: a signal frame takes {frame} bytes");
    if frame > 8192 {
        return finding.warn(meaning, "choose stacks of 64 KiB or more");
    }
    finding.ok(meaning)
}

fn shadow_stack(facts: &Facts) -> Finding {
    if facts.runtime.shadow_stack {
        return Finding::new(GROUP, "shadow_stack", "active").warn(
            "no runtime can be built: a switch of threads does not switch shadow stacks",
            "GLIBC_TUNABLES=glibc.cpu.x86_shstk=off for this program, if its policy allows",
        );
    }
    let value = if facts.features.shadow_stack { "not active" } else { "not in the processor" };
    Finding::new(GROUP, "shadow_stack", value).ok("preempted threads can resume in user mode")
}

fn user_interrupts(facts: &Facts) -> Finding {
    let found = &facts.user_interrupts;
    let value = match (found.cpu, found.usable) {
        (_, true) => "yes",
        (true, false) => "processor only",
        (false, false) => "no",
    };
    let finding = Finding::new(GROUP, "user_interrupts", value);
    if found.usable {
        return finding.ok(found.why.clone());
    }
    let finding = finding.missing(format!("{}: signals are used", found.why));
    if found.cpu { finding.advice("see docs/uintr.md") } else { finding }
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::super::tests::{find, perfect};

    #[test]
    fn a_slow_clock_source_is_told_from_a_mistrusted_tsc() {
        let mut facts = perfect();
        facts.clocks.clocksource = Some("hpet".into());
        assert!(find(&facts, "tsc").advice.unwrap().contains("current_clocksource"));
        facts.clocks.clocksources = vec!["hpet".into()];
        assert!(find(&facts, "tsc").advice.unwrap().contains("dmesg"));
        facts.clocks.clocksource = Some("kvm-clock".into());
        assert_eq!(find(&facts, "tsc").status, Status::Ok);
        facts.clocks.tsc_invariant = false;
        assert_eq!(find(&facts, "tsc").status, Status::Warn);
        facts.clocks.clocksource = Some("tsc".into());
        assert_eq!(find(&facts, "tsc").status, Status::Ok);
    }

    #[test]
    fn missing_timers_do_not_stop_the_runtime() {
        let mut facts = perfect();
        facts.clocks.posix_timer = Err("Operation not permitted".into());
        let finding = find(&facts, "posix_timer");
        assert_eq!(finding.status, Status::Missing);
        assert!(!finding.is_fatal());
        assert!(finding.value.contains("not permitted"));
    }

    #[test]
    fn large_signal_frames_ask_for_larger_stacks() {
        let mut facts = perfect();
        facts.features.amx = true;
        facts.runtime.signal_frame = 11_952;
        let finding = find(&facts, "extended_state");
        assert_eq!(finding.status, Status::Warn);
        assert!(finding.value.contains("AMX") && finding.meaning.contains("11952"));
    }

    #[test]
    fn the_report_tells_a_processor_from_a_kernel_without_user_interrupts() {
        let mut facts = perfect();
        assert_eq!(find(&facts, "user_interrupts").status, Status::Ok);
        facts.user_interrupts.usable = false;
        facts.user_interrupts.why = "the kernel does not offer them".into();
        let finding = find(&facts, "user_interrupts");
        assert!(finding.meaning.contains("the kernel does not offer them: signals"), "{finding:?}");
        assert!(finding.advice.is_some_and(|advice| advice.contains("docs/uintr.md")));
        facts.user_interrupts.cpu = false;
        assert_eq!(find(&facts, "user_interrupts").advice, None);
    }
}
