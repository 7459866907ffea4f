//go:build quaver_go

package quaver

import _ "unsafe" // for linkname

// quaver-go sets the build tag, and adds these functions to the runtime.

const enabled = true

//go:linkname quantum runtime.quaverQuantum
func quantum() int64

//go:linkname setQuantum runtime.quaverSetQuantum
func setQuantum(ns int64) int64

//go:linkname setBestEffort runtime.quaverSetBestEffort
func setBestEffort(on bool) bool

//go:linkname readStats runtime.quaverReadStats
func readStats() [15]uint64
