package overlay

import "quaver.dev/go/internal/patch"

// MinMinor and MaxMinor are the oldest and the newest Go release (1.N) whose runtime the edits are known to fit.
const (
	MinMinor = 21
	MaxMinor = 27
)

// VetMinor is the first release whose vet regards overlays when it looks at what a package imports.
const VetMinor = 24

// Our files that belong to another package than runtime.
const (
	mutexFile   = "zquaver_mutex.go"   // to mutexPackage
	rwmutexFile = "zquaver_rwmutex.go" // to sync
	lockedFile  = "zquaver_locked.go"  // to sync, where that is not mutexPackage
)

// mutexPackage is where Mutex is implemented.
func mutexPackage(minor int) string {
	if minor >= 24 {
		return "internal/sync"
	}
	return "sync"
}

// target is the package of one of our files.
func target(name string, minor int) string {
	switch name {
	case mutexFile:
		return mutexPackage(minor)
	case rwmutexFile, lockedFile:
		return "sync"
	}
	return "runtime"
}

// edits returns what is changed in the files of Go 1.minor.
func edits(minor int) []patch.Edit {
	const (
		proc     = "runtime/proc.go"
		runtime2 = "runtime/runtime2.go"
		rwmutex  = "sync/rwmutex.go"
	)
	mutex := mutexPackage(minor) + "/mutex.go"
	exit, acquire := "func gdestroy", "func acquirep"
	if minor == 21 {
		exit = "func goexit0"
	}
	if minor >= 26 {
		acquire = "func acquirepNoTrace"
	}
	taker, length, waits := "pp", "n", "sched.runqsize > 0"
	if minor >= 25 {
		taker, length, waits = "getg().m.p.ptr()", "batch.size", "!sched.runq.empty()"
	}
	list := []patch.Edit{
		patch.Replace(proc, "func schedinit", "\tgoenvs()\n", "\tgoenvs()\n\tquaverInit()\n"),
		patch.Replace(proc, "func sysmon", "\t\tusleep(delay)\n", "\t\tquaverNap(delay)\n"),
		patch.Replace(proc, "func execute", "\tif !inheritTime {\n",
			"\tif quaverOn() {\n\t\tquaverDispatched(mp.p.ptr(), inheritTime)\n\t}\n\tif !inheritTime {\n"),
		patch.Begin(proc, acquire, "if quaverOn() {\n\t\tquaverAcquired(pp)\n\t}"),
		patch.Replace(proc, "func goschedImpl", "globrunqput(gp)\n",
			"if quaverOn() {\n\t\tquaverPutYielded(gp)\n\t} else {\n\t\tglobrunqput(gp)\n\t}\n"),
		// What is needed without a quantum goes first: then the other costs nothing while the global queue is empty.
		patch.Replace(proc, "func findRunnable", "if pp.schedtick%61 == 0 && "+waits+" {",
			"if "+waits+" && (pp.schedtick%61 == 0 || quaverOn() && quaverGlobalFirst(pp)) {"),
		patch.Replace(proc, "func pidleput", "\t\tnow = nanotime()\n\t}\n", "\t\tnow = nanotime()\n\t}\n\tquaverPaid(pp, now)\n"),
		patch.Replace(proc, "func newm", "\tnewm1(mp)\n", "\tquaverNewThread(mp)\n"),
		patch.Replace(proc, exit, "\tgp.preemptStop = false\n", "\tgp.preemptStop = false\n\tgp.quaver.quaverMarks = quaverMarks{}\n"),
		patch.Begin(proc, "func globrunqget", "if quaverQueues.used && quaverExtra() {\n\t\treturn quaverTakeOne("+taker+")\n\t}"),
		patch.Begin(proc, "func globrunqputbatch",
			"if quaverNetworkReady() {\n\t\tquaverPutNetwork(batch, "+length+")\n\t\treturn\n\t}"),

		patch.End("runtime/os_linux.go", "func mpreinit", "quaverNewM(mp)"),
		patch.End("runtime/os_linux.go", "func minit", "quaverThreadBegins()"),
		patch.Replace(proc, "func mexit", "\tunminit()\n", "\tunminit()\n\tquaverThreadEnds()\n"),
		patch.Replace("runtime/signal_unix.go", "func preemptM", "\t\tsignalM(mp, sigPreempt)\n",
			"\t\tif !quaverInterrupt(mp) {\n\t\t\tsignalM(mp, sigPreempt)\n\t\t}\n"),

		patch.Begin("runtime/preempt.go", "func canPreemptM", "if quaverHeld(mp) {\n\t\treturn false\n\t}"),

		// Beside what gdestroy writes anyway: one more cache line makes goroutines that only begin and end slower.
		patch.Replace(runtime2, "type g", "\twaitreason ", "\tquaver quaverG\n\twaitreason "),
		patch.End(runtime2, "type p", "quaver quaverP"),
		patch.End(runtime2, "type m", "quaver quaverM"),

		// The fast paths look at a variable that is 0 while nothing is counted. They stay inlined, which leaves room for no
		// more, and nothing waits for that load: as an operand of the compare-and-swap it costs a seventh of the pair. See
		// zquaver_locks.go.
		patch.Replace(mutex, "func (*Mutex) Lock", "if atomic.CompareAndSwap", "if quaverCounts == 0 && atomic.CompareAndSwap"),
		patch.Begin(mutex, "func (*Mutex) lockSlow", "if quaverCounts != 0 {\n\t\truntime_quaverLocking()\n\t}"),
		patch.Replace(mutex, "func (*Mutex) TryLock", "\treturn true\n",
			"\tif quaverCounts != 0 {\n\t\truntime_quaverLocking()\n\t}\n\treturn true\n"),
		patch.Replace(mutex, "func (*Mutex) Unlock", "if new != 0 {", "if new != quaverCounts {"),
		patch.Rename(mutex, "func (*Mutex) unlockSlow", "quaverStockUnlockSlow"),

		// Here as well the load goes first, and by the function there is room for it where by the method there is not.
		patch.Replace(rwmutex, "func (*RWMutex) RLock", "if rw.readerCount.Add(1) < 0 {",
			"c := quaverCounts\n\tif c |= atomic.AddInt32((*int32)(unsafe.Pointer(&rw.readerCount)), 1); c < 0 {"),
		patch.Replace(rwmutex, "func (*RWMutex) RLock", "runtime_SemacquireRWMutexR(&rw.readerSem, false, 0)", "rw.quaverRLockSlow(c)"),
		patch.Replace(rwmutex, "func (*RWMutex) TryRLock", "\t\t\treturn true\n",
			"\t\t\tif quaverCounts != 0 {\n\t\t\t\truntime_quaverLocking()\n\t\t\t}\n\t\t\treturn true\n"),
		patch.Replace(rwmutex, "func (*RWMutex) RUnlock", "if r := rw.readerCount.Add(-1); r < 0 {",
			"r := quaverCounts\n\tif r |= atomic.AddInt32((*int32)(unsafe.Pointer(&rw.readerCount)), -1); r < 0 {"),
		patch.Rename(rwmutex, "func (*RWMutex) rUnlockSlow", "quaverStockRUnlockSlow"),
	}
	if minor >= 25 {
		list = append(list, patch.Begin(proc, "func globrunqgetbatch",
			"if quaverQueues.used && quaverExtra() {\n\t\treturn quaverTakeOne("+taker+"), gQueue{}\n\t}"))
	}
	if minor >= 26 {
		list = append(list, patch.Replace("runtime/metrics.go", "func (*schedStatsAggregate) compute",
			"uint64(sched.runq.size)", "uint64(quaverGlobalLen())"))
	}
	return list
}

// additions returns the files of ours that Go 1.minor gets, as names in _runtime.
func additions(minor int) []string {
	list := []string{"zquaver.go", "zquaver_config.go", "zquaver_clock.go", "zquaver_tax.go", "zquaver_price.go", "zquaver_thread.go",
		"zquaver_queues.go", "zquaver_preempted.go", "zquaver_locks.go", "zquaver_interrupt.go", "zquaver_interrupt_amd64.s", mutexFile,
		rwmutexFile}
	if minor >= 24 {
		list = append(list, lockedFile)
	}
	pick := func(since int, newer, older string) {
		if minor >= since {
			older = newer
		}
		list = append(list, older)
	}
	pick(25, "zquaver_runq125.go", "zquaver_runq121.go")
	pick(22, "zquaver_net122.go", "zquaver_net121.go")
	pick(23, "zquaver_timer123.go", "zquaver_timer121.go")
	pick(26, "zquaver_gc126.go", "zquaver_gc121.go")
	return list
}

// imports returns where the packages that our files import are in Go 1.minor, if not where they are in the newest.
func imports(minor int) map[string]string {
	moved := map[string]string{}
	if minor < 26 {
		moved["internal/runtime/syscall/linux"] = "internal/runtime/syscall"
	}
	if minor < 23 {
		moved["internal/runtime/syscall/linux"] = "runtime/internal/syscall"
		moved["internal/runtime/atomic"] = "runtime/internal/atomic"
	}
	return moved
}
