// Package patch edits Go source: each edit names a declaration and applies exactly once, or fails and says why.
//
// Declarations are found through the syntax tree, so an edit cannot hit a function that merely looks like the one it
// means. An edit inside a declaration names a text that must occur in it exactly once. Edits of one file see its
// original text, never each other's.
package patch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"sort"
	"strings"
)

// An Edit changes one place in one file.
type Edit struct {
	// File is relative to GOROOT/src.
	File string
	// Decl is the declaration: "func name", "func (T) name", "func (*T) name" or "type name".
	Decl string

	old, new string
	kind     kind
}

type kind int

const (
	replace kind = iota
	begin
	end
	rename
)

// Replace replaces the only occurrence of old in the declaration.
func Replace(file, decl, old, new string) Edit {
	return Edit{File: file, Decl: decl, old: old, new: new, kind: replace}
}

// Begin inserts a statement at the beginning of a function's body.
func Begin(file, decl, statement string) Edit {
	return Edit{File: file, Decl: decl, new: statement, kind: begin}
}

// End inserts a statement at the end of the body of a function without results, or a field at the end of a struct.
func End(file, decl, text string) Edit {
	return Edit{File: file, Decl: decl, new: text, kind: end}
}

// Rename gives a function another name, where it is declared.
func Rename(file, decl, name string) Edit {
	return Edit{File: file, Decl: decl, new: name, kind: rename}
}

// An Error says which edit does not apply, and why.
type Error struct {
	Version, File, Decl, Why string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s: %s: %s", e.Version, e.File, e.Decl, e.Why)
}

// span is a place in the text and what comes there.
type span struct {
	from, to int
	text     string
	edit     Edit
}

// Apply returns src, the text of one file of the named Go version, with edits applied. The error is an *Error.
func Apply(version, file string, src []byte, edits []Edit) ([]byte, error) {
	fail := func(decl, why string, args ...any) error {
		return &Error{Version: version, File: file, Decl: decl, Why: fmt.Sprintf(why, args...)}
	}
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, file, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, fail("the file", "is not Go source: %v", err)
	}
	offset := func(pos token.Pos) int { return files.Position(pos).Offset }
	var spans []span
	for _, e := range edits {
		nodes := find(tree, e.Decl)
		if len(nodes) != 1 {
			return nil, fail(e.Decl, "found %d times, expected once", len(nodes))
		}
		s := span{text: e.new, edit: e}
		switch d := nodes[0].(type) {
		case *ast.FuncDecl:
			if d.Body == nil {
				return nil, fail(e.Decl, "has no body")
			}
			switch e.kind {
			case begin:
				s.from = offset(d.Body.Lbrace) + 1
				s.text = "\n\t" + e.new
			case end:
				if d.Type.Results != nil {
					return nil, fail(e.Decl, "has results, so nothing can be added at its end")
				}
				s.from = offset(d.Body.Rbrace)
				s.text = "\t" + e.new + "\n"
			case rename:
				s.from, s.to = offset(d.Name.Pos()), offset(d.Name.End())
			}
		case *ast.TypeSpec:
			structure, ok := d.Type.(*ast.StructType)
			if !ok || e.kind == begin || e.kind == rename {
				return nil, fail(e.Decl, "is not a struct to which a field can be added")
			}
			if e.kind == end {
				s.from = offset(structure.Fields.Closing)
				s.text = "\t" + e.new + "\n"
			}
		}
		if e.kind == replace {
			from, to := offset(nodes[0].Pos()), offset(nodes[0].End())
			body := string(src[from:to])
			if n := strings.Count(body, e.old); n != 1 {
				return nil, fail(e.Decl, "%q found %d times, expected once", strings.TrimSpace(e.old), n)
			}
			s.from = from + strings.Index(body, e.old)
			s.to = s.from + len(e.old)
		} else if s.to == 0 {
			s.to = s.from
		}
		spans = append(spans, s)
	}
	sort.SliceStable(spans, func(i, j int) bool { return spans[i].from < spans[j].from })
	var out strings.Builder
	at := 0
	for _, s := range spans {
		if s.from < at {
			return nil, fail(s.edit.Decl, "two edits overlap")
		}
		out.Write(src[at:s.from])
		out.WriteString(s.text)
		at = s.to
	}
	out.Write(src[at:])
	edited := []byte(out.String())
	if _, err := parser.ParseFile(token.NewFileSet(), file, edited, parser.SkipObjectResolution); err != nil {
		return nil, fail("the file", "is not Go source any more: %v", err)
	}
	return edited, nil
}

// find returns the declarations that a name means: functions or types.
func find(tree *ast.File, name string) (found []ast.Node) {
	for _, decl := range tree.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if "func "+receiver(d)+d.Name.Name == name {
				found = append(found, d)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if t, ok := s.(*ast.TypeSpec); ok && "type "+t.Name.Name == name {
					found = append(found, t)
				}
			}
		}
	}
	return found
}

// receiver returns "(T) " or "(*T) " for a method.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) != 1 {
		return ""
	}
	switch t := d.Recv.List[0].Type.(type) {
	case *ast.Ident:
		return "(" + t.Name + ") "
	case *ast.StarExpr:
		if name, ok := t.X.(*ast.Ident); ok {
			return "(*" + name.Name + ") "
		}
	}
	return ""
}
