package runtime

import "internal/runtime/atomic"

// The clock: sysmon's nap, in which Ps are scanned, asked to preempt, and the network is polled. Nothing here may need
// a P.

const (
	quaverRetry   = 10 * 1000  // ns until a request that was not heeded is repeated, at least
	quaverBackoff = 500 * 1000 // ns between two scans at most
	quaverCalm    = 8          // scans without anything ready that waits, after which none is expected soon
	quaverBehind  = 32         // network-ready goroutines for each P that are work enough until a later look
	quaverHandoff = 20 * 1000  // ns after which sysmon looks again at a P in a system call, when it is in a hurry
)

// quaverClock is sysmon's own state.
var quaverClock struct {
	ready    bool        // the thread has been prepared
	thread   muintptr    // sysmon's
	slack    uintptr     // its timer slack in ns before that
	stuck    bool        // a P has been in one system call for two scans while its goroutines wait
	price    quaverPrice // of a wake-up
	askPrice quaverPrice // of a preemption
	floor    int64       // ns between two wake-ups, so that they alone stay within the tax
	account  int64       // ns of CPU time that may be spent on wake-ups and preemptions
	settled  int64       // when something was paid in last
	requests int64       // made in this scan
	polled   int64       // when the clock polled the network last
	woken    uint64      // quaverCounters.woken when it was looked at last
	lastBusy int64       // when a P was last seen at work
	pause    int64       // between scans while slices are over and nothing waits
	first    int         // where the next scan starts
	calm     int         // scans since something ready waited
}

// quaverNap replaces the usleep(delay) of sysmon; delay is in µs.
//
//go:nowritebarrierrec
func quaverNap(delay uint32) {
	if !quaverOn() {
		usleep(delay)
		return
	}
	c := &quaverClock
	if !c.ready {
		c.ready = true
		quaverPrepareThread()
	}
	now := nanotime()
	end := now + int64(delay)*1000
	for {
		quantum := quaver.quantum.Load()
		if quantum == 0 {
			return
		}
		quaverFloor()
		c.stuck = false
		idle := sched.npidle.Load()
		quaverEarn(now, idle)
		next, floor := end, c.floor
		if sched.gcwaiting.Load() {
			next = now + quaverRetry
		} else if idle == gomaxprocs {
			// Back in sysmon the thread would sleep deeply at once, so stay here for a while. The work for which it was woken
			// may be over.
			if woken := quaverCounters.woken.Load(); woken != c.woken {
				c.woken, c.lastBusy = woken, now
			}
			if now-c.lastBusy > quaver.idle {
				if debug.schedtrace <= 0 { // else there is no deep sleep
					delay = min(delay, 20)
				}
				usleep(delay)
				return
			}
			c.pause = min(max(quantum, c.pause*2), 4*quantum)
			quaverWait(now + max(c.pause, c.floor))
			now = nanotime()
			continue
		} else {
			c.lastBusy = now
			lock(&sched.sysmonlock)
			polled := quaverPollNetwork(now, quantum)
			next = min(quaverScan(now, quantum), polled)
			unlock(&sched.sysmonlock)
			floor = quaverSpend(c.requests)
			if quaverQueues.netLen.Load() >= quaverBehind*gomaxprocs {
				floor *= 4
			}
		}
		if now >= end {
			return
		}
		if c.stuck {
			end = min(end, now+quaverHandoff)
		} else {
			next = max(next, now+floor)
			end = max(end, now+floor)
		}
		quaverWait(min(next, end))
		now = nanotime()
	}
}

// quaverPollNetwork polls if it is time to, and returns when to poll next.
//
//go:nowritebarrierrec
func quaverPollNetwork(now, quantum int64) int64 {
	if !netpollinited() || netpollWaiters.Load() == 0 {
		return quaverForever // nobody cares
	}
	c := &quaverClock
	last := sched.lastpoll.Load()
	if last == 0 {
		// A thread without a P waits for the network. It may wait for a core as well, behind the very goroutines that should
		// give way.
		if !quaver.netFirst {
			return quaverForever
		}
		last = c.polled
	}
	every := quaverPollEvery(quantum)
	if last+every > now {
		return last + every
	}
	if last != c.polled {
		sched.lastpoll.CompareAndSwap(last, now)
	}
	c.polled = now
	quaverCounters.polls.Add(1)
	quaverInjectNetwork()
	return now + every
}

// quaverScan asks Ps to preempt, and returns when to look again.
//
//go:nowritebarrierrec
func quaverScan(now, quantum int64) int64 {
	c := &quaverClock
	quaverCounters.scans.Add(1)
	global := quaverGlobal{
		fresh: quaverReadyLen() + quaverQueues.netLen.Load(),
		old:   quaverQueues.pre.len(),
		young: quaverQueues.pre.lens[0].Load(),
	}
	c.requests = 0
	next := now + quaverBackoff
	quiet := true

	lock(&allpLock)
	n := len(allp)
	c.first++
	for i := 0; i < n; i++ {
		pp := allp[(c.first+i)%n]
		if pp == nil {
			continue
		}
		when, over := quaverScanP(pp, now, quantum, &global)
		next = min(next, when)
		quiet = quiet && over
	}
	unlock(&allpLock)

	c.calm++
	if global.seen {
		c.calm = 0
	}
	if quiet {
		c.pause = min(max(quantum, c.pause*2), quaverBackoff)
	} else if c.calm < quaverCalm {
		c.pause = quantum // a slice that begins right now ends then
	}
	return min(next, now+c.pause)
}

// quaverGlobal counts the goroutines in global queues that no P has been asked to take yet: each can use one.
type quaverGlobal struct {
	fresh int32 // ready
	old   int32 // preempted
	young int32 // of those, on the first level
	seen  bool  // something ready waits, here or for a P
}

// quaverScanP asks pp to preempt if it has to, and returns when to look again. over says that its slice is over and
// nothing waits, so that looking again is not urgent.
//
//go:nowritebarrierrec
func quaverScanP(pp *p, now, quantum int64, global *quaverGlobal) (when int64, over bool) {
	when = quaverForever
	q := &pp.quaver
	mp := pp.m.ptr()
	if atomic.Load(&pp.status) != _Prunning || mp == nil {
		quaverInSyscall(pp)
		return
	}
	if d := q.heeded.Swap(0); d != 0 {
		quaverClock.askPrice.learn(d)
	}
	start := q.start.Load()
	gp := mp.curg
	if start == 0 || gp == nil {
		return
	}
	if readgstatus(gp)&^_Gscan == _Gsyscall {
		quaverInSyscall(pp)
		return
	}

	if gcBlackenEnabled != 0 && pp.gcMarkWorkerMode == gcMarkWorkerFractionalMode && quaverCollectorDue(pp, now) {
		return now + quantum, false
	}

	// How long may it run? That depends on what waits.
	slice := int64(quaverForever)
	waits, timer := quaverLocalWork(pp, now)
	if waits && quaver.skip && global.fresh <= 0 && global.old <= 0 && timer > now && q.seen != q.handed && quaverOnlyNext(pp) {
		// What waits may have been put there a moment ago by a goroutine that is about to wait for it. Only if the next look
		// finds no change, one goroutine has had the slice.
		q.seen = q.handed
		if quaverClock.calm < quaverCalm {
			return now + quantum, false
		}
		return timer, true
	}
	switch {
	case waits || global.fresh > 0 || !quaver.skip:
		global.seen = true
		slice = quantum
		if gp.quaver.bestEffort {
			slice = quaverMinQuantum
		}
	case global.old > 0:
		slice = quantum
		if quaver.long > quantum && (global.young <= 0 || quaverLevel(gp.quaver.used+now-start, quantum) <= 0) {
			slice = quaver.long
		}
	}
	ran := now - start
	if ran < slice {
		when = max(timer, start+quantum)
		// Something ready may come to wait within the quantum. Where only the preempted have waited for long, that is not
		// worth a look at each slice.
		if ran < quantum && quaverClock.calm < quaverCalm {
			return start + min(slice, quantum), false
		}
		if slice == quaverForever {
			quaverCounters.unneeded.Add(1)
			return when, true
		}
		return min(when, start+slice), true
	}
	if !waits {
		if global.fresh > 0 {
			global.fresh--
		} else {
			global.old--
			global.young--
		}
	}

	if q.asked != start {
		q.asked, q.asks = start, 0
		q.askedAt.Store(0)
	} else if now < q.askNext {
		return q.askNext, false
	}
	if gp.quaver.locks > 0 && quaver.hold > 0 {
		if ran-slice < quaver.hold {
			// The Unlock looks at this. As in preemptone, a switch meanwhile is harmless.
			gp.preempt = true
			quaverCounters.deferred.Add(1)
			return now + quaverRetry, false
		}
		if q.forced.Load() != start {
			q.forced.Store(start)
			quaverCounters.forced.Add(1)
		}
	}
	// The thread may be without a core, so ask less and less often.
	q.askNext = now + max(quaverRetry, quantum/4)<<q.asks
	if q.asks < 6 {
		q.asks++
	}
	if q.askedAt.Load() == 0 {
		q.askedAt.Store(nanotime())
	}
	if preemptone(pp) {
		quaverCounters.asked.Add(1)
		quaverClock.requests++
	}
	if slice > quantum { // only the preempted wait, so it does not matter whether this one is heeded
		return min(now+slice, max(timer, now+quantum)), true
	}
	return q.askNext, false
}

// quaverInSyscall notes whether pp, which does not run Go, has been in one system call since the last scan while
// goroutines wait in its queue: then sysmon should hand it on soon.
//
//go:nowritebarrierrec
func quaverInSyscall(pp *p) {
	tick := pp.syscalltick
	if tick == pp.quaver.syscall && atomic.Load(&pp.status) != _Pidle && !runqempty(pp) {
		quaverClock.stuck = true
	}
	pp.quaver.syscall = tick
}

// quaverLocalWork reports whether something waits that only pp runs, and when its next timer expires. All of it is
// read without locks; an error costs a needless preemption or one that comes with the next scan.
//
//go:nowritebarrierrec
func quaverLocalWork(pp *p, now int64) (waits bool, timer int64) {
	timer = quaverTimerWhen(pp)
	if timer == 0 {
		timer = quaverForever
	}
	dedicated := pp.gcMarkWorkerMode == gcMarkWorkerDedicatedMode
	if !runqempty(pp) || (timer <= now && !dedicated) {
		return true, timer
	}
	if gcBlackenEnabled != 0 && pp.gcMarkWorkerMode == gcMarkWorkerNotWorker {
		return gcController.dedicatedMarkWorkersNeeded.Load() > 0 || quaverCollectorDue(pp, now), timer
	}
	return false, timer
}

// quaverOnlyNext reports whether pp's queue has nothing but runnext.
//
//go:nowritebarrierrec
func quaverOnlyNext(pp *p) bool {
	return pp.runnext != 0 && atomic.Load(&pp.runqhead) == atomic.Load(&pp.runqtail)
}

// quaverCollectorDue reports whether findRunnable would give pp to a fractional GC worker now, which has a part of the
// time. If such a worker runs, it would be chosen again.
//
//go:nowritebarrierrec
func quaverCollectorDue(pp *p, now int64) bool {
	goal, has := gcController.fractionalUtilizationGoal, quaverFractionalTime(pp)
	if pp.gcMarkWorkerMode == gcMarkWorkerFractionalMode {
		has += now - pp.gcMarkWorkerStartTime
	}
	return goal > 0 && float64(has) <= goal*float64(now-gcController.markStartTime)
}

// quaverAcquired is called by acquirep. What runs next may not come from execute: a goroutine that returns from a
// system call, or goes on after the world was stopped.
func quaverAcquired(pp *p) {
	if !quaverOn() {
		return
	}
	now := nanotime()
	quaverPaid(pp, now)
	pp.quaver.runs = quaverReady
	pp.quaver.start.Store(now)
}

// quaverDispatched is called by execute when a goroutine begins to run on pp, within the slice of the one before if
// inherit. Goroutines that wait for each other do that all the time, and reading the time costs a tenth of it; so the
// time since the slice began counts for the last one.
func quaverDispatched(pp *p, inherit bool) {
	if !quaverOn() {
		return
	}
	if inherit {
		pp.quaver.handed++
		if pp.quaver.runs == quaverLongest {
			quaverPaid(pp, nanotime())
		}
	} else {
		now := nanotime()
		quaverPaid(pp, now)
		pp.quaver.start.Store(now)
	}
	pp.quaver.runs = pp.quaver.took
	pp.quaver.took = quaverReady
	if gp := getg().m.curg; gp.quaver.goesOn {
		gp.quaver.goesOn = false
	} else {
		gp.quaver.used = 0
	}
	// sysmon sets sysmonwait under sched.lock when all Ps are idle, and a P stops being idle under sched.lock: either
	// sysmon saw this P at work or it is seen here.
	if sched.sysmonwait.Load() {
		lock(&sched.lock)
		if sched.sysmonwait.Load() {
			sched.sysmonwait.Store(false)
			notewakeup(&sched.sysmonnote)
			quaverCounters.woken.Add(1)
		}
		unlock(&sched.lock)
	}
}
