package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/testenv"
)

// small is a module of two packages that share some names.
var small = map[string]string{
	"go.mod": "module example.com/small\n",
	"box/box.go": `// Package box is a box.
package box // a box

import "errors"

// Limit is 3.
const Limit = 3

const (
	// first comes first.
	first = 1
	second = 1
)

type Box[T any] struct{ one, two T }

// Put says one; put is what it does.
func (b *Box[T]) Put(x T) error { b.one = x; return errors.New("one") }

func open() int { return 1 }
`,
	"deep/box/box.go":        "package box\n\nfunc Twice() int { return 2 }\n",
	"lid/lid.go":             "package lid\n\nfunc open() int { return 1 }\n\nfunc Twice() int { return 2 }\n",
	"lid/lid_windows.go":     "package lid\n\nfunc Shut() int { return 1 }\n",
	"lid/lid_linux.go":       "package lid\n\nfunc Shut() int { return 2 }\n",
	"lid/lid_test.go":        "package lid\n\nfunc Limit() int { return 1 }\n",
	"lid/testdata/broken.go": "package",
}

func smallModule(t *testing.T) *source {
	t.Helper()
	dir := t.TempDir()
	for name, text := range small {
		file := filepath.Join(dir, filepath.FromSlash(name))
		testenv.Must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		testenv.Must(t, os.WriteFile(file, []byte(text), 0o644))
	}
	s, err := load(dir)
	testenv.Must(t, err)
	return s
}

// TestTexts checks that an edit changes its declaration alone, wherever that is.
func TestTexts(t *testing.T) {
	t.Parallel()
	s := smallModule(t)
	for _, tt := range []struct {
		name     string
		m        mutant
		file     string
		old, new []string // what differs, from the first line to the last
	}{
		{"a constant", mutant{edits: []edit{{"Limit", "3", "4"}}}, "box/box.go", []string{"const Limit = 3"}, []string{"const Limit = 4"}},
		{"one of several", mutant{edits: []edit{{"second", "1", "2"}}}, "box/box.go", []string{"second = 1"}, []string{"second = 2"}},
		{"a type", mutant{edits: []edit{{"Box", "two", "three"}}}, "box/box.go", []string{"one, two T"}, []string{"one, three T"}},
		{"a method", mutant{edits: []edit{{"Box.Put", `"one"`, `"two"`}}}, "box/box.go", []string{`New("one")`}, []string{`New("two")`}},
		{"of the package of this name", mutant{edits: []edit{{"lid.open", "1", "2"}}}, "lid/lid.go", []string{"open() int { return 1"}, []string{"open() int { return 2"}},
		{"of the package of this path", mutant{edits: []edit{{"deep/box.Twice", "2", "3"}}}, "deep/box/box.go", []string{"return 2"}, []string{"return 3"}},
		{"of Linux", mutant{edits: []edit{{"Shut", "2", "3"}}}, "lid/lid_linux.go", []string{"return 2"}, []string{"return 3"}},
		{"two edits", mutant{edits: []edit{{"Box.Put", "b.one", "b.two"}, {"Limit", "3", "4"}}}, "box/box.go", []string{"= 3", "b.one"}, []string{"= 4", "b.two"}},
		{
			"an import and a declaration",
			mutant{edits: []edit{{"Limit", "3", "math.MaxInt8"}}, imports: []string{"errors", "math"}, add: "func more() {}"},
			"box/box.go",
			[]string{"package box ", "Limit = 3", "open() int { return 1 }\n"},
			[]string{`package box; import "math" `, "Limit = math.MaxInt8", "open() int { return 1 }\n\nfunc more() {}\n"},
		},
	} {
		want := small[tt.file]
		for i, old := range tt.old {
			if strings.Count(want, old) != 1 {
				t.Fatalf("%s: %q is there %d times", tt.name, old, strings.Count(want, old))
			}
			want = strings.Replace(want, old, tt.new[i], 1)
		}
		have, err := s.texts(tt.m)
		if diff := cmp.Diff(map[string]string{tt.file: want}, have); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", tt.name, err, diff)
		}
	}
}

// TestRefused checks that an edit that does not name exactly one place is an error
// that says what to write.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := smallModule(t)
	for want, edits := range map[string][]edit{
		"2 declarations are called open; write box.open or lid.open":     {{"open", "1", "2"}},
		"2 declarations are called Twice; write box.Twice or lid.Twice":  {{"Twice", "2", "3"}},
		"no declaration is called Put; write Box.Put":                    {{"Put", "one", "two"}},
		"no declaration is called Lid.Put; write Box.Put":                {{"Lid.Put", "one", "two"}},
		"no declaration is called box.Shut; write Shut":                  {{"box.Shut", "2", "3"}},
		"no declaration is called Close; let table.go follow the source": {{"Close", "1", "2"}},
		`Box.Put in box/box.go holds "put" 0 times and not once`:         {{"Box.Put", "put", "set"}},
		`Box.Put in box/box.go holds "one" 2 times and not once`:         {{"Box.Put", "one", "two"}},
		`first in box/box.go holds "second" 0 times and not once`:        {{"first", "second", "third"}},
		"two changes in box/box.go overlap":                              {{"Limit", "Limit = 3", "Limit = 4"}, {"Limit", "= 3", "= 5"}},
	} {
		have, err := s.texts(mutant{edits: edits})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v gives the error %v, and not: %s", edits, err, want)
		}
		if len(have) > 0 {
			t.Errorf("%v changes %v", edits, maps.Keys(have))
		}
	}
}
