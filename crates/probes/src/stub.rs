//! The text of a probe and of its stub.
//!
//! ```text
//!         cmpb  $0, %fs:0x80        the probe
//!         jne   stub
//!   back: ...
//!
//!   stub: subl  $1, %fs:0x84        at the end of the function
//!         jns   back
//!         leaq  -128(%rsp), %rsp    the red zone
//!         pushq $MASK
//!         call  *%fs:ENTRY
//!         leaq  136(%rsp), %rsp
//!         jmp   back
//! ```
//!
//! Where flags are live, the probe skips the red zone and saves them around itself; where the frame
//! is found through the stack pointer, each step says so to unwinders.

use std::fmt::Write;

use crate::abi::{COUNTDOWN, RED_ZONE, WORD};
use crate::cfi::State;
use crate::plan::Probe;

/// A probe with what its text depends on.
pub struct Stub<'a> {
    /// The probe.
    pub probe: Probe,
    /// What distinguishes its labels.
    pub name: String,
    /// The rules of unwinding there.
    pub state: Option<&'a State>,
    /// The `.loc` in force there, without its view.
    pub location: Option<&'a str>,
}

impl Stub<'_> {
    /// What stands at the probe's place.
    pub fn probe(&self) -> String {
        let name = &self.name;
        let mut text = String::new();
        let saved = self.probe.saves_flags();
        if saved {
            let _ = writeln!(text, "\tleaq\t-{RED_ZONE}(%rsp), %rsp\n\tpushfq");
            self.adjust(&mut text, i64::from(RED_ZONE) + 8);
        }
        let _ = writeln!(text, "\tcmpb\t$0, %fs:{WORD}\n\tjne\t{name}_stub\n{name}_back:");
        if saved {
            let _ = writeln!(text, "\tpopfq\n\tleaq\t{RED_ZONE}(%rsp), %rsp");
            self.adjust(&mut text, -i64::from(RED_ZONE) - 8);
        }
        text
    }

    /// What stands at the end of the function, where the rules `before` hold.
    pub fn stub(&self, before: Option<&State>) -> String {
        let name = &self.name;
        let mut text = String::new();
        if let (Some(state), Some(before)) = (self.state, before) {
            text.push_str(&state.after(before));
        }
        let saved = if self.probe.saves_flags() { i64::from(RED_ZONE) + 8 } else { 0 };
        self.adjust(&mut text, saved);
        if let Some(location) = self.location {
            let _ = writeln!(text, "\t.loc\t{location}");
        }
        let mut live = self.probe.live;
        if let Some(base) = self.state.and_then(State::base) {
            live |= crate::regs::Regs::general(base);
        }
        let (mask, entry) = (live.mask(), live.class().entry());
        let _ = writeln!(text, "{name}_stub:\n\tsubl\t$1, %fs:{COUNTDOWN}\n\tjns\t{name}_back");
        let _ = writeln!(text, "\tleaq\t-{RED_ZONE}(%rsp), %rsp");
        self.adjust(&mut text, i64::from(RED_ZONE));
        let _ = writeln!(text, "\tpushq\t${mask}");
        self.adjust(&mut text, 8);
        let _ = writeln!(text, "\tcall\t*%fs:{entry}\n\tleaq\t{}(%rsp), %rsp", RED_ZONE + 8);
        self.adjust(&mut text, -i64::from(RED_ZONE) - 8);
        let _ = writeln!(text, "\tjmp\t{name}_back");
        self.adjust(&mut text, -saved);
        text
    }

    /// States that the stack pointer was moved down by `bytes`.
    fn adjust(&self, text: &mut String, bytes: i64) {
        if bytes != 0 && self.state.is_some_and(State::follows_stack) {
            let _ = writeln!(text, "\t.cfi_adjust_cfa_offset {bytes}");
        }
    }
}
