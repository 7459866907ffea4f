//! What happens when the library is loaded. All functions work before that, because the
//! constructors of other libraries may come first; only without a monitor.

use crate::{real, thread};
use quaver_lock::{monitor, parts, slice};

/// `none`: there is no monitor, and that has been said.
const MONITOR: &str = "QUAVER_LOCK_MONITOR";
/// The process that says why it has no monitor: the program itself, and not those that it starts.
const SPEAKER: &str = "QUAVER_LOCK_PID";

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

/// In the child the owner of a mutex that the forking thread holds is a thread that does not exist
/// here, so unlocking it does not end its count.
unsafe extern "C" fn in_child() {
    parts::forget();
}

extern "C" fn start() {
    thread::find();
    real::find_all();
    // Before the program has used up the keys that need no memory.
    parts::prepare();
    // SAFETY: the handler changes a word of its thread.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    if std::env::var_os(MONITOR).is_some_and(|v| v == "none") {
        // What is said of it has been said, too.
        let _ = slice::use_it();
        return;
    }
    if let Err(absent) = monitor::attach_to_lockd() {
        let speaker = std::env::var(SPEAKER).ok();
        if speaker.is_some_and(|pid| pid == std::process::id().to_string()) {
            eprintln!("quaver lock: {absent}{}", monitor::instead());
        }
    }
}
