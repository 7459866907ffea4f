package runtime

// quaverFractionalTime returns for how many ns pp has run fractional workers in this cycle (since Go 1.26).
func quaverFractionalTime(pp *p) int64 { return pp.gcFractionalMarkTime.Load() }
