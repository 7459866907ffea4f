package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The output of every program of the corpus is the stock toolchain's, byte for byte.
func TestOutput(t *testing.T) {
	corpus := build(t, nil, "corpus")
	stock := filepath.Join(t.TempDir(), "stock")
	must(t, "", nil, "go", "build", "-o", stock, "./testdata/corpus")
	want := must(t, "", nil, stock)
	times := 2
	if full {
		times = 50
	}
	for _, setting := range []string{
		"", "off", "quantum=0", "quantum=10us", "quantum=20us", "quantum=50us", "quantum=50us,policy=paper", "quantum=20us,queues=one",
		"quantum=20us,netfirst=off,skip=off,long=0", "quantum=20us,locks=off,share=0", "quantum=50us,clock=spin",
		"quantum=20us,share=100", "quantum=1ms,poll=10us",
	} {
		for i := 0; i < times; i++ {
			if got := must(t, "", []string{"QUAVER_GO=" + setting}, corpus); got != want {
				t.Errorf("QUAVER_GO=%s changes the output", setting)
			}
		}
	}
	// Settings of Go's own still do what they do.
	for _, debug := range []string{"asyncpreemptoff=1", "gctrace=0,gccheckmark=1", "schedtrace=100"} {
		if got := must(t, "", []string{"QUAVER_GO=quantum=20us", "GODEBUG=" + debug}, corpus); got != want {
			t.Errorf("GODEBUG=%s changes the output", debug)
		}
	}
	if got := must(t, "", []string{"QUAVER_GO=quantum=20us", "GOMAXPROCS=1", "GOGC=1"}, corpus); got != want {
		t.Error("one P and many collections change the output")
	}
}

// Stress, in all settings that take other paths.
func TestStress(t *testing.T) {
	stress := build(t, nil, "stress")
	settings := []string{"quantum=50us", "quantum=10us"}
	duration := "-for=2s"
	if full {
		settings = append(settings, "quantum=20us", "quantum=0", "quantum=50us,policy=paper", "quantum=50us,clock=spin",
			"quantum=20us,share=100", "quantum=20us,share=0,long=0", "quantum=50us,hold=inf,netfirst=off", "quantum=100us,queues=one")
		duration = "-for=2m"
	}
	for _, setting := range settings {
		must(t, "", []string{"QUAVER_GO=" + setting}, stress, duration)
	}
}

func TestRace(t *testing.T) {
	env := []string{"CGO_ENABLED=1"}
	path := build(t, env, "stress", "-race")
	must(t, "", []string{"QUAVER_GO=quantum=50us"}, path, "-for=2s")

	// The detector still finds what it is for.
	dir := module(t, map[string]string{
		"go.mod": "module racy\n\ngo 1.21\n",
		"main.go": `package main

func main() {
	n := 0
	done := make(chan bool)
	go func() { n++; done <- true }()
	n++
	<-done
	println(n)
}
`})
	r := run(t, dir, append(env, "QUAVER_GO=quantum=50us"), tool, "run", "-race", ".")
	if r.status == 0 || !strings.Contains(r.stderr, "DATA RACE") {
		t.Errorf("the race is not found: status %d\n%s", r.status, r.stderr)
	}
}

func TestCgo(t *testing.T) {
	path := build(t, []string{"CGO_ENABLED=1"}, "cgo")
	for _, setting := range []string{"", "quantum=50us", "quantum=10us"} {
		if out := must(t, "", []string{"QUAVER_GO=" + setting}, path); out != "ok\n" {
			t.Errorf("%s: %s", setting, out)
		}
	}
}

// A library for C programs, loaded or linked: it preempts, and what it does not understand is no reason to end its
// host.
func TestLibrariesForC(t *testing.T) {
	inFull(t)
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("there is no C compiler")
	}
	const host = `#include <stdio.h>
#include "shared.h"
int main(void) { printf(Preempts() > 0 ? "preempted\n" : "not preempted\n"); return 0; }
`
	for _, kind := range []struct{ mode, file string }{{"c-shared", "libshared.so"}, {"c-archive", "libshared.a"}} {
		dir := t.TempDir()
		library := filepath.Join(dir, kind.file)
		must(t, "", []string{"CGO_ENABLED=1"}, tool, "build", "-buildmode="+kind.mode, "-o", library, "./testdata/shared")
		for name, text := range map[string]string{"host.c": host} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Rename(filepath.Join(dir, "libshared.h"), filepath.Join(dir, "shared.h")); err != nil {
			t.Fatal(err)
		}
		program := filepath.Join(dir, "host")
		must(t, dir, nil, "cc", "-o", program, "host.c", library, "-Wl,-rpath,"+dir, "-lpthread")
		if got := must(t, "", []string{"QUAVER_GO=quantum=50us"}, program); got != "preempted\n" {
			t.Errorf("%s: %s", kind.mode, got)
		}
		r := run(t, "", []string{"QUAVER_GO=quantum=50us,share=many"}, program)
		if r.status != 0 || r.stdout != "not preempted\n" || !strings.Contains(r.stderr, "share=many") ||
			!strings.Contains(r.stderr, "runs without preemption") {
			t.Errorf("%s with a bad setting: %+v", kind.mode, r)
		}
	}
}

// The runtime differs with the experiments that a toolchain is built with.
func TestExperiments(t *testing.T) {
	inFull(t)
	experiments := []string{"nogreenteagc", "noswissmap,nospinbitmutex", "heapminimum512kib", "randomizedheapbase64",
		"goroutineleakprofile", "synctest", "jsonv2"}
	for _, experiment := range experiments {
		env := []string{"GOEXPERIMENT=" + experiment}
		if r := run(t, "", env, "go", "version"); r.status != 0 {
			t.Logf("%s: not known to this Go", experiment)
			continue
		}
		scenes(t, build(t, env, "hog"))
		must(t, "", []string{"QUAVER_GO=quantum=20us"}, build(t, env, "stress"), "-for=1s")
	}
}

// Without the device a program that wants user interrupts says so, once, and is preempted by signals.
func TestWithoutUserInterrupts(t *testing.T) {
	if _, err := os.Stat("/dev/quaver"); err == nil {
		t.Skip("the device is there")
	}
	r := run(t, "", []string{"QUAVER_GO=quantum=50us,notification=user-interrupt"}, build(t, nil, "hog"), "share")
	if r.stdout != "ok\n" || strings.Count(r.stderr, "no user interrupts, signals instead") != 1 {
		t.Errorf("%+v", r)
	}
}

// The library tells the truth under both toolchains.
func TestLibrary(t *testing.T) {
	want := `enabled true
quantum 50µs
set 50µs 70µs
smallest 10µs
largest 10ms
negative 0s
label best-effort marked true
profile true
after false
published <nil> true 0 true true
`
	if got := must(t, "", []string{"QUAVER_GO=quantum=50us"}, build(t, nil, "library")); got != want {
		t.Errorf("with quaver-go:\n%s", got)
	}
	want = `enabled false
quantum 0s
set 0s 0s
smallest 0s
largest 0s
negative 0s
label best-effort marked false
profile true
after false
published <nil> false 0 true true
`
	if got := must(t, "", []string{"QUAVER_GO=quantum=50us"}, "go", "run", "./testdata/library"); got != want {
		t.Errorf("with the stock toolchain:\n%s", got)
	}
}

// The programs in the user's page run, under both toolchains.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/go.md")
	if err != nil {
		t.Fatal(err)
	}
	library, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	programs := 0
	for _, block := range strings.Split(string(page), "```go\n")[1:] {
		text, _, _ := strings.Cut(block, "```")
		if !strings.HasPrefix(text, "package main") {
			continue
		}
		programs++
		dir := module(t, map[string]string{
			"go.mod":  "module docs.test/x\n\ngo 1.21\n\nrequire quaver.dev/go v0.0.0\n\nreplace quaver.dev/go => " + library + "\n",
			"main.go": text,
		})
		for command, want := range map[string]string{
			"go": "preempting: false, quantum 0s\nthe work in the background is done\npreempted something: false\n",
			tool: "preempting: true, quantum 50µs\nthe work in the background is done\npreempted something: true\n",
		} {
			if got := must(t, dir, nil, command, "run", "."); got != want {
				t.Errorf("%s: %s", filepath.Base(command), got)
			}
		}
	}
	if programs == 0 {
		t.Error("there is no program in docs/go.md")
	}
}

// Programs made with one toolchain are the same whatever the other did before: the build cache does not mix them.
func TestCache(t *testing.T) {
	dir := t.TempDir()
	made := func(name, command string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		must(t, "", nil, command, "build", "-o", path, "./testdata/exit")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	stock, ours := made("stock", "go"), made("ours", tool)
	if stock == ours {
		t.Fatal("the programs are the same")
	}
	if made("stock2", "go") != stock || made("ours2", tool) != ours {
		t.Error("a build depends on the one before")
	}
	if strings.Contains(stock, "QUAVER_GO") || !strings.Contains(ours, "QUAVER_GO") {
		t.Error("the wrong runtime")
	}
}
