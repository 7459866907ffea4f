//! A program that says, by a note, that it has probes.

use quaver::sched::probe_quantum_for;
use quaver::{ActivePolicy, Builder, Notification, Runtime, Tls};
use std::time::Duration;

// The counts that `quaver-as` writes behind it do not matter to the runtime.
std::arch::global_asm!(
    ".pushsection .note.quaver.probes, \"a\", @note",
    ".balign 4",
    ".long 7, 4, 1",
    ".asciz \"Quaver\"",
    ".balign 4",
    ".long 0",
    ".popsection",
);

fn built(builder: Builder) -> Runtime {
    builder.workers(1).build().unwrap()
}

/// One after another: there is one runtime at a time.
#[test]
fn auto_is_probe_in_an_instrumented_program() {
    let rt = built(Builder::new());
    assert_eq!(rt.notification(), Notification::Probe);
    let ActivePolicy::BuiltIn(policy) = rt.policy() else { panic!("a policy of our own") };
    assert_eq!(policy.quantum(), rt.preemption_price().map(probe_quantum_for));
    drop(rt);

    let short = Builder::new().quantum(Some(Duration::from_micros(5)));
    assert_eq!(built(short).notification(), Notification::Probe);

    let signal = Builder::new().notification(Notification::Signal);
    assert_eq!(built(signal).notification(), Notification::Signal);

    // Where it cannot be, it is not an error, unless asked for.
    assert_eq!(built(Builder::new().tls(Tls::Shared)).notification(), Notification::Signal);
    let error = Builder::new().tls(Tls::Shared).notification(Notification::Probe).build();
    assert!(error.unwrap_err().to_string().contains("tls=private"));

    let error = Builder::new().quantum(Some(Duration::from_micros(1))).build().unwrap_err();
    assert!(error.to_string().contains("probes can keep (2us)"), "{error}");
}
