package runtime

// The global queues: network-ready, ready (sched.runq) and preempted.
//
// Invariant, whenever sched.lock is released: if net or pre has a goroutine, sched.runq has one. So every test of
// sched.runq in the scheduler stays right. The one that stands in for the others is at the head, unless something has been put before it;
// then it counts as ready.

const quaverNetRun = 8 // network-ready goroutines that may go before local ones in a row

// quaverPutYielded replaces globrunqput in goschedImpl. sched.lock is held.
func quaverPutYielded(gp *g) {
	quantum := quaver.quantum.Load()
	pp := getg().m.p.ptr()
	if quantum == 0 || pp == nil || sched.gcwaiting.Load() {
		globrunqput(gp)
		return
	}
	bestEffort := gp.quaver.bestEffort != 0
	if gp.preempt {
		now := nanotime()
		if pp.quaver.forced.Load() == pp.quaver.start.Load() {
			gp.quaver.locks = 0
		}
		// This slice is over, also for one that would inherit it.
		pp.quaver.start.Store(now)
		if pp.quaver.runsOld {
			pp.quaver.turn = now
		}
		if !bestEffort && now-pp.quaver.dispatched < quantum-quantum/4 {
			quaverCounters.stale.Add(1)
			globrunqput(gp)
			return
		}
		quaverCounters.preempted.Add(1)
	} else if !bestEffort {
		globrunqput(gp)
		return
	}
	if !quaver.twoQueues {
		globrunqput(gp)
		return
	}
	q := &quaverQueues
	if q.preLen.Load() == 0 { // pre itself is empty too if its only goroutine stands in
		q.since = nanotime()
	}
	q.pre.pushBack(gp)
	q.preLen.Add(1)
	quaverSettle()
}

// quaverTake takes the goroutine that goes before all in sched.runq, or returns nil if there is none; then the caller takes from
// sched.runq. pp may be nil. sched.lock is held, and quaverSettle must follow.
func quaverTake(pp *p) *g {
	q := &quaverQueues
	quaverWithdraw()
	if !q.net.empty() && (pp == nil || pp.quaver.netRun < quaverNetRun || sched.runq.empty()) {
		if pp != nil {
			pp.quaver.netRun++
		}
		q.netLen.Add(-1)
		return q.net.pop()
	}
	if q.pre.empty() {
		return nil
	}
	now := nanotime()
	turn := pp != nil && quaverTurn(pp, now)
	if !turn && !sched.runq.empty() {
		return nil
	}
	if pp != nil {
		pp.quaver.turn = now + quaver.quantum.Load()
		pp.quaver.tookOld = true
		if turn {
			quaverCounters.turns.Add(1)
		}
	}
	q.preLen.Add(-1)
	return q.pre.pop()
}

// quaverTurn reports whether pp owes time to preempted goroutines, of which there are some.
func quaverTurn(pp *p, now int64) bool {
	if quaver.share == 0 {
		return false
	}
	wait := quaver.quantum.Load() * (100 - quaver.share) / quaver.share
	return now >= max(pp.quaver.turn, quaverQueues.since)+wait
}

// quaverGlobalFirst is asked by findRunnable: look at the global queues before the local one?
func quaverGlobalFirst(pp *p) bool {
	q := &quaverQueues
	if q.netLen.Load() > 0 {
		if pp.quaver.netRun < quaverNetRun {
			return true
		}
		pp.quaver.netRun = 0 // now a local one
		return false
	}
	pp.quaver.netRun = 0
	return q.preLen.Load() > 0 && quaverTurn(pp, nanotime())
}

// quaverWithdraw puts the stand-in back to the head of its own queue. sched.lock is held.
func quaverWithdraw() {
	q := &quaverQueues
	if q.standIn == 0 {
		return
	}
	if sched.runq.head == q.standIn {
		gp := quaverRunqPop()
		if q.standInNet {
			q.net.push(gp)
		} else {
			q.pre.push(gp)
		}
	} else if q.standInNet { // it has become an ordinary one
		q.netLen.Add(-1)
	} else {
		q.preLen.Add(-1)
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
		q.standInNet = true
		q.standIn.set(q.net.pop())
	case !q.pre.empty():
		q.standInNet = false
		q.standIn.set(q.pre.pop())
	default:
		return
	}
	globrunqput(q.standIn.ptr())
}

// quaverNetworkReady reports whether what this thread puts in the global queue comes from the network: a thread without a P
// has nothing else to put.
func quaverNetworkReady() bool {
	return quaver.netFirst && quaverOn() && getg().m.p == 0
}

// quaverExtra reports whether network or preempted have goroutines.
func quaverExtra() bool {
	return quaverQueues.netLen.Load() != 0 || quaverQueues.preLen.Load() != 0
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
	return quaverReadyLen() + quaverQueues.netLen.Load() + quaverQueues.preLen.Load()
}
