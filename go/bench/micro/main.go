// Command micro runs a batch of one small operation for each line of its standard input, and prints the CPU time of the
// process for each operation in ns. Short batches of several such programs, in turns, suffer alike from what else the
// machine does. A second argument makes batches so many times as long.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"

	"quaver.dev/go/bench/serve"
)

// The operations: how often a batch has them, and what does them so often.
var operations = map[string]struct {
	times int
	batch func(n int)
}{
	"mutex":   {100_000, mutex},
	"rwmutex": {100_000, rwmutex},
	"gosched": {10_000, gosched},
	"channel": {5_000, channel},
	"select":  {5_000, selecting},
	"spawn":   {5_000, spawn},
}

func main() {
	runtime.GOMAXPROCS(1)
	operation, known := operations[os.Args[1]]
	if !known {
		serve.Check(fmt.Errorf("%s is no operation", os.Args[1]))
	}
	times := operation.times
	if len(os.Args) > 2 {
		more, err := strconv.Atoi(os.Args[2])
		serve.Check(err)
		times *= more
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		before := serve.CPU()
		operation.batch(times)
		fmt.Printf("%.3f\n", float64((serve.CPU()-before).Nanoseconds())/float64(times))
	}
}

// mutex takes and frees a lock that nobody else wants.
func mutex(n int) {
	var m sync.Mutex
	for i := 0; i < n; i++ {
		m.Lock()
		m.Unlock()
	}
}

// rwmutex does so as a reader.
func rwmutex(n int) {
	var m sync.RWMutex
	for i := 0; i < n; i++ {
		m.RLock()
		m.RUnlock()
	}
}

// gosched goes through the global queue, with one more goroutine there.
func gosched(n int) {
	done := make(chan bool)
	yield := func() {
		for i := 0; i < n/2; i++ {
			runtime.Gosched()
		}
		done <- true
	}
	go yield()
	go yield()
	<-done
	<-done
}

// channel goes through runnext: two goroutines wait for each other.
func channel(n int) {
	there, back := make(chan int), make(chan int)
	go func() {
		for i := range there {
			back <- i
		}
		close(back)
	}()
	for i := 0; i < n; i++ {
		there <- i
		<-back
	}
	close(there)
	<-back
}

// selecting is channel with a choice of two at each end.
func selecting(n int) {
	there, back, never := make(chan int), make(chan int), make(chan int)
	go func() {
		for {
			select {
			case i, more := <-there:
				if !more {
					close(back)
					return
				}
				select {
				case back <- i:
				case <-never:
				}
			case <-never:
			}
		}
	}()
	for i := 0; i < n; i++ {
		select {
		case there <- i:
		case <-never:
		}
		select {
		case <-back:
		case <-never:
		}
	}
	close(there)
	<-back
}

// spawn starts goroutines that end at once, through the local queue.
func spawn(n int) {
	var all sync.WaitGroup
	for left := n; left > 0; left -= 100 {
		all.Add(100)
		for i := 0; i < 100; i++ {
			go all.Done()
		}
		all.Wait()
	}
}
