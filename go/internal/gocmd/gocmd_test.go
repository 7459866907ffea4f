package gocmd

import (
	"strings"
	"testing"
)

func TestLine(t *testing.T) {
	for _, c := range []struct{ args, flags, want string }{
		{"build", "", "build -overlay=O -tags=T"},
		{"build -o x ./...", "", "build -overlay=O -tags=T -o x ./..."},
		{"build -C dir -tags a,b .", "", "build -C=dir -overlay=O -tags=a,b,T ."},
		{"build --C=dir --tags=a", "", "build -C=dir -overlay=O -tags=a,T"},
		{"build .", "-tags=a -mod=mod", "build -overlay=O -tags=a,T ."},
		{"build -tags=b .", "'-tags=a c' -v", "build -overlay=O -tags=b,T ."},
		{"build .", "'-tags=a c'", "build -overlay=O -tags=a,c,T ."},
		{"build -overlay=mine .", "", "build -overlay=O -tags=T ."},
		{"run . -tags x", "", "run -overlay=O -tags=T . -tags x"},
		{"run -race main.go -C", "", "run -overlay=O -tags=T -race main.go -C"},
		{"run -ldflags -s -tags x . y", "", "run -overlay=O -tags=x,T -ldflags -s . y"},
		{"vet -printf -tags x .", "", "vet -tags=x,T -printf ."},
		{"vet -overlay=mine .", "", "vet -overlay=mine -tags=T ."},
		{"list -m -json all", "", "list -overlay=O -tags=T -m -json all"},
		{"test ./... -v -tags x", "", "test -overlay=O -tags=x,T -count=1 ./... -v"},
		{"test -count 3 .", "", "test -overlay=O -tags=T -count 3 ."},
		{"test .", "-count=2", "test -overlay=O -tags=T ."},
		{"test . -args -tags y -overlay z", "", "test -overlay=O -tags=T -count=1 . -args -tags y -overlay z"},
		{"test -run X -c", "", "test -overlay=O -tags=T -count=1 -run X -c"},
	} {
		a, err := Parse(strings.Fields(c.args), c.flags)
		if err != nil {
			t.Errorf("%s: %v", c.args, err)
			continue
		}
		if got := strings.Join(a.Line(Addition{Overlay: "O", Tag: "T", Uncached: true}), " "); got != c.want {
			t.Errorf("%s with GOFLAGS=%q:\n%s instead of\n%s", c.args, c.flags, got, c.want)
		}
	}
	for args, want := range map[string]string{
		"test .": "test -tags=T -vet=off .", "test -vet=all .": "test -tags=T -vet=all .", "build .": "build -tags=T .",
	} {
		a, err := Parse(strings.Fields(args), "")
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(a.Line(Addition{Tag: "T", NoVet: true}), " "); got != want {
			t.Errorf("%s without vet: %s", args, got)
		}
	}
	a, err := Parse([]string{"test", "."}, "")
	if err != nil || strings.Contains(strings.Join(a.Line(Addition{Overlay: "O", Tag: "T"}), " "), "-count") {
		t.Error("-count=1 without need")
	}
}

func TestRefused(t *testing.T) {
	for _, c := range [][2]string{
		{"build -buildmode=plugin", ""}, {"build -buildmode plugin", ""}, {"build --buildmode=shared", ""}, {"build -linkshared", ""},
		{"build -compiler gccgo", ""}, {"build", "-buildmode=plugin"}, {"build", "'-tags=a"}, {"build", "-linkshared=true"},
	} {
		if _, err := Parse(strings.Fields(c[0]), c[1]); err == nil {
			t.Errorf("%v is accepted", c)
		}
	}
	for _, args := range []string{"build -buildmode=pie", "build -buildmode=c-shared", "build -compiler=gc", "run . -buildmode=plugin"} {
		if _, err := Parse(strings.Fields(args), ""); err != nil {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// No argument is lost or made up, whatever they are.
func FuzzParse(f *testing.F) {
	f.Add("build -o x -tags y .", "-v")
	f.Add("test -args", "'")
	f.Fuzz(func(t *testing.T, line, flags string) {
		args := strings.Fields(line)
		if len(args) == 0 {
			return
		}
		a, err := Parse(args, flags)
		if err != nil {
			return
		}
		if out := a.Line(Addition{Overlay: "O", Tag: "T"}); len(out) > len(args)+3 {
			t.Errorf("%q becomes %q", args, out)
		}
	})
}
