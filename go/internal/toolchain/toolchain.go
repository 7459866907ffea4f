// Package toolchain finds the Go that will build, and says whether it may.
package toolchain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// A Toolchain is an installed Go release, as selected by PATH, GOTOOLCHAIN and go.mod.
type Toolchain struct {
	Root    string // GOROOT, or a link to it if overlays of GOROOT itself are refused
	Version string // as in `go version`
	Minor   int    // N of 1.N
	Flags   string // GOFLAGS
}

// Command returns the path of its go command.
func (t *Toolchain) Command() string { return filepath.Join(t.Root, "bin", "go") }

// Environment returns env changed so that the go command runs as this toolchain and no other.
func (t *Toolchain) Environment(env []string) []string {
	out := make([]string, 0, len(env)+2)
	for _, e := range env {
		if !strings.HasPrefix(e, "GOROOT=") && !strings.HasPrefix(e, "GOTOOLCHAIN=") {
			out = append(out, e)
		}
	}
	return append(out, "GOROOT="+t.Root, "GOTOOLCHAIN=local")
}

// goEnv is what is asked of `go env`.
type goEnv struct {
	GOROOT, GOVERSION, GOOS, GOARCH, GOFLAGS, GOMODCACHE string
}

// Find returns the toolchain that the go command in PATH selects in dir ("" is the current folder). cache is our cache
// folder; a link to GOROOT is made there where one is needed. min and max are the supported N of 1.N.
func Find(dir, cache string, min, max int) (*Toolchain, error) {
	command, err := exec.LookPath("go")
	if err != nil {
		return nil, errors.New("no go command in PATH; install Go from https://go.dev/dl or add its bin folder to PATH")
	}
	env, err := ask(command, dir)
	if err != nil {
		return nil, err
	}
	minor, err := Gate(env.GOVERSION, env.GOOS, env.GOARCH, min, max)
	if err != nil {
		return nil, err
	}
	t := &Toolchain{Root: env.GOROOT, Version: env.GOVERSION, Minor: minor, Flags: env.GOFLAGS}
	if t.Root == "" {
		return nil, fmt.Errorf("%s does not know its GOROOT; set GOROOT", command)
	}
	if minor >= 25 && beneath(t.Root, env.GOMODCACHE) {
		if t.Root, err = link(t.Root, cache); err != nil {
			return nil, err
		}
	}
	if _, err := os.Stat(t.Command()); err != nil {
		return nil, fmt.Errorf("GOROOT %s has no go command: %w", t.Root, err)
	}
	return t, nil
}

func ask(command, dir string) (*goEnv, error) {
	cmd := exec.Command(command, "env", "-json", "GOROOT", "GOVERSION", "GOOS", "GOARCH", "GOFLAGS", "GOMODCACHE")
	cmd.Dir = dir
	var messages bytes.Buffer
	cmd.Stderr = &messages
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s env: %w: %s", command, err, strings.TrimSpace(messages.String()))
	}
	env := new(goEnv)
	if err := json.Unmarshal(out, env); err != nil {
		return nil, fmt.Errorf("%s env: %w", command, err)
	}
	return env, nil
}

// Releases, release candidates and what distributions make of them; not development versions.
var release = regexp.MustCompile(`^go1\.([0-9]+)(\.[0-9]+|rc[0-9]+)?([ -].*)?$`)

// Gate returns N of a Go 1.N that is supported on the platform built for, or says why it is not.
func Gate(version, goos, goarch string, min, max int) (int, error) {
	m := release.FindStringSubmatch(version)
	if m == nil {
		return 0, fmt.Errorf("%q is not a Go release; Go 1.%d to 1.%d are supported", version, min, max)
	}
	minor, err := strconv.Atoi(m[1])
	if err != nil || minor < min || minor > max {
		return 0, fmt.Errorf("%s is not supported, only Go 1.%d to 1.%d are; GOTOOLCHAIN=go1.%d.0 or the like selects another release",
			version, min, max, max)
	}
	if goos != "linux" || goarch != "amd64" {
		return 0, fmt.Errorf("cannot build for %s/%s, only for linux/amd64; use the go command for other platforms, where %s",
			goos, goarch, "the library quaver.dev/go does nothing")
	}
	return minor, nil
}

// beneath reports whether path is in dir, whatever links lead there.
func beneath(path, dir string) bool {
	resolve := func(p string) string {
		if r, err := filepath.EvalSymlinks(p); err == nil {
			return r
		}
		return filepath.Clean(p)
	}
	relative, err := filepath.Rel(resolve(dir), resolve(path))
	return err == nil && dir != "" && relative != ".." && !strings.HasPrefix(relative, ".."+string(filepath.Separator))
}

// link returns a link to root outside of the module cache: since Go 1.25, files beneath it cannot be replaced.
func link(root, cache string) (string, error) {
	path := filepath.Join(cache, "goroot", filepath.Base(root))
	if to, err := os.Readlink(path); err == nil && to == root {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return "", fmt.Errorf("cannot make the cache folder: %w", err)
	}
	// Made beside and renamed, so that another build never finds half of it.
	tmp := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := os.Symlink(root, tmp); err != nil {
		return "", fmt.Errorf("cannot link to GOROOT in the cache folder: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		os.Remove(tmp)
		return "", fmt.Errorf("cannot link to GOROOT in the cache folder: %w", err)
	}
	return path, nil
}
