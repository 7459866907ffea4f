// Package runtime, with preemption after a quantum of microseconds: configuration and state.
//
// These files are added to the runtime by quaver-go; README.md of the module quaver.dev/go is their design. With a
// quantum of 0, which is the default, everything behaves as the stock runtime.

package runtime

import (
	"internal/runtime/atomic"
	_ "unsafe"
)

const (
	quaverMinQuantum = 10 * 1000        // below, a program does little but being preempted
	quaverMaxQuantum = 10 * 1000 * 1000 // above, the stock runtime preempts anyway
	quaverMaxHold    = 10 * 1000 * 1000 // no lock delays the end of the stock runtime's own slice
	quaverForever    = 1<<63 - 1
)

// quaverG is what a goroutine remembers. Only its own thread writes it.
type quaverG struct {
	quaverMarks

	// Of one that has been preempted.
	used  int64 // ns that it has run since it last waited for anything but its turn
	since int64 // when it was put where it waits
}

// quaverMarks is what a goroutine must not leave to the one that gets its g next.
type quaverMarks struct {
	locks      int32 // locks held, each a reason not to preempt
	bestEffort bool  // it runs only where nothing else is ready
	goesOn     bool  // it was preempted and has not run since
}

// Where a goroutine that runs was taken from.
const (
	quaverReady   = iota // any queue but those of preempted ones
	quaverOld            // those
	quaverLongest        // those, and it had waited longest
)

// quaverP is what a P remembers.
type quaverP struct {
	start  atomic.Int64 // when the slice began (nanotime); its name as well, for no two slices begin at once on a P
	forced atomic.Int64 // the slice whose locks have delayed preemption for too long

	// Of sysmon.
	asked   int64        // the slice that was asked to end
	askedAt atomic.Int64 // when it was asked first
	askNext int64        // when to ask again
	asks    uint8        // how often it was asked
	seen    uint32       // handed at the last scan in which only runnext waited
	syscall uint32       // syscalltick at the last scan, if pp was in a system call

	// Of its M.
	handed     uint32 // how often a slice went on with another goroutine: what the one before had put in runnext
	turn       int64  // when the preempted goroutine that has waited longest is due again
	took       uint8  // where the goroutine taken last comes from
	runs       uint8  // and now it runs
	netRun     int32  // network-ready goroutines taken in a row
	globalWent bool   // after the last such row sched.runq went before local ones

	heeded atomic.Int64 // ns that it took to heed the last request; sysmon takes it away
}

// quaver holds the configuration. All but the quantum is constant once schedinit is over.
var quaver struct {
	quantum atomic.Int64 // ns; 0: stock behaviour
	long    int64        // ns; the slice while only preempted goroutines wait; 0: the quantum
	poll    int64        // ns between two looks at the network; 0: the quantum
	hold    int64        // ns for which locks may delay preemption
	idle    int64        // ns without work after which sysmon may sleep deeply
	tax     int64        // percent of the CPU time that the clock and preemptions may take; 100: no bound
	share   int64        // percent of the time that preempted goroutines get at least; 0: they wait among the ready ones, as in Go

	skip      bool // only preempt for something that waits
	twoQueues bool // preempted goroutines have a queue of their own
	netFirst  bool // network-ready goroutines go first
	spin      bool // sysmon watches the time in a loop
}

// quaverQueues are the global queues beside sched.runq, protected by sched.lock. The lengths may be read without it;
// they include the goroutine that stands in.
var quaverQueues struct {
	used      bool // something has been put here: without a quantum, one look is enough
	net       gQueue
	netLen    atomic.Int32
	pre       quaverPreempted
	since     int64    // when pre stopped being empty
	standIn   guintptr // the goroutine that stands in at the head of sched.runq, or 0
	standInOf int32    // the level of pre to which it belongs, or quaverFromNet
}

// quaverCounters can be read at any time; the library says what they mean.
var quaverCounters struct {
	asked, preempted, unneeded, deferred, forced      atomic.Uint64
	polls, pollReady, turns, scans, woken, interrupts atomic.Uint64
}

func quaverDefaults() {
	quaver.long = 1000 * 1000
	quaver.hold = 1000 * 1000
	quaver.idle = 5 * 1000 * 1000
	quaver.share = 10
	quaver.tax = 10
	quaver.skip = true
	quaver.twoQueues = true
	quaver.netFirst = true
}

// quaverPaper is the policy of Aspen-Go (Aspen, §3.3).
func quaverPaper() {
	quaverDefaults()
	quaver.long = 0
	quaver.poll = 100 * 1000
	quaver.hold = quaverMaxHold
	quaver.tax = 100
	quaver.skip = false
	quaver.twoQueues = false
	quaver.netFirst = false
}

// quaverOn reports whether preemption after a quantum is on. The edits ask it where they are, so that a program without
// a quantum pays for a load.
//
//go:nosplit
func quaverOn() bool { return quaver.quantum.Load() != 0 }

// quaverPollEvery returns the time between two looks at the network.
func quaverPollEvery(quantum int64) int64 {
	if quaver.poll != 0 {
		return quaver.poll
	}
	return quantum
}

// quaverClamp returns the nearest quantum that makes sense.
func quaverClamp(ns int64) int64 {
	switch {
	case ns <= 0:
		return 0
	case ns < quaverMinQuantum:
		return quaverMinQuantum
	case ns > quaverMaxQuantum:
		return quaverMaxQuantum
	}
	return ns
}

// quaverSetQuantum is called by the library, and returns the quantum before.
//
//go:linkname quaverSetQuantum
func quaverSetQuantum(ns int64) int64 {
	old := quaver.quantum.Swap(quaverClamp(ns))
	quaverCountLocks()
	return old
}

//go:linkname quaverQuantum
func quaverQuantum() int64 { return quaver.quantum.Load() }

// quaverSetBestEffort is called by the library, for the calling goroutine, and returns the mark before.
//
//go:linkname quaverSetBestEffort
func quaverSetBestEffort(on bool) bool {
	gp := getg()
	old := gp.quaver.bestEffort
	gp.quaver.bestEffort = on
	return old
}

// quaverReadStats is called by the library, which knows the order.
//
//go:linkname quaverReadStats
func quaverReadStats() [15]uint64 {
	c := &quaverCounters
	return [...]uint64{
		c.asked.Load(), c.preempted.Load(), c.unneeded.Load(), c.deferred.Load(), c.forced.Load(),
		c.polls.Load(), c.pollReady.Load(), c.turns.Load(), c.scans.Load(), c.woken.Load(),
		uint64(quaverQueues.netLen.Load()), uint64(quaverQueues.pre.len()),
		uint64(quaverClock.price.ns.Load()), uint64(quaverClock.askPrice.ns.Load()),
		c.interrupts.Load(),
	}
}
