package test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestRefusedArguments(t *testing.T) {
	dir := hello(t)
	for _, c := range []struct {
		env   []string
		texts []string
		args  []string
	}{
		{nil, []string{"-buildmode=plugin is not supported", "runtime"}, []string{"build", "-buildmode=plugin", "."}},
		{nil, []string{"-buildmode=plugin is not supported"}, []string{"build", "-buildmode", "plugin", "."}},
		{[]string{"GOFLAGS=-buildmode=plugin"}, []string{"in GOFLAGS", "plugin"}, []string{"build", "."}},
		{nil, []string{"-buildmode=shared is not supported"}, []string{"install", "-buildmode=shared", "std"}},
		{nil, []string{"-linkshared"}, []string{"build", "-linkshared", "."}},
		{nil, []string{"-compiler=gccgo", "only gc"}, []string{"build", "-compiler=gccgo", "."}},
		{[]string{"GOARCH=arm64"}, []string{"linux/arm64", "only for linux/amd64"}, []string{"build", "."}},
		{[]string{"GOOS=windows"}, []string{"windows/amd64", "only for linux/amd64"}, []string{"build", "."}},
		{[]string{"GOFLAGS='-tags=x"}, []string{"GOFLAGS"}, []string{"build", "."}},
		{[]string{"PATH=/nonexistent"}, []string{"no go command in PATH", "go.dev/dl"}, []string{"build", "."}},
		{[]string{"HOME=", "XDG_CACHE_HOME="}, []string{"cache", "HOME"}, []string{"build", "."}},
		{[]string{"XDG_CACHE_HOME=/proc/nowhere", "GOCACHE=" + t.TempDir()}, []string{"cache folder"}, []string{"build", "."}},
	} {
		refused(t, dir, c.env, c.texts, c.args...)
	}
	if r := run(t, dir, nil, tool); r.status != 2 || !strings.Contains(r.stderr, "quaver-go build|run") {
		t.Errorf("without arguments: status %d, %s", r.status, r.stderr)
	}
}

// Only releases within the range that is known are patched.
func TestUnknownVersion(t *testing.T) {
	dir := t.TempDir()
	for version, text := range map[string]string{
		"go1.20.14":              "go1.20.14 is not supported, only Go 1.21 to 1.27 are",
		"go1.99.0":               "go1.99.0 is not supported",
		"devel go1.27-a1b2c3d4e": "is not a Go release",
	} {
		fake := "#!/bin/sh\necho '{\"GOROOT\": \"/nonexistent\", \"GOVERSION\": \"" + version +
			"\", \"GOOS\": \"linux\", \"GOARCH\": \"amd64\"}'\n"
		if err := os.WriteFile(filepath.Join(dir, "go"), []byte(fake), 0o777); err != nil {
			t.Fatal(err)
		}
		refused(t, dir, []string{"PATH=" + dir + ":/usr/bin:/bin"}, []string{text}, "build", ".")
	}
}

// shadow returns a GOROOT that is the installed one by links, except for src/runtime, which is a copy.
func shadow(t *testing.T) string {
	root := strings.TrimSpace(must(t, "", nil, "go", "env", "GOROOT"))
	dir := t.TempDir()
	links := func(sub string, except string) {
		entries, err := os.ReadDir(filepath.Join(root, sub))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Name() == except {
				if err := os.Mkdir(filepath.Join(dir, sub, except), 0o777); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if err := os.Symlink(filepath.Join(root, sub, e.Name()), filepath.Join(dir, sub, e.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	links("", "src")
	links("src", "runtime")
	links("src/runtime", "")
	return dir
}

// rewrite replaces a linked file by an edited copy.
func rewrite(t *testing.T, file, old, new string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		t.Fatalf("%s has no %q", file, old)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), old, new)), 0o666); err != nil {
		t.Fatal(err)
	}
}

// A GOROOT that somebody has edited is refused with version, file and place, unless the edit is elsewhere.
func TestEditedRoot(t *testing.T) {
	dir, version := hello(t), installed(t)
	for _, c := range []struct{ old, new, says string }{
		{"\t\tusleep(delay)\n", "\t\tusleep(delay + 1)\n", `func sysmon: "usleep(delay)" found 0 times, expected once`},
		{"\t\tusleep(delay)\n", "\t\tusleep(delay)\n\t\tusleep(delay)\n", `func sysmon: "usleep(delay)" found 2 times, expected once`},
		{"func sysmon()", "func sysmoff()", "func sysmon: found 0 times, expected once"},
		{"package runtime", "package", "runtime/proc.go: the file: is not Go source"},
	} {
		root := shadow(t)
		rewrite(t, filepath.Join(root, "src/runtime/proc.go"), c.old, c.new)
		refused(t, dir, []string{"GOROOT=" + root},
			[]string{version + ": runtime/proc.go: ", c.says, "GOROOT " + root, "has been edited"}, "build", ".")
	}
	root := shadow(t)
	rewrite(t, filepath.Join(root, "src/runtime/extern.go"), "package runtime", "package runtime // edited")
	must(t, dir, []string{"GOROOT=" + root}, tool, "overlay") // not refused
	if err := os.Remove(filepath.Join(root, "src/runtime/preempt.go")); err != nil {
		t.Fatal(err)
	}
	refused(t, dir, []string{"GOROOT=" + root}, []string{"preempt.go", "no such file"}, "build", ".")
}

// GOROOT can be read-only, and is never written to.
func TestReadOnlyRoot(t *testing.T) {
	dir := hello(t)
	root := strings.TrimSpace(must(t, dir, nil, "go", "env", "GOROOT"))
	state := func() string {
		var all strings.Builder
		err := filepath.WalkDir(filepath.Join(root, "src"), func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err == nil {
				all.WriteString(path + info.ModTime().String())
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return all.String()
	}
	before := state()
	must(t, dir, nil, tool, "build", "-o", os.DevNull, ".")
	if state() != before {
		t.Error("files in GOROOT have changed")
	}
	if exec.Command("unshare", "-rm", "true").Run() != nil {
		t.Skip("no mount namespaces here, so no read-only mount")
	}
	script := `mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && ! touch "$1/x" 2>/dev/null && exec "$2" run .`
	if got := must(t, dir, nil, "unshare", "-rm", "sh", "-c", script, "sh", root, tool); got != "hello false []\n" {
		t.Errorf("%q", got)
	}
}

// A wrong QUAVER_GO ends the program before it does anything, and says what is wrong.
func TestSettings(t *testing.T) {
	program := build(t, nil, "exit")
	for setting, text := range map[string]string{
		"quantum=50":                             "quantum=50 is not understood; quantum is a whole number with ns, us, ms or s",
		"quantum=":                               "quantum= is not understood",
		"quantum=-50us":                          "quantum=-50us is not understood",
		"quantum=5.5us":                          "is not understood",
		"quantum=99999999999999999us":            "is not understood",
		"quantum=2000000s":                       "an hour at most",
		"quantum=50us,":                          "a comma ends",
		"=50us":                                  "not of the form key=value",
		"50us":                                   "\"50us\" is not of the form key=value",
		"on":                                     "not of the form key=value",
		"quantm=50us":                            "unknown key \"quantm\"; known are policy, quantum",
		"quantum=50us,policy=best":               "policy=best is not understood; policy is quaver or paper",
		"quantum=50us,share=101":                 "share=101 is not understood; share is a percentage",
		"quantum=50us,tax=0":                     "tax=0 is not understood; tax is a percentage from 1 to 100",
		"quantum=50us,tax=101":                   "tax=101 is not understood",
		"quantum=50us,skip=yes":                  "skip=yes is not understood; skip is off or on",
		"quantum=50us,queues=three":              "queues is one or two",
		"quantum=50us,clock=sundial":             "clock is sleep or spin",
		"quantum=50us,notification=bell":         "notification is signal or user-interrupt",
		"quantum=50us,hold=forever":              "hold=forever is not understood",
		"poll=100us":                             "no quantum in",
		"quantum=50us ,skip=on":                  "is not understood",
		"quantum=50us,quantum=60us":              "quantum is set more than once",
		"policy=paper,quantum=50us,policy=paper": "policy is set more than once",
	} {
		r := run(t, "", []string{"QUAVER_GO=" + setting}, program, "0")
		if r.status != 2 || !strings.HasPrefix(r.stderr, "quaver-go: QUAVER_GO: ") || !strings.Contains(r.stderr, text) {
			t.Errorf("QUAVER_GO=%q: status %d, %q", setting, r.status, r.stderr)
		}
	}
	for setting, text := range map[string]string{
		"quantum=1us":         "a quantum of 1000 ns is out of range; using 10us",
		"quantum=1ns":         "using 10us",
		"quantum=20ms":        "using 10000us",
		"quantum=50us":        "",
		"quantum=50µs":        "",
		"quantum=0":           "",
		"off":                 "",
		"":                    "",
		"share=5%,quantum=1s": "using 10000us",
		"policy=paper,quantum=50us,hold=inf,idle=1ms,tax=5%,long=2ms,netfirst=on,locks=off": "",
	} {
		r := run(t, "", []string{"QUAVER_GO=" + setting}, program, "0")
		if r.status != 0 || (text == "") != (r.stderr == "") || !strings.Contains(r.stderr, text) {
			t.Errorf("QUAVER_GO=%q: status %d, %q", setting, r.status, r.stderr)
		}
	}
}
