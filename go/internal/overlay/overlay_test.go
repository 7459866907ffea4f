package overlay

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// source is the Go that runs the test.
func source(t *testing.T) Source {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	return Source{Root: strings.TrimSpace(string(out)), Version: "go1.26.8", Minor: 26}
}

func TestMake(t *testing.T) {
	src, cache := source(t), t.TempDir()
	out, _ := exec.Command("go", "env", "GOVERSION").Output()
	if !strings.HasPrefix(string(out), "go1.26") {
		t.Skipf("%s is installed; the program tests are for all releases", out)
	}
	// Several at once come to the same.
	lists := make([]string, 8)
	var all sync.WaitGroup
	for i := range lists {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			list, err := Make(src, cache, nil)
			if err != nil {
				t.Error(err)
			}
			lists[i] = list
		}(i)
	}
	all.Wait()
	for _, list := range lists {
		if list != lists[0] {
			t.Errorf("%s and %s", list, lists[0])
		}
	}
	text, err := os.ReadFile(lists[0])
	if err != nil {
		t.Fatal(err)
	}
	var list struct{ Replace map[string]string }
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	for from, to := range list.Replace {
		if !strings.HasPrefix(from, filepath.Join(src.Root, "src")) {
			t.Errorf("%s is not in GOROOT", from)
		}
		if filepath.Ext(to) != ".go" {
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), to, nil, 0); err != nil {
			t.Error(err)
		}
	}
	left, _ := filepath.Glob(filepath.Join(cache, "overlay", ".new-*"))
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	// Another GOROOT or other replacements make another folder.
	other, err := Make(src, cache, map[string]string{"/a": "/b"})
	if err != nil || filepath.Dir(other) == filepath.Dir(lists[0]) {
		t.Errorf("%s, %v", other, err)
	}
}

// Every file of ours is used, and each release gets each function once.
func TestAdditions(t *testing.T) {
	used := map[string]bool{}
	for minor := MinMinor; minor <= MaxMinor; minor++ {
		defined := map[string]string{}
		for _, name := range additions(minor) {
			used[name] = true
			text, err := ours.ReadFile("_runtime/" + name)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range strings.Split(string(text), "\n") {
				if strings.HasPrefix(line, "func ") {
					function := target(name, minor) + ": " + line
					if other := defined[function]; other != "" {
						t.Errorf("1.%d: %s is in %s and %s", minor, function, other, name)
					}
					defined[function] = name
				}
			}
		}
	}
	entries, err := ours.ReadDir("_runtime")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !used[e.Name()] {
			t.Errorf("%s is not used", e.Name())
		}
	}
}
