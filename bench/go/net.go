package main

import (
	"net"
	"runtime"
	"time"
)

// The protocol is that of bench/common/src/net.rs.
const (
	messageBytes = 64
	roomBytes    = 4096
	scanKind     = 1
)

// serveMessages answers messages until the standard input ends; it returns when it cannot.
func serveMessages(s spec) error {
	if s.Service != "messages" {
		return unsupported("HTTP is served by tokio only")
	}
	iterations := mixLasting(s.ComputeNs)
	runtime.GOMAXPROCS(s.Threads)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	announce(listener.Addr())
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		go converse(connection, iterations)
	}
}

// converse answers the messages of one connection. Go sets TCP_NODELAY by itself.
func converse(connection net.Conn, iterations int) {
	defer connection.Close()
	var room [roomBytes]byte
	filled := 0
	for {
		n, err := connection.Read(room[filled:])
		if err != nil {
			return
		}
		filled += n
		whole := filled / messageBytes * messageBytes
		for at := 0; at < whole; at += messageBytes {
			if room[at] == scanKind {
				sink.Add(mix(1, iterations))
			}
		}
		if whole > 0 {
			if _, err := connection.Write(room[:whole]); err != nil {
				return
			}
		}
		filled = copy(room[:], room[whole:filled])
	}
}

// mixLasting is how many rounds of mix take so many ns: of several tries the fastest, which the machine has disturbed
// least.
func mixLasting(ns float64) int {
	const rounds = 1_000_000
	fastest := time.Duration(1 << 62)
	for i := 0; i < 5; i++ {
		start := time.Now()
		sink.Add(mix(1, rounds))
		fastest = min(fastest, time.Since(start))
	}
	return max(1, int(rounds*ns/float64(max(1, fastest.Nanoseconds()))))
}
