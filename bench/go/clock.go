package main

import (
	"syscall"
	"time"
	"unsafe"
)

const (
	clockMonotonic  = 1
	clockProcessCPU = 2
)

// clockNs reads a clock of the kernel by system call.
func clockNs(clock uintptr) int64 {
	var t syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&t)), 0)
	if errno != 0 {
		panic(errno)
	}
	return t.Nano()
}

// anchor ties Go's monotonic clock, which is read without a system call, to CLOCK_MONOTONIC: the two run alike.
type anchor struct {
	at time.Time
	ns int64
}

func newAnchor() anchor { return anchor{time.Now(), clockNs(clockMonotonic)} }

// monotonicNs is CLOCK_MONOTONIC, within the time of the system call that newAnchor made.
func (a anchor) monotonicNs() int64 { return a.ns + int64(time.Since(a.at)) }

// measure runs a loop: loop(n) does n iterations that count as perIteration operations each. The same procedure as
// bench/common/src/measure.rs.
func measure(s spec, perIteration int64, loop func(n int64)) sample {
	n, took := int64(1), time.Duration(0)
	for start := time.Now(); ; n *= 2 {
		before := time.Now()
		loop(n)
		took = time.Since(before)
		if time.Since(start) >= time.Duration(s.WarmupMs)*time.Millisecond {
			break
		}
	}
	n = max(1, int64(float64(n)*float64(s.MeasureMs)*1e6/float64(max(1, took.Nanoseconds()))))
	cpu, wall := clockNs(clockProcessCPU), clockNs(clockMonotonic)
	loop(n)
	cpu, wall = clockNs(clockProcessCPU)-cpu, clockNs(clockMonotonic)-wall
	count := n * perIteration
	return sample{
		Ops: uint64(count), CPUNs: cpu, WallNs: wall,
		Metrics: map[string]float64{
			"cpu_ns_per_op":  float64(cpu) / float64(count),
			"wall_ns_per_op": float64(wall) / float64(count),
		},
	}
}
