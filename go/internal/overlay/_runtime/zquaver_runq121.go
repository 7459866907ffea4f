package runtime

// The global queue of Go 1.21 to 1.24 has its length beside it.

func quaverRunqLen() int32 { return sched.runqsize }

func quaverRunqPop() *g {
	sched.runqsize--
	return sched.runq.pop()
}
