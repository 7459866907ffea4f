package runtime

// quaverInjectNetwork makes goroutines ready whose network is, as sysmon does since Go 1.22.
func quaverInjectNetwork() {
	list, delta := netpoll(0)
	if list.empty() {
		return
	}
	quaverCounters.pollReady.Add(1)
	// As in sysmon: nobody may think that the last M goes idle while goroutines are between queues.
	incidlelocked(-1)
	injectglist(&list)
	incidlelocked(1)
	netpollAdjustWaiters(delta)
}
