// Package quaver talks to the preemption that quaver-go builds into a program.
//
// In a program built with quaver-go, functions here set the quantum, mark goroutines as best-effort and read
// statistics. In a program built with the stock go command they do nothing, say so through [Enabled], and cost nothing,
// so a library or program can use them in either case.
//
// The quantum is normally set from outside, by the environment variable QUAVER_GO. All functions can be called from any
// goroutine at any time, and none of them blocks.
package quaver

import (
	"context"
	"runtime/pprof"
	"time"
)

// Enabled reports whether the program has been built with quaver-go. It says nothing about the quantum, which can be 0.
func Enabled() bool { return enabled }

// Quantum returns how long a goroutine may run while others wait, or 0 if it is the stock runtime that decides (10 ms).
func Quantum() time.Duration { return time.Duration(quantum()) }

// SetQuantum sets the quantum and returns the one before. 0 or less is the stock behaviour. Anything else is moved to
// the nearest value between 10 µs and 10 ms. It takes effect within one nap of sysmon: 20 µs to 10 ms. Under the stock
// toolchain it does nothing and returns 0.
func SetQuantum(d time.Duration) time.Duration { return time.Duration(setQuantum(int64(d))) }

// SetBestEffort marks the calling goroutine, or removes the mark, and returns whether it was marked before. A
// best-effort goroutine is preempted as soon as anything ready waits for its P, after 10 µs at the earliest, and then
// runs when nothing else does or when it is the turn of preempted goroutines (share in QUAVER_GO). Goroutines that it
// starts are not marked.
//
// Under the stock toolchain it does nothing and returns false.
func SetBestEffort(on bool) bool { return setBestEffort(on) }

// BestEffort calls f with the calling goroutine marked as best-effort. f and the goroutines that it starts with the
// context carry the profiler label quaver=best-effort, under any toolchain.
func BestEffort(ctx context.Context, f func(context.Context)) {
	pprof.Do(ctx, pprof.Labels("quaver", "best-effort"), func(ctx context.Context) {
		before := SetBestEffort(true)
		defer SetBestEffort(before)
		f(ctx)
	})
}

// Stats counts what has happened since the program started, and what waits now. All counts are 0 under the stock
// toolchain.
type Stats struct {
	// Asked counts requests to preempt.
	Asked uint64 `json:"asked"`
	// Preempted counts goroutines that were preempted after their quantum. It can be less than Asked: goroutines block or
	// end first.
	Preempted uint64 `json:"preempted"`
	// Unneeded counts looks at a slice that was over while nothing waited, so that nobody was asked.
	Unneeded uint64 `json:"unneeded"`
	// Deferred counts requests that had to wait for a lock, Forced those that did not wait any longer.
	Deferred uint64 `json:"deferred"`
	Forced   uint64 `json:"forced"`
	// UserInterrupts counts those that have arrived (notification=user-interrupt in QUAVER_GO).
	UserInterrupts uint64 `json:"user_interrupts"`
	// Polls counts looks at the network while all Ps were busy, PollReady those that found something.
	Polls     uint64 `json:"polls"`
	PollReady uint64 `json:"poll_ready"`
	// Turns counts preempted goroutines that ran, though others were ready, because of their share.
	Turns uint64 `json:"turns"`
	// Scans counts looks at all Ps.
	Scans uint64 `json:"scans"`
	// Woken counts how often the clock was woken from deep sleep.
	Woken uint64 `json:"woken"`
	// NetworkReady and PreemptedNow are the lengths of the two queues.
	NetworkReady uint64 `json:"network_ready"`
	PreemptedNow uint64 `json:"preempted_now"`
	// Price is how many ns a wake-up of the clock takes, as far as can be seen, and AskPrice a preemption; the tax in
	// QUAVER_GO bounds how often they are paid.
	Price    uint64 `json:"price_ns"`
	AskPrice uint64 `json:"ask_price_ns"`
}

// ReadStats returns the counts. They are read one after the other, so they may differ by what happens meanwhile.
func ReadStats() Stats {
	c := readStats()
	return Stats{
		Asked: c[0], Preempted: c[1], Unneeded: c[2], Deferred: c[3], Forced: c[4],
		Polls: c[5], PollReady: c[6], Turns: c[7], Scans: c[8], Woken: c[9],
		NetworkReady: c[10], PreemptedNow: c[11], Price: c[12], AskPrice: c[13],
		UserInterrupts: c[14],
	}
}
