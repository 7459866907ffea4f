// Command shared is a library for C: Preempts says how often goroutines that compute were preempted while two of them ran.
package main

import "C"

import (
	"runtime"
	"sync/atomic"

	quaver "quaver.dev/go"
)

//export Preempts
func Preempts() C.longlong {
	runtime.GOMAXPROCS(1)
	var a, b atomic.Int64
	done := make(chan bool)
	work := func(mine, other *atomic.Int64) {
		x := uint64(1)
		for mine.Add(1) < 200 || other.Load() < 200 {
			for i := 0; i < 100_000; i++ {
				x = x*6364136223846793005 + 1442695040888963407
			}
			atomic.StoreUint64(&sink, x)
		}
		done <- true
	}
	go work(&a, &b)
	go work(&b, &a)
	<-done
	<-done
	return C.longlong(quaver.ReadStats().Preempted)
}

var sink uint64

func main() {}
