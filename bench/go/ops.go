package main

import (
	"runtime"
	"sync"
	"sync/atomic"
)

const detachedBatch = 64

// iterations finds the loop of an operation, and how many operations one iteration counts for.
func iterations(op string) (perIteration int64, loop func(n int64), err error) {
	switch op {
	case "yield":
		return 2, yields, nil
	case "spawn-join":
		return 1, spawnJoin, nil
	case "spawn-detached":
		return detachedBatch, spawnDetached, nil
	case "mutex":
		return 1, lockUnlock, nil
	case "condvar":
		return 2, turns, nil
	case "channel":
		return 2, pingPong, nil
	default:
		return 0, nil, unsupported("no operation " + op)
	}
}

func ops(s spec) (sample, error) {
	perIteration, loop, err := iterations(s.Op)
	if err != nil {
		return sample{}, err
	}
	return measure(s, perIteration, loop), nil
}

// throughput runs the loop of an operation once for each worker, all at the same time.
func throughput(s spec) (sample, error) {
	perIteration, loop, err := iterations(s.Op)
	if err != nil {
		return sample{}, err
	}
	if s.Op != "yield" && s.Op != "spawn-join" {
		return sample{}, unsupported("no throughput of " + s.Op)
	}
	return measure(s, perIteration*int64(s.Workers), func(n int64) {
		together(s.Workers, func(int) { loop(n) })
	}), nil
}

// together runs body(0) to body(count-1) in goroutines of their own and waits for them.
func together(count int, body func(me int)) {
	var done sync.WaitGroup
	done.Add(count)
	for me := 0; me < count; me++ {
		me := me
		go func() {
			defer done.Done()
			body(me)
		}()
	}
	done.Wait()
}

func yields(n int64) {
	together(2, func(int) {
		for i := int64(0); i < n; i++ {
			runtime.Gosched()
		}
	})
}

// spawnJoin joins through a WaitGroup, which is how goroutines are joined.
func spawnJoin(n int64) {
	var done sync.WaitGroup
	for i := int64(0); i < n; i++ {
		done.Add(1)
		go done.Done()
		done.Wait()
	}
}

var ran atomic.Int64

func spawnDetached(n int64) {
	for i := int64(0); i < n; i++ {
		goal := ran.Load() + detachedBatch
		for j := 0; j < detachedBatch; j++ {
			go ran.Add(1)
		}
		for ran.Load() < goal {
			runtime.Gosched()
		}
	}
}

func lockUnlock(n int64) {
	var mutex sync.Mutex
	count := int64(0)
	for i := int64(0); i < n; i++ {
		mutex.Lock()
		count++
		mutex.Unlock()
	}
	runtime.KeepAlive(&count)
}

func turns(n int64) {
	var mutex sync.Mutex
	changed := [2]*sync.Cond{sync.NewCond(&mutex), sync.NewCond(&mutex)}
	turn := 0
	together(2, func(me int) {
		mutex.Lock()
		defer mutex.Unlock()
		for i := int64(0); i < n; i++ {
			for turn != me {
				changed[me].Wait()
			}
			turn = 1 - me
			changed[turn].Signal()
		}
	})
}

func pingPong(n int64) {
	ping, pong := make(chan int64, 1), make(chan int64, 1)
	together(2, func(me int) {
		for i := int64(0); i < n; i++ {
			if me == 0 {
				ping <- i
				if <-pong != i {
					panic("a message was changed")
				}
			} else {
				pong <- <-ping
			}
		}
	})
}
