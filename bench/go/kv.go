package main

import (
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"sort"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// A client in another process and this server share a file of 64-bit words (the ring, though it is used once):
//
//	word 0        ring version, by the client
//	word 1        number of requests of the whole run, by the client
//	word 2        1 when the server is ready
//	word 3, 4     service time of GET and SCAN as calibrated, ns, by the server
//	word 8        requests sent so far, by the client
//	word 16       1 when the client is done
//	word 64...    one word a request: index of the key, with the highest bit set in a SCAN
//	then          one word a request: CLOCK_MONOTONIC in ns when it was finished, 0 before, by the server
//
// A goroutine polls word 8, starts a goroutine for each request, and yields. So a request reaches Go without a system
// call, as it reaches the other implementations.
const (
	ringVersion   = 1
	wordTotal     = 1
	wordReady     = 2
	wordGetNs     = 3
	wordScanNs    = 4
	wordSent      = 8
	wordDone      = 16
	wordRequests  = 64
	scanBit       = uint64(1) << 63
	calibrateGoal = 20 * time.Millisecond
)

// store is the work of an ordered store on a sorted slice: a GET looks keys up, a SCAN visits neighbours. How many is
// calibrated, because Go cannot use the store of the other implementations.
type store struct {
	keys, values []uint64
	lookups      int
	visits       int
}

func newStore(size int) *store {
	random := rand.New(rand.NewSource(1))
	s := &store{keys: make([]uint64, size), values: make([]uint64, size), lookups: 1, visits: 1}
	for i := range s.keys {
		s.keys[i], s.values[i] = random.Uint64(), random.Uint64()
	}
	sort.Slice(s.keys, func(i, j int) bool { return s.keys[i] < s.keys[j] })
	return s
}

// get finds the key with index i, and more in its place when one look-up is shorter than a GET must be.
func (s *store) get(i int) uint64 {
	sum := uint64(0)
	for n := 0; n < s.lookups; n++ {
		at := sort.Search(len(s.keys), func(j int) bool { return s.keys[j] >= s.keys[i] })
		sum += s.values[at]
		i = int((uint64(i)*2862933555777941757 + 3037000493) % uint64(len(s.keys)))
	}
	return sum
}

// scan visits neighbours from the key with index i on.
func (s *store) scan(i int) uint64 {
	sum := uint64(0)
	for n := 0; n < s.visits; n++ {
		sum += s.values[i] ^ s.keys[i]>>3
		if i++; i == len(s.keys) {
			i = 0
		}
	}
	return sum
}

var sink atomic.Uint64

// serviceTime is how long one call of work takes, in ns: the median over batches, because one that the machine
// interrupted says nothing. Batches are short, so that most are not interrupted, and long against reading the clock.
func (s *store) serviceTime(work func(i int) uint64) float64 {
	const batchGoal = 20 * time.Microsecond
	random := rand.New(rand.NewSource(2))
	var means []float64
	for start := time.Now(); len(means) == 0 || time.Since(start) < calibrateGoal; {
		calls, took := 0, time.Duration(0)
		for before := time.Now(); took < batchGoal; took = time.Since(before) {
			sink.Add(work(random.Intn(len(s.keys))))
			calls++
		}
		means = append(means, float64(took.Nanoseconds())/float64(calls))
	}
	sort.Float64s(means)
	return quantile(means, 0.5)
}

// calibrate makes *times so large that work takes target ns.
func (s *store) calibrate(times *int, target float64, work func(i int) uint64) (measured float64) {
	for round := 0; round < 4; round++ {
		measured = s.serviceTime(work)
		*times = max(1, int(float64(*times)*target/measured+0.5))
	}
	return s.serviceTime(work)
}

// serveRing answers the requests of a ring until the client is done.
func serveRing(s spec) (sample, error) {
	words, err := openRing(s.Ring)
	if err != nil {
		return sample{}, err
	}
	total := int(words[wordTotal])
	if words[0] != ringVersion || len(words) < wordRequests+2*total || s.Keys < 1 {
		return sample{}, fmt.Errorf("%s is no ring of version %d", s.Ring, ringVersion)
	}
	requests, finished := words[wordRequests:wordRequests+total], words[wordRequests+total:]
	st := newStore(s.Keys)
	words[wordGetNs] = uint64(st.calibrate(&st.lookups, s.GetNs, st.get))
	words[wordScanNs] = uint64(st.calibrate(&st.visits, s.ScanNs, st.scan))
	clock := newAnchor()
	serve := func(n int) {
		request := requests[n]
		i := int(request &^ scanBit % uint64(s.Keys))
		if request&scanBit != 0 {
			sink.Add(st.scan(i))
		} else {
			sink.Add(st.get(i))
		}
		atomic.StoreUint64(&finished[n], uint64(clock.monotonicNs()))
	}
	runtime.GC()
	atomic.StoreUint64(&words[wordReady], 1)
	next := 0
	for atomic.LoadUint64(&words[wordDone]) == 0 {
		for sent := int(atomic.LoadUint64(&words[wordSent])); next < sent; next++ {
			go serve(next)
		}
		runtime.Gosched()
	}
	return sample{Ops: uint64(next), Metrics: map[string]float64{
		"get_ns": float64(words[wordGetNs]), "scan_ns": float64(words[wordScanNs]),
	}}, nil
}

func openRing(path string) ([]uint64, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() < wordRequests*8 {
		return nil, fmt.Errorf("%s is too short for a ring", path)
	}
	bytes, err := syscall.Mmap(int(file.Fd()), 0, int(info.Size()),
		syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*uint64)(unsafe.Pointer(&bytes[0])), len(bytes)/8), nil
}
