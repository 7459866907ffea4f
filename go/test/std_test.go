package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// skipped returns the tests of std that do not pass with a patched runtime: TestSizeof wants the exact size of a g,
// which has fields more. With a quantum, TestDebugCall... meets a flaw of Go's debugCallV2 (README.md); TestDebugCalls
// runs them without it.
func skipped(quantum string) string {
	if quantum == "0" {
		return "-skip=^TestSizeof$"
	}
	return "-skip=^TestSizeof$|^TestDebugCall"
}

// stdModule is a module in which std's tests have the settings (GODEBUG) of their own release, not those of an older
// one.
func stdModule(t *testing.T, env []string) string {
	version := strings.TrimSpace(must(t, os.TempDir(), env, "go", "env", "GOVERSION"))
	minor := strings.SplitN(strings.TrimPrefix(version, "go1."), ".", 2)[0]
	return module(t, map[string]string{"go.mod": "module std.test/x\n\ngo 1." + minor + "\n"})
}

// std runs tests of std with quaver-go at a quantum.
func std(t *testing.T, env []string, quantum string, packages []string, flags ...string) {
	t.Helper()
	env = append([]string{"QUAVER_GO=quantum=" + quantum}, env...)
	args := append([]string{"test", "-short", "-timeout=40m", "-vet=off"}, flags...)
	must(t, stdModule(t, env), env, tool, append(args, packages...)...)
}

// std's own tests of what preemption could break.
func TestStd(t *testing.T) {
	if !full {
		std(t, nil, "20us", []string{"sync", "sync/atomic", "context", "time"})
		return
	}
	all := []string{"sync", "sync/atomic", "context", "time", "os/signal", "net/http", "net", "io", "os", "runtime", "runtime/metrics",
		"runtime/pprof", "runtime/trace", "bufio", "crypto/sha256", "encoding/json", "math/big", "reflect", "sort", "strings"}
	for _, release := range releases {
		for _, quantum := range []string{"0", "50us", "20us"} {
			t.Run(release+"/"+quantum, func(t *testing.T) {
				std(t, selected(t, release), quantum, all, "-p=1", skipped(quantum))
			})
		}
	}
}

// debugCallMended returns an overlay of runtime in which debugCallV2 leaves the flags alone: the assembler ends its
// frame with an ADDQ, here it is a LEAQ. It is written as bytes, for the assembler would count it, and a traceback
// refuse functions that write SP.
func debugCallMended(t *testing.T, env []string) string {
	t.Helper()
	file := filepath.Join(strings.TrimSpace(must(t, os.TempDir(), env, tool, "list", "-f={{.Dir}}", "runtime")), "asm_amd64.s")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const head, end = "TEXT runtime·debugCallV2<ABIInternal>(SB),NOSPLIT,$152-0\n", "\n\tRET\n"
	before, function, found := strings.Cut(string(text), head)
	body, after, ends := strings.Cut(function, end)
	if !found || !ends {
		t.Fatalf("%s has no debugCallV2 with a frame of 152 bytes", file)
	}
	leave := "" // LEAQ 152(SP), SP; POPQ BP; RET
	for _, b := range []byte{0x48, 0x8d, 0xa4, 0x24, 152, 0, 0, 0, 0x5d, 0xc3} {
		leave += fmt.Sprintf("\n\tBYTE $%#x", b)
	}
	dir := module(t, map[string]string{"asm.s": before + head + body + leave + end + after})
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{file: filepath.Join(dir, "asm.s")}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, list, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// What the flaw of Go's own hides is tested without it.
func TestDebugCalls(t *testing.T) {
	if !full {
		t.Skip("builds std once more for each release")
	}
	for _, release := range releases {
		t.Run(release, func(t *testing.T) {
			env := selected(t, release)
			overlay := "-overlay=" + debugCallMended(t, env)
			for _, quantum := range []string{"50us", "20us"} {
				std(t, env, quantum, []string{"runtime"}, "-run=^TestDebugCall", "-count=100", overlay)
			}
		})
	}
}

// The examples of std are programs with known output.
func TestStdExamples(t *testing.T) {
	inFull(t)
	packages := []string{"sort", "strings", "container/heap", "text/template", "encoding/json", "sync", "regexp",
		"compress/flate", "crypto/cipher", "database/sql", "encoding/gob", "go/ast", "html/template", "image/png", "log",
		"math/big", "net/url", "os/exec", "slices", "strconv", "text/tabwriter", "time", "unicode/utf8"}
	std(t, nil, "20us", packages, "-run=^Example")
}

// ownTests runs the tests of packages with quaver-go. None may fail that passes with the stock toolchain: what fails
// once is repeated with both, and is the program's own fault only if stock's runs fail as well.
func ownTests(t *testing.T, dir string, env, packages []string) {
	t.Helper()
	args := append([]string{"test", "-short"}, packages...)
	r := run(t, dir, env, tool, args...)
	if r.status == 0 {
		return
	}
	names := []string{}
	for _, line := range strings.Split(r.stdout, "\n") {
		if name, ok := strings.CutPrefix(line, "--- FAIL: "); ok {
			names = append(names, "^"+strings.Fields(name)[0]+"$")
		}
	}
	if len(names) == 0 {
		t.Fatalf("%v quaver-go %v: status %d\n%s%s", env, args, r.status, tail(r.stdout), tail(r.stderr))
	}
	again := append([]string{"test", "-short", "-count=20", "-run=" + strings.Join(names, "|")}, packages...)
	if stock := run(t, dir, nil, "go", again...); stock.status != 0 {
		t.Logf("%v: %v failed, and so they do with the stock toolchain", env, names)
		return
	}
	ours := run(t, dir, env, tool, again...)
	t.Errorf("%v: %v failed, and 20 times more with status %d; not so with the stock toolchain\n%s%s", env, names, ours.status,
		tail(r.stdout), tail(ours.stdout))
}

// A program from elsewhere: its own tests pass, and what it makes is what the stock toolchain's makes.
func TestElsewhere(t *testing.T) {
	name, version, command, packages := "github.com/yuin/goldmark", "v1.7.13", "", []string{"github.com/yuin/goldmark/..."}
	if full {
		name, version, command = "github.com/caddyserver/caddy/v2", "v2.10.2", "github.com/caddyserver/caddy/v2/cmd/caddy"
		packages = []string{name, name + "/caddyconfig/...", name + "/modules/caddyhttp", name + "/modules/caddyhttp/rewrite",
			name + "/modules/caddyhttp/templates", name + "/modules/caddyhttp/headers", name + "/modules/caddytls", name + "/cmd"}
	}
	dir := stdModule(t, nil)
	if r := run(t, dir, nil, "go", "get", name+"@"+version); r.status != 0 {
		t.Skipf("%s cannot be fetched: %s", name, tail(r.stderr))
	}
	// What the program's own tests depend on is more than what it does.
	must(t, dir, nil, "go", "get", "-t", strings.TrimSuffix(packages[0], "/...")+"/...@"+version)
	for _, quantum := range []string{"50us", "20us"} {
		ownTests(t, dir, []string{"QUAVER_GO=quantum=" + quantum}, packages)
	}
	if command == "" {
		return
	}
	config := filepath.Join(dir, "Caddyfile")
	text := "localhost:8443\nencode gzip\nfile_server browse\nreverse_proxy /api/* 127.0.0.1:9000 127.0.0.1:9001 {\n\tlb_policy least_conn\n}\n"
	if err := os.WriteFile(config, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	stock, ours := filepath.Join(dir, "stock"), filepath.Join(dir, "ours")
	must(t, dir, nil, "go", "build", "-o", stock, command)
	must(t, dir, nil, tool, "build", "-o", ours, command)
	for _, args := range [][]string{
		{"adapt", "--config", config, "--pretty"}, {"list-modules"}, {"help"},
	} {
		want := run(t, dir, nil, stock, args...)
		for i := 0; i < 10; i++ {
			got := run(t, dir, []string{"QUAVER_GO=quantum=20us"}, ours, args...)
			if got.status != want.status || got.stdout != want.stdout {
				t.Fatalf("caddy %v differs: status %d and %d\n%s\n%s", args, want.status, got.status, tail(want.stdout), tail(got.stdout))
			}
		}
	}
}
