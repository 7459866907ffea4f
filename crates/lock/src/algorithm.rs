//! How to wait for the word: Listing 2 with a budget and a deadline.
//!
//! It is written over a [`Machine`], so that the same code runs on the real instructions and in
//! models that try all orders of events.

/// The word of a free lock.
pub(crate) const FREE: u32 = 0;
/// Held.
#[cfg(all(test, any(loom, feature = "host")))]
pub(crate) const HELD: u32 = 1;
/// Held, and somebody may sleep.
pub(crate) const AWAITED: u32 = 2;

/// What one wait for one lock consists of. Atomic instructions are sequentially consistent, loads
/// acquire, stores release.
pub(crate) trait Machine {
    /// Another waiter, as a queue's links name it.
    type Node: Copy;

    /// Changes the word from [`FREE`] to [`HELD`]; returns what it was.
    fn try_word(&mut self) -> u32;
    /// Sets the word to [`AWAITED`]; returns what it was.
    fn mark(&mut self) -> u32;
    /// Sleeps if the word is [`AWAITED`], until woken (or for no reason). False: the deadline came.
    fn sleep(&mut self) -> bool;

    /// Whether this wait may use the queue now.
    fn may_queue(&mut self) -> bool;
    /// After a failed look: pauses; says whether to look again (true) or to block (false).
    fn spin(&mut self) -> bool;
    /// After a sleep that did not bring the lock: whether to spin again. Renews the budget if so.
    fn may_spin_again(&mut self) -> bool;
    /// Whether the deadline has come.
    fn expired(&mut self) -> bool;

    /// Puts the own node at the end of the queue, as waiting, or as first. Returns who is before.
    fn enqueue(&mut self) -> Option<Self::Node>;
    /// Tells the one before where the own node is.
    fn link(&mut self, before: Self::Node);
    /// As the first of the queue: lets whoever has the lock use it for a while.
    fn stand_back(&mut self);
    /// Whether the own node is first.
    fn is_first(&mut self) -> bool;
    /// Leaves the queue if nobody is behind.
    fn dequeue(&mut self) -> bool;
    /// Who is behind, if that is known already.
    fn behind(&mut self) -> Option<Self::Node>;
    /// Leaves the queue; the one behind is first, if it still waits.
    fn pass(&mut self, behind: Self::Node);
    /// Pauses while the one behind puts down its address.
    fn pause(&mut self);
}

/// Waits for the lock. True: it is ours; false: the deadline came.
pub(crate) fn wait<M: Machine>(m: &mut M) -> bool {
    loop {
        let mut queued = m.may_queue();
        if queued {
            join(m);
            m.stand_back();
        }
        loop {
            let word = m.try_word();
            if word == FREE {
                if queued {
                    leave(m);
                }
                return true;
            }
            if m.spin() {
                continue;
            }
            if queued {
                leave(m);
                queued = false;
            }
            if m.expired() {
                return false;
            }
            // From here on the word is AWAITED whenever we sleep, and when we take it.
            if word != AWAITED && m.mark() == FREE {
                return true;
            }
            let in_time = m.sleep();
            // Even if it was too late: the wake-up may have been for us, and others sleep too.
            if m.mark() == FREE {
                return true;
            }
            if !in_time {
                return false;
            }
            if m.may_spin_again() {
                break;
            }
        }
    }
}

/// Stands in the queue until first, or until spinning ends.
fn join<M: Machine>(m: &mut M) {
    if let Some(before) = m.enqueue() {
        m.link(before);
        while !m.is_first() && m.spin() {}
    }
}

/// Leaves the queue, from whatever place in it.
fn leave<M: Machine>(m: &mut M) {
    let mut behind = m.behind();
    if behind.is_none() {
        if m.dequeue() {
            return;
        }
        // Somebody has taken the end of the queue, and is two instructions from telling us.
        while behind.is_none() {
            m.pause();
            behind = m.behind();
        }
    }
    m.pass(behind.expect("the loop ends with one"));
}
