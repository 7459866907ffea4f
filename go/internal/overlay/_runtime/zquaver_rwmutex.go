package sync

// A reader counts as long as the holder of a Mutex: writers wait for it, and new readers for them.

// quaverBelow0 reports whether the number of readers is below 0. While locks are counted its sign bit is always set, but
// no program has so many readers that the rest could be mistaken; -rwmutexMaxReaders-1 is an unlock too many.
func quaverBelow0(readers int32) bool { return readers >= -rwmutexMaxReaders-1 && readers < 0 }

// quaverRLockSlow is called by RLock where a writer is pending (readers is below 0), and whenever locks are counted.
func (rw *RWMutex) quaverRLockSlow(readers int32) {
	if quaverCounts != 0 {
		runtime_quaverLocking()
	}
	if quaverBelow0(readers) {
		runtime_SemacquireRWMutexR(&rw.readerSem, false, 1)
	}
}

// rUnlockSlow is called by RUnlock, likewise.
func (rw *RWMutex) rUnlockSlow(readers int32) {
	if quaverBelow0(readers) {
		rw.quaverStockRUnlockSlow(readers)
	}
	if quaverCounts != 0 {
		runtime_quaverUnlocked()
	}
}
