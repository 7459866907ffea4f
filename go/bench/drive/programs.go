package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A variant is a toolchain and a setting of QUAVER_GO.
type variant struct {
	name, toolchain, setting string
}

func (o *options) variants() []variant {
	list := []variant{
		{"stock", "stock", ""},
		{"paper", "quaver", "quantum=" + o.quantum + ",policy=paper"},
		{"quaver", "quaver", "quantum=" + o.quantum},
	}
	for _, settings := range o.also {
		list = append(list, variant{settings, "quaver", "quantum=" + o.quantum + "," + settings})
	}
	return list
}

// command returns a program of a variant that runs on the server's core.
func (o *options) command(v variant, program string, args ...string) *exec.Cmd {
	args = append([]string{"-c", o.server, filepath.Join(o.bin, v.toolchain, program)}, args...)
	cmd := exec.Command("taskset", args...)
	cmd.Env = append(os.Environ(), "QUAVER_GO="+v.setting, "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	return cmd
}

// A server is a running one, and the words that it has printed.
type server struct {
	cmd   *exec.Cmd
	stdin io.Closer
	words []string
}

func (o *options) start(v variant, program string, args ...string) (*server, error) {
	cmd := o.command(v, program, args...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("%s (%s) did not start: %w", program, v.name, err)
	}
	return &server{cmd, stdin, strings.Fields(line)}, nil
}

func (s *server) stop() {
	s.stdin.Close()
	s.cmd.Wait()
}
