// Package test builds and runs programs with quaver-go.
//
// The quick form takes the installed Go, and three other releases for what differs between releases. With
// QUAVER_TEST_FULL=1 all releases are tested, std's own tests in full, a large program from elsewhere, and stress runs
// for minutes. Releases that cannot be fetched are skipped, and said so.
package test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// releases are the newest of each supported minor version when this was written.
var releases = []string{"go1.21.13", "go1.22.12", "go1.23.12", "go1.24.13", "go1.25.14", "go1.26.8", "go1.27.4"}

// full says whether the long forms are wanted.
var full = os.Getenv("QUAVER_TEST_FULL") != ""

// tool is the command under test, built by TestMain with the installed Go.
var tool string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "quaver-go-test-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		// The caller's settings are not what the tests are about.
		for _, name := range []string{"QUAVER_GO", "GODEBUG", "GOOS", "GOARCH", "GOEXPERIMENT"} {
			os.Unsetenv(name)
		}
		os.Setenv("GOFLAGS", "-buildvcs=false")
		os.Setenv("GOWORK", "off")
		os.Setenv("GOTOOLCHAIN", "local")
		tool = filepath.Join(dir, "quaver-go")
		if out, err := exec.Command("go", "build", "-o", tool, "quaver.dev/go/cmd/quaver-go").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "cannot build quaver-go: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// A result is what a command did.
type result struct {
	stdout, stderr string
	status         int
}

// run runs a command in dir with more environment. It fails the test only if the command cannot be started or hangs.
func run(t *testing.T, dir string, env []string, name string, args ...string) result {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	// In a group of its own, to be reached whole, yet gone with this program. Linux takes the thread for that.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// A Go program tells on SIGQUIT what its goroutines do. Its children get it, too.
	quit := time.AfterFunc(patience(), func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGQUIT) })
	kill := time.AfterFunc(patience()+20*time.Second, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	err := cmd.Wait()
	kill.Stop()
	if !quit.Stop() {
		t.Fatalf("%v %s %v hangs\n%s\n%s", env, name, args, tail(stdout.String()), tail(stderr.String()))
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// patience is how long a command may take: much longer than any does, and shorter than go test's own limit.
func patience() time.Duration {
	if full {
		return time.Hour
	}
	return 6 * time.Minute
}

// must is run for commands that have to succeed; it returns their output.
func must(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	r := run(t, dir, env, name, args...)
	if r.status != 0 {
		t.Fatalf("%v %s %s: status %d\n%s%s", env, filepath.Base(name), strings.Join(args, " "), r.status, tail(r.stdout), tail(r.stderr))
	}
	return r.stdout
}

// tail returns the end of a long text.
func tail(text string) string {
	const most = 8000
	if len(text) > most {
		return "..." + text[len(text)-most:]
	}
	return text
}

// refused checks that quaver-go with args fails and says each of the texts.
func refused(t *testing.T, dir string, env []string, texts []string, args ...string) {
	t.Helper()
	r := run(t, dir, env, tool, args...)
	if r.status == 0 {
		t.Fatalf("quaver-go %v succeeded", args)
	}
	for _, text := range texts {
		if !strings.Contains(r.stderr, text) {
			t.Errorf("quaver-go %v does not say %q but\n%s", args, text, r.stderr)
		}
	}
}

// build builds a program of testdata with quaver-go and returns its path.
func build(t *testing.T, env []string, program string, flags ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), program)
	args := append([]string{"build", "-o", path}, flags...)
	must(t, "", env, tool, append(args, "./testdata/"+program)...)
	return path
}

// selected returns the environment that selects a release, which it fetches; the test is skipped if it cannot be had.
func selected(t *testing.T, release string) []string {
	t.Helper()
	env := []string{"GOTOOLCHAIN=" + release}
	r := run(t, os.TempDir(), env, "go", "version")
	if r.status != 0 {
		t.Skipf("%s cannot be fetched: %s", release, tail(r.stderr))
	}
	if !strings.Contains(r.stdout, release+" ") {
		t.Skipf("GOTOOLCHAIN=%s selects %s", release, r.stdout)
	}
	return env
}

// installed returns the version of the installed Go.
func installed(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(must(t, os.TempDir(), nil, "go", "env", "GOVERSION"))
}

// some returns the releases for what differs between releases: all, or the oldest and the newest.
func some() []string {
	if full {
		return releases
	}
	return []string{releases[0], releases[len(releases)-1]}
}

// inFull skips a test in the quick form, because it builds Go's standard library once more.
func inFull(t *testing.T) {
	t.Helper()
	if !full {
		t.Skip("in the long form only")
	}
}

// module writes a module into a new folder and returns the folder.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
