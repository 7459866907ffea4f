// Command sleeper measures how late a goroutine wakes from 0.5 to 1.5 ms of sleep beside goroutines that compute, on one P. It
// prints a lateness in µs for each sleep, until its time is over.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"

	"quaver.dev/go/bench/serve"
)

func main() {
	hogs := flag.Int("hogs", 4, "how many goroutines compute")
	duration := flag.Duration("for", time.Second, "for how long")
	flag.Parse()
	runtime.GOMAXPROCS(1)
	for i := 0; i < *hogs; i++ {
		go func() {
			for {
				serve.Work(1_000_000)
			}
		}()
	}
	var late []time.Duration
	step := time.Duration(0)
	for end := time.Now().Add(*duration); time.Now().Before(end); {
		begin := time.Now()
		// Of another length each time: that of a slice would end with one.
		step = (step + 377*time.Microsecond) % time.Millisecond
		nap := time.Millisecond/2 + step
		time.Sleep(nap)
		late = append(late, time.Since(begin)-nap)
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for _, l := range late {
		fmt.Fprintf(out, "%.1f\n", float64(l.Nanoseconds())/1e3)
	}
}
