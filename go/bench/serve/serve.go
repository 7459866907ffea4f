// Package serve is what the servers of the benchmarks share: the work of known length, the two protocols, the sign of
// being ready.
package serve

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sort"
	"strconv"
	"syscall"
	"time"

	quaver "quaver.dev/go"
)

// RequestSize is that of requests and replies of Raw: a word that says what to do, and one that comes back unchanged.
const RequestSize = 16

// Work computes for n rounds, without a call, and returns something that depends on all of them.
//
//go:noinline
func Work(n int) uint64 {
	x := uint64(n) | 1
	for i := 0; i < n; i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// RoundsPerUs measures how many rounds of Work take a microsecond: the best of many short attempts, for interruptions
// only add.
func RoundsPerUs() float64 {
	const rounds = 20_000
	var all []float64
	for i := 0; i < 400; i++ {
		begin := time.Now()
		Work(rounds)
		all = append(all, float64(rounds)/(float64(time.Since(begin).Nanoseconds())/1e3))
	}
	sort.Float64s(all)
	return all[len(all)*9/10]
}

// CPU returns the CPU time of all threads of the process, the clock's included.
func CPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Raw serves connections whose requests are RequestSize bytes: a little-endian number of rounds, and a word for the
// client.
func Raw(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			buf := make([]byte, RequestSize)
			for {
				if _, err := io.ReadFull(c, buf); err != nil {
					return
				}
				n := int(buf[0]) | int(buf[1])<<8 | int(buf[2])<<16 | int(buf[3])<<24
				buf[7] = byte(Work(n))
				if _, err := c.Write(buf); err != nil {
					return
				}
			}
		}()
	}
}

// A Store answers the requests of HTTP.
type Store interface {
	// Get returns the value of the key with a number.
	Get(key uint64) ([]byte, error)
	// Scan visits n keys from one on, and returns something that depends on all values.
	Scan(key uint64, n int) (uint64, error)
}

// HTTP serves GET /get?k=N, GET /scan?k=N&n=N, which &times=N does several times over and adds up, and GET /stats.
func HTTP(l net.Listener, s Store) error {
	number := func(r *http.Request, name string) uint64 {
		n, _ := strconv.ParseUint(r.URL.Query().Get(name), 10, 64)
		return n
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/get", func(w http.ResponseWriter, r *http.Request) {
		value, err := s.Get(number(r, "k"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		w.Write(value)
	})
	mux.HandleFunc("/scan", func(w http.ResponseWriter, r *http.Request) {
		all := uint64(0)
		for times := max(number(r, "times"), 1); times > 0; times-- {
			sum, err := s.Scan(number(r, "k"), int(number(r, "n")))
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			all += sum
		}
		fmt.Fprintln(w, all)
	})
	mux.HandleFunc("/stats", func(w http.ResponseWriter, _ *http.Request) {
		stats := quaver.ReadStats()
		fmt.Fprintf(w, `{"preempted": %d, "userInterrupts": %d}`, stats.Preempted, stats.UserInterrupts)
	})
	return http.Serve(l, mux)
}

// ScanLength returns how many keys a scan of about that time visits.
func ScanLength(s Store, d time.Duration) int {
	const probe = 200
	var all []time.Duration
	for i := 0; i < 50; i++ {
		begin := time.Now()
		if _, err := s.Scan(uint64(i), probe); err != nil {
			return probe
		}
		all = append(all, time.Since(begin))
	}
	sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
	return int(float64(probe) * float64(d) / float64(all[len(all)/2]))
}

// Key returns the key with a number.
func Key(n uint64) []byte { return []byte(fmt.Sprintf("key%012d", n)) }

// Value returns the value of the key with a number.
func Value(n uint64) []byte { return []byte(fmt.Sprintf("%0100d", n)) }

// Main is the main function of a server of a store: it fills the store in a folder that it removes at the end, tells on
// standard output where it listens and how long scans are, and serves until standard input ends.
func Main(open func(dir string, keys uint64) (Store, error)) {
	keys := flag.Uint64("keys", 100_000, "how many keys the store has")
	scan := flag.Duration("scan", 800*time.Microsecond, "how long a scan should take")
	flag.Parse()
	dir, err := os.MkdirTemp("", "quaver-go-bench-")
	Check(err)
	defer os.RemoveAll(dir)
	s, err := open(dir, *keys)
	Check(err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	Check(err)
	fmt.Println(l.Addr(), ScanLength(s, *scan))
	go HTTP(l, s)
	UntilInputEnds()
}

// UntilInputEnds waits for the end of standard input: the program that started this one is gone or wants it to be.
func UntilInputEnds() { io.Copy(io.Discard, bufio.NewReader(os.Stdin)) }

// Check ends the program if there is an error.
func Check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
