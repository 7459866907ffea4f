package test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hello is a module with a dependency, a test and an example.
func hello(t *testing.T) string {
	return module(t, map[string]string{
		"go.mod":       "module example.org/hello\n\ngo 1.21\n\nrequire example.org/greet v0.0.0\n\nreplace example.org/greet => ./greet\n",
		"greet/go.mod": "module example.org/greet\n\ngo 1.21\n",
		"greet/greet.go": `// Package greet greets.
package greet

// Text is the greeting.
const Text = "hello"
`,
		"main.go": `// Command hello prints and tells how it was built.
package main

import (
	"fmt"
	"os"

	"example.org/greet"
)

func main() {
	fmt.Println(greet.Text, tagged, os.Args[1:])
}

func print() { fmt.Println(greet.Text) }
`,
		"plain.go":  "//go:build !special\n\npackage main\n\nconst tagged = false\n",
		"tagged.go": "//go:build special\n\npackage main\n\nconst tagged = true\n",
		"main_test.go": `package main

import "testing"

func TestTag(t *testing.T) { t.Log("tagged:", tagged) }

func Example() {
	println("not part of the output")
	print()
	// Output: hello
}
`})
}

func TestRunAndFlags(t *testing.T) {
	dir := hello(t)
	for _, c := range []struct {
		want string
		env  []string
		args []string
	}{
		{"hello false []\n", nil, []string{"run", "."}},
		{"hello false [a -tags=x -overlay]\n", nil, []string{"run", ".", "a", "-tags=x", "-overlay"}},
		{"hello true []\n", nil, []string{"run", "-tags", "special,other", "."}},
		{"hello true []\n", nil, []string{"run", "--tags=special", "."}},
		{"hello true []\n", []string{"GOFLAGS=-buildvcs=false -tags=special"}, []string{"run", "."}},
		{"hello false []\n", []string{"GOFLAGS=-tags=special"}, []string{"run", "-buildvcs=false", "-tags=", "."}},
		{"hello true []\n", nil, []string{"run", "-ldflags", "-s -w", "-gcflags=-N", "-trimpath", "-tags=special", "."}},
	} {
		if got := must(t, dir, c.env, tool, c.args...); got != c.want {
			t.Errorf("%v %v: %q instead of %q", c.env, c.args, got, c.want)
		}
	}
	if got := must(t, "", nil, tool, "run", "-C", dir, "."); got != "hello false []\n" {
		t.Errorf("-C: %q", got)
	}
	if got := run(t, "", nil, build(t, nil, "exit"), "7"); got.status != 7 {
		t.Errorf("status %d instead of 7", got.status)
	}
	if got := must(t, dir, nil, tool, "version"); !strings.HasPrefix(got, "go version go1.") {
		t.Errorf("version: %q", got)
	}
	if got := must(t, dir, nil, tool, "list", "-m"); got != "example.org/hello\n" {
		t.Errorf("list: %q", got)
	}
	if got := must(t, "", nil, tool, "help"); !strings.Contains(got, "QUAVER_GO=quantum=50us") {
		t.Errorf("help: %q", got)
	}
}

func TestInstall(t *testing.T) {
	bin := t.TempDir()
	must(t, hello(t), []string{"GOBIN=" + bin}, tool, "install", ".")
	if got := must(t, "", []string{"QUAVER_GO=quantum=20us"}, filepath.Join(bin, "hello")); got != "hello false []\n" {
		t.Errorf("%q", got)
	}
}

func TestVendoringAndVet(t *testing.T) {
	dir := hello(t)
	must(t, dir, nil, tool, "mod", "vendor")
	if got := must(t, dir, nil, tool, "run", "-mod=vendor", "."); got != "hello false []\n" {
		t.Errorf("%q", got)
	}
	must(t, dir, nil, tool, "vet", "./...")
	bad := "package main\n\nimport \"fmt\"\n\nfunc bad() { fmt.Printf(\"%d\", \"text\") }\n"
	if err := os.WriteFile(filepath.Join(dir, "bad.go"), []byte(bad), 0o666); err != nil {
		t.Fatal(err)
	}
	refused(t, dir, nil, []string{"bad.go:5"}, "vet", "-printf", "./...")
}

// Tests run, and their results are not taken from a run with another quantum.
func TestGoTest(t *testing.T) {
	dir := hello(t)
	fifty := []string{"QUAVER_GO=quantum=50us"}
	for _, args := range [][]string{
		{"test", "./..."}, {"test", "./...", "-v", "-run", "Tag"}, {"test", "-tags", "special", "-run=Tag", "-cover", "."},
	} {
		must(t, dir, fifty, tool, args...)
	}
	if got := must(t, dir, fifty, tool, "test", "."); strings.Contains(got, "(cached)") {
		t.Errorf("cached although QUAVER_GO is set: %s", got)
	}
	must(t, dir, nil, tool, "test", ".")
	if got := must(t, dir, nil, tool, "test", "."); !strings.Contains(got, "(cached)") {
		t.Errorf("not cached although QUAVER_GO is not set: %s", got)
	}
	if got := run(t, dir, []string{"QUAVER_GO=quantum=x"}, tool, "test", "."); got.status == 0 {
		t.Error("a test ran with a wrong QUAVER_GO")
	}
}

// A user's own overlay is kept, beside ours.
func TestOwnOverlay(t *testing.T) {
	dir := hello(t)
	other := filepath.Join(t.TempDir(), "greet.go")
	if err := os.WriteFile(other, []byte("package greet\n\nconst Text = \"overlaid\"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	write := func(name string, replace map[string]string) {
		text, _ := json.Marshal(map[string]any{"Replace": replace})
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("overlay.json", map[string]string{"greet/greet.go": other})
	if got := must(t, dir, nil, tool, "run", "-overlay=overlay.json", "."); got != "overlaid false []\n" {
		t.Errorf("%q", got)
	}
	if got := must(t, dir, []string{"GOFLAGS=-overlay=overlay.json -buildvcs=false"}, tool, "run", "."); got != "overlaid false []\n" {
		t.Errorf("%q", got)
	}
	root := strings.TrimSpace(must(t, dir, nil, "go", "env", "GOROOT"))
	write("clash.json", map[string]string{filepath.Join(root, "src/runtime/proc.go"): other})
	refused(t, dir, nil, []string{"proc.go", "quaver-go replaces as well"}, "build", "-overlay=clash.json", ".")
	refused(t, dir, nil, []string{"none.json"}, "build", "-overlay=none.json", ".")
	write("clash.json", nil)
	if err := os.WriteFile(filepath.Join(dir, "broken.json"), []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	refused(t, dir, nil, []string{"broken.json is not a list"}, "build", "-overlay", "broken.json", ".")
}
