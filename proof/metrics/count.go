package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"strconv"
	"strings"

	gosource "github.com/hived/hived/internal/source"
)

func (t *tally) add(place string) {
	t.n++
	t.places = append(t.places, place)
}

func (s *source) at(p token.Pos) string {
	where := s.set.Position(p)
	return where.Filename + ":" + strconv.Itoa(where.Line)
}

// fields counts the fields of a struct, an embedded one as one.
func fields(pkg, name string) func(*source) tally {
	return func(s *source) tally {
		t := tally{absent: true}
		for _, file := range s.in(pkg) {
			ast.Inspect(s.files[file], func(n ast.Node) bool {
				spec, ok := n.(*ast.TypeSpec)
				if !ok || spec.Name.Name != name {
					return true
				}
				if of, ok := spec.Type.(*ast.StructType); ok {
					t.absent, t.n = false, of.Fields.NumFields()
				}
				return false
			})
		}
		return t
	}
}

// methods counts the methods of a type, exported or not.
func methods(pkg, name string) func(*source) tally {
	return func(s *source) tally {
		t := tally{absent: len(s.in(pkg)) == 0}
		s.each(s.in(pkg), func(_ string, f *ast.FuncDecl) {
			if gosource.Receiver(f) == name {
				t.n++
			}
		})
		return t
	}
}

// exported counts the exported functions of a package, and the exported methods
// of its exported types.
func exported(pkg string) func(*source) tally {
	return func(s *source) tally {
		t := tally{absent: len(s.in(pkg)) == 0}
		s.each(s.in(pkg), func(_ string, f *ast.FuncDecl) {
			if of := gosource.Receiver(f); f.Name.IsExported() && (of == "" || ast.IsExported(of)) {
				t.add(s.at(f.Pos()) + " " + title(f))
			}
		})
		return t
	}
}

// lines counts the lines of a package as wc does, blank ones and comments too,
// without tests and without the packages below it.
func lines(pkg string) func(*source) tally {
	return func(s *source) tally {
		t := tally{absent: len(s.in(pkg)) == 0}
		for _, name := range s.in(pkg) {
			t.n += s.lines[name]
		}
		return t
	}
}

func allLines(s *source) (t tally) {
	for name, n := range s.lines {
		if !isTest(name) {
			t.n += n
		}
	}
	return t
}

func testLines(s *source) (t tally) {
	for name, n := range s.lines {
		if isTest(name) {
			t.n += n
		}
	}
	return t
}

// mostLines is how many lines .golangci.yml allows a function to have (funlen).
const mostLines = 60

// longFunctions counts the functions that are too long. Lines are counted as the linter
// does: those between the first and the last, without comments.
func longFunctions(s *source) (t tally) {
	s.each(s.names(), func(name string, f *ast.FuncDecl) {
		line := func(p token.Pos) int { return s.set.Position(p).Line }
		first, last := line(f.Pos()), line(f.End())
		n := last - first - 1
		for _, group := range s.files[name].Comments {
			if line(group.Pos()) > first && line(group.End()) < last {
				n -= len(group.List)
			}
		}
		if n > mostLines {
			t.add(fmt.Sprintf("%s %s has %d", s.at(f.Pos()), title(f), n))
		}
	})
	return t
}

func title(f *ast.FuncDecl) string {
	if of := gosource.Receiver(f); of != "" {
		return of + "." + f.Name.Name
	}
	return f.Name.Name
}

// boolParameters counts the functions and methods that take a bool, once each
// however many they take. Function literals and results do not count.
func boolParameters(s *source) (t tally) {
	s.each(s.names(), func(_ string, f *ast.FuncDecl) {
		for _, p := range f.Type.Params.List {
			of := p.Type
			if all, ok := of.(*ast.Ellipsis); ok {
				of = all.Elt
			}
			if id, ok := of.(*ast.Ident); ok && id.Name == "bool" {
				t.add(s.at(f.Pos()) + " " + title(f))
				return
			}
		}
	})
	return t
}

// vocabulary is the package of events and codes.
const vocabulary = "protocol"

// bodySwitches counts the type switches that have an event among their cases.
// Events are the types of the vocabulary that have the method sealed.
func bodySwitches(s *source) (t tally) {
	events := map[string]bool{}
	s.each(s.in(vocabulary), func(_ string, f *ast.FuncDecl) {
		if f.Name.Name == "sealed" {
			events[gosource.Receiver(f)] = true
		}
	})
	for _, name := range s.names() {
		qualifier := s.importName(name, vocabulary)
		ast.Inspect(s.files[name], func(n ast.Node) bool {
			if sw, ok := n.(*ast.TypeSwitchStmt); ok && hasEvent(sw, qualifier, events) {
				t.add(s.at(sw.Pos()))
			}
			return true
		})
	}
	return t
}

// importName returns the name of a package of the module in a file: "" in that package
// itself, "-" if the file does not import it.
func (s *source) importName(file, pkg string) string {
	if path.Dir(file) == pkg {
		return ""
	}
	for _, spec := range s.files[file].Imports {
		if strings.HasSuffix(spec.Path.Value, "/"+pkg+`"`) {
			if spec.Name != nil {
				return spec.Name.Name
			}
			return path.Base(pkg)
		}
	}
	return "-"
}

func hasEvent(sw *ast.TypeSwitchStmt, qualifier string, events map[string]bool) bool {
	for _, clause := range sw.Body.List {
		for _, e := range clause.(*ast.CaseClause).List {
			if star, ok := e.(*ast.StarExpr); ok {
				e = star.X
			}
			switch e := e.(type) {
			case *ast.Ident:
				if qualifier == "" && events[e.Name] {
					return true
				}
			case *ast.SelectorExpr:
				if x, ok := e.X.(*ast.Ident); ok && x.Name == qualifier && events[e.Sel.Name] {
					return true
				}
			}
		}
	}
	return false
}

// tableSize is the number of codes that make a table.
const tableSize = 3

// codeTables counts the packages that have a table of codes, once each. A table is
// a group of string constants whose names begin with code, or a literal whose elements
// begin with, or are keyed by, a name that begins with code or err.
func codeTables(s *source) (t tally) {
	last := ""
	for _, name := range s.names() {
		at, found := codeTable(s.files[name])
		if found && path.Dir(name) != last {
			last = path.Dir(name)
			t.add(s.at(at))
		}
	}
	return t
}

// codeTable returns the position of the first table of codes of a file.
func codeTable(f *ast.File) (at token.Pos, found bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		codes := 0
		switch n := n.(type) {
		case *ast.GenDecl:
			codes = codeConstants(n)
		case *ast.CompositeLit:
			for _, e := range n.Elts {
				if first := firstOf(e); isNamed(first, "code") || isNamed(first, "err") {
					codes++
				}
			}
		}
		if codes >= tableSize && !found {
			at, found = n.Pos(), true
		}
		return !found
	})
	return at, found
}

func codeConstants(d *ast.GenDecl) (n int) {
	for _, spec := range d.Specs {
		if v, ok := spec.(*ast.ValueSpec); ok && d.Tok == token.CONST && isText(v) && isNamed(v.Names[0], "code") {
			n++
		}
	}
	return n
}

// isText reports whether a constant is given as a string literal.
func isText(v *ast.ValueSpec) bool {
	if len(v.Values) == 0 {
		return false
	}
	lit, ok := v.Values[0].(*ast.BasicLit)
	return ok && lit.Kind == token.STRING
}

// firstOf returns the key of an element, or the first element of the element itself.
func firstOf(e ast.Expr) ast.Expr {
	if kv, ok := e.(*ast.KeyValueExpr); ok {
		return kv.Key
	}
	lit, ok := e.(*ast.CompositeLit)
	if !ok || len(lit.Elts) == 0 {
		return nil
	}
	if kv, ok := lit.Elts[0].(*ast.KeyValueExpr); ok {
		return kv.Value
	}
	return lit.Elts[0]
}

// isNamed reports whether e is a name, of this package or another, exported or not,
// that begins with word.
func isNamed(e ast.Expr, word string) bool {
	if sel, ok := e.(*ast.SelectorExpr); ok {
		e = sel.Sel
	}
	id, ok := e.(*ast.Ident)
	if !ok {
		return false
	}
	upper := strings.ToUpper(word[:1]) + word[1:]
	rest, ok := strings.CutPrefix(id.Name, word)
	if !ok {
		rest, ok = strings.CutPrefix(id.Name, upper)
	}
	return ok && rest != "" && ast.IsExported(rest)
}

// requirements counts the modules that go.mod requires, directly or not.
func requirements(s *source) (t tally) {
	block := false
	for line := range strings.Lines(s.mod) {
		line, _, _ = strings.Cut(line, "//")
		words := strings.Fields(line)
		switch {
		case len(words) == 2 && words[0] == "require" && words[1] == "(":
			block = true
		case len(words) == 1 && words[0] == ")":
			block = false
		case block && len(words) == 2, len(words) == 3 && words[0] == "require":
			t.add(strings.Join(words, " "))
		}
	}
	return t
}
