package toolchain

import (
	"os"
	"path/filepath"
	"testing"
)

func TestGate(t *testing.T) {
	for version, want := range map[string]int{
		"go1.21": 21, "go1.21.13": 21, "go1.27rc1": 27, "go1.26.8": 26, "go1.25.3 X:nocoverageredesign": 25,
		"go1.22.9 (Red Hat 1.22.9-2.el9_5)": 22, "go1.24.1-custom": 24,
		"go1.20.14": 0, "go1.28.0": 0, "go1.28rc1": 0, "go2.0": 0, "devel go1.27-abcdef": 0, "go1": 0, "": 0, "go1.26.x": 0,
		"go1.99999999999999999999": 0,
	} {
		got, err := Gate(version, "linux", "amd64", 21, 27)
		if got != want || (err == nil) != (want != 0) {
			t.Errorf("%q: %d, %v; want %d", version, got, err, want)
		}
	}
	for _, platform := range [][2]string{{"windows", "amd64"}, {"linux", "arm64"}, {"darwin", "arm64"}} {
		if _, err := Gate("go1.26.8", platform[0], platform[1], 21, 27); err == nil {
			t.Errorf("%v is let through", platform)
		}
	}
}

func TestBeneath(t *testing.T) {
	dir := t.TempDir()
	inner := filepath.Join(dir, "mod", "toolchain")
	if err := os.MkdirAll(inner, 0o777); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(dir, "link")
	if err := os.Symlink(inner, outside); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		inner: true, outside: true, filepath.Join(dir, "mod"): true, dir: false, filepath.Join(dir, "module"): false,
	} {
		if got := beneath(path, filepath.Join(dir, "mod")); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
	if beneath(inner, "") {
		t.Error("everything is beneath nothing")
	}
}

func TestLink(t *testing.T) {
	cache := t.TempDir()
	for _, root := range []string{"/a/go1.26", "/b/go1.26", "/b/go1.26"} { // the second replaces the first
		path, err := link(root, cache)
		if err != nil {
			t.Fatal(err)
		}
		if to, err := os.Readlink(path); err != nil || to != root {
			t.Errorf("%s leads to %s, %v", path, to, err)
		}
	}
}

func TestEnvironment(t *testing.T) {
	tools := &Toolchain{Root: "/r"}
	got := tools.Environment([]string{"A=1", "GOROOT=/x", "GOTOOLCHAIN=auto", "GOROOTS=2"})
	want := []string{"A=1", "GOROOTS=2", "GOROOT=/r", "GOTOOLCHAIN=local"}
	if len(got) != len(want) {
		t.Fatalf("%q", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%q", got)
		}
	}
}
