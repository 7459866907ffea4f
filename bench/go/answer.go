package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
)

// Requests are those of quaver-load: four words in a datagram (crates/load/src/net/aspen.rs), or lines of memcached's.
const (
	datagramBytes = 16
	kindGet       = 0x0a
	kindScan      = 0x0b
	kindRefused   = 1 << 31
	receiveBytes  = 4 << 20
)

// serveAnswers answers requests until the standard input ends; it returns when it cannot.
func serveAnswers(s spec) error {
	runtime.GOMAXPROCS(s.Threads)
	switch s.Answers {
	case "key-value":
		st := newStore(s.Keys)
		st.calibrate(&st.lookups, s.GetNs, st.get)
		st.calibrate(&st.visits, s.ScanNs, st.scan)
		return serveDatagrams(func(kind, key uint32) bool {
			i := int(key) % s.Keys
			switch kind {
			case kindGet:
				sink.Add(st.get(i))
			case kindScan:
				sink.Add(st.scan(i))
			default:
				return false
			}
			return true
		})
	case "analytics":
		// The analyses are Rust: here are loops that take as long.
		rounds := make([]int, len(s.KernelNs))
		for i, ns := range s.KernelNs {
			rounds[i] = mixLasting(ns)
		}
		return serveDatagrams(func(kind, _ uint32) bool {
			if kind < 1 || int(kind) > len(rounds) {
				return false
			}
			sink.Add(mix(1, rounds[kind-1]))
			return true
		})
	case "memcached":
		return serveMemcached(s)
	default:
		return unsupported("no server of " + s.Answers)
	}
}

// serveDatagrams answers each datagram on a goroutine of its own.
func serveDatagrams(work func(kind, key uint32) bool) error {
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	// The system gives as much as it allows.
	_ = socket.SetReadBuffer(receiveBytes)
	runtime.GC()
	announce(socket.LocalAddr())
	var room [2048]byte
	for {
		n, from, err := socket.ReadFromUDPAddrPort(room[:])
		if err != nil {
			return err
		}
		if n != datagramBytes {
			continue
		}
		message := [datagramBytes]byte(room[:n])
		go func() {
			kind := binary.LittleEndian.Uint32(message[4:])
			if !work(kind, binary.LittleEndian.Uint32(message[8:])) {
				binary.LittleEndian.PutUint32(message[4:], kind|kindRefused)
			}
			// A reply that cannot be sent is lost, as one that the network loses.
			_, _ = socket.WriteToUDPAddrPort(message[:], from)
		}()
	}
}

// announce says where this server listens. From now on the end of the standard input ends the process.
func announce(address net.Addr) {
	fmt.Printf("listening %s\n", address)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
}
