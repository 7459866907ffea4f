// Package client is an open-loop load generator for one core: requests leave when their time has come, whatever has
// become of those before, and latency counts from that time. It is one thread that polls, without a goroutine for each
// connection, so that it does not become what is measured.
package client

import (
	"fmt"
	"math"
	"math/rand"
	"net"
	"runtime"
	"runtime/debug"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Protocol writes requests and finds the ends of replies.
type Protocol interface {
	// Append appends a request to buf. long says which of the two classes it is of.
	Append(buf []byte, long bool, random *rand.Rand) []byte
	// Complete reports whether buf is a whole reply, or why it never will be.
	Complete(buf []byte) (bool, error)
}

// Load is what is sent.
type Load struct {
	Rate     float64       // requests a second, Poisson arrivals
	Duration time.Duration // of sending
	Long     float64       // share of long requests
	Warmup   time.Duration // from the start; what is sent then is not counted
	Seed     int64
	Conns    int // each has one request under way at most
}

// Result holds latencies in µs from the intended time of sending, in order of size.
type Result struct {
	Short, Long []float64
	// Unfinished requests are in the lists with the time that they have taken so far.
	Unfinished int
	// Late is how many requests left more than 50 µs after their time, because all connections were busy or this client
	// was.
	Late int
	// Stalled is how long this client did not run in all, as far as that was more than 1 ms at a time.
	Stalled time.Duration
}

// Quantile returns a quantile of a sorted list, or NaN if it is empty.
func Quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

type conn struct {
	fd       int
	busy     bool
	long     bool
	counted  bool
	intended time.Duration
	reply    []byte
}

type request struct {
	at            time.Duration
	long, counted bool
}

// Run sends load to addr and returns when all replies are here, or a second after the last request.
func Run(addr string, p Protocol, load Load) (*Result, error) {
	// This goroutine is not locked to its thread: then Go's preemption after 10 ms would go through another thread and
	// back. And what is allocated meanwhile is little enough to be collected afterwards.
	percent := debug.SetGCPercent(-1)
	defer func() {
		debug.SetGCPercent(percent)
		runtime.GC()
	}()
	poll, err := syscall.EpollCreate1(0)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(poll)
	conns, idle := make([]conn, load.Conns), make([]int, 0, load.Conns)
	for i := range conns {
		fd, err := dial(addr)
		if err != nil {
			return nil, err
		}
		defer syscall.Close(fd)
		conns[i].fd = fd
		event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(i)}
		if err := syscall.EpollCtl(poll, syscall.EPOLL_CTL_ADD, fd, &event); err != nil {
			return nil, err
		}
		idle = append(idle, i)
	}
	random := rand.New(rand.NewSource(load.Seed))
	expected := int(load.Rate * load.Duration.Seconds() * 1.1)
	res := &Result{Short: make([]float64, 0, expected), Long: make([]float64, 0, int(float64(expected)*load.Long*2))}
	add := func(long bool, d time.Duration) {
		us := float64(d.Nanoseconds()) / 1e3
		if long {
			res.Long = append(res.Long, us)
		} else {
			res.Short = append(res.Short, us)
		}
	}
	var (
		begin   = time.Now()
		next    = time.Duration(0)
		last    = time.Duration(0)
		waiting []request // their time has come, and no connection is free
		busy    = 0
		events  = make([]syscall.EpollEvent, 64)
		buf     []byte
		in      = make([]byte, 4096)
	)
	for {
		now := time.Since(begin)
		if gap := now - last; gap > time.Millisecond {
			res.Stalled += gap
		}
		last = now
		for next <= now && next < load.Duration {
			waiting = append(waiting, request{next, random.Float64() < load.Long, next >= load.Warmup})
			next += time.Duration(random.ExpFloat64() / load.Rate * 1e9)
		}
		for len(waiting) > 0 && len(idle) > 0 {
			r := waiting[0]
			waiting = waiting[1:]
			c := &conns[idle[0]] // the one idle for longest, so that all are used
			idle = idle[1:]
			if r.counted && now-r.at > 50*time.Microsecond {
				res.Late++
			}
			c.busy, c.long, c.counted, c.intended, c.reply = true, r.long, r.counted, r.at, c.reply[:0]
			busy++
			buf = p.Append(buf[:0], r.long, random)
			if n, err := syscall.Write(c.fd, buf); err != nil || n != len(buf) {
				return nil, fmt.Errorf("cannot send a request: %v", err)
			}
			now = time.Since(begin)
		}
		if busy == 0 && len(waiting) == 0 && next >= load.Duration {
			break
		}
		if now > load.Duration+time.Second {
			break
		}
		n, err := syscall.EpollWait(poll, events, 0)
		if err != nil && err != syscall.EINTR {
			return nil, err
		}
		for _, event := range events[:max(n, 0)] {
			c := &conns[event.Fd]
			n, err := syscall.Read(c.fd, in)
			if err == syscall.EAGAIN || err == syscall.EINTR {
				continue
			}
			if err != nil || n == 0 {
				return nil, fmt.Errorf("the server closed a connection: %v", err)
			}
			c.reply = append(c.reply, in[:n]...)
			whole, err := p.Complete(c.reply)
			if err != nil {
				return nil, err
			}
			if whole && c.busy {
				if c.counted {
					add(c.long, time.Since(begin)-c.intended)
				}
				c.busy = false
				busy--
				idle = append(idle, int(event.Fd))
			}
		}
	}
	now := time.Since(begin)
	for i := range conns {
		if c := &conns[i]; c.busy && c.counted {
			res.Unfinished++
			add(c.long, now-c.intended)
		}
	}
	for _, r := range waiting {
		if r.counted {
			res.Unfinished++
			add(r.long, now-r.at)
		}
	}
	sort.Float64s(res.Short)
	sort.Float64s(res.Long)
	return res, nil
}

func dial(addr string) (int, error) {
	tcp, err := net.ResolveTCPAddr("tcp4", addr)
	if err != nil {
		return 0, err
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	to := &syscall.SockaddrInet4{Port: tcp.Port}
	copy(to.Addr[:], tcp.IP.To4())
	if err := syscall.Connect(fd, to); err != nil {
		syscall.Close(fd)
		return 0, fmt.Errorf("cannot connect to %s: %w", addr, err)
	}
	if err := syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1); err != nil {
		return 0, err
	}
	return fd, syscall.SetNonblock(fd, true)
}

// Raw is the protocol of serve.Raw.
type Raw struct{ ShortRounds, LongRounds int }

// Append implements Protocol.
func (p Raw) Append(buf []byte, long bool, random *rand.Rand) []byte {
	n := p.ShortRounds
	if long {
		n = p.LongRounds
	}
	return append(buf, byte(n), byte(n>>8), byte(n>>16), byte(n>>24), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
}

// Complete implements Protocol.
func (Raw) Complete(buf []byte) (bool, error) { return len(buf) == 16, nil }

// HTTP is the protocol of serve.HTTP.
type HTTP struct {
	Keys uint64
	Scan int
}

// Append implements Protocol.
func (p HTTP) Append(buf []byte, long bool, random *rand.Rand) []byte {
	key := random.Uint64() % p.Keys
	if long {
		buf = append(buf, "GET /scan?k="...)
		buf = strconv.AppendUint(buf, key%max(1, p.Keys-min(p.Keys, uint64(p.Scan))), 10)
		buf = append(buf, "&n="...)
		buf = strconv.AppendInt(buf, int64(p.Scan), 10)
	} else {
		buf = append(buf, "GET /get?k="...)
		buf = strconv.AppendUint(buf, key, 10)
	}
	return append(buf, " HTTP/1.1\r\nHost: x\r\n\r\n"...)
}

// Complete implements Protocol.
func (HTTP) Complete(buf []byte) (bool, error) {
	const status, length = "HTTP/1.1 200 ", "Content-Length: "
	text := string(buf)
	if len(text) >= len(status) && text[:len(status)] != status {
		return false, fmt.Errorf("the server answers %.60q", text)
	}
	head := strings.Index(text, "\r\n\r\n")
	at := strings.Index(text, length)
	if head < 0 || at < 0 || at > head {
		return false, nil
	}
	n := 0
	for _, c := range text[at+len(length) : head] {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + int(c-'0')
	}
	return len(buf) >= head+4+n, nil
}
