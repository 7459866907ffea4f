// Command stress does everything at once for a while and checks all results: floating point, hashes, TCP, locks, channels, timers,
// garbage collections, changes of GOMAXPROCS, stops of the world, threads locked to goroutines, preemption switched while it runs.
package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	quaver "quaver.dev/go"
)

var (
	duration = flag.Duration("for", 3*time.Second, "how long to run")
	seed     = flag.Int64("seed", 1, "of everything random")

	stop  = make(chan struct{})
	loops atomic.Int64
)

func stopping() bool {
	select {
	case <-stop:
		return true
	default:
		return false
	}
}

func must(ok bool, format string, args ...any) {
	if !ok {
		fmt.Printf("FAILED: "+format+"\n", args...)
		os.Exit(1)
	}
}

func main() {
	flag.Parse()
	var all sync.WaitGroup
	start := func(copies int, f func(*rand.Rand)) {
		for i := 0; i < copies; i++ {
			all.Add(1)
			random := rand.New(rand.NewSource(*seed + int64(i)))
			go func() {
				defer all.Done()
				n := 0
				for ; n == 0 || !stopping(); n++ { // everybody has a turn, and the program no end if not
					f(random)
				}
				loops.Add(int64(n))
			}()
		}
	}
	start(3, floats)
	start(3, hashes)
	start(2, tcp)
	start(4, locks)
	start(3, rwlocks)
	start(2, channels)
	start(3, timers)
	start(2, garbage)
	start(2, stacks)
	start(1, func(*rand.Rand) { runtime.GC(); time.Sleep(3 * time.Millisecond) })
	start(1, func(r *rand.Rand) { runtime.GOMAXPROCS(1 + r.Intn(4)); time.Sleep(5 * time.Millisecond) })
	start(1, func(*rand.Rand) { runtime.Stack(make([]byte, 1<<16), true); time.Sleep(7 * time.Millisecond) })
	start(2, threads)
	start(1, func(r *rand.Rand) {
		before := quaver.Quantum()
		quaver.SetQuantum([]time.Duration{0, before, 20 * time.Microsecond, time.Millisecond}[r.Intn(4)])
		time.Sleep(4 * time.Millisecond)
		quaver.SetQuantum(before)
		time.Sleep(20 * time.Millisecond)
	})
	start(1, func(*rand.Rand) {
		quaver.SetBestEffort(true)
		floats(nil)
		quaver.SetBestEffort(false)
	})
	time.Sleep(*duration)
	close(stop)
	all.Wait()
	must(lockA.n == lockB.n, "locked counters differ: %d and %d", lockA.n, lockB.n)
	fmt.Println("ok")
	fmt.Fprintf(os.Stderr, "%d loops, %+v\n", loops.Load(), quaver.ReadStats())
}

// orbit depends on every bit of vector and x87-free floating-point state in a loop without calls.
func orbit(n int) uint64 {
	x, y := 1.0, 0.0
	for i := 0; i < n; i++ {
		x, y = x*0.9998+y*0.0199, y*0.9998-x*0.0199
		if x*x+y*y < 0.01 {
			x += 1
		}
	}
	return math.Float64bits(x) ^ math.Float64bits(y)
}

var orbitOnce = sync.OnceValue(func() uint64 { return orbit(200_000) })

func floats(*rand.Rand) {
	must(orbit(200_000) == orbitOnce(), "floating point differs")
}

var block = bytes.Repeat([]byte("quaver"), 40_000)
var blockSum = sync.OnceValue(func() [32]byte { return sha256.Sum256(block) })

func hashes(*rand.Rand) {
	must(sha256.Sum256(block) == blockSum(), "hash differs")
}

func tcp(r *rand.Rand) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(err == nil, "listen: %v", err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); io.Copy(c, c) }()
		}
	}()
	for i := 0; i < 3; i++ {
		c, err := net.Dial("tcp", l.Addr().String())
		must(err == nil, "dial: %v", err)
		text := make([]byte, 1+r.Intn(100_000))
		r.Read(text)
		go func() { c.Write(text); c.(*net.TCPConn).CloseWrite() }()
		back, err := io.ReadAll(bufio.NewReader(c))
		must(err == nil && bytes.Equal(text, back), "echo differs: %v", err)
		c.Close()
	}
}

var lockA, lockB struct {
	sync.Mutex
	n int
}

func locks(r *rand.Rand) {
	lockA.Lock()
	lockB.Lock()
	lockA.n++
	if r.Intn(20) == 0 {
		orbit(100_000) // longer than any quantum
	}
	lockB.n++
	lockB.Unlock()
	lockA.Unlock()
	if lockA.TryLock() {
		lockB.Lock()
		must(lockA.n == lockB.n, "counters differ within locks")
		lockB.Unlock()
		lockA.Unlock()
	}
	// Unlocked by another goroutine.
	var m sync.Mutex
	m.Lock()
	go m.Unlock()
	m.Lock()
}

var table = struct {
	sync.RWMutex
	m map[int]int
}{m: map[int]int{}}

func rwlocks(r *rand.Rand) {
	k := r.Intn(100)
	if r.Intn(5) == 0 {
		table.Lock()
		table.m[k]++
		table.m[-k-1]--
		table.Unlock()
		return
	}
	table.RLock()
	must(table.m[k]+table.m[-k-1] == 0, "table differs")
	table.RUnlock()
}

func channels(*rand.Rand) {
	c, sum := make(chan int), 0
	for i := 0; i < 4; i++ {
		go func() {
			for k := 0; k < 250; k++ {
				c <- k
			}
		}()
	}
	for i := 0; i < 1000; i++ {
		sum += <-c
	}
	must(sum == 4*249*250/2, "channel lost something")
}

func timers(r *rand.Rand) {
	d := time.Duration(r.Intn(500)) * time.Microsecond
	begin := time.Now()
	select {
	case <-time.After(d):
	case <-time.After(time.Minute):
		must(false, "timer lost")
	}
	must(time.Since(begin) >= d, "timer early")
}

type list struct {
	next *list
	data [4]int
}

func garbage(r *rand.Rand) {
	var head *list
	for i := 0; i < 5000; i++ {
		head = &list{head, [4]int{i, i, i, i}}
	}
	n := 4999
	for l := head; l != nil; l = l.next {
		must(l.data == [4]int{n, n, n, n}, "memory differs")
		n--
	}
	if r.Intn(100) == 0 {
		debug.FreeOSMemory()
	}
}

func stacks(*rand.Rand) {
	var grow func(n int) int
	grow = func(n int) int {
		var pad [128]byte
		pad[n%128] = byte(n)
		if n == 0 {
			return 0
		}
		return grow(n-1) + int(pad[n%128]) - int(byte(n)) + 1
	}
	done := make(chan int)
	go func() { done <- grow(2000) }()
	must(<-done == 2000, "stack differs")
}

func threads(*rand.Rand) {
	done := make(chan bool)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		floats(nil)
		done <- true
	}()
	<-done
}
