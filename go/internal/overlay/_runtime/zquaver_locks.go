package runtime

import _ "unsafe"

// Locks held by goroutines. quaver-go replaces the name of the package below by the one that has Mutex.

// quaverLocking is called by Lock before it tries, and by TryLock when it has the lock.
//
//go:linkname quaverLocking QUAVERMUTEX.runtime_quaverLocking
//go:nosplit
func quaverLocking() { getg().quaver.locks++ }

// quaverUnlocked is called by Unlock when the lock is free. A goroutine that unlocks what another has locked has nothing
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

// quaverHeld reports whether the preemption of the goroutine on mp has to wait for a lock. That is so for the end of a slice only:
// the garbage collector, stopping the world and safe-point functions never wait.
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
