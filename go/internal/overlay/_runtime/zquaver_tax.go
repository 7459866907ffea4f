package runtime

import (
	"internal/runtime/atomic"
	syscall "internal/runtime/syscall/linux"
	"unsafe"
)

// What the clock costs, and how it stays within its tax. A wake-up takes its core a few µs, on virtual machines 20 µs and more, for
// the timer has to be set in the hypervisor and its interrupt goes through it. That is nearly the same as what makes a sleep end late, and so is
// measured without asking anybody.

const quaverMaxPrice = 50 * 1000 // ns; what is later has waited for a core

// quaverPaid learns from a sleep that ended late by so many ns. It follows the lower quartile: a late end may be anybody's fault, an early one not.
//
//go:nowritebarrierrec
func quaverPaid(late int64) {
	price := quaverClock.price
	if price == 0 {
		price = min(max(late, 1), quaverMaxPrice/4)
	}
	step := price/64 + 16
	if late > price {
		price = min(price+step, quaverMaxPrice)
	} else {
		price = max(price-3*step, 1)
	}
	atomic.Storeint64(&quaverClock.price, price)
}

// quaverTax sets the time between two wake-ups. Where a core is left for the clock, it costs nobody anything.
//
//go:nowritebarrierrec
func quaverTax() {
	c := &quaverClock
	c.floor = 0
	if quaver.tax < 100 && !quaver.spin && int32(NumCPU()) <= gomaxprocs {
		c.floor = c.price * 100 / quaver.tax
	}
}

// quaverUnhurried returns ns, or what keeps the wake-ups for it within the nth part of the tax: for what gains little from them.
//
//go:nowritebarrierrec
func quaverUnhurried(ns, n int64) int64 { return max(ns, n*quaverClock.floor) }

// quaverWait lets the time until `until` pass, and no less than a few µs: a signal takes as long.
//
//go:nowritebarrierrec
func quaverWait(until int64) {
	if quaver.spin {
		for nanotime() < until {
			procyield(20)
		}
		return
	}
	now := nanotime()
	us := max((until-now)/1000, 5)
	usleep(uint32(us))
	quaverPaid(nanotime() - now - us*1000)
}

// quaverPrepareThread makes sysmon's sleeps exact: no timer slack, and short turns, so that it need not wait until the thread that runs on its
// core has had its slice of some ms. The kernel knows the latter since 6.12; threads that sysmon starts do not inherit it.
//
//go:nowritebarrierrec
func quaverPrepareThread() {
	const (
		prctl, setTimerSlack       = 157, 29
		schedSetattr, schedGetattr = 314, 315
		schedOther, resetOnFork    = 0, 1
		shortest                   = 100 * 1000 // ns; the kernel takes no less
	)
	syscall.Syscall6(prctl, setTimerSlack, 1, 0, 0, 0, 0)
	var attr struct { // struct sched_attr
		size, policy              uint32
		flags                     uint64
		nice                      int32
		priority                  uint32
		runtime, deadline, period uint64
	}
	at := uintptr(noescape(unsafe.Pointer(&attr)))
	_, _, errno := syscall.Syscall6(schedGetattr, 0, at, unsafe.Sizeof(attr), 0, 0, 0)
	if errno != 0 || attr.policy != schedOther {
		return
	}
	if attr.nice >= 0 { // niceness below 0 would be reset as well, which is worse than short turns
		attr.flags |= resetOnFork
	}
	attr.runtime = shortest
	syscall.Syscall6(schedSetattr, 0, at, 0, 0, 0, 0)
}
