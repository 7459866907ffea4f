package runtime

import "internal/runtime/atomic"

// What the clock costs. A wake-up takes its core a few µs, on virtual machines 20 µs and more, for the timer has to be
// set in the hypervisor and its interrupt goes through it. That is nearly the same as what makes a sleep end late. A
// preemption costs what lies between the request and the switch: the signal, the registers saved. Both are measured
// without asking anybody.

const quaverMaxPrice = 50 * 1000 // ns; what is later has waited for a core

// quaverPrice is such a price in ns. Only sysmon changes it.
type quaverPrice struct{ ns atomic.Int64 }

// learn regards one more measurement. The price follows the lower quartile: a late end may be anybody's fault, an early
// one not.
//
//go:nowritebarrierrec
func (p *quaverPrice) learn(late int64) {
	price := p.ns.Load()
	if price == 0 {
		price = min(max(late, 1), quaverMaxPrice/4)
	}
	step := price/64 + 16
	if late > price {
		price = min(price+step, quaverMaxPrice)
	} else {
		price = max(price-3*step, 1)
	}
	p.ns.Store(price)
}

// quaverHeeded notes how long it took the goroutine that runs on pp to heed the request to preempt, if that was for
// this slice.
func quaverHeeded(pp *p, now int64) {
	if at := pp.quaver.askedAt.Load(); at > pp.quaver.start.Load() && at < now {
		pp.quaver.heeded.Store(now - at)
	}
}

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
	quaverClock.price.learn(nanotime() - now - us*1000)
}
