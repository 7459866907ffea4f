package runtime

import (
	"internal/abi"
	"internal/runtime/atomic"
	syscall "internal/runtime/syscall/linux"
	"unsafe"
)

// User interrupts in place of the signal that asks a thread to preempt (Aspen, §3.3), by the device of kmod/quaver.h.
// Each thread of the runtime has a route of its own, and can send on all of them.
//
// The handler does what Go's does for SIGURG: at a safe point it makes the interrupted goroutine call asyncPreempt. It
// runs on a stack of its own, for that of a goroutine may have no room, and that of signals may be in use. UIF is 0
// meanwhile, so there is one at a time. Signals and user interrupts may meet at any instruction: either handler finds
// another g than the goroutine's, or an address in the runtime, and leaves the goroutine alone.

const (
	quaverEntries  = 2048 // routes that the device has, as far as they are used here
	quaverUIStack  = 32 * 1024
	quaverAnyRoute = -1
)

// quaverM is what a thread remembers.
type quaverM struct {
	handler *g           // on whose stack the handler runs
	route   atomic.Int32 // 1 + the route that leads here, or 0
}

// quaverUI is the device.
var quaverUI struct {
	wanted bool
	fd     int32 // -1: there is none
	silent atomic.Uint32
	free   [quaverEntries / 32]atomic.Uint32 // routes of threads that have ended; they lead to nobody
}

// The calls of kmod/quaver.h.
const (
	quaverInfoCall     = 2<<30 | 128<<16 | 0xb9<<8 | 0x10
	quaverRegisterCall = 1<<30 | 24<<16 | 0xb9<<8 | 0x11
	quaverDetachCall   = 0xb9<<8 | 0x13
	quaverVectorCall   = 1<<30 | 8<<16 | 0xb9<<8 | 0x14
	quaverRouteCall    = 1<<30 | 16<<16 | 0xb9<<8 | 0x15
	quaverDeviceABI    = 1
	quaverHasUI        = 1
)

//go:nowritebarrierrec
func quaverIoctl(call uintptr, argument unsafe.Pointer) (result int32, errno uintptr) {
	const ioctl = 16
	r, _, e := syscall.Syscall6(ioctl, uintptr(quaverUI.fd), call, uintptr(argument), 0, 0, 0)
	return int32(r), e
}

// quaverOpenDevice is called once the settings are known. Without the device it says why, and signals do.
func quaverOpenDevice() {
	if !quaverUI.wanted || quaver.quantum.Load() == 0 {
		return
	}
	const readWrite, closeOnExec = 2, 0o2000000
	path := [...]byte{'/', 'd', 'e', 'v', '/', 'q', 'u', 'a', 'v', 'e', 'r', 0}
	fd := open(&path[0], readWrite|closeOnExec, 0)
	if fd < 0 {
		quaverNoUI("/dev/quaver cannot be opened; load the project's module, kmod/README.md says how")
		return
	}
	quaverUI.fd = fd
	var info struct {
		abi, features, entries, vector uint32
		shortest, longest              uint64
		why                            [96]byte
	}
	_, errno := quaverIoctl(quaverInfoCall, noescape(unsafe.Pointer(&info)))
	switch {
	case errno != 0:
		quaverNoUI("/dev/quaver is no device of this project")
	case info.abi != quaverDeviceABI:
		quaverNoUI("the module has another interface than this program")
	case info.features&quaverHasUI == 0:
		info.why[len(info.why)-1] = 0
		quaverNoUI("the module says: " + gostringnocopy(&info.why[0]))
	default:
		quaverNewM(&m0) // the others are made later
		return
	}
	closefd(fd)
	quaverUI.fd = -1
}

func quaverNoUI(why string) {
	print("quaver-go: no user interrupts, signals instead: ", why, "\n")
}

// quaverNewM is called when a thread is going to be made, where memory can be had.
func quaverNewM(mp *m) {
	if quaverUI.fd > 0 {
		mp.quaver.handler = malg(quaverUIStack)
		mp.quaver.handler.m = mp
	}
}

// quaverThreadBegins is called by a new thread of the runtime. Those of others that only come by go on with signals.
//
//go:nowritebarrierrec
func quaverThreadBegins() {
	mp := getg().m
	if mp.quaver.handler == nil || mp.isextra {
		return
	}
	handler := struct {
		handler, stack  uint64
		flags, reserved uint32
	}{handler: uint64(abi.FuncPCABI0(quaverEntry)), stack: uint64(mp.quaver.handler.stack.hi | 1)}
	if _, errno := quaverIoctl(quaverRegisterCall, noescape(unsafe.Pointer(&handler))); errno != 0 {
		quaverSignalsOnly(errno)
		return
	}
	var vector struct{ vector, flags uint32 }
	fd, errno := quaverIoctl(quaverVectorCall, noescape(unsafe.Pointer(&vector)))
	if errno == 0 {
		route := struct {
			index, fd       int32
			flags, reserved uint32
		}{index: quaverFreeRoute(), fd: fd}
		var index int32
		index, errno = quaverIoctl(quaverRouteCall, noescape(unsafe.Pointer(&route)))
		closefd(fd)
		if errno == 0 && index < quaverEntries {
			mp.quaver.route.Store(index + 1)
			quaverAllow()
			return
		}
	}
	quaverIoctl(quaverDetachCall, nil)
	quaverSignalsOnly(errno)
}

//go:nowritebarrierrec
func quaverSignalsOnly(errno uintptr) {
	if quaverUI.silent.CompareAndSwap(0, 1) {
		print("quaver-go: a thread gets signals instead of user interrupts: error ", errno, "\n")
	}
}

// quaverThreadEnds is called by a thread that ends.
func quaverThreadEnds() {
	mp := getg().m
	if mp.quaver.handler == nil {
		return
	}
	if index := mp.quaver.route.Load() - 1; index >= 0 {
		mp.quaver.route.Store(0)
		quaverIoctl(quaverDetachCall, nil)
		quaverUI.free[index/32].Or(1 << (index % 32))
	}
	stackfree(mp.quaver.handler.stack)
	mp.quaver.handler = nil
}

// quaverFreeRoute returns a route that has led to a thread that has ended, or quaverAnyRoute.
//
//go:nowritebarrierrec
func quaverFreeRoute() int32 {
	for i := range quaverUI.free {
		word := &quaverUI.free[i]
		for bits := word.Load(); bits != 0; bits = word.Load() {
			for bit := int32(0); bit < 32; bit++ {
				if bits&(1<<bit) != 0 && word.CompareAndSwap(bits, bits&^(1<<bit)) {
					return int32(i)*32 + bit
				}
			}
		}
	}
	return quaverAnyRoute
}

// quaverInterrupt sends mp a user interrupt, if it takes them and the calling thread can send. A route never leads
// nowhere once it has been in use: at worst another thread looks whether it is meant.
//
//go:nowritebarrierrec
func quaverInterrupt(mp *m) bool {
	route := mp.quaver.route.Load()
	if route == 0 || getg().m.quaver.route.Load() == 0 {
		return false
	}
	quaverSend(uint64(route - 1))
	return true
}

// quaverFrame is what the processor leaves on the handler's stack.
type quaverFrame struct {
	vector, pc, flags, sp uintptr
}

// quaverInterrupted is called by quaverEntry, with the g that was interrupted.
//
//go:nowritebarrierrec
func quaverInterrupted(gp *g, frame *quaverFrame) {
	mp := gp.m
	quaverCounters.interrupts.Add(1)
	if gp == mp.curg && frame.sp <= gp.stack.hi && wantAsyncPreempt(gp) {
		if ok, pc := isAsyncSafePoint(gp, frame.pc, frame.sp, 0); ok {
			frame.sp -= unsafe.Sizeof(frame.sp)
			*(*uintptr)(unsafe.Pointer(frame.sp)) = pc
			frame.pc = abi.FuncPCABI0(asyncPreempt)
		}
	}
	mp.preemptGen.Add(1)
	mp.signalPending.Store(0)
}

// In assembly.
func quaverEntry()
func quaverAllow()
func quaverSend(route uint64)
