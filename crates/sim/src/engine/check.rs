//! What holds at every event; for `Options::check`.

use super::Engine;

impl Engine<'_> {
    pub(super) fn check(&self) {
        assert_eq!(self.policy.waiting(), self.queued, "a task is lost or doubled");
        assert!(
            self.queued <= self.core.pending || self.idle.is_empty() || !self.rules.balance,
            "a worker idles while {} tasks wait under {}",
            self.queued,
            self.policy.name()
        );
        let running = self.workers.iter().filter(|worker| worker.running.is_some()).count();
        let live = self.jobs.live();
        let [sleeping, mail, messages] = self.messages.as_ref().map_or([0; 3], |m| m.count());
        let elsewhere = self.core.ingesting() + self.intake.in_sockets() + sleeping;
        let accounted = running + self.queued + elsewhere + mail;
        assert!(
            accounted <= live && live <= accounted + messages,
            "{live} threads, {running} running, {} queued, {elsewhere} elsewhere",
            self.queued
        );
        for worker in &self.workers {
            let spent = worker.busy + worker.best_effort;
            assert!(spent <= self.now, "a worker was busy for longer than there was time");
        }
    }
}
