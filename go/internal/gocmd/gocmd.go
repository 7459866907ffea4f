// Package gocmd knows the arguments of the go command: where an overlay and a build tag are added, and what cannot
// be built with an overlaid runtime.
package gocmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// builds are the subcommands that take build flags.
var builds = map[string]bool{"build": true, "run": true, "test": true, "install": true, "vet": true, "list": true}

// Builds reports whether a subcommand takes build flags; all others are the go command's alone.
func Builds(subcommand string) bool { return builds[subcommand] }

// switches are the flags of builds that take no value, unless with "=".
var switches = map[string]bool{
	"a": true, "n": true, "race": true, "msan": true, "asan": true, "cover": true, "v": true, "work": true, "x": true,
	"i": true, "c": true, "linkshared": true, "modcacherw": true, "trimpath": true, "json": true, "buildvcs": true,
	"short": true, "failfast": true, "benchmem": true, "fullpath": true, "artifacts": true, "compiled": true, "deps": true,
	"e": true, "export": true, "find": true, "m": true, "u": true, "retracted": true, "versions": true, "test": true,
	"h": true, "help": true,
}

// vetValues are the flags of vet that take a value; each analyzer is a switch, and there are always new ones.
var vetValues = map[string]bool{
	"C": true, "tags": true, "overlay": true, "vettool": true, "c": true, "p": true, "mod": true, "modfile": true,
	"asmflags": true, "gcflags": true, "ldflags": true, "buildmode": true, "compiler": true, "toolexec": true, "pkgdir": true,
	"installsuffix": true, "pgo": true, "covermode": true, "coverpkg": true, "gccgoflags": true,
}

// takesValue reports whether the next argument is the value of a flag without "=".
func (a *Arguments) takesValue(name string) bool {
	if a.subcommand == "vet" {
		return vetValues[name]
	}
	return !switches[name]
}

// Arguments are those of a subcommand that builds, as far as they matter here.
type Arguments struct {
	Dir     string   // of -C
	Tags    []string // of -tags, here or in GOFLAGS
	Overlay string   // of -overlay, here or in GOFLAGS

	subcommand string
	rest       []string // without -C, -tags and -overlay
	counted    bool     // -count is among them
	vetted     bool     // -vet is among them
}

// Parse reads what follows "go" on a command line, the subcommand first. flags is GOFLAGS. It refuses what cannot work.
func Parse(args []string, flags string) (*Arguments, error) {
	a := &Arguments{subcommand: args[0]}
	fields, err := splitFlags(flags)
	if err != nil {
		return nil, err
	}
	for _, f := range fields {
		name, value, _ := strings.Cut(strings.TrimLeft(f, "-"), "=")
		if _, err := a.note(name, value); err != nil {
			return nil, fmt.Errorf("in GOFLAGS: %w", err)
		}
	}
	args = args[1:]
	for len(args) > 0 {
		arg := args[0]
		flag := len(arg) > 1 && arg[0] == '-'
		if arg == "-args" || arg == "--args" || arg == "--" || (!flag && a.subcommand != "test") {
			break // what follows is the program's
		}
		if !flag { // packages and flags of test mix
			a.rest, args = append(a.rest, arg), args[1:]
			continue
		}
		taken := args[:1]
		name, value, inline := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
		if !inline && a.takesValue(name) && len(args) > 1 {
			taken, value = args[:2], args[1]
		}
		args = args[len(taken):]
		ours, err := a.note(name, value)
		if err != nil {
			return nil, err
		}
		if !ours {
			a.rest = append(a.rest, taken...)
		}
	}
	a.rest = append(a.rest, args...)
	return a, nil
}

// note looks at one flag, and reports whether Line puts it in again.
func (a *Arguments) note(name, value string) (ours bool, err error) {
	switch name {
	case "C":
		a.Dir = value
		return true, nil
	case "tags":
		a.Tags = strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
		return true, nil
	case "overlay":
		a.Overlay = value
		return true, nil
	case "count", "test.count":
		a.counted = true
	case "vet":
		a.vetted = true
	case "buildmode":
		if value == "plugin" || value == "shared" {
			return false, fmt.Errorf("-buildmode=%s is not supported: %s", value,
				"plugins and shared libraries must have the very runtime of the program that loads them; build both with the go command")
		}
	case "linkshared":
		if value != "false" {
			return false, errors.New("-linkshared is not supported: the shared standard library has the stock runtime")
		}
	case "compiler":
		if value != "gc" {
			return false, fmt.Errorf("-compiler=%s is not supported, only gc: the runtime of others is not Go's", value)
		}
	}
	return false, nil
}

// An Addition is what a command line gets.
type Addition struct {
	Overlay  string // the list of replacements
	Tag      string // the build tag
	Uncached bool   // results of tests must not come from the cache, which does not regard QUAVER_GO: the runtime reads it
	NoVet    bool   // tests must not be vetted: this release's vet looks for overlaid files in GOROOT
}

// Line returns the command line for the go command, with what is added.
func (a *Arguments) Line(add Addition) []string {
	line := []string{a.subcommand}
	if a.Dir != "" {
		line = append(line, "-C="+a.Dir) // has to be the first
	}
	overlay := add.Overlay
	if a.subcommand == "vet" {
		overlay = a.Overlay // it only reads, and the runtime is not what it is asked about
	}
	if overlay != "" {
		line = append(line, "-overlay="+overlay)
	}
	line = append(line, "-tags="+strings.Join(append(append([]string{}, a.Tags...), add.Tag), ","))
	if a.subcommand == "test" {
		if add.Uncached && !a.counted {
			line = append(line, "-count=1")
		}
		if add.NoVet && !a.vetted {
			line = append(line, "-vet=off")
		}
	}
	return append(line, a.rest...)
}

// splitFlags splits GOFLAGS as the go command does: at blanks, except within quotes around a whole flag.
func splitFlags(text string) (fields []string, err error) {
	for {
		text = strings.TrimLeft(text, " \t\r\n")
		if text == "" {
			return fields, nil
		}
		if quote := text[0]; quote == '"' || quote == '\'' {
			end := strings.IndexByte(text[1:], quote)
			if end < 0 {
				return nil, fmt.Errorf("GOFLAGS ends within quotes: %s", text)
			}
			fields, text = append(fields, text[1:1+end]), text[end+2:]
			continue
		}
		end := strings.IndexAny(text, " \t\r\n")
		if end < 0 {
			end = len(text)
		}
		fields, text = append(fields, text[:end]), text[end:]
	}
}

// ReadOverlay reads the user's own overlay; paths in it are seen from dir ("" is the current folder), as the go command
// sees them.
func ReadOverlay(file, dir string) (map[string]string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	absolute := func(path string) string {
		if filepath.IsAbs(path) {
			return filepath.Clean(path)
		}
		return filepath.Join(dir, path)
	}
	text, err := os.ReadFile(absolute(file))
	if err != nil {
		return nil, fmt.Errorf("-overlay: %w", err)
	}
	var list struct{ Replace map[string]string }
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("-overlay: %s is not a list of replacements: %w", file, err)
	}
	out := map[string]string{}
	for from, to := range list.Replace {
		if to != "" { // empty: the file counts as missing
			to = absolute(to)
		}
		out[absolute(from)] = to
	}
	return out, nil
}
