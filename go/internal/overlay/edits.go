package overlay

import "quaver.dev/go/internal/patch"

// MinMinor and MaxMinor are the oldest and the newest Go release (1.N) whose runtime the edits are known to fit.
const (
	MinMinor = 21
	MaxMinor = 27
)

// VetMinor is the first release whose vet regards overlays when it looks at what a package imports.
const VetMinor = 24

// mutexFile is the one file of ours that belongs to mutexPackage instead of runtime.
const mutexFile = "zquaver_mutex.go"

// mutexPackage is where Mutex is implemented.
func mutexPackage(minor int) string {
	if minor >= 24 {
		return "internal/sync"
	}
	return "sync"
}

// edits returns what is changed in the files of Go 1.minor.
func edits(minor int) []patch.Edit {
	const (
		proc     = "runtime/proc.go"
		runtime2 = "runtime/runtime2.go"
	)
	mutex := mutexPackage(minor) + "/mutex.go"
	exit, acquire := "func gdestroy", "func acquirep"
	if minor == 21 {
		exit = "func goexit0"
	}
	if minor >= 26 {
		acquire = "func acquirepNoTrace"
	}
	list := []patch.Edit{
		patch.Replace(proc, "func schedinit", "\tgoenvs()\n", "\tgoenvs()\n\tquaverInit()\n"),
		patch.Replace(proc, "func sysmon", "\t\tusleep(delay)\n", "\t\tquaverNap(delay)\n"),
		patch.Replace(proc, "func execute", "\tif !inheritTime {\n",
			"\tquaverDispatched(mp.p.ptr(), inheritTime)\n\tif !inheritTime {\n"),
		patch.Begin(proc, acquire, "quaverAcquired(pp)"),
		patch.Replace(proc, "func goschedImpl", "globrunqput(gp)\n", "quaverPutYielded(gp)\n"),
		patch.Replace(proc, "func findRunnable", "if pp.schedtick%61 == 0 && ",
			"if (pp.schedtick%61 == 0 || quaverGlobalFirst(pp)) && "),
		patch.Replace(proc, exit, "\tgp.preemptStop = false\n", "\tgp.preemptStop = false\n\tgp.quaver = quaverG{}\n"),
		patch.Rename(proc, "func globrunqget", "quaverStockGlobrunqget"),
		patch.Rename(proc, "func globrunqputbatch", "quaverStockGlobrunqputbatch"),

		patch.Begin("runtime/preempt.go", "func canPreemptM", "if quaverHeld(mp) {\n\t\treturn false\n\t}"),

		patch.End(runtime2, "type g", "quaver quaverG"),
		patch.End(runtime2, "type p", "quaver quaverP"),

		patch.Begin(mutex, "func (*Mutex) Lock", "runtime_quaverLocking()"),
		patch.Replace(mutex, "func (*Mutex) TryLock", "\treturn true\n", "\truntime_quaverLocking()\n\treturn true\n"),
		patch.End(mutex, "func (*Mutex) Unlock", "runtime_quaverUnlocked()"),
	}
	if minor >= 25 {
		list = append(list, patch.Rename(proc, "func globrunqgetbatch", "quaverStockGlobrunqgetbatch"))
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
		"zquaver_queues.go", "zquaver_preempted.go", "zquaver_locks.go", mutexFile}
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
