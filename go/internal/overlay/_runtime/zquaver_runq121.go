package runtime

// The global queue of Go 1.21 to 1.24: one function takes, and moves a batch to the local queue. The stock functions
// have been renamed.

func quaverRunqLen() int32 { return sched.runqsize }

func quaverRunqPop() *g {
	sched.runqsize--
	return sched.runq.pop()
}

func globrunqget(pp *p, max int32) *g {
	assertLockHeld(&sched.lock)
	if !quaverExtra() {
		return quaverStockGlobrunqget(pp, max)
	}
	gp := quaverTake(pp)
	if gp == nil {
		gp = quaverStockGlobrunqget(pp, max)
	}
	quaverSettle()
	return gp
}

func globrunqputbatch(batch *gQueue, n int32) {
	assertLockHeld(&sched.lock)
	if !quaverNetworkReady() {
		quaverStockGlobrunqputbatch(batch, n)
		return
	}
	quaverQueues.net.pushBackAll(*batch)
	quaverQueues.netLen.Add(n)
	*batch = gQueue{}
	quaverSettle()
}
