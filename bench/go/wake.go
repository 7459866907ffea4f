package main

import (
	"math"
	"runtime"
	"sort"
	"sync"
	"time"
)

// wake sleeps again and again beside hogs that compute until the end without giving anything up.
func wake(s spec) sample {
	end := time.Now().Add(time.Duration(s.DurationMs) * time.Millisecond)
	length := time.Duration(s.SleepUs) * time.Microsecond
	late := make([]float64, 0, s.DurationMs*1000/max(1, s.SleepUs)+1)
	var done sync.WaitGroup
	done.Add(1)
	go func() {
		defer done.Done()
		for before := time.Now(); ; {
			time.Sleep(length)
			after := time.Now()
			late = append(late, max(0, float64(after.Sub(before)-length)/1000))
			if !after.Before(end) {
				return
			}
			before = after
		}
	}()
	// A hog that starts first would delay the first sleep by its quantum.
	runtime.Gosched()
	for i := 0; i < s.Hogs; i++ {
		done.Add(1)
		go func() {
			defer done.Done()
			hogUntil(end)
		}()
	}
	done.Wait()
	sort.Float64s(late)
	return sample{
		Ops: uint64(len(late)),
		Metrics: map[string]float64{
			"p50_us": quantile(late, 0.5), "p90_us": quantile(late, 0.9),
			"p99_us": quantile(late, 0.99), "max_us": quantile(late, 1),
		},
	}
}

// quantile of ascending values: the smallest that at least this part of all did not exceed.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

func hogUntil(end time.Time) {
	state := uint64(1)
	for time.Now().Before(end) {
		state = mix(state, 5000)
	}
	runtime.KeepAlive(&state)
}

// mix is the scalar loop of bench/common/src/compute.rs.
func mix(state uint64, n int) uint64 {
	state |= 1
	for i := 0; i < n; i++ {
		state ^= state >> 29
		state *= 0xbf58476d1ce4e5b9
		state ^= state >> 32
	}
	return state
}
