package runtime

import "internal/runtime/atomic"

// quaverFractionalTime returns for how many ns pp has run fractional workers in this cycle.
func quaverFractionalTime(pp *p) int64 { return atomic.Loadint64(&pp.gcFractionalMarkTime) }
