package runtime

// The global queue of Go 1.25 and newer knows its length.

func quaverRunqLen() int32 { return sched.runq.size }

func quaverRunqPop() *g { return sched.runq.pop() }
