package runtime

import (
	"internal/runtime/atomic"
	_ "unsafe"
)

// Locks held by goroutines: a Mutex, or an RWMutex by a writer or a reader. quaver-go replaces the name of the package
// below by the one that has Mutex.

// quaverCounts is 0 while locks are not counted, else the least number there is, whose sign bit is its only one. The
// inlined fast paths of sync look at it: then they always leave for the slow paths, which count. It may
// change at any time: what was locked before is not counted, and what is not counted any more is forgotten when hold is
// over.
//
//go:linkname quaverCounts
var quaverCounts int32

// quaverCountLocks is called when the quantum has changed.
func quaverCountLocks() {
	counts := int32(0)
	if quaverOn() && quaver.hold != 0 {
		counts = -1 << 31
	}
	atomic.Storeint32(&quaverCounts, counts)
}

// quaverLocking is called before a lock is waited for, or after TryLock has taken it.
//
//go:linkname quaverLocking QUAVERMUTEX.runtime_quaverLocking
//go:nosplit
func quaverLocking() { getg().quaver.locks++ }

// quaverUnlocked is called when a lock is free. A goroutine that unlocks what another has locked has nothing
// to count.
//
//go:linkname quaverUnlocked QUAVERMUTEX.runtime_quaverUnlocked
//go:nosplit
func quaverUnlocked() {
	gp := getg()
	if gp.quaver.locks > 0 {
		gp.quaver.locks--
		if gp.quaver.locks == 0 && gp.preempt {
			gp.stackguard0 = stackPreempt // a request was put off; heed it at the next call
		}
	}
}

// quaverHeld reports whether the preemption of the goroutine on mp has to wait for a lock. That is so for the end of a
// slice only: the garbage collector, stopping the world and safe-point functions never wait.
//
//go:nosplit
func quaverHeld(mp *m) bool {
	gp := mp.curg
	if gp == nil || gp.quaver.locks <= 0 || quaver.hold == 0 || !quaverOn() {
		return false
	}
	if gp.preemptStop || gp.preemptShrink || sched.gcwaiting.Load() {
		return false
	}
	pp := mp.p.ptr()
	return pp != nil && pp.runSafePointFn == 0 && pp.quaver.forced.Load() != pp.quaver.start.Load()
}
