package runtime

import "internal/runtime/atomic"

// The preempted goroutines. The quantum alone tells short work from long badly: what takes about a quantum is preempted
// now and then, and must not wait behind what takes a hundred of them. So what counts is how long one has run since it
// last waited for anything else. Those that have had little go among the ready ones; the others wait in levels, and a
// lower level goes first (least attained service). When it is their turn, it is that of the one that has waited
// longest, whatever its level, so no level starves another.

const (
	quaverLevels = 3
	quaverLittle = 2  // quanta that are little; each level has four times as much as what is below it
	quaverShort  = -1 // the level of what has had little
)

// quaverPreempted holds the others. sched.lock protects it; the lengths may be read without, and include the goroutine
// that stands in.
type quaverPreempted struct {
	queues [quaverLevels]gQueue
	lens   [quaverLevels]atomic.Int32
}

// quaverLevel returns the level of a goroutine that has run for so many ns.
func quaverLevel(used, quantum int64) int32 {
	limit := quaverLittle * quantum
	for level := int32(quaverShort); level < quaverLevels-1; level++ {
		if used < limit {
			return level
		}
		limit *= 4
	}
	return quaverLevels - 1
}

// len returns how many wait.
func (q *quaverPreempted) len() (n int32) {
	for i := range q.lens {
		n += q.lens[i].Load()
	}
	return n
}

// empty reports whether none waits, but for the one that stands in.
func (q *quaverPreempted) empty() bool {
	for i := range q.queues {
		if !q.queues[i].empty() {
			return false
		}
	}
	return true
}

// put adds a goroutine to a level.
func (q *quaverPreempted) put(gp *g, level int32, now int64) {
	gp.quaver.since = now
	q.queues[level].pushBack(gp)
	q.lens[level].Add(1)
}

// first returns the lowest level that has a goroutine. There must be one.
func (q *quaverPreempted) first() int32 {
	level := int32(0)
	for q.queues[level].empty() {
		level++
	}
	return level
}

// longest returns the level of the goroutine that has waited longest. There must be one.
func (q *quaverPreempted) longest() int32 {
	longest, since := int32(0), int64(quaverForever)
	for i := range q.queues {
		if gp := q.queues[i].head.ptr(); gp != nil && gp.quaver.since < since {
			longest, since = int32(i), gp.quaver.since
		}
	}
	return longest
}
