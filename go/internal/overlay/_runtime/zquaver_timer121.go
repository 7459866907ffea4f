package runtime

// quaverTimerWhen returns when the next timer of pp expires (Go 1.21 and 1.22), or 0.
func quaverTimerWhen(pp *p) int64 {
	next := pp.timer0When.Load()
	if modified := pp.timerModifiedEarliest.Load(); next == 0 || (modified != 0 && modified < next) {
		return modified
	}
	return next
}
