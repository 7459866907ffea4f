package sync

// A reader counts as long as the holder of a Mutex: writers wait for it, and new readers for them.

// quaverRLockSlow is called by RLock where a writer is pending (readers is below 0), and whenever locks are counted.
func (rw *RWMutex) quaverRLockSlow(readers int32) {
	if quaverCounts != 0 {
		runtime_quaverLocking()
	}
	if readers < 0 {
		runtime_SemacquireRWMutexR(&rw.readerSem, false, 1)
	}
}

// rUnlockSlow is called by RUnlock, likewise.
func (rw *RWMutex) rUnlockSlow(readers int32) {
	if readers < 0 {
		rw.quaverStockRUnlockSlow(readers)
	}
	if quaverCounts != 0 {
		runtime_quaverUnlocked()
	}
}
