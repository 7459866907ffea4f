package runtime

// What may be spent: an account in ns of CPU time. Each Ps' work pays the tax into it, and idle time goes there as a
// whole, for nobody else wants it; wake-ups of the clock and preemptions are paid from it. So short bursts are
// preempted as exactly as the prices allow, and where there is more work than time, no more than the tax is lost.
// Savings are bounded.

const (
	quaverSavings = 2 * 1000 * 1000 // ns for each P
	quaverDebts   = 100 * 1000      // ns; what urgent wake-ups have spent beyond is forgotten
)

// quaverTaxed reports whether there is a bound.
func quaverTaxed() bool { return quaver.tax < 100 }

// quaverFloor sets the time between two wake-ups that keeps those alone within the tax of one core. A core that seems
// to be left for the clock does not make them free: the CPU time may have a quota.
//
//go:nowritebarrierrec
func quaverFloor() {
	c := &quaverClock
	c.floor = 0
	if quaverTaxed() && !quaver.spin {
		c.floor = c.price.ns.Load() * 100 / quaver.tax
	}
}

// quaverEarn pays in for the time since the last call. idle is how many Ps have nothing to do.
//
//go:nowritebarrierrec
func quaverEarn(now int64, idle int32) {
	c := &quaverClock
	all := int64(gomaxprocs)
	elapsed := min(now-c.settled, quaverSavings*100) // it cannot be more than full
	c.settled = now
	c.account += elapsed * (int64(idle)*100 + (all-int64(idle))*quaver.tax) / 100
	c.account = min(c.account, quaverSavings*all)
}

// quaverSpend pays for a wake-up and for requests to preempt, and returns how long the clock has to sleep until it may
// be awake again.
//
//go:nowritebarrierrec
func quaverSpend(requests int64) (pause int64) {
	c := &quaverClock
	if c.floor > 0 {
		c.account -= c.price.ns.Load()
	}
	c.account = max(c.account-requests*c.askPrice.ns.Load(), -quaverDebts)
	if !quaverTaxed() || c.account >= 0 {
		return c.floor
	}
	return max(c.floor, -c.account*100/(quaver.tax*int64(gomaxprocs)))
}
