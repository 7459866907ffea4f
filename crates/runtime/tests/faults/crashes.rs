//! Faults and panics of a user thread: whose they are is told.

use crate::support::{Setup, child, spin, until_preempted};
use crate::{busy_threads, on_all, setups};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Panics of a thread with a name, of one without, and of a kernel thread.
pub(crate) fn panics(setup: Setup) {
    setup.run(|| {
        let named = quaver::thread::Builder::new().name("compactor".into());
        let boom = || panic!("boom");
        assert!(named.spawn(boom).unwrap().join().is_err());
        assert!(quaver::spawn(boom).join().is_err());
        assert!(std::thread::spawn(boom).join().is_err());
    });
}

/// A report says whose panic it is, and a program's own hook has the last word.
#[test]
fn panics_tell_the_thread() {
    let outcome = child::run("panics of all kinds 0");
    outcome.expect_success();
    let introduced = |line: &str| line.starts_with("user thread ") && line.ends_with(" panics:");
    let lines: Vec<&str> = outcome.stderr.lines().filter(|l| introduced(l)).collect();
    assert_eq!(lines.len(), 2, "{outcome:#?}");
    assert!(lines[0].starts_with("user thread 'compactor' (id "), "{lines:?}");
    assert!(lines[1]["user thread ".len()..].starts_with(char::is_numeric), "{lines:?}");
    assert_eq!(outcome.stderr.matches("boom").count(), 3, "{outcome:#?}");

    let outcome = child::run("panics with a hook 0");
    outcome.expect_success();
    assert_eq!(outcome.stderr.matches("my hook").count(), 3, "{outcome:#?}");
    assert!(!outcome.stderr.contains("user thread"), "{outcome:#?}");
}

/// Runs `fault` on a user thread, beside others that are preempted.
pub(crate) fn crash(setup: Setup, fault: fn()) {
    let rt = setup.builder().build().unwrap();
    rt.run(move || {
        busy_threads(2);
        until_preempted(5, |_| _ = spin(500));
        fault();
    });
    println!("survived");
}

#[inline(never)]
fn recurse(depth: u64) -> u64 {
    let local = black_box([depth; 20]);
    if depth == u64::MAX { 0 } else { recurse(depth + 1) + local[3] }
}

pub(crate) fn overflow(setup: Setup) {
    let rt = setup.builder().stack_size(96 * 1024).build().unwrap();
    rt.run(|| {
        busy_threads(2);
        until_preempted(5, |_| _ = spin(500));
        let deep = quaver::thread::Builder::new().name("deep".into());
        _ = deep.spawn(|| recurse(0)).unwrap().join();
    });
}

/// What the kernel takes of the stack for a signal of this kernel thread. Less than it says a frame
/// may take, where large registers (AMX) are not in use.
fn frame_here() -> usize {
    static TAKEN: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "C" fn measure(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the kernel filled it.
        let rsp = unsafe {
            (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RSP as usize]
        };
        TAKEN.store(rsp as usize - context as usize, Relaxed);
    }
    // SAFETY: a complete sigaction; the handler is async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = measure as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut()), 0);
        libc::raise(libc::SIGUSR2);
    }
    TAKEN.load(Relaxed)
}

/// Uses the stack up to a little above its guard, then waits for a signal, whose frame does not fit
/// any more.
pub(crate) fn overflow_by_a_frame(setup: Setup) {
    const STACK: usize = 96 * 1024;
    #[inline(never)]
    fn down_to(limit: usize) -> u8 {
        let local = black_box([0u8; 64]);
        if (&raw const local as usize) > limit {
            return down_to(limit) ^ local[7];
        }
        for _ in 0..20_000_000_000u64 {
            std::hint::spin_loop();
        }
        local[7]
    }
    let frame = frame_here();
    let rt = setup.builder().stack_size(STACK).build().unwrap();
    rt.run(move || {
        busy_threads(2);
        let shallow = quaver::thread::Builder::new().name("shallow".into());
        let body = move || {
            quaver::foreign::thread::current().unwrap().set_label(*b"deep\0 not it\0\0\0\0");
            let near_the_top = 0u8;
            down_to(&raw const near_the_top as usize - STACK + frame - 600);
        };
        _ = shallow.spawn(body).unwrap().join();
    });
}

#[test]
fn stack_overflow_names_the_thread() {
    on_all("overflow", |o| {
        assert_eq!(o.signal(), Some(libc::SIGABRT), "{o:#?}");
        assert!(o.stderr.contains("user thread 'deep'"), "{o:#?}");
        assert!(o.stderr.contains("overflowed its stack of 96 KiB;"), "{o:#?}");
        assert!(o.stderr.contains("Builder::stack_size"), "{o:#?}");
    });
}

#[test]
fn stack_overflow_by_a_signal_frame() {
    for (i, setup) in setups().iter().enumerate() {
        // On two workers the thread may have one for itself and is not preempted.
        if setup.workers > 1 {
            continue;
        }
        let o = child::run(&format!("overflow by a frame {i}"));
        assert_eq!(o.signal(), Some(libc::SIGABRT), "{o:#?}");
        assert!(o.stderr.contains("user thread 'deep'"), "{o:#?}");
        assert!(o.stderr.contains("overflowed its stack"), "{o:#?}");
    }
}

#[test]
fn other_faults_kill_as_usual() {
    for (role, signal) in [
        ("null", libc::SIGSEGV),
        ("illegal instruction", libc::SIGILL),
        ("abort", libc::SIGABRT),
        ("panic that cannot unwind", libc::SIGABRT),
        ("panic while panicking", libc::SIGABRT),
    ] {
        on_all(role, |o| {
            assert_eq!(o.signal(), Some(signal), "{role}: {o:#?}");
            assert!(!o.stderr.contains("overflow"), "{role}: {o:#?}");
            assert!(!o.stdout.contains("survived"), "{role}: {o:#?}");
        });
    }
}
