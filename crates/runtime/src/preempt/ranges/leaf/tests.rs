use super::*;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::Mutex;

/// What is being stepped through, and what was seen.
static START: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);
static RETURN: AtomicUsize = AtomicUsize::new(0);
static STEPS: AtomicUsize = AtomicUsize::new(0);
static WRONG: AtomicUsize = AtomicUsize::new(0);
static TURN: Mutex<()> = Mutex::new(());
static INSTALLED: AtomicBool = AtomicBool::new(false);

const TRAP_FLAG: i64 = 0x100;

/// After every instruction: is the return address at the stack pointer? It is the one that was
/// there at the first.
extern "C" fn on_trap(_: c_int, _: *mut libc::siginfo_t, uc: *mut c_void) {
    // SAFETY: the kernel's frame; rsp points to the stack of the code that was interrupted.
    let (rip, at_rsp) = unsafe {
        let g = &(*uc.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let rsp = g[libc::REG_RSP as usize] as *const usize;
        (g[libc::REG_RIP as usize] as usize, rsp.read())
    };
    if !(START.load(Relaxed)..END.load(Relaxed)).contains(&rip) {
        return;
    }
    if rip == START.load(Relaxed) {
        RETURN.store(at_rsp, Relaxed);
    }
    STEPS.fetch_add(1, Relaxed);
    if at_rsp != RETURN.load(Relaxed) {
        WRONG.store(rip, Relaxed);
    }
}

/// Calls `routine(a, b, c)` with the trap flag set.
#[unsafe(naked)]
unsafe extern "C" fn step(a: *mut u8, b: *mut u8, c: usize, routine: usize) {
    core::arch::naked_asm!(
        "sub rsp, 8",
        "pushfq",
        "or qword ptr [rsp], {tf}",
        "popfq",
        "call rcx",
        "pushfq",
        "and qword ptr [rsp], ~{tf}",
        "popfq",
        "add rsp, 8",
        "ret",
        tf = const TRAP_FLAG,
    )
}

fn stepped(range: &Range<usize>, a: *mut u8, b: *mut u8, c: usize) {
    START.store(range.start, Relaxed);
    END.store(range.end, Relaxed);
    if !INSTALLED.swap(true, Relaxed) {
        // SAFETY: a complete sigaction.
        unsafe {
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = on_trap as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
            assert_eq!(libc::sigaction(libc::SIGTRAP, &action, core::ptr::null_mut()), 0);
        }
    }
    // SAFETY: the routine gets buffers that are long enough, with a zero at their end.
    unsafe { step(a, b, c, range.start) };
    assert_eq!(WRONG.load(Relaxed), 0, "the return address is not at rsp");
}

/// What the tables say is what happens, at every instruction, for short and long blocks, near and
/// far.
#[test]
fn the_return_address_is_where_it_should_be() {
    modules::loaded();
    let _turn = TURN.lock().unwrap();
    let mut stepped_through = 0;
    for name in NAMES {
        let Some(range) = routine(name) else { continue };
        stepped_through += 1;
        let before = STEPS.load(Relaxed);
        for length in [0usize, 1, 7, 16, 31, 33, 64, 100, 257, 1000, 9000] {
            for distance in [0, 1, 4000] {
                let mut from = vec![b'x'; length + 8];
                let mut to = vec![b'x'; length + distance + 8];
                from[length..].fill(0);
                to[length..].fill(0);
                let (a, b) = (to.as_mut_ptr(), from.as_mut_ptr());
                match name.to_bytes() {
                    // The second argument is a number, which is not there.
                    b"strlen" | b"memset" | b"memchr" | b"memrchr" | b"strchr" | b"strchrnul"
                    | b"strrchr" | b"wcslen" => {
                        stepped(&range, a, core::ptr::without_provenance_mut(b'y'.into()), length)
                    }
                    b"strnlen" => {
                        stepped(&range, a, core::ptr::without_provenance_mut(length), length)
                    }
                    b"memcpy" | b"memmove" | b"mempcpy" | b"memcmp" | b"strcmp" | b"strncmp"
                    | b"strcpy" | b"strncpy" | b"stpcpy" => stepped(&range, a, b, length),
                    // Others take further arguments, or are quadratic.
                    _ => break,
                }
            }
        }
        println!("{name:?}: {range:x?}, {} steps", STEPS.load(Relaxed) - before);
    }
    // Of the GNU C library on any CPU that this runs on; 2.34 cannot be asked.
    if modules::object_at(libc::malloc as *const () as usize).is_some() {
        let memcpy = routine(c"memcpy").expect("memcpy is a leaf");
        assert!(memcpy.len() > 100);
        assert!(stepped_through >= 5 && STEPS.load(Relaxed) > 10_000, "{stepped_through}");
    }
}

#[test]
fn routines_with_frames_are_none() {
    modules::loaded();
    for name in [c"malloc", c"fwrite", c"realloc", c"free", c"printf"] {
        assert_eq!(routine(name), None, "{name:?}");
    }
    // Not of libc, though its tables would allow it.
    let all = routines();
    let here = routines_with_frames_are_none as *const () as usize;
    assert!(!all.iter().any(|r| r.contains(&here)));
}
