package test

import (
	"strings"
	"testing"
)

// The edits fit, the program builds and runs, with and without a quantum, and so does a short stress, which checks its
// results. That the compiler's code is preempted anywhere differs little between releases: the corpus is for the long
// form.
func TestReleases(t *testing.T) {
	for _, release := range some() {
		t.Run(release, func(t *testing.T) {
			env := append(selected(t, release), "CGO_ENABLED=0")
			if full {
				corpus := build(t, env, "corpus")
				want := must(t, "", nil, corpus)
				for _, quantum := range []string{"0", "50us", "20us"} {
					if got := must(t, "", []string{"QUAVER_GO=quantum=" + quantum}, corpus); got != want {
						t.Errorf("quantum=%s changes the output", quantum)
					}
				}
			}
			scenes(t, build(t, env, "hog"))
			if !full {
				stress := build(t, env, "stress")
				must(t, "", []string{"QUAVER_GO=quantum=20us"}, stress, "-for=1s")
				return
			}
			dir := hello(t)
			for _, args := range [][]string{{"test", "./..."}, {"list", "./..."}, {"vet", "./..."}} {
				if r := run(t, dir, env, tool, args...); r.status != 0 || r.stderr != "" {
					t.Errorf("quaver-go %v: status %d\n%s", args, r.status, r.stderr)
				}
			}
			stress := build(t, env, "stress")
			for _, setting := range []string{"quantum=0", "quantum=50us", "quantum=20us", "quantum=50us,policy=paper"} {
				must(t, "", []string{"QUAVER_GO=" + setting}, stress, "-for=1s")
			}
		})
	}
}

// Without a quantum a lock costs what it does in Go: the edited fast paths are inlined.
func TestInlined(t *testing.T) {
	for _, release := range some() {
		t.Run(release, func(t *testing.T) {
			r := run(t, "", selected(t, release), tool, "build", "-gcflags=sync=-m", "-gcflags=internal/sync=-m", "sync")
			for _, method := range []string{"Mutex).Lock", "Mutex).Unlock", "RWMutex).RLock", "RWMutex).RUnlock"} {
				if r.status != 0 || !strings.Contains(r.stderr, "can inline (*"+method+"\n") {
					t.Errorf("%s is not inlined: status %d\n%s", method, r.status, r.stderr)
				}
			}
		})
	}
}

// All releases, not only some: every edit fits.
func TestEditsFit(t *testing.T) {
	for _, release := range releases {
		t.Run(release, func(t *testing.T) {
			if !full && !has(some(), release) && !strings.HasPrefix(installed(t), release[:len("go1.2x")]) {
				t.Skip("not fetched in the quick form")
			}
			must(t, "", selected(t, release), tool, "overlay")
		})
	}
}

func has(list []string, item string) bool {
	for _, i := range list {
		if i == item {
			return true
		}
	}
	return false
}

// scenes runs those of the program hog, which check by counting.
func scenes(t *testing.T, hog string) {
	t.Helper()
	for _, c := range []struct{ scene, setting string }{
		{"alone", "quantum=50us"},
		{"share", "quantum=50us"},
		{"starve", "quantum=300us,share=50"},
		{"locks", "quantum=50us,hold=inf"},
		{"forced", "quantum=50us,hold=100us"},
		{"leak", "quantum=50us,hold=100us"},
		{"leak", "quantum=50us,policy=paper"},
		{"collect", "quantum=50us,hold=inf"},
		{"effort", "quantum=50us"},
		{"readers", "quantum=50us,hold=inf"},
		{"slack", "quantum=50us"},
		{"several", "quantum=50us"},
		{"crowd", "quantum=50us"},
		{"brief", "quantum=2ms,long=0"},
	} {
		if out := must(t, "", []string{"QUAVER_GO=" + c.setting}, hog, c.scene); out != "ok\n" {
			t.Errorf("%s: %s", c.scene, out)
		}
	}
}

func TestScenes(t *testing.T) {
	hog := build(t, nil, "hog")
	n := 3
	if full {
		n = 200
	}
	for i := 0; i < n; i++ {
		scenes(t, hog)
	}
	// The clock that does not sleep comes to the same decisions.
	must(t, "", []string{"QUAVER_GO=quantum=50us,clock=spin"}, hog, "share")
}
