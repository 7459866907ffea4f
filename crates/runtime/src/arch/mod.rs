//! What depends on the processor: context switch, user-mode resume, segment bases, signals to
//! oneself, user interrupts.

/// Assembly that opens the gate: rsi = thread, edx = depth. Returns to the caller's caller with the
/// gate closed (depth 1) if the thread has been flagged meanwhile. What a region of the user keeps
/// stays for the region's end.
macro_rules! open_gate {
    () => {
        "mov [rsi + {no_preempt}], edx
        test edx, edx
        jnz 2f
        cmp byte ptr [rsi + {deferred}], {asked}
        jb 2f
        je 3f
        cmp dword ptr [rsi + {regions}], 0
        jne 2f
        3:
        mov dword ptr [rsi + {no_preempt}], 1
        ret
        2:"
    };
}
use open_gate;

pub(crate) mod entry;
#[cfg(not(loom))]
mod fence;
pub(crate) mod pkru;
pub(crate) mod probe;
pub(crate) mod raise;
pub(crate) mod resume;
pub(crate) mod segment;
pub(crate) mod switch;
pub(crate) mod user_interrupt;

#[cfg(not(loom))]
pub(crate) use fence::fence;
