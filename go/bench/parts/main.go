// Command parts measures, on one P, what single parts of quaver-go are for. Its argument is the scene. It prints times in
// µs, one a line, as sleeper does.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	quaver "quaver.dev/go"
	"quaver.dev/go/bench/serve"
)

var (
	perUs float64
	end   time.Time
)

func main() {
	duration := flag.Duration("for", 2*time.Second, "for how long")
	flag.Parse()
	runtime.GOMAXPROCS(1)
	perUs = serve.RoundsPerUs()
	end = time.Now().Add(*duration)
	scenes := map[string]func() []time.Duration{
		"lock": lock, "syscall": blocking, "effort": effort, "plain": plain, "pause": pause, "collect": collect,
	}
	scene, known := scenes[flag.Arg(0)]
	if !known {
		serve.Check(fmt.Errorf("%q is no scene", flag.Arg(0)))
	}
	times := scene()
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for _, t := range times {
		fmt.Fprintf(out, "%.1f\n", float64(t.Nanoseconds())/1e3)
	}
}

// work computes for so many µs.
func work(us float64) { serve.Work(int(us * perUs)) }

// hogs starts goroutines that compute for ever.
func hogs(n int, before func()) {
	for i := 0; i < n; i++ {
		go func() {
			before()
			for {
				work(1000)
			}
		}()
	}
}

// late measures how late a goroutine comes through f after 0.5 to 1.5 ms of sleep.
func late(f func()) (times []time.Duration) {
	for step := time.Duration(0); time.Now().Before(end); {
		begin := time.Now()
		step = (step + 377*time.Microsecond) % time.Millisecond
		nap := time.Millisecond/2 + step
		time.Sleep(nap)
		f()
		times = append(times, time.Since(begin)-nap)
	}
	return times
}

// lock: how long one that wakes now and then takes to get a lock which two that compute hold a third of the time.
func lock() (times []time.Duration) {
	var m sync.Mutex
	for i := 0; i < 2; i++ {
		go func() {
			for {
				m.Lock()
				work(20)
				m.Unlock()
				work(40)
			}
		}()
	}
	return late(func() { m.Lock(); m.Unlock() })
}

// blocking: how late a goroutine wakes beside one that blocks its thread, and so its P, for 2 ms at a time.
func blocking() []time.Duration {
	go func() {
		for {
			work(100)
			nap := syscall.NsecToTimespec(2_000_000)
			syscall.Nanosleep(&nap, nil)
		}
	}()
	return late(func() {})
}

// effort: how late a goroutine wakes beside four that are marked as best-effort.
func effort() []time.Duration {
	hogs(4, func() { quaver.SetBestEffort(true) })
	return late(func() {})
}

// plain: the same beside four that are not.
func plain() []time.Duration {
	hogs(4, func() {})
	return late(func() {})
}

// pause: how late a goroutine wakes beside two that have just begun to compute, after everything has been idle.
func pause() (times []time.Duration) {
	for time.Now().Before(end) {
		time.Sleep(30 * time.Millisecond)
		for i := 0; i < 2; i++ {
			go work(8000)
		}
		begin := time.Now()
		time.Sleep(time.Millisecond)
		times = append(times, time.Since(begin)-time.Millisecond)
	}
	return times
}

// collect: how long a collection takes beside one that computes.
func collect() (times []time.Duration) {
	live := make([][]byte, 20_000)
	for i := range live {
		live[i] = make([]byte, 100)
	}
	hogs(1, func() {})
	for time.Now().Before(end) {
		begin := time.Now()
		runtime.GC()
		times = append(times, time.Since(begin))
		time.Sleep(time.Millisecond)
	}
	runtime.KeepAlive(live)
	return times
}
