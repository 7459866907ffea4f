package QUAVERPACKAGE

import _ "unsafe" // for linkname

// Implemented in package runtime: locks held are counted there.

//go:linkname runtime_quaverLocking
func runtime_quaverLocking()

//go:linkname runtime_quaverUnlocked
func runtime_quaverUnlocked()

// quaverCounts is runtime's: 0 while nothing is counted, else a state that no mutex has.
//
//go:linkname quaverCounts runtime.quaverCounts
var quaverCounts int32

// unlockSlow is called where the stock fast path would call its own, and whenever locks are counted. The stock one
// wakes whoever waits; a request that was put off is heeded only after that.
func (m *Mutex) unlockSlow(new int32) {
	if new != 0 {
		m.quaverStockUnlockSlow(new)
	}
	if quaverCounts != 0 {
		runtime_quaverUnlocked()
	}
}
