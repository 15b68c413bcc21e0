package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hived/hived/internal/source"
	"github.com/hived/hived/internal/testenv"
)

// checkedPages are the pages whose code spans name what is in the source: a name
// that does not exist teaches a newcomer nothing.
var checkedPages = []string{"docs/architecture.md", "docs/walk.md", "CONTRIBUTING.md"}

var (
	codeSpan = regexp.MustCompile("`([^`\n]+)`")
	// goName is package.Name, package.Type.Member, or with a call's parentheses.
	goName = regexp.MustCompile(`^((?:[a-z]+/)*[a-z]+)\.([A-Za-z]\w*)(?:\.([A-Za-z]\w*))?(?:\(\))?$`)
	// goPath is a directory with more than one element, or a file in one.
	goPath = regexp.MustCompile(`^[a-z.]+(?:/[a-z]+)*/(?:\w+(?:\.go)?)?$`)
)

// TestDocsNameWhatIsThere looks up each Go name, file and directory in the checked
// pages. Names of packages outside this module, as of the standard library, are not
// checked.
func TestDocsNameWhatIsThere(t *testing.T) {
	root := moduleRoot(t)
	declared := declarations(t, root)
	for _, page := range checkedPages {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
		testenv.Must(t, err)
		found := 0
		for n, line := range strings.Split(string(text), "\n") {
			for _, span := range codeSpan.FindAllStringSubmatch(line, -1) {
				held, known := lookUp(root, declared, span[1])
				if held {
					found++
				}
				if held && !known {
					t.Errorf("%s:%d: `%s` is not in the source", page, n+1, span[1])
				}
			}
		}
		if found == 0 {
			t.Errorf("%s names nothing in the source: the test does not read it right", page)
		}
	}
}

// lookUp reports whether a code span is a name that must be in the source, and
// whether it is there.
func lookUp(root string, declared map[string]map[string]bool, span string) (held, known bool) {
	if goPath.MatchString(span) {
		first, _, _ := strings.Cut(span, "/")
		for pkg := range declared {
			held = held || strings.HasPrefix(pkg+"/", first+"/")
		}
		_, err := os.Stat(filepath.Join(root, filepath.FromSlash(span)))
		return held, err == nil
	}
	m := goName.FindStringSubmatch(span)
	if m == nil {
		return false, false
	}
	names := declared[packageOf(declared, m[1])]
	if names == nil || (m[3] == "" && isFileEnding(m[2])) {
		return false, false
	}
	name := m[2]
	if m[3] != "" {
		name += "." + m[3]
	}
	return true, names[name]
}

// isFileEnding reports whether s is the ending of a file such as `task.json` or
// `hive.yaml`, and not a Go name.
func isFileEnding(s string) bool {
	return slices.Contains([]string{"json", "jsonl", "yaml", "md", "go"}, s)
}

// packageOf returns the directory of a package that is named by its path or by its
// last element.
func packageOf(declared map[string]map[string]bool, name string) string {
	for _, dir := range slices.Sorted(maps.Keys(declared)) {
		if dir == name || path.Base(dir) == name {
			return dir
		}
	}
	return ""
}

// declarations returns what is declared at the top level, exported or not, by
// package directory, with methods and fields as Type.Name.
func declarations(t *testing.T, root string) map[string]map[string]bool {
	t.Helper()
	declared := map[string]map[string]bool{}
	err := source.Files(os.DirFS(root), func(name string) error {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		names := declared[path.Dir(name)]
		if names == nil {
			names = map[string]bool{}
			declared[path.Dir(name)] = names
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				of := source.Receiver(d)
				if of != "" {
					of += "."
				}
				names[of+d.Name.Name] = true
			case *ast.GenDecl:
				for _, s := range d.Specs {
					addSpec(names, s)
				}
			}
		}
		return nil
	})
	testenv.Must(t, err)
	return declared
}

func addSpec(names map[string]bool, s ast.Spec) {
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, id := range s.Names {
			names[id.Name] = true
		}
	case *ast.TypeSpec:
		names[s.Name.Name] = true
		var fields *ast.FieldList
		switch of := s.Type.(type) {
		case *ast.StructType:
			fields = of.Fields
		case *ast.InterfaceType:
			fields = of.Methods
		default:
			return
		}
		for _, f := range fields.List {
			for _, id := range f.Names {
				names[s.Name.Name+"."+id.Name] = true
			}
		}
	}
}

func TestLookUp(t *testing.T) {
	root := moduleRoot(t)
	declared := declarations(t, root)
	for span, want := range map[string][2]bool{
		"ledger.State":           {true, true},
		"ledger.State.Apply":     {true, true},
		"ledger.State.Nonesuch":  {true, false},
		"ledger.Nonesuch()":      {true, false},
		"internal/archtest":      {true, true},
		"router/nonesuch.go":     {true, false},
		"ledger/ledger.go":       {true, true},
		"os.Root":                {false, false},
		"task.json":              {false, false},
		"agents/<id>/alive":      {false, false},
		"go test ./...":          {false, false},
		"router/testdata/a.json": {false, false},
	} {
		if held, known := lookUp(root, declared, span); held != want[0] || known != want[1] {
			t.Errorf("lookUp(%q) = %v, %v; want %v", span, held, known, want)
		}
	}
}

// TestDocsHaveTheImports compares the table of packages in docs/architecture.md
// with the one that the imports are checked against.
func TestDocsHaveTheImports(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(moduleRoot(t), "docs", "architecture.md"))
	testenv.Must(t, err)
	rows := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z/-]+)` \\|.*\\| (.+) \\|$").FindAllStringSubmatch(string(text), -1) {
		rows[m[1]] = m[2]
	}
	for pkg, may := range allowed {
		if got, want := rows[pkg], importsCell(may); got != want {
			t.Errorf("docs/architecture.md says of `%s`: %q, want %q", pkg, got, want)
		}
		delete(rows, pkg)
	}
	for pkg := range rows {
		t.Errorf("docs/architecture.md has a row for `%s`, which is not in the table of imports", pkg)
	}
}

// importsCell returns what the page says of a package's imports of this module.
func importsCell(may []string) string {
	var cell []string
	for _, m := range may {
		switch first, _, _ := strings.Cut(m, "/"); {
		case m == "...":
			return "everything"
		case !strings.Contains(first, "."):
			cell = append(cell, "`"+m+"`")
		}
	}
	if cell == nil {
		return "–"
	}
	return strings.Join(cell, ", ")
}
