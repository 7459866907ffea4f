//! Hardware safepoints (xUI 4.4): in safepoint mode, an interrupt may be taken before instructions
//! with the prefix only. The bit travels with the uops of such an instruction, also out of the uop
//! cache. One on a wrong path is squashed with it, and an interrupt that was injected there waits
//! for the next.

use crate::core::Parameters;

/// What a core knows of safepoints.
#[derive(Clone, Copy, Debug)]
pub struct Safepoints {
    /// Safepoint mode.
    on: bool,
    /// Uops in the uop cache have the bit.
    cached: bool,
}

impl Safepoints {
    /// Safepoint mode on or off.
    pub fn new(on: bool, p: &Parameters) -> Safepoints {
        Safepoints { on, cached: p.interrupt.safepoint_cached }
    }

    /// Whether uops have the bit: their instruction has the prefix or not, and they come out of the
    /// uop cache or the decoder.
    pub fn bit(self, prefix: bool, out_of_cache: bool) -> bool {
        prefix && (!out_of_cache || self.cached)
    }

    /// Whether an interrupt may be taken before an instruction. `bit` is asked in safepoint mode
    /// only.
    pub fn allows(self, bit: impl FnOnce() -> bool) -> bool {
        !self.on || bit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_comes_anywhere_or_before_the_prefix() {
        let mut p = Parameters::default();
        assert!(p.interrupt.safepoint_cached);
        let (off, on) = (Safepoints::new(false, &p), Safepoints::new(true, &p));
        assert!(off.allows(|| unreachable!("safepoint mode is off")));
        assert!(on.allows(|| on.bit(true, false)) && on.allows(|| on.bit(true, true)));
        assert!(!on.allows(|| on.bit(false, false)) && !on.allows(|| on.bit(false, true)));
        p.interrupt.safepoint_cached = false;
        let lost = Safepoints::new(true, &p);
        assert!(lost.bit(true, false) && !lost.bit(true, true));
    }
}
