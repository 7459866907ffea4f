//! Says which user thread panics.
//!
//! The standard library's report names the thread that it knows: a user thread has no name there,
//! and the number is the kernel thread's. A line before it tells ours. That is done only where the
//! program has no panic hook of its own when the first runtime is built; a hook can ask
//! [`crate::thread::current`].

use crate::thread;
use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::sync::Once;

type Hook = Box<dyn Fn(&PanicHookInfo<'_>) + Sync + Send + 'static>;

/// Have these hooks the same type, one without data? Such a hook's address is that of its type.
#[allow(ambiguous_wide_pointer_comparisons, reason = "both come from the same place in std")]
fn are_alike(a: &Hook, b: &Hook) -> bool {
    size_of_val(&**a) == 0 && core::ptr::eq(&raw const **a, &raw const **b)
}

/// From now on panics of user threads are introduced.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    // A panicking thread may not change hooks.
    if std::thread::panicking() {
        return;
    }
    ONCE.call_once(|| {
        // Taking a hook leaves the standard library's.
        let (before, standard) = (take_hook(), take_hook());
        if !are_alike(&before, &standard) {
            set_hook(before);
            return;
        }
        set_hook(Box::new(move |info| {
            if let Some(t) = thread::current() {
                let number = t.id().as_u64();
                match t.name() {
                    Some(name) => eprintln!("\nuser thread '{name}' (id {number}) panics:"),
                    None => eprintln!("\nuser thread {number} panics:"),
                }
            }
            standard(info);
        }));
    });
}
