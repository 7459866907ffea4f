package sync

import _ "unsafe" // for linkname

// Implemented in package runtime: Lock and Unlock are counted there.

//go:linkname runtime_quaverLocking
func runtime_quaverLocking()

//go:linkname runtime_quaverUnlocked
func runtime_quaverUnlocked()
