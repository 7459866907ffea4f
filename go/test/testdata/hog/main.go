// Command hog shows with counts, not times, what preemption does, mostly on one P. Its argument is the scene; a second one
// divides the work, for slow machines.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	quaver "quaver.dev/go"
)

var (
	sink uint64
	part = 1
)

// spin runs without a call until enough is true, which it looks at seldom.
func spin(enough func() bool) {
	x := uint64(1)
	for !enough() {
		for i := 0; i < 100_000/part; i++ {
			x = x*6364136223846793005 + 1442695040888963407
		}
		atomic.StoreUint64(&sink, x)
	}
}

func require(ok bool, what string) {
	if !ok {
		fmt.Printf("%s: %+v\n", what, quaver.ReadStats())
		os.Exit(1)
	}
}

func main() {
	runtime.GOMAXPROCS(1)
	if len(os.Args) > 2 {
		var err error
		part, err = strconv.Atoi(os.Args[2])
		require(err == nil && part > 0, "no number: "+os.Args[2])
	}
	scenes := map[string]func(){
		"alone": alone, "share": share, "starve": starve, "locks": locks, "forced": forced, "collect": collect, "effort": effort,
		"leak": leak, "readers": readers, "crowd": crowd, "brief": brief, "slack": slack,
		"several": several, "interrupts": interrupts, "ends": ends,
	}
	scenes[os.Args[1]]()
	fmt.Println("ok")
}

// alone: nothing waits, so nobody is asked by the clock. The garbage collector's and the stock runtime's requests do not count.
func alone() {
	spin(func() bool { return quaver.ReadStats().Unneeded > 50 })
	require(quaver.ReadStats().Asked < 50, "asked for nothing")
}

// share: two goroutines without a call both get on.
func share() {
	var a, b atomic.Int64
	go spin(func() bool { return b.Add(1) > 1000 && a.Load() > 1000 })
	spin(func() bool { return a.Add(1) > 1000 && b.Load() > 1000 })
	require(quaver.ReadStats().Preempted > 0, "nobody was preempted")
}

// starve: goroutines that are always ready cannot keep a preempted one from running, though each stays within the quantum.
func starve() {
	var hog atomic.Int64
	go spin(func() bool { return hog.Add(1) > 1<<40 })
	for i := 0; i < 4; i++ {
		go func() {
			for x := uint64(1); ; runtime.Gosched() {
				for k := 0; k < 10_000; k++ {
					x = x*6364136223846793005 + 1442695040888963407
				}
				atomic.StoreUint64(&sink, x)
			}
		}()
	}
	for quaver.ReadStats().Turns < 3 || hog.Load() < 20 {
		runtime.Gosched()
	}
}

// locks: the holder of a lock is not preempted, but when it unlocks.
func locks() {
	var m sync.Mutex
	undisturbed(m.Lock, m.Unlock)
}

// readers: a reader's lock is as good as a writer's.
func readers() {
	var m sync.RWMutex
	undisturbed(m.RLock, m.RUnlock)
	undisturbed(func() { require(m.TryRLock(), "the lock is not free") }, m.RUnlock)
}

// undisturbed checks that nobody else runs between lock and unlock, though the clock asks for it. It begins again where
// the lock was held for too long, as on a machine that has no core for this thread.
func undisturbed(lock, unlock func()) {
	for {
		var other atomic.Bool
		before := quaver.ReadStats()
		lock()
		go other.Store(true)
		spin(func() bool { return other.Load() || quaver.ReadStats().Deferred > before.Deferred+3 })
		preempted := other.Load()
		forced := quaver.ReadStats().Forced > before.Forced
		unlock()
		spin(other.Load)
		if !forced {
			require(!preempted, "preempted while a lock was held")
			return
		}
	}
}

// forced: a lock is no reason for ever.
func forced() {
	var m sync.Mutex
	var other atomic.Bool
	m.Lock()
	go other.Store(true)
	spin(other.Load)
	require(quaver.ReadStats().Forced > 0, "nobody was forced")
	m.Unlock()
}

// leak: a goroutine whose lock another unlocks is delayed once, not in each of its slices.
func leak() {
	var m sync.Mutex
	var others atomic.Int64
	m.Lock()
	done := make(chan bool)
	go func() { m.Unlock(); done <- true }()
	<-done
	for i := int64(1); i <= 5; i++ {
		go others.Add(1)
		spin(func() bool { return others.Load() >= i })
	}
	require(quaver.ReadStats().Forced <= 2, "forced again and again")
}

// collect: stopping the world does not wait for locks, however long they may be held.
func collect() {
	runtime.GOMAXPROCS(2)
	var m sync.Mutex
	var collected atomic.Bool
	m.Lock()
	go func() {
		for i := 0; i < 5; i++ {
			runtime.GC()
		}
		collected.Store(true)
	}()
	spin(collected.Load)
	m.Unlock()
}

// effort: the mark is the goroutine's own, and a marked one still runs.
func effort() {
	require(!quaver.SetBestEffort(true), "marked from the start")
	require(quaver.SetBestEffort(true), "the mark is lost")
	inherited := make(chan bool)
	go func() { inherited <- quaver.SetBestEffort(false) }()
	require(!<-inherited, "the mark is inherited")
	end := time.Now().Add(50 * time.Millisecond)
	var ready atomic.Int64
	go func() {
		for ready.Load() < 20 {
			time.Sleep(100 * time.Microsecond)
			ready.Add(1)
		}
	}()
	spin(func() bool { return time.Now().After(end) && ready.Load() == 20 })
}

// crowd: goroutines of which the network always keeps so many ready that there is never time for all leave something to one in the ordinary
// queue, which is always there, and to a preempted one.
func crowd() {
	const pairs, inARow = 128, 8
	var players sync.WaitGroup
	var passed, yielded, hog atomic.Int64
	player := func(from, to *os.File) {
		players.Done()
		for ball := make([]byte, 1); ; passed.Add(1) {
			_, err := from.Read(ball) // has to wait: there is one ball for two
			x := uint64(1)
			for i := 0; i < 20_000; i++ {
				x = x*6364136223846793005 + 1442695040888963407
			}
			atomic.StoreUint64(&sink, x)
			if _, err2 := to.Write(ball); err != nil || err2 != nil {
				panic("a ball is lost")
			}
		}
	}
	var throw []*os.File
	players.Add(2 * pairs)
	for i := 0; i < pairs; i++ {
		fromA, toB, err := os.Pipe()
		require(err == nil, "no pipe")
		fromB, toA, err := os.Pipe()
		require(err == nil, "no pipe")
		go player(fromA, toA)
		go player(fromB, toB)
		throw = append(throw, toA)
	}
	players.Wait()
	go func() {
		for {
			runtime.Gosched()
			yielded.Add(1)
		}
	}()
	go spin(func() bool { return hog.Add(1) > 1<<40 })
	for _, to := range throw {
		_, err := to.Write([]byte{1})
		require(err == nil, "cannot write")
	}
	// All others have begun, so what is ready besides the network's is the yielding one and, now and then, this one.
	began, others := passed.Load(), yielded.Load()
	for hog.Load() < 20 || passed.Load() < began+5000 {
		time.Sleep(time.Millisecond)
	}
	began, others = passed.Load()-began, yielded.Load()-others
	require(others >= began/(4*inARow), fmt.Sprintf("%d yields beside %d network-ready", others, began))
}

// brief: a goroutine that is preempted, but has run for little since it last waited, goes on before those that have run for long, though these
// have waited for longer.
func brief() {
	const hogs, times = 4, 30
	for i := 0; i < hogs; i++ {
		go spin(func() bool { return false })
	}
	spin(func() bool { return quaver.ReadStats().Preempted > 50*hogs })
	preempted := uint64(0)
	for i := 0; i < times; i++ {
		time.Sleep(time.Millisecond)
		before := quaver.ReadStats().Preempted
		for quaver.ReadStats().Preempted == before { // nobody else runs, so it is this one's own that ends it
		}
		preempted += quaver.ReadStats().Preempted - before
	}
	require(preempted < times*hogs*3/4, fmt.Sprintf("%d preemptions of all while %d of the brief one", preempted, times))
}

// slack: sysmon's exact sleeps are its own affair, not that of the threads that it starts, nor of the programs that those start.
func slack() {
	of := func(id string) string {
		text, err := os.ReadFile("/proc/" + id + "/timerslack_ns")
		require(err == nil, fmt.Sprint("no slack of ", id, ": ", err))
		return string(text)
	}
	usual := of("self") // the first thread's
	spin(func() bool { return quaver.ReadStats().Scans > 20 })
	// Threads that block in the kernel make sysmon start others for the goroutines that compute.
	var done atomic.Bool
	for i := 0; i < 8; i++ {
		from, _, err := os.Pipe()
		require(err == nil, "no pipe")
		go syscall.Read(int(from.Fd()), make([]byte, 1)) // Fd makes it block
		go spin(done.Load)
	}
	threads := func() []os.DirEntry {
		all, err := os.ReadDir("/proc/self/task")
		require(err == nil, "no list of threads")
		return all
	}
	spin(func() bool { return len(threads()) >= 10 })
	exact := 0
	for _, thread := range threads() {
		if of(thread.Name()) != usual {
			exact++
		}
	}
	require(exact <= 1, fmt.Sprint(exact, " threads have another slack than the first"))
	for i := 0; i < 8; i++ {
		child, err := exec.Command("cat", "/proc/self/timerslack_ns").Output()
		require(err == nil, "no child")
		require(string(child) == usual, "a child has a slack of "+string(child))
	}
	done.Store(true)
}

// several: on two Ps and more goroutines without a call come to their results, beside collections, changes of the number of
// Ps, and threads that begin and end.
func several() {
	orbit := func() (x float64) {
		x, y := 1.0, 0.0
		for i := 0; i < 1_000_000/part; i++ {
			x, y = x*0.9998+y*0.0199, y*0.9998-x*0.0199
		}
		return x
	}
	want := orbit()
	const goroutines, times = 6, 5
	var done atomic.Int64
	for i := 0; i < goroutines; i++ {
		go func() {
			for n := 0; n < times; n++ {
				require(orbit() == want, "a result differs")
			}
			done.Add(1)
		}()
	}
	for i := 0; done.Load() < goroutines; i++ {
		runtime.GOMAXPROCS(2 + i%3)
		runtime.GC()
		thread()
	}
	require(quaver.ReadStats().Preempted > 0, "nobody was preempted")
}

// thread begins and ends a thread.
func thread() {
	done := make(chan bool)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		done <- true
	}()
	<-done
}

// interrupts: goroutines without a call get on by user interrupts, and nobody is sent the signal.
func interrupts() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGURG)
	var a, b atomic.Int64
	enough := func() bool { return quaver.ReadStats().UserInterrupts > 200 && a.Load() > 20 && b.Load() > 20 }
	go spin(func() bool { return a.Add(1) > 0 && enough() })
	spin(func() bool { return b.Add(1) > 0 && enough() })
	for i := 0; i < 20; i++ {
		runtime.GC()
	}
	require(len(signals) == 0, "a signal was sent")
}

// ends: threads end, more of them than the device has routes, and those that stay are still reached.
func ends() {
	for i := 0; i < 2500/part; i++ {
		thread()
	}
	interrupts()
}
