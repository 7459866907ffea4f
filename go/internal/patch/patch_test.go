package patch

import (
	"errors"
	"strings"
	"testing"
)

const source = `package p

// call() in a comment outside of f does not count.

type t struct {
	a int
}

func f() {
	call()
	if other() {
		call2()
	}
}

func (x *t) f() {
	call()
}

func (x t) g() int { return x.a }

func same() { twice(); twice() }
`

func TestApply(t *testing.T) {
	out, err := Apply("go1.0", "p.go", []byte(source), []Edit{
		Replace("p.go", "func f", "call()\n", "call()\n\thook()\n"),
		Begin("p.go", "func (*t) f", "begin()"),
		End("p.go", "func (*t) f", "end()"),
		End("p.go", "type t", "b int"),
		Rename("p.go", "func (t) g", "renamed"),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := source
	for _, r := range [][2]string{
		{"func f() {\n\tcall()\n", "func f() {\n\tcall()\n\thook()\n"},
		{"func (x *t) f() {\n\tcall()\n}", "func (x *t) f() {\n\tbegin()\n\tcall()\n\tend()\n}"},
		{"\ta int\n}", "\ta int\n\tb int\n}"},
		{"(x t) g()", "(x t) renamed()"},
	} {
		want = strings.Replace(want, r[0], r[1], 1)
	}
	if string(out) != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		edit Edit
		says string
	}{
		{Replace("p.go", "func f", "absent()", ""), `go1.0: p.go: func f: "absent()" found 0 times, expected once`},
		{Replace("p.go", "func same", "twice()", ""), `func same: "twice()" found 2 times`},
		{Replace("p.go", "func none", "call()", ""), "func none: found 0 times, expected once"},
		{Replace("p.go", "func t.f", "call()", ""), "found 0 times"},
		{Replace("p.go", "func f", "call()", "call("), "is not Go source any more"},
		{End("p.go", "func (t) g", "hook()"), "has results"},
		{Begin("p.go", "type t", "b int"), "is not a struct"},
		{End("p.go", "type u", "b int"), "type u: found 0 times"},
	} {
		_, err := Apply("go1.0", "p.go", []byte(source), []Edit{c.edit})
		var misfit *Error
		if !errors.As(err, &misfit) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v instead of %q", err, c.says)
		}
	}
	_, err := Apply("go1.0", "p.go", []byte(source), []Edit{
		Replace("p.go", "func f", "call()\n\tif", "x"), Replace("p.go", "func f", "\tif other", "y"),
	})
	if err == nil || !strings.Contains(err.Error(), "overlap") {
		t.Errorf("overlapping edits: %v", err)
	}
	if _, err := Apply("go1.0", "p.go", []byte("package"), nil); err == nil {
		t.Error("no Go source, and no error")
	}
}

// Whatever the text is, Apply neither panics nor makes something that is not Go.
func FuzzApply(f *testing.F) {
	f.Add(source, "func f", "call()\n")
	f.Add("package p\nfunc f() {}", "func f", "{")
	f.Add("package p\ntype (\n\tt struct{}\n)", "type t", "}")
	f.Fuzz(func(t *testing.T, src, decl, old string) {
		for _, e := range []Edit{
			Replace("p.go", decl, old, "x"), Begin("p.go", decl, "x()"), End("p.go", decl, "x int"), Rename("p.go", decl, "y"),
		} {
			if _, err := Apply("go1.0", "p.go", []byte(src), []Edit{e}); err != nil && err.Error() == "" {
				t.Error("an error that says nothing")
			}
		}
	})
}
