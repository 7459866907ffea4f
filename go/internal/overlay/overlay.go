// Package overlay makes the folder that `go build -overlay` reads: the edited files of one Go release, our files, and
// the list of both. Nothing is written to GOROOT.
package overlay

import (
	"crypto/sha256"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"

	"quaver.dev/go/internal/patch"
)

//go:embed all:_runtime
var ours embed.FS

// A Source is the Go release that is overlaid.
type Source struct {
	Root    string // GOROOT as the go command will see it; its files are only read
	Version string // as in `go version`
	Minor   int    // N of 1.N
}

// Make returns the path of the list of replacements for src, in a folder below cache that it makes if it is not there.
// extra holds replacements of the user's own; one of a file that is replaced here is refused. The error of an edit that
// does not apply is a *patch.Error.
func Make(src Source, cache string, extra map[string]string) (string, error) {
	files, err := contents(src)
	if err != nil {
		return "", err
	}
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	sort.Strings(names)
	own, err := json.Marshal(extra) // keys in order
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q %s\n", src.Root, src.Version, own)
	for _, name := range names {
		fmt.Fprintf(sum, "%q %q\n", name, files[name])
	}
	version := strings.FieldsFunc(src.Version, func(r rune) bool { return r == ' ' || r == '/' })[0]
	dir := filepath.Join(cache, "overlay", fmt.Sprintf("%s-%x", version, sum.Sum(nil)[:8]))

	replace := map[string]string{}
	for name := range files {
		replace[filepath.Join(src.Root, "src", name)] = filepath.Join(dir, "src", name)
	}
	for from, to := range extra {
		if _, taken := replace[from]; taken {
			return "", fmt.Errorf("-overlay replaces %s, which quaver-go replaces as well", from)
		}
		replace[from] = to
	}
	list := filepath.Join(dir, "overlay.json")
	if _, err := os.Stat(list); err == nil {
		return list, nil // named by content, and complete since it was renamed
	}
	js, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "\t")
	if err != nil {
		return "", err
	}
	return list, write(dir, files, js)
}

// contents returns all files of the overlay, by names relative to GOROOT/src.
func contents(src Source) (map[string][]byte, error) {
	byFile := map[string][]patch.Edit{}
	for _, e := range edits(src.Minor) {
		byFile[e.File] = append(byFile[e.File], e)
	}
	files := map[string][]byte{}
	for name, edits := range byFile {
		text, err := os.ReadFile(filepath.Join(src.Root, "src", name))
		if err != nil {
			return nil, fmt.Errorf("%s: cannot read what has to be edited: %w", src.Version, err)
		}
		if files[name], err = patch.Apply(src.Version, name, text, edits); err != nil {
			return nil, err
		}
	}
	mutex := mutexPackage(src.Minor)
	words := []string{"QUAVERMUTEX", mutex, "QUAVERPACKAGE", path.Base(mutex)}
	for from, to := range imports(src.Minor) {
		words = append(words, `"`+from+`"`, `"`+to+`"`)
	}
	adapt := strings.NewReplacer(words...)
	for _, name := range additions(src.Minor) {
		text, err := ours.ReadFile("_runtime/" + name)
		if err != nil {
			return nil, err
		}
		files[path.Join(target(name, src.Minor), name)] = []byte(adapt.Replace(string(text)))
	}
	return files, nil
}

// write makes dir with everything in it, or nothing.
func write(dir string, files map[string][]byte, list []byte) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o777); err != nil {
		return fmt.Errorf("cannot make the cache folder: %w", err)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".new-")
	if err != nil {
		return fmt.Errorf("cannot write to the cache folder: %w", err)
	}
	defer os.RemoveAll(tmp)
	put := func(name string, text []byte) error {
		file := filepath.Join(tmp, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			return err
		}
		return os.WriteFile(file, text, 0o666)
	}
	for name, text := range files {
		if err := put(filepath.Join("src", name), text); err != nil {
			return err
		}
	}
	if err := put("overlay.json", list); err != nil {
		return err
	}
	if err := os.Chmod(tmp, 0o777); err != nil {
		return err
	}
	if err := os.Rename(tmp, dir); err != nil {
		// Somebody else was faster, and wrote the same.
		if _, there := os.Stat(filepath.Join(dir, "overlay.json")); there == nil {
			return nil
		}
		return fmt.Errorf("cannot finish the overlay: %w", err)
	}
	return nil
}
