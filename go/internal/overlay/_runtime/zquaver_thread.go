package runtime

import (
	syscall "internal/runtime/syscall/linux"
	"unsafe"
)

const quaverPrctl, quaverGetSlack = 157, 30

//go:nowritebarrierrec
func quaverSetSlack(ns uintptr) {
	const setTimerSlack = 29
	syscall.Syscall6(quaverPrctl, setTimerSlack, ns, 0, 0, 0, 0)
}

// quaverNewThread starts mp. A new thread, and every program that it starts, inherits the slack of the thread that
// makes it: sysmon has its former one meanwhile.
//
//go:nowritebarrierrec
func quaverNewThread(mp *m) {
	slack := quaverClock.slack
	if slack == 0 || getg().m != quaverClock.thread.ptr() {
		newm1(mp)
		return
	}
	quaverSetSlack(slack)
	newm1(mp)
	quaverSetSlack(1)
}

// quaverPrepareThread makes sysmon's sleeps exact: no timer slack, and short turns, so that it need not wait until the
// thread that runs on its core has had its slice of some ms. The kernel knows the latter since 6.12; threads that
// sysmon starts do not inherit it.
//
//go:nowritebarrierrec
func quaverPrepareThread() {
	const (
		schedSetattr, schedGetattr = 314, 315
		schedOther, resetOnFork    = 0, 1
		shortest                   = 100 * 1000 // ns; the kernel takes no less
	)
	quaverClock.thread.set(getg().m)
	if slack, _, errno := syscall.Syscall6(quaverPrctl, quaverGetSlack, 0, 0, 0, 0, 0); errno == 0 {
		quaverClock.slack = slack
		quaverSetSlack(1)
	}
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
