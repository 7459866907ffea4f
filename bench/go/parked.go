package main

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// parked measures goroutines that wait for a channel to be closed.
func parked(threads int) sample {
	gate := make(chan struct{})
	var arrived atomic.Int64
	var done sync.WaitGroup
	done.Add(threads)
	before, start := residentBytes(), time.Now()
	for i := 0; i < threads; i++ {
		go func() {
			defer done.Done()
			arrived.Add(1)
			<-gate
		}()
	}
	for arrived.Load() < int64(threads) {
		runtime.Gosched()
	}
	park, after := time.Since(start), residentBytes()
	start = time.Now()
	close(gate)
	done.Wait()
	woken := time.Since(start)
	n := float64(threads)
	return sample{
		Ops: uint64(threads),
		Metrics: map[string]float64{
			"bytes_per_thread":   float64(max(0, after-before)) / n,
			"park_ns_per_thread": float64(park.Nanoseconds()) / n,
			"wake_ns_per_thread": float64(woken.Nanoseconds()) / n,
		},
	}
}

// residentBytes is the resident memory of this process, page tables included.
func residentBytes() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	total := int64(0)
	for _, line := range strings.Split(string(status), "\n") {
		name, value, _ := strings.Cut(line, ":")
		if name == "VmRSS" || name == "VmPTE" {
			kilobytes, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 10, 64)
			if err != nil {
				panic(err)
			}
			total += kilobytes * 1024
		}
	}
	return total
}
