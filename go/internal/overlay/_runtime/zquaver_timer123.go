package runtime

// quaverTimerWhen returns when the next timer of pp expires (since Go 1.23), or 0.
func quaverTimerWhen(pp *p) int64 { return pp.timers.wakeTime() }
