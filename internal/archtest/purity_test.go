package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hived/hived/internal/testenv"
)

// pure lists the packages whose results depend on nothing but what they are given,
// so that a log folds to the same state everywhere, and a decision can be made
// again.
var pure = []string{"protocol", "task", "ledger", "router/decide", "worker/prompt", "worker/classify"}

// pureImports lists the packages of the standard library that a pure package may
// import: none of them reads a disk, a clock, the environment or random numbers.
var pureImports = []string{
	"bytes", "cmp", "container/heap", "crypto/sha1", "crypto/sha256", "embed", "encoding/binary", "encoding/hex", "encoding/json", "errors", "fmt",
	"hash", "hash/fnv", "io", "iter", "maps", "math", "math/bits", "path", "reflect", "slices", "sort", "strconv", "strings", "sync", "time", "unicode", "unicode/utf8",
}

// partly reports which names a pure package may use of a package that also has
// others. What is missing of time reads a clock or waits for one.
var partly = map[string]func(name string) bool{
	"sync": func(name string) bool { return name == "Pool" }, // reused memory has no effect on results
	"time": func(name string) bool {
		return !slices.Contains([]string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Timer", "Ticker", "Local", "LoadLocation"}, name)
	},
	"fmt": func(name string) bool { return !strings.HasPrefix(name, "Print") && !strings.HasPrefix(name, "Scan") },
}

func TestPurity(t *testing.T) {
	root := moduleRoot(t)
	for _, pkg := range pure {
		list, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pkg), "*.go"))
		testenv.Must(t, err)
		sources := map[string]string{}
		for _, file := range list {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			testenv.Must(t, err)
			sources[pkg+"/"+filepath.Base(file)] = string(text)
		}
		if len(sources) == 0 {
			t.Fatalf("package %s has no files", pkg)
		}
		for _, what := range impure(t, sources) {
			t.Error(what)
		}
	}
}

// TestPurityFindsImpurity checks that each rule of TestPurity refuses a source that
// breaks it.
func TestPurityFindsImpurity(t *testing.T) {
	for text, want := range map[string]string{
		`import "os"; var x = os.Args`:                              "imports os",
		`import "math/rand/v2"; func f() int { return rand.Int() }`: "imports math/rand/v2",
		`import "time"; func f() time.Time { return time.Now() }`:   "uses time.Now",
		`import clock "time"; var f = clock.Now`:                    "uses time.Now",
		`import . "time"; var f = Now`:                              "imports time as .",
		`import "time"; func f() { time.Sleep(1) }`:                 "uses time.Sleep",
		`import "sync"; var mu sync.Mutex`:                          "uses sync.Mutex",
		`import "fmt"; func f() { fmt.Println() }`:                  "uses fmt.Println",
		`func f() { go f() }`:                                       "starts a goroutine",
		`func f(c chan int)`:                                        "has a channel",
		`func f(c <-chan int) int { return <-c }`:                   "has a channel",
		`func f() { select {} }`:                                    "has a channel",
		`var n int; func f() { n = 1 }`:                             "assigns to the package's variable n",
		`var n int; func f() { n++ }`:                               "assigns to the package's variable n",
		`var m = map[int]int{}; func f() { m[1] = 2 }`:              "assigns to the package's variable m",
		`var s struct{ n int }; func f() { s.n = 1 }`:               "assigns to the package's variable s",
		`var m = map[int]int{}; func f() { delete(m, 1) }`:          "assigns to the package's variable m",
		`var n int; func f() *int { return &n }`:                    "gives the address of the package's variable n",
		`func init() {}`:                                            "has an init",
	} {
		got := impure(t, map[string]string{"x.go": "package x\n" + text})
		if !slices.ContainsFunc(got, func(what string) bool { return strings.HasSuffix(what, " "+want) }) {
			t.Errorf("%s: found %q, want %q", text, got, want)
		}
	}
	fine := `package x
import "time"
var limit = 3
func f(n int, at time.Time) time.Time { limit := n; limit++; m := map[int]int{}; m[1] = limit; delete(m, 1); return at.Add(time.Second) }`
	if got := impure(t, map[string]string{"x.go": fine}); len(got) > 0 {
		t.Errorf("found %q in a pure source", got)
	}
}

// impure lists what the files of one package do that a pure package may not do.
func impure(t *testing.T, sources map[string]string) (list []string) {
	t.Helper()
	fset := token.NewFileSet()
	files := map[string]*ast.File{}
	vars := map[string]bool{}
	for name, text := range sources {
		f, err := parser.ParseFile(fset, name, text, 0)
		testenv.Must(t, err)
		files[name] = f
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
				for _, s := range g.Specs {
					for _, id := range s.(*ast.ValueSpec).Names {
						vars[id.Name] = true
					}
				}
			}
		}
	}
	for _, f := range files {
		p := purity{fset: fset, vars: vars, file: f, names: map[string]string{}}
		p.imports()
		ast.Inspect(f, p.look)
		list = append(list, p.found...)
	}
	slices.Sort(list)
	return list
}

// purity checks one file.
type purity struct {
	fset  *token.FileSet
	vars  map[string]bool // of the package
	file  *ast.File
	names map[string]string // imported packages by the names that they have here
	found []string
}

func (p *purity) say(n ast.Node, format string, args ...any) {
	p.found = append(p.found, p.fset.Position(n.Pos()).String()+": "+fmt.Sprintf(format, args...))
}

func (p *purity) imports() {
	for _, s := range p.file.Imports {
		name, err := strconv.Unquote(s.Path.Value)
		if err != nil {
			p.say(s, "imports %s", s.Path.Value)
			continue
		}
		first, _, _ := strings.Cut(name, "/")
		if !strings.Contains(first, ".") && !slices.Contains(pureImports, name) {
			p.say(s, "imports %s", name)
		}
		as := name[strings.LastIndexByte(name, '/')+1:]
		if s.Name != nil {
			as = s.Name.Name
		}
		if as == "." {
			p.say(s, "imports %s as .", name)
		}
		p.names[as] = name
	}
}

func (p *purity) look(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.SelectorExpr:
		if id, ok := n.X.(*ast.Ident); ok && id.Obj == nil {
			if may := partly[p.names[id.Name]]; may != nil && !may(n.Sel.Name) {
				p.say(n, "uses %s.%s", p.names[id.Name], n.Sel.Name)
			}
		}
	case *ast.GoStmt:
		p.say(n, "starts a goroutine")
	case *ast.ChanType, *ast.SelectStmt, *ast.SendStmt:
		p.say(n, "has a channel")
	case *ast.FuncDecl:
		if n.Recv == nil && n.Name.Name == "init" {
			p.say(n, "has an init")
		}
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			for _, x := range n.Lhs {
				p.assigned(x)
			}
		}
	case *ast.IncDecStmt:
		p.assigned(n.X)
	case *ast.UnaryExpr:
		if id, ok := n.X.(*ast.Ident); ok && n.Op == token.AND && p.ofPackage(id) {
			p.say(n, "gives the address of the package's variable %s", id.Name)
		}
	case *ast.CallExpr:
		if id, ok := n.Fun.(*ast.Ident); ok && (id.Name == "delete" || id.Name == "clear") && len(n.Args) > 0 {
			p.assigned(n.Args[0])
		}
	}
	return true
}

// assigned records a finding if what is assigned to is, or is in, a variable of the
// package.
func (p *purity) assigned(x ast.Expr) {
	for {
		switch y := x.(type) {
		case *ast.IndexExpr:
			x = y.X
		case *ast.SelectorExpr:
			x = y.X
		case *ast.StarExpr:
			x = y.X
		case *ast.ParenExpr:
			x = y.X
		case *ast.Ident:
			if p.ofPackage(y) {
				p.say(y, "assigns to the package's variable %s", y.Name)
			}
			return
		default:
			return
		}
	}
}

// ofPackage reports whether a name is that of a variable of the package, in this
// file or in another one, and not of one in an inner scope.
func (p *purity) ofPackage(id *ast.Ident) bool {
	return p.vars[id.Name] && (id.Obj == nil || p.file.Scope.Lookup(id.Name) == id.Obj)
}
