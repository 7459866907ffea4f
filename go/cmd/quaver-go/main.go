// Command quaver-go is the go command for programs that preempt their goroutines after microseconds.
//
// quaver-go build, run, test, install, vet and list take the arguments of the go command and add an overlay of the
// runtime; other subcommands go to the go command as they are. README.md of the module says how it works.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"quaver.dev/go/internal/gocmd"
	"quaver.dev/go/internal/overlay"
	"quaver.dev/go/internal/patch"
	"quaver.dev/go/internal/toolchain"
)

// tag is the build tag with which the library finds the functions that the overlay adds to the runtime.
const tag = "quaver_go"

const usage = `quaver-go builds Go programs that preempt their goroutines after microseconds.

    quaver-go build|run|test|install|vet|list ...    as the go command, with its flags
    quaver-go overlay [-C dir]                       prints the list of replacements, for go build -overlay
    quaver-go help

All other subcommands are the go command's. The program that comes out reads QUAVER_GO when it starts:

    QUAVER_GO=quantum=50us ./program     preempts after 50 µs for whatever waits
    ./program                            behaves as Go's own

Settings, separated by commas: quantum, policy=quaver|paper, long, poll, hold, idle, share, tax, skip=on|off, queues=two|one,
netfirst=on|off, locks=on|off, clock=sleep|spin, notification=signal|user-interrupt.
`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "quaver-go: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	switch name := args[0]; {
	case name == "help" && len(args) == 1, name == "-h", name == "-help", name == "--help":
		fmt.Print(usage)
		return nil
	case name != "overlay" && !gocmd.Builds(name):
		command, err := exec.LookPath("go")
		if err != nil {
			return errors.New("no go command in PATH; install Go from https://go.dev/dl or add its bin folder to PATH")
		}
		return execute(command, args, os.Environ())
	}

	cache, err := cacheFolder()
	if err != nil {
		return err
	}
	// The folder decides which toolchain it is, and the toolchain which GOFLAGS there are.
	parsed, err := gocmd.Parse(args, "")
	if err != nil {
		return err
	}
	tools, err := toolchain.Find(parsed.Dir, cache, overlay.MinMinor, overlay.MaxMinor)
	if err != nil {
		return err
	}
	if parsed, err = gocmd.Parse(args, tools.Flags); err != nil {
		return err
	}
	var own map[string]string
	if parsed.Overlay != "" {
		if own, err = gocmd.ReadOverlay(parsed.Overlay, parsed.Dir); err != nil {
			return err
		}
	}
	list, err := overlay.Make(overlay.Source{Root: tools.Root, Version: tools.Version, Minor: tools.Minor}, cache, own)
	var misfit *patch.Error
	if errors.As(err, &misfit) {
		return fmt.Errorf("%w\nGOROOT %s is not what quaver-go knows: it has been edited, or this release differs from those before.\n%s",
			err, tools.Root, "Use an unchanged release (GOTOOLCHAIN=go1.N.M selects one), or the go command.")
	}
	if err != nil {
		return err
	}
	if args[0] == "overlay" {
		fmt.Println(list)
		return nil
	}
	line := parsed.Line(gocmd.Addition{
		Overlay: list, Tag: tag, Uncached: os.Getenv("QUAVER_GO") != "", NoVet: tools.Minor < overlay.VetMinor,
	})
	return execute(tools.Command(), line, tools.Environment(os.Environ()))
}

// execute becomes the go command, so that signals and the exit status are its own.
func execute(command string, args, env []string) error {
	err := syscall.Exec(command, append([]string{"go"}, args...), env)
	return fmt.Errorf("cannot run %s: %w", command, err)
}

// cacheFolder returns where overlays are kept.
func cacheFolder() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("there is no place for a cache: %w; set XDG_CACHE_HOME or HOME", err)
	}
	return filepath.Join(dir, "quaver-go"), nil
}
