package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"runtime"
	"strconv"
	"sync"
)

// table has the entries that `get` and `set` of memcached's text protocol ask for.
type table struct {
	sync.RWMutex
	values map[string][]byte
}

// serveMemcached serves each connection on a goroutine of its own.
func serveMemcached(s spec) error {
	entries := &table{values: make(map[string][]byte, s.Keys)}
	for i := 0; i < s.Keys; i++ {
		entries.values[fmt.Sprintf("key:%012d", i)] = bytes.Repeat([]byte{'a' + byte(i%26)}, s.ValueBytes)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	runtime.GC()
	announce(listener.Addr())
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		go entries.serve(connection)
	}
}

// serve answers the requests of a connection; replies to those that came together leave together.
func (t *table) serve(connection net.Conn) {
	defer connection.Close()
	in, out := bufio.NewReaderSize(connection, 16<<10), bufio.NewWriterSize(connection, 16<<10)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		words := bytes.Fields(line)
		switch {
		case len(words) == 2 && string(words[0]) == "get":
			t.RLock()
			value, found := t.values[string(words[1])]
			t.RUnlock()
			if found {
				out.WriteString("VALUE ")
				out.Write(words[1])
				out.WriteString(" 0 ")
				out.WriteString(strconv.Itoa(len(value)))
				out.WriteString("\r\n")
				out.Write(value)
				out.WriteString("\r\n")
			}
			out.WriteString("END\r\n")
		case len(words) == 5 && string(words[0]) == "set":
			key := string(words[1])
			length, err := strconv.Atoi(string(words[4]))
			if err != nil || length < 0 || length > 1<<20 {
				return
			}
			value := make([]byte, length+2)
			if _, err := io.ReadFull(in, value); err != nil {
				return
			}
			t.Lock()
			t.values[key] = value[:length]
			t.Unlock()
			out.WriteString("STORED\r\n")
		default:
			return
		}
		if in.Buffered() == 0 {
			if out.Flush() != nil {
				return
			}
		}
	}
}
