//! What is done under the lock. Each change of a word leaves a state from which `bury` and
//! `rebuild` can go on, whoever dies after it. Nothing here uses the heap: the caller may have
//! interrupted the allocator.

use super::layout::{
    ASIDE, CHOSEN, CORE, Entry, Head, LIVE, Now, READY, attributes_from_word, attributes_to_word,
};
use super::lock::{self, Held, Members};
use super::seat::OWED;
use super::word::Word;
use super::{AcqRel, Acquire, Common, Life, MOST_MEMBERS, Relaxed, Release, life, ticks};
use quaver_sched::{Attributes, Pick, Place, Task, Time, Why};
use rustix::process::{Pid, Signal, kill_process};
use std::cell::Cell;
use std::sync::atomic::AtomicU32;

impl Common {
    pub(super) fn head(&self) -> &Head {
        self.region.head()
    }

    pub(super) fn entry(&self, task: Task) -> &Entry {
        &self.region.entries()[task.0 as usize]
    }

    /// The number of one of this application's tasks among those of all.
    pub(super) fn global(&self, task: Task) -> Task {
        let tasks = self.region.tasks();
        assert!(task.0 < tasks, "a task that the common queue has no room for");
        Task(self.me as u32 * tasks + task.0)
    }

    pub(super) fn local(&self, task: Task) -> Task {
        Task(task.0 % self.region.tasks())
    }

    fn owner(&self, task: Task) -> usize {
        (task.0 / self.region.tasks()) as usize
    }

    fn tasks_of(&self, member: usize) -> impl Iterator<Item = Task> + use<> {
        let first = member as u32 * self.region.tasks();
        let used = self.head().members[member].used.load(Acquire).min(self.region.tasks());
        (first..first + used).map(Task)
    }

    pub(super) fn now(&self, core: usize) -> Now {
        Now::from_word(self.head().cores_now[core].now.load(Acquire))
    }

    /// A change that others may find as the last one of a dead member.
    pub(super) fn set(&self, word: &AtomicU32, value: u32) {
        #[cfg(all(test, not(loom)))]
        super::tests::death::may_strike();
        word.store(value, Release);
    }

    pub(super) fn set_now(&self, core: usize, now: Now) {
        #[cfg(all(test, not(loom)))]
        super::tests::death::may_strike();
        self.head().cores_now[core].now.store(now.to_word(), Release);
    }

    pub(super) fn lock(&self) -> Section<'_> {
        self.lock_as(false)
    }

    pub(super) fn lock_as(&self, inherits: bool) -> Section<'_> {
        let held = lock::acquire(&self.head().lock, self.me, inherits, self);
        let after = held.after;
        let section = Section { common: self, held: Some(held), kicks: Cell::new(0) };
        if let Some(dead) = after {
            self.rebuild(dead, &section);
        }
        if self.is_aside(self.me) {
            self.come_back(&section);
        }
        section
    }

    pub(super) fn begin(&self, task: Task, attributes: &Attributes, now: Time) {
        let member = &self.head().members[self.me];
        let number = self.local(task).0 + 1;
        if member.used.load(Relaxed) < number {
            self.set(&member.used, number);
        }
        let entry = self.entry(task);
        self.set(&entry.attributes, attributes_to_word(attributes));
        self.set(&entry.word, LIVE);
        self.policy.task_init(task, attributes, now);
    }

    pub(super) fn end(&self, task: Task, now: Time) {
        self.unname(task);
        self.stopped(task, 0);
        self.set(&self.entry(task).word, 0);
        self.policy.task_terminate(task, now);
    }

    /// The core where a task ran may name it until its worker asks for the next. The task, or a new
    /// one of its number, would count as granted there as soon as it is ready.
    fn unname(&self, task: Task) {
        let core = self.core(task);
        let there = self.now(core);
        if there.member == Some(self.me) && there.pick.is_some_and(|pick| pick.task == task) {
            self.set_now(core, Now { pick: None, ..there });
        }
    }

    /// For which core it was chosen last.
    fn core(&self, task: Task) -> usize {
        let core = (self.entry(task).word.load(Relaxed) & CORE) as usize;
        core.min(self.region.cores() - 1)
    }

    /// The policy has chosen a task. One that accounts counts it as running until it is told that
    /// it stops.
    fn chosen(&self, core: usize, task: Task) {
        if self.policy.accounts() {
            let word = &self.entry(task).word;
            self.set(word, word.load(Relaxed) & !CORE | CHOSEN | core as u32);
        }
    }

    /// What was chosen runs no more, or never did.
    pub(super) fn stopped(&self, task: Task, ran: Time) {
        let word = &self.entry(task).word;
        if word.load(Relaxed) & CHOSEN != 0 {
            self.set(word, word.load(Relaxed) & !CHOSEN);
            self.policy.task_stopped(self.core(task), task, ran);
        }
    }

    pub(super) fn ready(&self, place: Place, task: Task, why: Why, now: Time) {
        self.unname(task);
        let word = &self.entry(task).word;
        self.set(word, word.load(Relaxed) | LIVE | READY);
        self.policy.task_enqueue(place, task, why, now);
        #[cfg(all(test, not(loom)))]
        super::tests::death::may_strike();
    }

    fn pick(&self, core: usize, steals: bool, now: Time) -> Option<Pick> {
        loop {
            #[cfg(all(test, not(loom)))]
            super::tests::death::may_strike();
            let pick = self.policy.task_dequeue(core, now);
            let steal = || steals.then(|| self.policy.balance(core, now)).flatten();
            let pick = pick.or_else(steal)?;
            self.chosen(core, pick.task);
            if !self.is_aside(self.owner(pick.task)) {
                return Some(pick);
            }
            self.put_aside(pick.task);
        }
    }

    pub(super) fn is_aside(&self, member: usize) -> bool {
        self.head().members[member].aside.load(Acquire) != 0
    }

    fn put_aside(&self, task: Task) {
        self.stopped(task, 0);
        let word = &self.entry(task).word;
        self.set(word, word.load(Relaxed) | ASIDE);
    }

    /// A member is stopped: its cores are others', and what it has that is ready is set aside, at
    /// once or when the policy picks it.
    fn set_aside(&self, member: usize, section: &Section<'_>) {
        self.set(&self.head().members[member].aside, 1);
        for core in 0..self.region.cores() {
            let now = self.now(core);
            if now.member == Some(member) {
                self.set_now(core, Now::NOBODY);
                let ready = |task| self.entry(task).word.load(Relaxed) & READY != 0;
                now.pick
                    .map(|p| p.task)
                    .into_iter()
                    .filter(|&t| ready(t))
                    .for_each(|t| self.put_aside(t));
            }
        }
        self.fill(section);
    }

    /// This application was stopped and goes on.
    fn come_back(&self, section: &Section<'_>) {
        self.set(&self.head().members[self.me].aside, 0);
        for task in self.tasks_of(self.me) {
            let word = &self.entry(task).word;
            if word.load(Relaxed) & ASIDE != 0 {
                self.set(word, word.load(Relaxed) & !ASIDE);
                self.put_back(task);
            }
        }
        self.fill(section);
    }

    /// The worker of this core asks what to run. Others have not got the core.
    pub(super) fn choose(&self, core: usize, steals: bool, now: Time) -> Option<Pick> {
        let current = self.now(core);
        if current.member.is_some_and(|member| member != self.me) {
            return None;
        }
        let pick = match current.pick {
            Some(pick) if self.is_given(core) => {
                self.count_taken(core);
                pick
            }
            _ => {
                let pick = self.pick(core, steals, now)?;
                let member = self.owner(pick.task);
                self.set_now(core, Now { member: Some(member), pick: Some(pick) });
                if member != self.me {
                    self.count_given(core);
                    self.count_switch(core);
                    self.owes[core].store(OWED, Release);
                    return None;
                }
                pick
            }
        };
        let word = &self.entry(pick.task).word;
        self.set(word, LIVE | word.load(Relaxed) & CHOSEN | core as u32);
        Some(pick)
    }

    fn count_given(&self, core: usize) {
        self.head().cores_now[core].given_at.store(ticks(), Relaxed);
    }

    fn count_taken(&self, core: usize) {
        let core = &self.head().cores_now[core];
        let waited = ticks().saturating_sub(core.given_at.load(Relaxed));
        core.taken.store(core.taken.load(Relaxed) + 1, Relaxed);
        core.waited.store(core.waited.load(Relaxed) + waited, Relaxed);
    }

    fn count_switch(&self, core: usize) {
        let switches = &self.head().cores_now[core].switches;
        switches.store(switches.load(Relaxed) + 1, Relaxed);
    }

    /// Gives idle cores what the policy has for them. Afterwards no core is idle that could run
    /// something. Their workers are woken when the lock is released.
    pub(super) fn fill(&self, section: &Section<'_>) {
        for core in 0..self.region.cores() {
            if self.now(core).member.is_none()
                && let Some(pick) = self.pick(core, true, ticks())
            {
                let member = self.owner(pick.task);
                self.set_now(core, Now { member: Some(member), pick: Some(pick) });
                self.count_given(core);
                section.kicks.set(section.kicks.get() | 1 << core);
            }
        }
    }

    /// A member is no more, or leaves: its tasks are gone and its cores idle.
    pub(super) fn bury(&self, member: usize, section: &Section<'_>) {
        let waits = |task| self.entry(task).word.load(Relaxed) & READY != 0;
        let any_waits = self.tasks_of(member).any(waits);
        // A policy has no way to take a task out, so all come out and those of others go back, in
        // the same order as far as there is one.
        let mut next = if any_waits { self.take_all() } else { None };
        self.forget(member, |task| {
            self.stopped(task, 0);
            self.policy.task_terminate(task, ticks());
        });
        while let Some(task) = next {
            next = self.after(task);
            if waits(task) {
                self.put_back(task);
            }
        }
        self.fill(section);
    }

    /// Clears what the words say of a member, but for who it is.
    fn forget(&self, member: usize, end: impl Fn(Task)) {
        for core in 0..self.region.cores() {
            if self.now(core).member == Some(member) {
                self.set_now(core, Now::NOBODY);
            }
        }
        for task in self.tasks_of(member) {
            if self.entry(task).word.load(Relaxed) & LIVE != 0 {
                end(task);
                self.set(&self.entry(task).word, 0);
            }
        }
        self.set(&self.head().members[member].used, 0);
        self.set(&self.head().members[member].aside, 0);
    }

    /// Takes all tasks out of the policy: the first one, which names the next one.
    fn take_all(&self) -> Option<Task> {
        let mut ends: Option<(Task, Task)> = None;
        for core in 0..self.region.cores() {
            while let Some(Pick { task, .. }) = self.pick(core, true, ticks()) {
                self.stopped(task, 0);
                self.entry(task).next.store(0, Relaxed);
                if let Some((_, last)) = ends {
                    self.entry(last).next.store(task.0 + 1, Relaxed);
                }
                ends = Some((ends.map_or(task, |(first, _)| first), task));
            }
        }
        ends.map(|(first, _)| first)
    }

    fn after(&self, task: Task) -> Option<Task> {
        self.entry(task).next.load(Relaxed).checked_sub(1).map(Task)
    }

    fn put_back(&self, task: Task) {
        self.policy.task_enqueue(Place::Shared, task, Why::Woken, ticks());
    }

    /// The policy anew, from what the words say: a member has died while it held the lock, and
    /// whatever the policy had may be half done.
    fn rebuild(&self, dead: usize, section: &Section<'_>) {
        self.forget(dead, |_| {});
        // SAFETY: the lock is held, and the policy is used under the lock only.
        unsafe { self.region.build() };
        let names = |core| self.now(core).pick.map(|pick: Pick| pick.task);
        let is_named = |task| (0..self.region.cores()).any(|core| names(core) == Some(task));
        let word = |task| self.entry(task).word.load(Relaxed);
        let all = || {
            let of_all = (0..MOST_MEMBERS).flat_map(|member| self.tasks_of(member));
            of_all.filter(|&task| word(task) & LIVE != 0)
        };
        for task in all() {
            let attributes = self.entry(task).attributes.load(Relaxed);
            self.policy.task_init(task, &attributes_from_word(attributes), ticks());
            if word(task) & READY != 0 && !is_named(task) {
                // Whoever had it chosen did not come to give it to anybody.
                self.set(&self.entry(task).word, word(task) & !CHOSEN);
            }
        }
        // What its core names last: that is what runs there.
        for named in [false, true] {
            let chosen = |&task: &Task| word(task) & CHOSEN != 0 && is_named(task) == named;
            all().filter(chosen).for_each(|task| self.choose_again(task));
        }
        let waits = |&task: &Task| word(task) & READY != 0 && word(task) & ASIDE == 0;
        all().filter(waits).filter(|&task| !is_named(task)).for_each(|task| self.put_back(task));
        self.head().rebuilt.fetch_add(1, Relaxed);
        if dead != self.me {
            self.free(dead);
        }
        self.fill(section);
    }

    /// For a policy made anew, which has no other task in its queues yet.
    fn choose_again(&self, task: Task) {
        let (core, now) = (self.core(task), ticks());
        self.policy.task_enqueue(Place::Local(core), task, Why::Woken, now);
        let pick = self.policy.task_dequeue(core, now).or_else(|| self.policy.balance(core, now));
        debug_assert_eq!(pick.map(|pick| pick.task), Some(task));
    }

    /// The number of a dead member may be another's, if it is not already.
    fn free(&self, member: usize) {
        let at = &self.head().members[member].who;
        let who = at.load(Acquire);
        if who != 0 && (self.look)(who) == Life::Ended {
            let _ = at.compare_exchange(who, 0, AcqRel, Relaxed);
        }
    }

    /// Buries all who have died, and sets aside what those have who are stopped.
    pub(super) fn bury_the_dead(&self, section: &Section<'_>) {
        for member in (0..MOST_MEMBERS).filter(|&member| member != self.me) {
            let who = self.head().members[member].who.load(Acquire);
            match self.life(member) {
                Life::Ended if who != 0 => {
                    self.bury(member, section);
                    self.free(member);
                }
                Life::Stopped if !self.is_aside(member) => self.set_aside(member, section),
                _ => {}
            }
        }
    }
}

impl Members for Common {
    fn asks(&self) -> bool {
        self.is_watch() || !self.is_watched()
    }

    fn life(&self, member: usize) -> Life {
        let who = self.head().members[member].who.load(Acquire);
        if who == 0 { Life::Ended } else { (self.look)(who) }
    }

    fn go_on(&self, member: usize) {
        let pid = life::pid_of(self.head().members[member].who.load(Acquire));
        let _ = Pid::from_raw(pid as i32).map(|pid| kill_process(pid, Signal::CONT));
    }

    fn mark(&self, member: usize) -> &Word {
        &self.head().members[member].mark
    }
}

/// The lock is held; where cores were given to somebody, their workers are woken at the end.
pub(super) struct Section<'a> {
    common: &'a Common,
    held: Option<Held<'a>>,
    kicks: Cell<u64>,
}

impl Section<'_> {
    /// The calling worker wakes who was given this core, its own, by itself.
    pub(super) fn wakes_later(&self, core: usize) {
        self.kicks.set(self.kicks.get() & !(1 << core));
    }
}

impl Drop for Section<'_> {
    fn drop(&mut self) {
        let is_to_stop = self.held.take().is_some_and(Held::release);
        let mut kicks = self.kicks.get();
        while kicks != 0 {
            let core = kicks.trailing_zeros() as usize;
            kicks &= kicks - 1;
            if let Some(member) = self.common.now(core).member {
                self.common.wake(member, core);
            }
        }
        if is_to_stop {
            stop();
        }
    }
}

/// Stops this process, at once: a signal for the process would stop it when the kernel has found a
/// thread to take it, maybe with the lock again.
fn stop() {
    let (process, thread) = (std::process::id(), rustix::thread::gettid());
    // The instruction itself: the C library's functions may be others' by now, and wait for locks.
    // SAFETY: no memory is involved; the kernel changes these two registers besides the result.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") libc::SYS_tgkill => _,
            in("rdi") i64::from(process),
            in("rsi") i64::from(thread.as_raw_pid()),
            in("rdx") i64::from(libc::SIGSTOP),
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
}
