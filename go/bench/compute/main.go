// Command compute runs ten goroutines of one program on one P and prints the CPU time they take together, in µs, then how
// often they were preempted and how many user interrupts came (Appendix B of the paper: what preemption costs where it
// gains nothing). All ten must come to the result of a run alone. A second argument divides the work.
package main

import (
	"crypto/sha256"
	"fmt"
	"math"
	"os"
	"runtime"
	"sort"
	"strconv"
	"sync"

	quaver "quaver.dev/go"
	"quaver.dev/go/bench/serve"
)

const goroutines = 10

// The programs: loops without calls, assembly, memory and pointers, calls. Each does a part of its work.
var programs = map[string]func(part int) uint64{
	"loop":   func(part int) uint64 { return serve.Work(12_000_000 / part) },
	"nbody":  nbody,
	"sha256": hash,
	"sort":   sorting,
	"fib":    func(part int) uint64 { return fib(31 - int(1.44*math.Log2(float64(part)))) },
}

func main() {
	runtime.GOMAXPROCS(1)
	program, part := programs[os.Args[1]], 1
	if len(os.Args) > 2 {
		var err error
		part, err = strconv.Atoi(os.Args[2])
		serve.Check(err)
	}
	want := program(part)
	var results [goroutines]uint64
	var all sync.WaitGroup
	begin := serve.CPU()
	for i := range results {
		all.Add(1)
		go func() {
			defer all.Done()
			results[i] = program(part)
		}()
	}
	all.Wait()
	stats := quaver.ReadStats()
	fmt.Println((serve.CPU() - begin).Microseconds(), stats.Preempted, stats.UserInterrupts)
	for i, result := range results {
		if result != want {
			serve.Check(fmt.Errorf("goroutine %d comes to %d, not %d", i, result, want))
		}
	}
}

func nbody(part int) uint64 {
	x, v := [3]float64{1, 0, 0}, [3]float64{0, 0.9, 0.1}
	for i := 0; i < 1_500_000/part; i++ {
		r2 := x[0]*x[0] + x[1]*x[1] + x[2]*x[2]
		f := -1 / (r2 * math.Sqrt(r2)) * 1e-3
		for k := range x {
			v[k] += f * x[k]
			x[k] += v[k] * 1e-3
		}
	}
	return math.Float64bits(x[0])
}

func hash(part int) uint64 {
	block := make([]byte, 1<<16)
	var sum [32]byte
	for i := 0; i < 150/part; i++ {
		copy(block, sum[:])
		sum = sha256.Sum256(block)
	}
	return uint64(sum[0])
}

func sorting(part int) uint64 {
	list := make([]int, 200_000/part)
	x := uint64(88172645463325252)
	for i := range list {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		list[i] = int(x)
	}
	sort.Ints(list)
	return uint64(list[1000])
}

//go:noinline
func fib(n int) uint64 {
	if n < 2 {
		return uint64(n)
	}
	return fib(n-1) + fib(n-2)
}
