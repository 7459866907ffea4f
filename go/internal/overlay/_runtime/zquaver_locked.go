package sync

import _ "unsafe" // for linkname

// Implemented in package runtime, and known to the package that has Mutex by the same names.

//go:linkname runtime_quaverLocking internal/sync.runtime_quaverLocking
func runtime_quaverLocking()

//go:linkname runtime_quaverUnlocked internal/sync.runtime_quaverUnlocked
func runtime_quaverUnlocked()

//go:linkname quaverCounts runtime.quaverCounts
var quaverCounts int32
