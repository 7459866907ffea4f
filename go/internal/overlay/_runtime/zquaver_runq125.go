package runtime

// The global queue of Go 1.25 and newer: one function takes one, another a batch. The stock functions have been
// renamed.

func quaverRunqLen() int32 { return sched.runq.size }

func quaverRunqPop() *g { return sched.runq.pop() }

func globrunqget() *g {
	assertLockHeld(&sched.lock)
	if !quaverExtra() {
		return quaverStockGlobrunqget()
	}
	gp := quaverTake(getg().m.p.ptr())
	if gp == nil {
		gp = quaverStockGlobrunqget()
	}
	quaverSettle()
	return gp
}

func globrunqgetbatch(n int32) (gp *g, q gQueue) {
	assertLockHeld(&sched.lock)
	if !quaverExtra() {
		return quaverStockGlobrunqgetbatch(n)
	}
	gp = quaverTake(getg().m.p.ptr())
	if gp == nil {
		gp, q = quaverStockGlobrunqgetbatch(n)
	}
	quaverSettle()
	return
}

func globrunqputbatch(batch *gQueue) {
	assertLockHeld(&sched.lock)
	if !quaverNetworkReady() {
		quaverStockGlobrunqputbatch(batch)
		return
	}
	n := batch.size
	quaverQueues.net.pushBackAll(*batch)
	quaverQueues.netLen.Add(n)
	*batch = gQueue{}
	quaverSettle()
}
