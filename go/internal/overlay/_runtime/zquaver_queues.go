package runtime

// The global queues: network-ready, ready (sched.runq) and preempted.
//
// Invariant, whenever sched.lock is released: if net or pre has a goroutine, sched.runq has one. So every test of
// sched.runq in the scheduler stays right. The one that stands in for the others is at the head, unless something has
// been put before it; then it counts as ready.

const (
	quaverNetRun  = 8  // network-ready goroutines that may go before others in a row
	quaverFromNet = -1 // where the stand-in belongs; else a level of pre
)

// quaverPutYielded replaces globrunqput in goschedImpl. sched.lock is held.
func quaverPutYielded(gp *g) {
	quantum := quaver.quantum.Load()
	pp := getg().m.p.ptr()
	if quantum == 0 || pp == nil || sched.gcwaiting.Load() {
		globrunqput(gp)
		return
	}
	bestEffort := gp.quaver.bestEffort
	if !gp.preempt && !bestEffort {
		globrunqput(gp)
		return
	}
	now := nanotime()
	level := int32(quaverLevels - 1)
	if gp.preempt {
		quaverHeeded(pp, now)
		if pp.quaver.forced.Load() == pp.quaver.start.Load() {
			gp.quaver.locks = 0
		}
		ran := now - pp.quaver.start.Load()
		gp.quaver.used += ran
		quaverPaid(pp, now)
		// This slice is over, also for one that would inherit it.
		pp.quaver.start.Store(now)
		gp.quaver.goesOn = true
		if !bestEffort {
			if ran < quantum-quantum/4 { // the request was meant for the one before
				globrunqput(gp)
				return
			}
			level = quaverLevel(gp.quaver.used, quantum)
		}
		quaverCounters.preempted.Add(1)
	}
	if level == quaverShort || !quaver.twoQueues {
		globrunqput(gp)
		return
	}
	q := &quaverQueues
	q.used = true
	if q.pre.len() == 0 { // pre itself is empty too if its only goroutine stands in
		q.since = now
	}
	q.pre.put(gp, level, now)
	quaverSettle()
}

// quaverPutNetwork replaces globrunqputbatch for n goroutines whose network is ready. sched.lock is held.
func quaverPutNetwork(batch *gQueue, n int32) {
	q := &quaverQueues
	q.used = true
	q.net.pushBackAll(*batch)
	q.netLen.Add(n)
	*batch = gQueue{}
	quaverSettle()
}

// quaverTakeOne replaces globrunqget and globrunqgetbatch while there is more than sched.runq. A batch would go to the
// local queue, and there before all that comes to wait here. sched.lock is held.
func quaverTakeOne(pp *p) *g {
	gp := quaverTake(pp)
	if gp == nil && !sched.runq.empty() {
		gp = quaverRunqPop()
	}
	quaverSettle()
	return gp
}

// quaverTake takes the goroutine that goes before all in sched.runq, or returns nil if there is none. pp may be nil.
// sched.lock is held, and quaverSettle must follow.
func quaverTake(pp *p) *g {
	q := &quaverQueues
	quaverWithdraw()
	if pp != nil && !q.pre.empty() && quaverTurn(pp, nanotime()) {
		quaverCounters.turns.Add(1)
		return quaverTakePreempted(pp, q.pre.longest())
	}
	if !q.net.empty() && (pp == nil || pp.quaver.netRun < quaverNetRun || sched.runq.empty()) {
		if pp != nil {
			if pp.quaver.netRun >= quaverNetRun { // nobody else wants a turn
				pp.quaver.netRun = 0
			}
			pp.quaver.netRun++
		}
		q.netLen.Add(-1)
		return q.net.pop()
	}
	if pp != nil {
		pp.quaver.netRun = 0
	}
	if q.pre.empty() || !sched.runq.empty() {
		return nil
	}
	return quaverTakePreempted(pp, q.pre.first())
}

// quaverTakePreempted takes the first goroutine of a level.
func quaverTakePreempted(pp *p, level int32) *g {
	q := &quaverQueues.pre
	if pp != nil {
		pp.quaver.took = quaverOld
		if level == q.longest() {
			pp.quaver.took = quaverLongest
		}
	}
	q.lens[level].Add(-1)
	return q.queues[level].pop()
}

// quaverTurn reports whether pp owes time to the preempted goroutine that has waited longest; there is one.
func quaverTurn(pp *p, now int64) bool {
	return quaver.share != 0 && now >= max(pp.quaver.turn, quaverQueues.since+quaverOthers(quaver.quantum.Load()))
}

// quaverOthers returns how long others may run after a preempted goroutine has run for so many ns, so that it gets its
// share.
func quaverOthers(ran int64) int64 { return ran * (100 - quaver.share) / max(quaver.share, 1) }

// quaverPaid notes how long the preempted goroutine that had waited longest has run, if that was the last on pp:
// however late it was stopped, it has had as much of its share.
func quaverPaid(pp *p, now int64) {
	if pp.quaver.runs != quaverLongest {
		return
	}
	pp.quaver.runs = quaverReady
	ran := min(now-pp.quaver.start.Load(), quaverMaxQuantum) // pp may have been idle since
	pp.quaver.turn = now + quaverOthers(ran)
}

// quaverGlobalFirst is asked by findRunnable: look at the global queues before the local one?
func quaverGlobalFirst(pp *p) bool {
	if pp.quaver.runs == quaverLongest {
		quaverPaid(pp, nanotime())
	}
	q := &quaverQueues
	switch {
	case q.netLen.Load() == 0:
		pp.quaver.netRun = 0
	case pp.quaver.netRun < quaverNetRun:
		return true
	case !runqempty(pp):
		// Now another one, from sched.runq and from the local queue in turn. What a timer or a goroutine has just put before
		// the local queue goes besides: in each row there may be time for such a one, and the rest would never have a turn.
		if pp.runnext != 0 && pp.quaver.netRun == quaverNetRun {
			pp.quaver.netRun++
			break
		}
		pp.quaver.globalWent = !pp.quaver.globalWent
		if pp.quaver.globalWent && quaverReadyLen() > 0 {
			return true
		}
		pp.quaver.netRun = 0
	}
	return q.pre.len() > 0 && quaverTurn(pp, nanotime())
}

// quaverWithdraw puts the stand-in back to the head of its own queue. sched.lock is held.
func quaverWithdraw() {
	q := &quaverQueues
	if q.standIn == 0 {
		return
	}
	if sched.runq.head == q.standIn {
		gp := quaverRunqPop()
		if q.standInOf == quaverFromNet {
			q.net.push(gp)
		} else {
			q.pre.queues[q.standInOf].push(gp)
		}
	} else if q.standInOf == quaverFromNet { // it has become an ordinary one
		q.netLen.Add(-1)
	} else {
		q.pre.lens[q.standInOf].Add(-1)
	}
	q.standIn = 0
}

// quaverSettle restores the invariant. sched.lock is held.
func quaverSettle() {
	q := &quaverQueues
	if !sched.runq.empty() {
		return
	}
	switch {
	case !q.net.empty():
		q.standInOf = quaverFromNet
		q.standIn.set(q.net.pop())
	case !q.pre.empty():
		q.standInOf = q.pre.first()
		q.standIn.set(q.pre.queues[q.standInOf].pop())
	default:
		return
	}
	globrunqput(q.standIn.ptr())
}

// quaverNetworkReady reports whether what this thread puts in the global queue comes from the network: a thread without
// a P has nothing else to put.
func quaverNetworkReady() bool {
	return quaverOn() && quaver.netFirst && getg().m.p == 0
}

// quaverExtra reports whether network or preempted have goroutines. It is too large to be inlined, so it is asked only
// where `used` is set. sched.lock is held.
func quaverExtra() bool {
	return quaverQueues.netLen.Load() != 0 || quaverQueues.pre.len() != 0
}

// quaverReadyLen returns how many goroutines sched.runq has of its own. Without sched.lock it is an estimate.
func quaverReadyLen() int32 {
	n := quaverRunqLen()
	if n > 0 && quaverQueues.standIn != 0 {
		n--
	}
	return n
}

// quaverGlobalLen returns how many goroutines all global queues have.
func quaverGlobalLen() int32 {
	return quaverReadyLen() + quaverQueues.netLen.Load() + quaverQueues.pre.len()
}
