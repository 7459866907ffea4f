package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// A machine is seldom alone. What others did on the two cores meanwhile is known for each measurement, and those with
// the least of it count.
const (
	quietEnough = 1.0 // percent of the two cores
	mostTries   = 3   // times as many measurements as asked for, while they are not quiet enough
)

// ticks is the time that the two cores have worked in user and kernel code, and what of it was in our processes.
type ticks struct {
	all, ours float64
	at        time.Time
}

// measure reads the ticks; pids are the processes beside this one.
func (o *options) measure(pids ...int) (t ticks) {
	t.at = time.Now()
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return t
	}
	for _, line := range strings.Split(string(text), "\n") {
		f := strings.Fields(line)
		if len(f) < 4 || (f[0] != "cpu"+o.server && f[0] != "cpu"+o.client) {
			continue
		}
		for _, word := range f[1:4] { // user, nice, system; interrupts belong to nobody
			n, _ := strconv.ParseFloat(word, 64)
			t.all += n
		}
	}
	for _, pid := range append(pids, os.Getpid()) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		f := strings.Fields(rest)
		for _, i := range []int{11, 12} { // utime, stime
			if i < len(f) {
				n, _ := strconv.ParseFloat(f[i], 64)
				t.ours += n
			}
		}
	}
	return t
}

// others returns what percentage of the two cores others had from t to now.
func (t ticks) others(now ticks) float64 {
	const perSecond = 100 // USER_HZ, the same on all of Linux/amd64
	theirs := now.all - t.all - (now.ours - t.ours)
	available := now.at.Sub(t.at).Seconds() * 2 * perSecond
	if available <= 0 || theirs < 0 {
		return 0
	}
	return 100 * theirs / available
}

// await waits until others leave the two cores alone, or patience ends.
func (o *options) await() {
	for end := time.Now().Add(o.patience); time.Now().Before(end); {
		before := o.measure()
		time.Sleep(150 * time.Millisecond)
		if before.others(o.measure()) <= quietEnough {
			return
		}
	}
}
