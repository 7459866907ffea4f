//! What interruptions of a worker cost, and who pays: the worker's [`Account`], which its carrier
//! alone writes. With no tax everything can be paid for.

use super::Slot;
use crate::tsc::{self, Ticks};
use core::sync::atomic::Ordering::*;
use quaver_sched::{Account, Tax};

impl Slot {
    /// When the next interruption can be paid for.
    #[inline(always)]
    pub(crate) fn affordable_at(&self) -> Ticks {
        self.affordable(&self.rt.tax)
    }

    /// The same for one at a probe.
    pub(crate) fn affordable_at_probe(&self) -> Ticks {
        self.affordable(&self.rt.probe_tax)
    }

    #[inline(always)]
    fn affordable(&self, tax: &Option<Tax>) -> Ticks {
        let Some(tax) = tax else { return 0 };
        let account = Account::from_bits(self.account.load(Relaxed));
        tax.earliest(account, self.run_since())
    }

    /// The carrier has been interrupted.
    #[inline]
    pub(crate) fn charge(&self, now: Ticks) {
        self.pay(&self.rt.tax, now);
    }

    /// The running thread stops at a probe.
    pub(crate) fn charge_at_probe(&self, now: Ticks) {
        self.pay(&self.rt.probe_tax, now);
    }

    #[inline(always)]
    fn pay(&self, tax: &Option<Tax>, now: Ticks) {
        if let Some(tax) = tax {
            let account = Account::from_bits(self.account.load(Relaxed));
            let ran = now.saturating_sub(self.run_since());
            self.account.store(tax.charge(account, ran).to_bits(), Relaxed);
            self.charged_run.store(self.run.load(Relaxed), Relaxed);
        }
    }

    /// The running thread stops of its own will, after it has run for long.
    #[cold]
    pub(super) fn earn(&self, now: Ticks) {
        let tax = if self.rt.probes() { &self.rt.probe_tax } else { &self.rt.tax };
        if let Some(tax) = tax
            && self.charged_run.load(Relaxed) != self.run.load(Relaxed)
        {
            let account = Account::from_bits(self.account.load(Relaxed));
            let ran = now.saturating_sub(self.run_since());
            self.account.store(tax.earn(account, ran).to_bits(), Relaxed);
        }
    }

    /// The worker has had nothing to do since `from`.
    pub(crate) fn rested(&self, from: Ticks) {
        if let Some(tax) = &self.rt.tax {
            let now = tsc::now();
            let worked = from.saturating_sub(self.rested_at.swap(now, Relaxed));
            let account = Account::from_bits(self.account.load(Relaxed));
            let account = tax.rest(account, now.saturating_sub(from), worked);
            self.account.store(account.to_bits(), Relaxed);
        }
    }
}
