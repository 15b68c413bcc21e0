package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	gosource "github.com/hived/hived/internal/source"
)

// source is the module as the go command compiles it for Linux, without its
// tests: the text of each file, and the position of each declaration.
type source struct {
	root  string
	files map[string]*file // by path relative to the module, with slashes
	decls map[string][]declaration
}

type file struct {
	text    string
	clause  int // the offset after the package clause
	imports []string
}

// declaration is the declaration of a function, method, type, constant or
// variable. Its text is from start to end, without the comment above it.
type declaration struct {
	file       string
	name       string // as Type.method, or a bare name
	start, end int
}

// load parses the module. It takes the files for Linux on every system, so that
// the table fits everywhere.
func load(root string) (*source, error) {
	linux := build.Default
	linux.GOOS = "linux"
	s := &source{root: root, files: map[string]*file{}, decls: map[string][]declaration{}}
	return s, gosource.Files(os.DirFS(root), func(name string) error {
		dir, base := filepath.Split(filepath.Join(root, filepath.FromSlash(name)))
		if strings.HasSuffix(base, "_test.go") {
			return nil
		}
		if ours, err := linux.MatchFile(dir, base); err != nil || !ours {
			return err
		}
		return s.parse(name, filepath.Join(dir, base))
	})
}

func (s *source) parse(name, where string) error {
	text, err := os.ReadFile(where) //nolint:gosec // a file of the module
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, where, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	f := &file{text: string(text), clause: set.Position(parsed.Name.End()).Offset}
	s.files[name] = f
	for _, spec := range parsed.Imports {
		if spec.Name == nil {
			f.imports = append(f.imports, spec.Path.Value)
		}
	}
	for _, d := range parsed.Decls {
		for short, node := range declared(d) {
			one := declaration{file: name, name: short, start: set.Position(node.Pos()).Offset, end: set.Position(node.End()).Offset}
			for _, n := range one.names() {
				s.decls[n] = append(s.decls[n], one)
			}
		}
	}
	return nil
}

// declared returns the names that d declares, each with the node of its text. For
// a name in a parenthesized group that is its own spec alone.
func declared(d ast.Decl) map[string]ast.Node {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if of := gosource.Receiver(d); of != "" {
			name = of + "." + name
		}
		return map[string]ast.Node{name: d}
	case *ast.GenDecl:
		out := map[string]ast.Node{}
		for _, spec := range d.Specs {
			node := ast.Node(spec)
			if !d.Lparen.IsValid() {
				node = d
			}
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				out[spec.Name.Name] = node
			case *ast.ValueSpec:
				for _, n := range spec.Names {
					out[n.Name] = node
				}
			}
		}
		return out
	}
	return nil
}

// names returns the names by which a declaration can be found, the shortest first:
// alone, with the name of its package, with the path of its package.
func (d declaration) names() []string {
	pkg := path.Dir(d.file)
	return slices.Compact([]string{d.name, path.Base(pkg) + "." + d.name, pkg + "." + d.name})
}

// find returns the one declaration of a name. If there is none, or more than one,
// the error says what to write instead.
func (s *source) find(name string) (declaration, error) {
	found := s.decls[name]
	if len(found) == 1 {
		return found[0], nil
	}
	problem := "no declaration is called " + name
	if len(found) > 1 {
		problem = fmt.Sprintf("%d declarations are called %s", len(found), name)
	} else {
		last := name[strings.LastIndexByte(name, '.')+1:]
		for n, all := range s.decls {
			if n[strings.LastIndexByte(n, '.')+1:] == last {
				found = append(found, all...)
			}
		}
	}
	write := map[string]bool{}
	for _, d := range found {
		write[d.name] = true
		for _, n := range d.names() {
			if len(s.decls[n]) == 1 {
				delete(write, d.name)
				write[n] = true
				break
			}
		}
	}
	if len(write) == 0 {
		return declaration{}, errors.New(problem + "; let table.go follow the source")
	}
	return declaration{}, fmt.Errorf("%s; write %s", problem, strings.Join(slices.Sorted(maps.Keys(write)), " or "))
}

// texts returns the changed text of each file that a mutant changes, by its path
// relative to the module.
func (s *source) texts(m mutant) (map[string]string, error) {
	var changes []change
	for i, e := range m.edits {
		d, err := s.find(e.decl)
		if err != nil {
			return nil, err
		}
		f := s.files[d.file]
		text := f.text[d.start:d.end]
		if n := strings.Count(text, e.old); n != 1 {
			return nil, fmt.Errorf("%s in %s holds %s %d times and not once; let table.go follow the source", e.decl, d.file, strconv.Quote(e.old), n)
		}
		at := d.start + strings.Index(text, e.old)
		changes = append(changes, change{d.file, at, at + len(e.old), e.new})
		if i > 0 {
			continue
		}
		for _, imp := range m.imports {
			if imp = strconv.Quote(imp); !slices.Contains(f.imports, imp) {
				changes = append(changes, change{d.file, f.clause, f.clause, "; import " + imp})
			}
		}
		if m.add != "" {
			changes = append(changes, change{d.file, len(f.text), len(f.text), "\n" + m.add + "\n"})
		}
	}
	return s.apply(changes)
}

// change replaces the bytes of a file from start to end.
type change struct {
	file       string
	start, end int
	new        string
}

// apply returns the changed files. Changes to one file must not overlap.
func (s *source) apply(changes []change) (map[string]string, error) {
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.start, b.start) })
	out, done := map[string]string{}, map[string]int{}
	for _, c := range changes {
		if c.start < done[c.file] {
			return nil, fmt.Errorf("two changes in %s overlap", c.file)
		}
		out[c.file] += s.files[c.file].text[done[c.file]:c.start] + c.new
		done[c.file] = c.end
	}
	for name := range out {
		out[name] += s.files[name].text[done[name]:]
	}
	return out, nil
}
