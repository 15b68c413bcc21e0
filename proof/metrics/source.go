package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	gosource "github.com/hived/hived/internal/source"
)

// source is the module: the text of its go.mod, its parsed files without tests, and the
// number of lines of all files.
type source struct {
	set   *token.FileSet
	mod   string
	files map[string]*ast.File // by path; the directory is the package
	lines map[string]int       // by path, tests included
}

// load reads the module in a directory. Files for all systems count.
func load(dir fs.FS) (*source, error) {
	mod, err := fs.ReadFile(dir, "go.mod")
	if err != nil {
		return nil, err
	}
	s := &source{set: token.NewFileSet(), mod: string(mod), files: map[string]*ast.File{}, lines: map[string]int{}}
	return s, gosource.Files(dir, func(name string) error {
		text, err := fs.ReadFile(dir, name)
		if err != nil {
			return err
		}
		s.lines[name] = bytes.Count(text, []byte("\n"))
		if isTest(name) {
			return nil
		}
		s.files[name], err = parser.ParseFile(s.set, name, text, parser.ParseComments|parser.SkipObjectResolution)
		return err
	})
}

func isTest(name string) bool { return strings.HasSuffix(name, "_test.go") }

// names returns the files without the tests, in order.
func (s *source) names() []string { return slices.Sorted(maps.Keys(s.files)) }

// in returns the files of one package, without its tests and without the packages
// below it.
func (s *source) in(pkg string) []string {
	return slices.DeleteFunc(s.names(), func(name string) bool { return path.Dir(name) != pkg })
}

// each calls fn with every function and method that has a body, in the order of
// files.
func (s *source) each(files []string, fn func(name string, f *ast.FuncDecl)) {
	for _, name := range files {
		for _, d := range s.files[name].Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				fn(name, f)
			}
		}
	}
}
